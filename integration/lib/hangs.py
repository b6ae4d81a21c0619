"""How trainings hang: scripts of real gloo in which something happens, and what is to be said of it.

TRAINS hangs in the ways of the prototypes, GRID in one of four groups, STORES in torch's store; REPORTS has a script of our own for each cause of a hang
that somebody has reported in public. The scripts take the timeout of their process groups in seconds, and a folder.
"""

from dataclasses import dataclass

# All-reduces in an inner loop, until something happens to rank 1; G: to rank 0.
TRAINS = """\
import ctypes, datetime, os, re, signal, sys, time, torch, torch.distributed as dist

rank, fault, limit = int(os.environ["RANK"]), sys.argv[1], datetime.timedelta(seconds=float(sys.argv[2]))
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=limit)
pair = dist.new_group([0, 1], timeout=limit)
other_pair = dist.new_group([0, 1], timeout=limit)

class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number in range(1000):
            if number == 60 and rank == 1:
                time.sleep(1000)  # in the loader's process
            yield torch.ones(1)

def load_batch():
    return next(batches)

def validate():
    time.sleep(1000)

batches = iter(torch.utils.data.DataLoader(Data(), num_workers=1 if fault == "loads" else 0, batch_size=None)) if fault == "loads" else iter(torch.ones(1000, 1))
for step in range(1000):
    batch = load_batch()
    time.sleep(0.1)
    if step == 59 and rank == 0:
        print("HANGS NOW", flush=True)
    if step == 60:
        if rank == 1 and fault == "sleeps":
            time.sleep(1000)  # here
        if rank == 1 and fault == "is stopped":
            os.kill(os.getpid(), signal.SIGSTOP)  # stopped
        if rank == 1 and fault == "holds the GIL":
            ends = os.pipe()
            ctypes.PyDLL(None).read(ends[0], ctypes.create_string_buffer(8), 8)  # blocks
        if rank == 1 and fault == "searches":
            re.match(r"(a+)+$", "a" * 64 + "b")  # never ends
        if rank == 1 and fault == "broadcasts":
            dist.broadcast(batch, 0)  # differs
            continue
        if rank == 0 and fault == "validates":
            validate()
        if fault == "waits in a circle" and rank < 2:
            for group in (pair, other_pair) if rank == 0 else (other_pair, pair):
                dist.all_reduce(batch, group=group)  # in another order
    dist.all_reduce(batch)
"""

# Four ranks in groups of two by two; rank 3 does not come to the second step's collectives.
GRID = """\
import datetime, os, sys, time, torch, torch.distributed as dist

rank, limit = int(os.environ["RANK"]), datetime.timedelta(seconds=float(sys.argv[1]))
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=limit)
rows = [dist.new_group(ranks, group_desc="tp", timeout=limit) for ranks in ([0, 1], [2, 3])]
columns = [dist.new_group(ranks, group_desc="dp", timeout=limit) for ranks in ([0, 2], [1, 3])]
x = torch.ones(1)

def step(number):
    if rank == 3 and number == 40:
        time.sleep(1000)  # here
    dist.all_reduce(x, group=rows[rank // 2])
    dist.all_reduce(x, group=columns[rank % 2])

for number in range(1000):
    time.sleep(0.1)
    step(number)
"""


# Each of REPORTS begins with this. Its steps take two seconds and a half: the numbers have moved then.
START = """\
import datetime, os, sys, threading, time, torch, torch.distributed as dist

rank = int(os.environ["RANK"])
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(sys.argv[1])))
folder = sys.argv[2]
x = torch.ones(1)

def steps(count=25):
    for _ in range(count):
        time.sleep(0.1)
        dist.all_reduce(x)

"""


