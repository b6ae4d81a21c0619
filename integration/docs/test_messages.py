"""Users search docs/when-it-fails.md by a message: each message there must be one that its program prints."""

import importlib.util
import mmap
import pathlib
import re

import pytest

from lib.requirements import cannot

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "when-it-fails.md").read_text()
SHORTEST = 5  # of a part between two "…"
# Of torch's page, those that another program prints: the C++ library, argparse, Python.
OTHERS = ("terminate called", "unrecognized arguments", "KeyError", "invalid literal")


def messages(section):
    """The messages of the sections whose titles match, in headings or in the first column of a table, each as its fixed parts."""
    for text in re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S):
        places = re.findall(r"^### (.*)$|^\| (.*?) \|", text, re.M)
        for message in re.findall(r"`([^`]+)`", "\n".join(map("".join, places))):
            yield message, [part.strip() for part in message.split("…") if len(part.strip()) >= SHORTEST]


def cases(section):
    return [pytest.param(parts, id=heading) for heading, parts in messages(section)]


@pytest.fixture(scope="session")
def literals():
    """The texts of the program's string literals, with adjacent ones joined and each {} removed."""
    sources = [path for path in (REPOSITORY / "shim").rglob("*.cpp") if not path.stem.endswith("_test")]
    texts = "\n".join(path.read_text() for path in sorted(sources))
    return re.sub(r'"\s*\n\s*"', "", texts).replace('\\"', '"')


@pytest.mark.parametrize("parts", cases("(?:rankshim.s error codes|Other rankshim messages)"))
def test_rankshim_has_the_message(parts, literals):
    assert parts, "nothing in it is fixed"
    for part in parts:
        assert part in literals, part


def test_each_code_of_an_error_has_one_heading_and_each_heading_its_errors():
    enumeration = re.search(r"enum class ErrorCode.*?\{(.*?)\}", (REPOSITORY / "shim/base/fault.h").read_text(), re.S)[1]
    known = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+),", enumeration) if name != "none"}
    numbers = [int(number) for number in re.findall(r"^### \[R(\d+)\] ", PAGE, re.M)]
    assert numbers == sorted(known.values()) == list(range(1, len(known) + 1))
    texts = "".join(path.read_text() for path in (REPOSITORY / "shim").rglob("*.cpp") if not path.stem.endswith("_test"))
    assert [name for name in known if f"ErrorCode::{name}" not in texts] == []
    # What is written where there is no memory, and in Python.
    assert {int(number) for number in re.findall(r" \[R(\d+)\]\W", texts)} == {known["system"]}
    demo = (REPOSITORY / "shim/cli/python/demo.py").read_text()
    assert {int(number) for number in re.findall(r" \[R(\d+)\]", demo)} == {known["python"]}


@pytest.fixture(scope="session")
def torch_texts():
    """Whether PyTorch holds a text, in its Python or in its libraries."""
    found = importlib.util.find_spec("torch")
    if found is None:
        cannot("PyTorch is not installed (scripts/setup puts it into .venv)")
    torch = pathlib.Path(found.origin).parent
    python = [*(torch / "distributed").rglob("*.py"), *(torch / "utils" / "data").rglob("*.py")]
    texts = [path.read_bytes() for path in python]
    for name in ("libtorch_cpu.so", "libtorch_python.so"):
        with (torch / "lib" / name).open("rb") as library:
            texts.append(mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ))
    return lambda part: any(text.find(part.encode()) >= 0 for text in texts)


@pytest.mark.parametrize("parts", [case for case in cases("PyTorch messages") if not case.id.startswith(OTHERS)])
def test_pytorch_has_the_message(parts, torch_texts):
    assert parts, "nothing in it is fixed"
    for part in parts:
        assert torch_texts(part), part


TWO = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "job-0", "MASTER_PORT": "29500"}
# A command line and variables; the exit code, and the code that the last line ends with.
REAL = [
    (["--nosuch"], {}, 64, 1),
    (["--wait=sometimes", "true"], {}, 64, 2),
    (["true"], {"RANKSHIM_GRACE": "long"}, 78, 2),
    (["true"], {"RANKSHIM_GRASE": "1s"}, 78, 3),
    (["--config=/no/such", "true"], {}, 78, 4),
    (["platforms", "check", "/dev/null"], {}, 78, 5),
    (["platforms", "nosuch"], {}, 64, 6),
    (["explain", "--platform=nosuch"], {}, 78, 6),
    (["explain"], {"NODE_RANK": "1"}, 78, 7),
    (["explain"], {"NNODES": "2", "MASTER_ADDR": "job-0"}, 78, 8),
    (["explain"], {"NNODES": "2", "NODE_RANK": "1"}, 78, 9),
    (["explain"], {"PET_NNODES": "3", **TWO}, 78, 10),
    (["explain"], {**TWO, "MASTER_PORT": "0"}, 78, 13),
    (["explain"], {**TWO, "NODE_RANK": "2"}, 78, 14),
    (["explain"], {**TWO, "MASTER_ADDR": "tcp//job"}, 78, 15),
    (["explain"], {**TWO, "MASTER_ADDR": "None"}, 78, 15),
    (["explain"], {**TWO, "MASTER_ADDR": "localhost"}, 78, 16),
    (["explain"], {"NNODES": "1", "HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, 78, 17),
    (["explain"], {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, 78, 19),
    (["explain", "--strict"], {"FOO_NODE_RANK": "1"}, 78, 18),
    (["explain"], {**TWO, "NPROC_PER_NODE": "gpu", "CUDA_VISIBLE_DEVICES": ""}, 78, 21),
    (["explain", "train.py"], {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_NODEID": "0"}, 78, 22),
    (["explain", "--launcher=native", "torchrun", "train.py"], TWO, 78, 23),
    (["explain", "--job-restarts=1", "--link=off", "train.py"], TWO, 78, 24),
    (["wait", "--wait-timeout=0s"], {**TWO, "MASTER_ADDR": "127.0.0.2", "MASTER_PORT": "1"}, 75, 28),
    (["--job-token-file=/no/such", "--link=on", "--wait=none", "true"], {**TWO, "MASTER_ADDR": "127.0.0.2"}, 78, 33),
]


@pytest.mark.parametrize("line, variables, exit_code, code", REAL, ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_a_real_error_ends_with_its_code(shim, line, variables, exit_code, code):
    done = shim(*line, env=variables)
    assert (done.code, done.stderr.rstrip().rsplit(" ", 1)[-1]) == (exit_code, f"[R{code}]"), done.transcript()
