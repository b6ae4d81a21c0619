"""Data-parallel training of one linear layer with DistributedDataParallel and gloo.

Prints one line per rank; loss and parameters are equal on all ranks if they trained together.
"""

import os
import sys

import torch
import torch.distributed as dist

# DistributedDataParallel imports this by itself, but after init_process_group. Its functions then keep the process group
# as a default argument for ever, and with it the threads of gloo. At exit such a thread dies with SIGABRT, "terminate
# called without an active exception", if it holds a tensor of Python's then. Before the group is made, they keep None.
import torch.distributed.nn
from torch.nn.parallel import DistributedDataParallel


def main(steps):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    # Every rank has different data: only the gradients' mean can make the losses equal.
    data = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        inputs = torch.randn(8, 4, generator=data)
        loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        mean /= world
    weight = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
    # One write: torchrun's workers share standard output.
    sys.stdout.write(
        f"RESULT rank={rank} world={world} local_rank={os.environ.get('LOCAL_RANK')} "
        f"loss={mean.item():.6f} weight={weight:.8f}\n"
    )
    sys.stdout.flush()
    # As torch wants it: nobody leaves while another still communicates, and no reference keeps the group's threads
    # alive longer than the interpreter (pytorch/pytorch#190489, #179291).
    dist.barrier()
    del model, optimizer, loss
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "20")))
