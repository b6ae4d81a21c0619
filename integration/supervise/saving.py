"""Training that takes a stop signal as "save after this step". A step needs the helpers of its data loader, which do not
handle the signal: `saving.py FOLDER`."""

import os
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

RANK = os.environ.get("RANK", "0")


class Samples(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.tensor([float(index)])


def main(folder):
    batches = iter(DataLoader(Samples(), batch_size=8, num_workers=2, prefetch_factor=1))
    next(batches)
    asked = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda number, _: asked.append(number))
    print("TRAINING", flush=True)
    step = 0
    while not asked:
        step += float(next(batches).sum() > 0)
    for _ in range(10):  # this step is not done yet
        next(batches)
    torch.save({"step": step}, f"{folder}/{RANK}.part")
    os.rename(f"{folder}/{RANK}.part", f"{folder}/{RANK}.pt")
    print(f"SAVED after {len(asked)} signals", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
