#!/bin/busybox sh
# /init of the virtual machine. Plays each scene of /scenes in a cgroup with 64 MiB of memory and prints what is left of
# it, a line at a time as "SCENE WHAT| LINE".
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
touch /dev/termination-log

# As in a pod: rankshim is PID 1 of its namespace and sees its own cgroup in /sys/fs/cgroup; the termination log, a file
# of the node's, is mounted where rankshim looks for it.
# shellcheck disable=SC2016  # expanded by the inner shell
container='
echo 0 >"$CGROUP/cgroup.procs"
mount -o bind "$CGROUP" /sys/fs/cgroup
mount -o bind "$FOLDER/log" /dev/termination-log
exec rankshim --report="$FOLDER/report" "$@" 2>"$FOLDER/stderr"
'

# scene NAME OOM_GROUP [OPTION...] -- COMMAND...
scene() {
  name=$1 group=$2
  shift 2
  export CGROUP=/sys/fs/cgroup/$name FOLDER=/scene/$name
  mkdir -p "$CGROUP" "$FOLDER"
  echo 64M >"$CGROUP/memory.max"
  echo 0 >"$CGROUP/memory.swap.max"
  echo "$group" >"$CGROUP/memory.oom.group"
  : >"$FOLDER/log"
  unshare -p -f --mount-proc sh -c "$container" sh "$@"
  echo $? >"$FOLDER/code"
  cat "$CGROUP/memory.events" >"$FOLDER/events"
  for file in "$FOLDER"/*; do
    awk -v at="$name ${file##*/}| " '{print at $0}' "$file"
  done
}

. /scenes
reboot -f
