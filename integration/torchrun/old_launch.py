"""Stands in for the torch/distributed/launch.py of torch 1.8, which was not there to be tried: the same options, the same
variables and argument for the script, and the same exit code, 1, whatever the worker's was."""

import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
for name, kind, default in (("--nnodes", int, 1), ("--node_rank", int, 0), ("--nproc_per_node", int, 1),
                            ("--master_addr", str, "127.0.0.1"), ("--master_port", int, 29500)):
    parser.add_argument(name, type=kind, default=default)
parser.add_argument("--use_env", default=False, action="store_true")
parser.add_argument("-m", "--module", default=False, action="store_true")
parser.add_argument("training_script")
parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
args = parser.parse_args()

processes = []
for local_rank in range(args.nproc_per_node):
    variables = {"MASTER_ADDR": args.master_addr, "MASTER_PORT": str(args.master_port), "LOCAL_RANK": str(local_rank),
                 "WORLD_SIZE": str(args.nproc_per_node * args.nnodes),
                 "RANK": str(args.nproc_per_node * args.node_rank + local_rank)}
    command = [sys.executable, "-u", *(["-m"] if args.module else []), args.training_script,
               *([] if args.use_env else [f"--local_rank={local_rank}"]), *args.training_script_args]
    processes.append(subprocess.Popen(command, env=os.environ | variables))
while processes:
    code = processes[0].wait()
    if code:
        for process in processes[1:]:
            process.kill()
        raise subprocess.CalledProcessError(code, "the script")
    del processes[0]
