{{/* An entry of initContainers. values.yaml says what a chart can change. */}}
{{- define "rankshim.initContainer" -}}
- name: rankshim
  image: {{ .Values.rankshim.image }}
  args: [install, /target]
  securityContext:
    {{- toYaml .Values.rankshim.securityContext | nindent 4 }}
  resources:
    {{- toYaml .Values.rankshim.resources | nindent 4 }}
  volumeMounts:
    - {name: rankshim, mountPath: /target}
{{- end }}

{{/* Entries of volumes. */}}
{{- define "rankshim.volumes" -}}
- name: rankshim
  emptyDir: {}
- name: shm
  emptyDir:
    {{- toYaml .Values.rankshim.shm | nindent 4 }}
{{- end }}

{{/* Entries of a container's volumeMounts. */}}
{{- define "rankshim.volumeMounts" -}}
- {name: rankshim, mountPath: /rankshim}
- {name: shm, mountPath: /dev/shm}
{{- end }}

{{/* The first words of a container's command. */}}
{{- define "rankshim.command" -}}
- /rankshim/rankshim
{{- with .Values.rankshim.exitMap }}
- --exit-map={{ . }}
{{- end }}
- --
{{- end }}
