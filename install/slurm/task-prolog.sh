#!/usr/bin/env bash
# Slurm's TaskProlog: every task finds the rankshim that all nodes have, `srun rankshim -- train.py`.
# Source: slurm.schedmd.com/prolog_epilog.html: what a TaskProlog prints as "export NAME=VALUE" is set for the task.
echo "export PATH=/opt/rankshim:$PATH"