# All ranks wait for torch's store, in new_group: whoever hosts it is stopped. Rank 0 hosts it itself, or torchrun's agent does, or
# a process that rank 0 has started.
STORES = """\
import os, signal, sys, torch.distributed as dist

hosts = {"rank": os.getpid(), "agent": os.getppid()}
if sys.argv[3] == "server":
    if os.environ["RANK"] == "0":
        hosts["server"] = os.fork()
        if hosts["server"] == 0:
            store = dist.TCPStore(os.environ["MASTER_ADDR"], 29513, is_master=True, wait_for_workers=False)
            signal.pause()
    os.environ.update(MASTER_PORT="29513", TORCHELASTIC_USE_AGENT_STORE="True")
""" + START + """
steps()
def is_stopped(pid):
    return all(open(f"/proc/{pid}/task/{thread}/stat").read().rpartition(")")[2].split()[0] == "T" for thread in os.listdir(f"/proc/{pid}/task"))

if rank == 0:
    os.kill(hosts[sys.argv[3]], signal.SIGSTOP)
    while not is_stopped(hosts[sys.argv[3]]):
        time.sleep(0.01)
dist.new_group([0, 1, 2], timeout=datetime.timedelta(seconds=float(sys.argv[1])))
"""


@dataclass(frozen=True)
class Report:
    """`says` is what the last line says of the rank that hangs, `ends` what it says where torch's own timeout shows less."""

    sources: tuple
    cause: str
    script: str
    says: str
    ends: str = ""


