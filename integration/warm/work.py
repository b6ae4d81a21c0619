"""A worker's script that does what it is told in its arguments, and prints what comes of it."""
import io
import multiprocessing
import os
import pickle
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Thing:
    def __init__(self, value):
        self.value = value


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return torch.ones(1) * at


def in_child(queue):
    queue.put((Thing(3), __name__, Thing.__module__, os.getppid() == int(os.environ["PARENT"]), sorted(set(os.environ) & {"RANKSHIM_GATE"})))


def in_spawned(index, number):
    assert (index, number) == (0, 2)


def ddp():
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    return float(model.module.weight.grad.sum())


def pickled():
    file = io.BytesIO()
    torch.save({"thing": Thing(2), "tensor": torch.ones(2)}, file)
    file.seek(0)
    return type(pickle.loads(pickle.dumps(Thing(1)))).__qualname__, Thing.__module__, torch.load(file, weights_only=False)["thing"].value


def processes(how):
    context = multiprocessing.get_context(how)
    queue = context.SimpleQueue()
    process = context.Process(target=in_child, args=(queue,))
    process.start()
    thing, *rest = queue.get()
    process.join()
    loader = DataLoader(Numbers(), num_workers=1, multiprocessing_context=how, batch_size=4)
    return thing.value, rest, process.exitcode, [float(batch.sum()) for batch in loader]


def spawned():
    torch.multiprocessing.spawn(in_spawned, args=(2,), nprocs=1)


def compiled():
    return float(torch.compile(lambda x: torch.sin(x) * 2 + 1)(torch.zeros(8)).sum())


def program():
    look = "import os, sys; print(os.environ.get('RANKSHIM_GATE'), os.environ.get('PYTHONPATH'), [p for p in sys.path if 'rankshim-site' in p])"
    return subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout


PARTS = {
    "ddp": ddp, "pickle": pickled, "spawned": spawned, "compile": compiled, "program": program,
    **{how: (lambda how=how: processes(how)) for how in ("fork", "spawn", "forkserver")},
}


if __name__ == "__main__":
    os.environ["PARENT"] = str(os.getpid())
    dist.init_process_group("gloo")
    *parts, end = sys.argv[1:]
    for part in parts:
        print(part, PARTS[part](), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    if end == "fail":
        raise ValueError("boom")
    sys.exit(int(end))
