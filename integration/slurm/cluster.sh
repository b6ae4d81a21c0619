#!/usr/bin/env bash
# cluster.sh FOLDER SHARED LINE [ADDRESS...]: a private Slurm; all its state is in FOLDER. Its nodes are node0 and node1, both on
# this machine; or, with ADDRESSes, node1, node2 and so on, each a machine that starts its slurmd itself. If SHARED, a binary, is
# not empty, both nodes have it as /opt/rankshim/rankshim. LINE is one more of slurm.conf.
# Prints "ready" when all are idle. Meant as PID 1 of a namespace: everything ends with it.
set -euo pipefail
folder=$1 shared=$2 line=$3
shift 3
if (($#)); then
  nodes="NodeName=node[1-$#] NodeAddr=$(IFS=,; echo "$*") CPUs=16" count=$# address=$(hostname -i)
else
  nodes="NodeName=node[0-1] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[6820-6821] CPUs=4" count=2 address=127.0.0.1
fi
mkdir -p "$folder"/{state,run}
for number in $(seq 0 "$count"); do mkdir -p "$folder/node$number"; done
chmod 755 "$folder" "$folder/run"
if [[ -n $shared ]]; then
  mount -t tmpfs tmpfs /opt
  install -D "$shared" /opt/rankshim/rankshim
fi
head -c 128 /dev/urandom >"$folder/munge.key"
chmod 600 "$folder/munge.key"
cat >"$folder/cgroup.conf" <<END
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
END
cat >"$folder/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$(hostname)($address)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
CryptoType=crypto/munge
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdSpoolDir=$folder/%n
StateSaveLocation=$folder/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
$line
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
InactiveLimit=0
PlugStackConfig=$folder/plugstack.conf
KillWait=5
$nodes RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END
export SLURM_CONF=$folder/slurm.conf
munged --force --key-file="$folder/munge.key" --socket="$folder/run/munge.sock" --pid-file="$folder/run/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/run/munge.seed"
slurmctld -i -f "$SLURM_CONF"
if ((!$#)); then for node in node0 node1; do slurmd -N "$node" -f "$SLURM_CONF"; done; fi
until [[ $(sinfo -h -o %t%D 2>/dev/null) == "idle$count" ]]; do sleep 0.1; done
echo ready
while true; do wait -n || sleep 1; done  # the daemons' orphans come here too