REPORTS = {
    "early return": Report(
        ("https://github.com/EleutherAI/sparsify/pull/5", "https://github.com/alan-turing-institute/autocast/issues/381"),
        "all ranks but 0 return early from a function that ends with a barrier",
        """
def save():
    if rank != 0:
        return
    dist.barrier()  # of rank 0

steps()
save()
steps()
""",
        r"do not match.*rank 0 (is|was) in barrier \(train.py:\d+\), and ranks 1-2 in all_reduce \(train.py:\d+\)"),
    "uneven data": Report(
        ("https://github.com/pytorch/pytorch/issues/141069", "https://github.com/QwenAudio/CosyVoice/issues/297"),
        "DDP with an iterable dataset that gives one rank a batch less; its next all_reduce is the validation's",
        """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))

def train():
    for _ in range(25 if rank == 1 else 26):
        time.sleep(0.1)
        model(torch.ones(1, 1)).backward()

def validate():
    losses = [torch.zeros(1) for _ in range(3)]
    dist.all_gather(losses, x)  # of rank 1

train()
validate()
""",
        r"do not match.*rank 1 (is|was) in all_gather \(train.py:\d+\), and ranks 0 and 2 in \w+ \(train.py:\d+\)"),
    "uneven loops": Report(
        ("https://github.com/microsoft/PyMarlin/issues/80", "https://github.com/mosaicml/composer/issues/3415"),
        "one rank's loop is shorter, and it goes on to write its results alone",
        """
def write_results():
    time.sleep(1000)  # long

for _ in range(25 if rank == 1 else 26):
    time.sleep(0.1)
    dist.all_reduce(x)
write_results()
""",
        r"rank 1 (is|was) in write_results \(train.py:\d+\).*; ranks 0 and 2 waited in all_reduce \(train.py:\d+\)"),
    "swallowed exception": Report(
        ("https://github.com/pytorch/pytorch/issues/44353", "https://github.com/Lightning-AI/pytorch-lightning/issues/5243"),
        "one rank catches an out of memory, and skips the batch with its all_reduce",
        """
def step(number):
    if rank == 1 and number == 20:
        raise RuntimeError("out of memory")
    dist.all_reduce(x)

for number in range(26):
    time.sleep(0.1)
    try:
        step(number)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
""",
        r"rank 1 exited 0 .*it ran fewer iterations"),
    "metric on rank 0": Report(
        ("https://github.com/Lightning-AI/pytorch-lightning/issues/4529", "https://github.com/Lightning-AI/torchmetrics/pull/2719"),
        "a metric is computed on rank 0 only, and gathers from all ranks; the others are in the barrier after it",
        """
def compute():
    states = [None] * 3
    dist.all_gather_object(states, {"correct": 7})  # of rank 0
    return states

steps()
if rank == 0:
    print(compute())
dist.barrier()
""",
        r"do not match.*rank 0 (is|was) in all_gather\w* \(train.py:\d+\), and ranks 1-2 in barrier \(train.py:\d+\)"),
    "keys differ": Report(
        ("https://github.com/Lightning-AI/pytorch-lightning/issues/19106", "https://github.com/Lightning-AI/pytorch-lightning/issues/21409"),
        "one rank logs a value that the others do not have, by an all_reduce for each",
        """
def log(values):
    for name, value in values.items():
        dist.all_reduce(torch.tensor(value))  # for each name

steps()
log({"loss": 1.0, "accuracy": 0.5} if rank == 2 else {"loss": 1.0})
dist.barrier()
""",
        r"do not match.*rank 2 (is|was) in all_reduce \(train.py:\d+\), and ranks 0-1 in barrier \(train.py:\d+\)"),
    "early stop": Report(
        ("https://github.com/speechbrain/speechbrain/issues/1939", "https://github.com/isi-nlp/rtg/issues/11"),
        "rank 0 alone decides to stop, leaves the loop, and waits at the end",
        """
for epoch in range(26):
    time.sleep(0.1)
    if rank == 0 and epoch == 25:
        break  # by its own loss
    dist.all_reduce(x)
dist.barrier()  # at the end
""",
        r"do not match.*rank 0 (is|was) in barrier \(train.py:\d+\), and ranks 1-2 in all_reduce \(train.py:\d+\)"),
    "file seen by some": Report(
        ("https://github.com/KempnerInstitute/KempnerForge/issues/49",),
        "each rank asks a slow file system whether there is a checkpoint; the one that does not see it skips the broadcast",
        """
def exists():
    return rank != 2

def load():
    if not exists():
        return
    dist.broadcast_object_list([None], src=0)

steps()
load()
time.sleep(0 if rank != 2 else 1000)  # builds the model
dist.barrier()
""",
        r"rank 2 (is|was) in train.py:\d+.*; ranks 0-1 waited in \w+ \(train.py:\d+\)"),
    "two threads": Report(
        ("https://github.com/KempnerInstitute/KempnerForge/issues/104",),
        "a thread that saves asynchronously gathers in the same group in which the main thread has a barrier",
        """
steps()
thread = threading.Thread(target=lambda: (time.sleep(2 if rank == 1 else 0), dist.all_gather_object([None] * 3, 1)))
thread.start()
time.sleep(0 if rank == 1 else 2)
dist.barrier()
thread.join()
""",
        r"do not match.*rank 1 is in all_gather, and ranks 0 and 2 in barrier",
        ends=r"lost its peer|[Tt]imed out"),
    "groups by rank": Report(
        ("https://github.com/pytorch/pytorch/issues/25390", "https://github.com/pytorch/pytorch/issues/130102"),
        "each rank makes only the groups that it is in",
        """
steps()
limit = datetime.timedelta(seconds=float(sys.argv[1]))
group = dist.new_group([0, 1] if rank < 2 else [2], timeout=limit)
if rank == 2:
    other = dist.new_group([0, 2], timeout=limit)
dist.all_reduce(x, group=group)
dist.barrier()
""",
        # The groups have one name in torch's store: rank 1 may reach rank 2 in rank 0's place, and come no further.
        r"rank 2 (is|was) in .*new_group.*ranks 0-1 (waited )?in barrier \(train.py:\d+\)"
        r"|ranks 0-[12] waited .*in new_group.*they do not make the same groups"),
    "both send first": Report(
        ("https://github.com/NVIDIA/nccl/issues/479", "https://github.com/pytorch/pytorch/issues/172668"),
        "two ranks send to each other before they receive",
        """
big = torch.ones(10_000_000)
steps()
if rank < 2:
    dist.send(big, 1 - rank)
    dist.recv(big, 1 - rank)
dist.barrier()
""",
        r"ranks 0-1 (are|were) in train.py:\d+, which called send.*; rank 2 waited in barrier \(train.py:\d+\)"),
    "nobody sends": Report(
        ("https://github.com/pytorch/pytorch/issues/132003",),
        "a rank receives from one that goes on",
        """
steps()
if rank == 2:
    dist.recv(x, 1)
dist.all_reduce(x)
""",
        r"rank 2 (is|was) in train.py:\d+, which called recv.*; ranks 0-1 waited in all_reduce \(train.py:\d+\)"),
    "lock over a fork": Report(
        ("https://github.com/pytorch/pytorch/pull/25158", "https://github.com/ultralytics/ultralytics/pull/26085"),
        "a thread holds a lock while the data loader forks, and the loader's process waits for it for ever",
        """
lock = threading.Lock()

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, at):
        with lock:  # taken when it was forked
            return torch.ones(1)

def hold():
    with lock:
        time.sleep(1)

steps()
if rank == 1:
    threading.Thread(target=hold).start()
    time.sleep(0.2)
for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
    dist.all_reduce(batch)
""",
        r"rank 1 (is|was) in train.py:\d+, which called __next__.*above \S+ \(pid \d+\), which is in __getitem__ \(train.py:\d+\)"),
    "lock of a file": Report(
        ("https://github.com/huggingface/datasets/issues/1672",),
        "a rank polls for a lock file that a killed job has left",
        """
def acquire():
    while not os.path.exists(folder + "/released"):
        time.sleep(0.05)  # polls

steps()
if rank == 1:
    acquire()
dist.barrier()
""",
        r"rank 1 (is|was) in acquire \(train.py:\d+\)"),
    "child": Report(
        ("https://github.com/wandb/wandb/issues/4929",),
        "rank 0 waits for a program that it has started, as for an upload",
        """
import subprocess

def upload():
    subprocess.run(["sleep", "1000"])

steps()
if rank == 0:
    upload()
dist.barrier()
""",
        r"rank 0 (is|was) in upload \(train.py:\d+\), which called run.*above sleep \(pid \d+\)"),
    "key of the store": Report(
        ("https://github.com/pytorch/pytorch/issues/53840",),
        "all but rank 0 wait for a key of the store that rank 0 does not set, because it works on",
        """
store = dist.distributed_c10d._get_default_store()

def prepare():
    time.sleep(1000)

steps()
if rank == 0:
    prepare()
    store.set("ready", "1")
else:
    store.wait(["ready"], datetime.timedelta(seconds=float(sys.argv[1])))
dist.barrier()
""",
        r"ranks 0-2 waited .*in different places, which do not show who is to blame",
        ends=r"rank 0 (is|was) in prepare \(train.py:\d+\)"),
    "monitored barrier": Report(
        ("https://github.com/pytorch/pytorch/issues/83289",),
        "one rank does not come to a monitored_barrier",
        """
def load():
    time.sleep(1000)

steps()
if rank == 1:
    load()
dist.monitored_barrier(timeout=datetime.timedelta(seconds=float(sys.argv[1])))
""",
        r"rank 1 (is|was) in load \(train.py:\d+\)"),
    "exception, then a checkpoint": Report(
        ("https://github.com/Lightning-AI/pytorch-lightning/issues/6430",),
        "a rank's exception makes it save, by a broadcast of the file's name; so do the others after their timeout",
        """
def save_last():
    dist.broadcast_object_list([None], src=0)  # the file's name

def step(number):
    if rank == 1 and number == 25:
        raise ValueError("bad sample")
    dist.all_reduce(x)

try:
    for number in range(50):
        time.sleep(0.1)
        step(number)
except Exception:
    save_last()
    raise
""",
        r"do not match.*rank 1 (is|was) in broadcast\w* \(train.py:\d+\), and ranks 0 and 2 in all_reduce \(train.py:\d+\)"),
    "file of rank 0": Report(
        ("https://github.com/mosaicml/llm-foundry/pull/749",),
        "all but rank 0 poll for a file, which rank 0 does not write because of an exception that it catches",
        """
def wait_for_file():
    while not os.path.exists(folder + "/ready"):
        time.sleep(0.1)

steps()
if rank != 0:
    wait_for_file()
dist.barrier()
""",
        r"ranks 1-2 (are|were) in wait_for_file \(train.py:\d+\).*; rank 0 waited in barrier \(train.py:\d+\)"),
    "thread that stays": Report(
        ("https://github.com/ultralytics/yolov5/issues/5160", "https://github.com/mosaicml/composer/issues/51"),
        "one rank's loop is shorter, and a thread that is no daemon keeps its process, as for an upload",
        """
def upload():
    while True:
        time.sleep(1)

if rank == 1:
    threading.Thread(target=upload).start()
steps(25 if rank == 1 else 26)
""",
        r"rank 1 (is|was) in _shutdown \(threading.py:\d+\).*; ranks 0 and 2 waited in all_reduce \(train.py:\d+\)"),
    "other sources": Report(
        ("https://github.com/meta-pytorch/torchrec/pull/4601",),
        "one rank broadcasts from another source than the others",
        """
steps()
dist.broadcast(torch.ones(10_000_000), src=2 if rank == 2 else 0)
dist.barrier()
steps()
""",
        r"ranks 0 and 2 waited .*in broadcast \(train.py:\d+\).*, and no rank is missing",
        ends=r"do not match.*in barrier \(train.py:\d+\), and ranks 0 and 2 in broadcast \(train.py:\d+\)"),
    "unused parameters": Report(
        ("https://github.com/pytorch/pytorch/issues/40566",),
        "a rank whose batch uses no parameter of the model skips DDP's all_reduce",
        """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
for number in range(26):
    time.sleep(0.1)
    if rank == 1 and number == 25:
        continue  # an empty batch
    model(torch.ones(1, 1)).backward()
dist.barrier()
""",
        r"do not match.*rank 1 (is|was) in barrier \(train.py:\d+\), and ranks 0 and 2 in"),
    "order of groups": Report(
        ("https://github.com/meta-pytorch/torchrec/pull/4149",),
        "two ranks enter the collectives of two groups in different orders",
        """
first, second = dist.new_group([0, 1], group_desc="first"), dist.new_group([0, 1], group_desc="second")
steps()
if rank < 2:
    for group in (first, second) if rank == 0 else (second, first):
        dist.all_reduce(x, group=group)
steps()
""",
        r"ranks 0-1 waited .*for each other in a cycle"),
    "validation of rank 0": Report(
        ("https://github.com/pytorch/pytorch/issues/54059", "https://github.com/pytorch/pytorch/issues/20611"),
        "rank 0 alone validates by the model in DDP, which broadcasts its buffers; the others are in the barrier after it",
        """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(4))

def validate():
    model.eval()
    with torch.no_grad():
        for _ in range(8):
            model(torch.ones(2, 4))  # of rank 0

for _ in range(25):
    time.sleep(0.1)
    model(torch.ones(2, 4)).sum().backward()
if rank == 0:
    validate()
dist.barrier()
steps()
""",
        r"do not match.*rank 0 (is|was) in \w+ \(train.py:\d+\), and ranks 1-2 in barrier \(train.py:\d+\)"),
    "shards of rank 0": Report(
        ("https://github.com/pytorch/pytorch/issues/122903",),
        "rank 0 alone gathers the shards of a tensor to save it",
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

weights = distribute_tensor(torch.ones(6), init_device_mesh("cpu", (3,)), [Shard(0)])

def save():
    torch.save(weights.full_tensor(), folder + "/weights")

steps()
if rank == 0:
    save()
dist.barrier()
""",
        r"do not match.*rank 0 (is|was) in \w+ \(train.py:\d+\), and ranks 1-2 in barrier \(train.py:\d+\)"),
    "signal to one rank": Report(
        ("https://github.com/Lightning-AI/pytorch-lightning/pull/20825", "https://github.com/kyutai-labs/pocket-tts/pull/277"),
        "one rank alone gets the signal of a preemption, whose handler waits for all before it saves",
        """
import signal

def save(number, frame):
    dist.barrier()  # of rank 0

signal.signal(signal.SIGUSR1, save)
for number in range(50):
    time.sleep(0.1)
    if rank == 0 and number == 25:
        os.kill(os.getpid(), signal.SIGUSR1)
    dist.all_reduce(x)
""",
        r"do not match.*rank 0 (is|was) in barrier \(train.py:\d+\), and ranks 1-2 in all_reduce \(train.py:\d+\)"),
    "expert without a token": Report(
        ("https://github.com/deepspeedai/DeepSpeed/pull/5008", "https://github.com/huggingface/transformers/issues/30277"),
        "no token of a rank's last batch goes to an expert, whose gradients the others reduce in a hook",
        """
experts = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(2))

def reduce(parameter):
    dist.all_reduce(parameter.grad)

for parameter in experts.parameters():
    parameter.register_post_accumulate_grad_hook(reduce)
for number in range(25):
    time.sleep(0.1)
    output = experts[0](torch.ones(1, 1))
    if rank != 1 or number < 24:
        output = output + experts[1](torch.ones(1, 1))
    output.backward()
dist.barrier()
steps()
""",
        r"do not match.*rank 1 (is|was) in barrier \(train.py:\d+\), and ranks 0 and 2 in \w+ \(train.py:\d+\)"),
    "queue at the exit": Report(
        ("https://github.com/rwth-i6/returnn/issues/1499",),
        "one rank's loop is shorter, and its process does not exit before somebody takes what is in a queue",
        """
import multiprocessing

if rank == 1:
    queue = multiprocessing.Queue()
    queue.put(bytes(10_000_000))  # nobody takes it
steps(25 if rank == 1 else 26)
""",
        r"rank 1 (is|was) in \w+ \(threading.py:\d+\).*; ranks 0 and 2 waited in all_reduce \(train.py:\d+\)"),
    "sharded validation": Report(
        ("https://github.com/PrimeIntellect-ai/prime-rl/issues/2515", "https://github.com/huggingface/transformers/pull/33483"),
        "a model in FSDP, whose every forward gathers the weights, and one rank has a batch less to validate",
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
for layer in (*model, model):
    fully_shard(layer, mesh=init_device_mesh("cpu", (3,)))

def validate():
    with torch.no_grad():
        for _ in range(2 if rank == 1 else 3):
            model(torch.ones(1, 6))  # a batch
    dist.all_reduce(x)  # the loss

for _ in range(25):
    time.sleep(0.1)
    model(torch.ones(1, 6)).sum().backward()
validate()
""",
        r"do not match.*rank 1 (is|was) in all_reduce \(train.py:\d+\), and ranks 0 and 2 in \w+ \(train.py:\d+\)"),
    "skipped step": Report(
        ("https://github.com/facebookresearch/fairscale/issues/754",),
        "one rank's loss is not finite, so it skips the step of a sharded optimizer, which broadcasts the weights",
        """
from torch.distributed.optim import ZeroRedundancyOptimizer

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)
for number in range(50):
    time.sleep(0.1)
    loss = model(torch.ones(1, 1)).sum()
    loss.backward()
    if rank != 1 or number != 25:  # finite
        optimizer.step()
""",
        r"do not match.*rank 1 (is|was) in \w+ \(train.py:\d+\), and ranks 0 and 2 in \w+ \(train.py:\d+\)"),
    "tokenized by rank 0": Report(
        ("https://github.com/axolotl-ai-cloud/axolotl/issues/2684", "https://github.com/hiyouga/LlamaFactory/issues/1196"),
        "rank 0 alone tokenizes for long, in processes of a pool; the others are in the barrier after it",
        """
import multiprocessing

def tokenize(text):
    time.sleep(1000)

steps()
if rank == 0:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(tokenize, ["a", "b"])
dist.barrier()
""",
        r"rank 0 (is|was) in train.py:\d+, which called map.*above \S+ \(pid \d+\), which is in tokenize \(train.py:\d+\)"),
    "breakpoint": Report(
        ("https://github.com/pytorch/torchtitan/issues/652",),
        "one rank waits at the prompt of torch's breakpoint, which nobody sees",
        """
os.dup2(os.pipe()[0], 0)  # a terminal at which nobody types
steps()
dist.breakpoint(1, timeout_s=int(sys.argv[1]))
steps()
""",
        r"rank 1 (is|was) in train.py:\d+, which called breakpoint.*; ranks 0 and 2 waited in (barrier|breakpoint) \(train.py:\d+\)"),
}
