#!/usr/bin/env bash
# Trains on three nodes of this machine, and prints the loss of each step; what the nodes say is on stderr.
#
#   run.sh         nothing happens to them
#   run.sh kill    node 1 is killed in the middle, and started again, as its kubelet would
#
# A node is a PID namespace, whose first process is rankshim: when that is killed, the kernel ends the rest, as in a container.
# Needs rankshim and a python3 with torch in PATH, and root or a kernel that lets users make namespaces.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=$(mktemp --directory)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -r "$folder"' EXIT
mkdir "$folder"/{0,1,2}
touch "$folder/losses"
export WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
MASTER_PORT=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
export MASTER_PORT
user=()
[[ $(id -u) == 0 ]] || user=(--user --map-root-user)

node() {
  RANK=$1 exec unshare "${user[@]}" --pid --fork --kill-child --mount-proc \
    rankshim --run-dir "$folder/$1" --nproc-per-node 1 --job-restarts 3 -- "$here/train.py" "$folder/checkpoint.pt" 30 \
    >>"$folder/losses" 2> >(sed --unbuffered "s/^/node $1  /" >&2)
}

for rank in 0 1 2; do
  node $rank &
  nodes[rank]=$!
done
if [[ ${1-} == kill ]]; then
  grep --quiet --max-count 1 '^step 9 ' <(tail --follow --lines +1 --pid "${nodes[0]}" "$folder/losses")
  kill -KILL "${nodes[1]}"
  wait "${nodes[1]}" 2>/dev/null || echo "node 1  killed with code $?, and started again" >&2
  node 1 &
  nodes[1]=$!
fi
for node in "${nodes[@]}"; do
  wait "$node"
done
# A step after the last checkpoint is there twice.
awk '{ last[$2] = $0 } END { for (step = 0; step in last; step++) print last[step] }' "$folder/losses"
