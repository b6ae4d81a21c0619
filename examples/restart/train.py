"""Trains a small model on all nodes. When it is started again, it goes on after the last step that was saved.

    train.py CHECKPOINT STEPS
"""

import os
import sys
import time

import torch
import torch.distributed as dist

checkpoint, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same model on all ranks
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
first = 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"] + 1

for step in range(first, steps):
    # Each rank has data of its own, which depend on the step and not on how often the job was started.
    data = torch.randn(16, 8, generator=torch.Generator().manual_seed(step * world + rank))
    optimizer.zero_grad()
    loss = (model(data) - data.norm(dim=1, keepdim=True)).square().mean() / world
    loss.backward()
    for value in (loss.detach(), *(parameter.grad for parameter in model.parameters())):
        dist.all_reduce(value)
    optimizer.step()
    time.sleep(0.1)  # a larger model computes here
    if rank == 0:
        print(f"step {step} loss {loss.item():.9f}", flush=True)
        # The new file takes the place of the old one when it is complete.
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{checkpoint}.new")
        os.replace(f"{checkpoint}.new", checkpoint)

dist.barrier()  # no rank leaves while another still communicates
dist.destroy_process_group()
