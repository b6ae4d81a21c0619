#!/usr/bin/env bash
# A hook for enroot (/etc/enroot/hooks.d): every container finds the machine's rankshim at /usr/local/bin/rankshim.
# Source: NVIDIA/enroot@8ea147d:doc/configuration.md and src/runtime.sh, runtime::_do_hooks: what a hook writes into the
# file ENROOT_MOUNTS is mounted before the container starts.
set -eu
echo "/opt/rankshim/rankshim /usr/local/bin/rankshim none x-create=file,bind,ro,nosuid,nodev" >>"$ENROOT_MOUNTS"
