"""Workers that communicate in each attempt, and of which rank 1 fails in the first two."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
total = torch.ones(1) * (attempt + 1)
dist.all_reduce(total)
sys.stdout.write(f"ATTEMPT {attempt} {dist.get_rank()} {total.item():g} {os.environ['MASTER_PORT']}\n")
sys.stdout.flush()
dist.barrier()
if attempt < 2 and dist.get_rank() == 1:
    os._exit(3)
if attempt < 2:
    while True:
        dist.barrier()  # with a peer that is gone
dist.destroy_process_group()
