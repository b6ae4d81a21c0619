# shellcheck shell=bash
# For /opt/nvidia/entrypoint.d in an image that starts NVIDIA's entrypoint: rankshim goes before the command. A shell alone is
# left as it is, and so is a command that begins with rankshim.
# Source: triton-inference-server/server@dabba3d:docker/cpu_only/nvidia_entrypoint.sh: it reads (`source`) each script of the
# folder in the order of the names, and then executes "$@".
if [[ $# -gt 0 && ${1##*/} != rankshim && ! ($# -eq 1 && ${1##*/} =~ ^(ba|da|z)?sh$) ]]; then
  set -- rankshim -- "$@"
fi
