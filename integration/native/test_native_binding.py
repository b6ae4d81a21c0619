"""Workers near their accelerators, on a machine that pretends to have two NVIDIA cards on two NUMA nodes: rankshim finds
them in the files of a mount namespace of its own; the CPUs and the memory policies of the workers are the kernel's."""

import json
import os
import pathlib
import re

import pytest

from lib.process import clean_environment, run
from lib.requirements import cannot, needs_strace

# $1 and $2 are the CPUs of the two nodes; what follows is executed there.
MACHINE = r"""
set -e
cd "$0"; cpus="$1 $2"; shift 2
for place in /proc/driver /sys/bus /sys/devices/system/node; do mount -t tmpfs none "$place"; done
mkdir dev; touch dev/null dev/nvidiactl dev/nvidia0 dev/nvidia1
mount --bind /dev/null dev/null; mount --rbind dev /dev
node=0
for list in $cpus; do
  gpu=/proc/driver/nvidia/gpus/0000:0$node:00.0 pci=/sys/bus/pci/devices/0000:0$node:00.0
  mkdir -p "$gpu" "$pci" "/sys/devices/system/node/node$node"
  printf 'Device Minor: \t %s\n' "$node" >"$gpu/information"
  echo "$node" >"$pci/numa_node"
  echo "$list" >"/sys/devices/system/node/node$node/cpulist"
  node=$((node + 1))
done
exec "$@"
"""
# Each worker's local rank, CPUs and memory policy, and rankshim's CPUs.
WORKER = r"""
cpus() { sed -n 's/^Cpus_allowed_list:\s*//p' "$1"; }
echo "$LOCAL_RANK $(cpus /proc/self/status) $(sed -n '1s/^[0-9a-f]* \([^ ]*\).*/\1/p' /proc/self/numa_maps) $(cpus /proc/$PPID/status)"
"""
BIND = ("--platform=none", "--launcher=native", "--nproc-per-node=2", "--bind=numa")


def allowed(what):
    return re.search(rf"^{what}_allowed_list:\s*(\S+)", pathlib.Path("/proc/self/status").read_text(), re.M)[1]


@pytest.fixture
def machine(rankshim, tmp_path):
    """machine(words, wrapper): rankshim's end on such a machine."""
    cpus = sorted(os.sched_getaffinity(0))
    if os.geteuid() != 0 or len(cpus) < 2 or not os.path.exists("/proc/self/numa_maps"):
        cannot("this needs root, two CPUs and a kernel with NUMA")

    def started(*words, wrapper=()):
        place = ["unshare", "--mount", "sh", "-c", MACHINE, str(tmp_path), str(cpus[0]), ",".join(map(str, cpus[1:]))]
        return run([*place, *wrapper, rankshim, *words], clean_environment())

    return started


def test_each_worker_has_the_cpus_and_the_memory_near_its_accelerator(machine):
    done = machine(*BIND, "--", "sh", "-c", WORKER)
    assert done.code == 0, done.transcript()
    first, second = sorted(line.split() for line in done.stdout.splitlines())
    cpus = sorted(os.sched_getaffinity(0))
    assert first[:3] == ["0", str(cpus[0]), "prefer:0"]
    # The second node is pretended: its memory is there only if this machine has that node too.
    has_memory = allowed("Mems") != "0"
    assert second[0] == "1" and second[2] == ("prefer:1" if has_memory else "default")
    assert second[1] == re.search(r"1: NUMA node 1, CPUs (\S+) \(NVIDIA 0000:01:00.0\)", done.stderr)[1]
    assert first[3] == second[3] == allowed("Cpus"), "rankshim itself stays where it is"
    assert f"workers are bound, by local rank: 0: NUMA node 0, CPUs {cpus[0]} (NVIDIA 0000:00:00.0); 1: " in done.stderr


def test_a_worker_that_may_not_use_the_cpus_near_its_accelerator_is_not_bound(machine):
    first = str(min(os.sched_getaffinity(0)))
    done = machine(*BIND, "--", "sh", "-c", WORKER, wrapper=["taskset", "--cpu-list", first])
    assert done.code == 0, done.transcript()
    assert sorted(line.split()[:2] for line in done.stdout.splitlines()) == [["0", first], ["1", first]]
    assert sorted(line.split()[2] for line in done.stdout.splitlines()) == ["default", "prefer:0"]
    assert re.search(r"warning: workers are bound, by local rank: .*; 1: not bound: this container may use no CPU of NUMA node 1 "
                     r"\(NVIDIA 0000:01:00.0\)", done.stderr)


def test_explain_shows_what_each_worker_is_bound_to(machine):
    shown = machine("explain", *BIND, "--", "./mytask").stdout
    assert re.search(r"^  RANK=1 .*\n    NUMA node 1, CPUs .* \(NVIDIA 0000:01:00.0\)", shown, re.M), shown


def test_explain_has_it_in_json_too(machine):
    workers = json.loads(machine("explain", "--format=json", *BIND, "--", "./mytask").stdout)["workers"]
    assert [worker["bound"].split(",")[0] for worker in workers] == ["NUMA node 0", "NUMA node 1"]


@pytest.mark.parametrize("call, words", [
    ("sched_setaffinity", "a worker is not bound to its CPUs: Operation not permitted"),
    ("set_mempolicy", "a worker is bound to its CPUs, but the kernel refuses a memory policy: Operation not permitted"),
])
def test_what_the_kernel_refuses_is_a_warning_and_the_workers_run(machine, call, words):
    needs_strace()
    inject = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error=EPERM"]
    done = machine(*BIND, "--", "sh", "-c", "echo $RANK", wrapper=inject)
    assert (done.code, sorted(done.stdout.split())) == (0, ["0", "1"]), done.transcript()
    assert f"warning: {words}" in done.stderr
