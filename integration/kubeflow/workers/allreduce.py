"""The quickest real job: env:// and a few sums over all ranks, no DistributedDataParallel.

Takes --local_rank and --local-rank as torch.distributed.launch gives them.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", default="none")
    arguments = parser.parse_args()
    # init_method is not given: torch takes env://, as the examples of Arena and cube-studio do.
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    weight = torch.zeros(4)
    data = torch.Generator().manual_seed(rank)
    for _ in range(5):
        inputs = torch.randn(8, 4, generator=data)
        error = inputs @ weight - inputs.sum(1)
        gradient = 2 * inputs.t() @ error / 8
        dist.all_reduce(gradient)
        weight -= 0.05 * gradient / world
        loss = (error * error).mean()
        dist.all_reduce(loss)
        loss /= world
    sys.stdout.write(
        f"RESULT rank={rank} world={world} local_rank={os.environ.get('LOCAL_RANK')} "
        f"loss={loss.item():.6f} weight={weight.sum().item():.8f} argument={arguments.local_rank}\n"
    )
    sys.stdout.flush()
    dist.barrier()  # nobody leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
