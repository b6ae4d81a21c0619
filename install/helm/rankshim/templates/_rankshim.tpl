{{/* An entry of initContainers. The image is .Values.rankshim.image. */}}
{{- define "rankshim.initContainer" -}}
- name: rankshim
  image: {{ .Values.rankshim.image }}
  args: [install, /target]
  volumeMounts:
    - {name: rankshim, mountPath: /target}
{{- end }}

{{/* An entry of volumes. */}}
{{- define "rankshim.volume" -}}
- name: rankshim
  emptyDir: {}
{{- end }}

{{/* An entry of a container's volumeMounts. */}}
{{- define "rankshim.volumeMount" -}}
- {name: rankshim, mountPath: /rankshim}
{{- end }}

{{/* The first words of a container's command. */}}
{{- define "rankshim.command" -}}
- /rankshim/rankshim
- --
{{- end }}
