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
    """The messages of a section's headings, each as its fixed parts."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    for heading in re.findall(r"^### `(.+)`$", text, re.M):
        yield heading, [part.strip() for part in heading.split("…") if len(part.strip()) >= SHORTEST]


def cases(section):
    return [pytest.param(parts, id=heading) for heading, parts in messages(section)]


@pytest.fixture(scope="session")
def literals():
    """The texts of the program's string literals, with adjacent ones joined and each {} removed."""
    sources = [path for path in (REPOSITORY / "shim").rglob("*.cpp") if not path.stem.endswith("_test")]
    texts = "\n".join(path.read_text() for path in sorted(sources))
    return re.sub(r'"\s*\n\s*"', "", texts).replace('\\"', '"')


@pytest.mark.parametrize("parts", cases("Messages of rankshim"))
def test_rankshim_has_the_message(parts, literals):
    assert parts, "nothing in it is fixed"
    for part in parts:
        assert part in literals, part


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


@pytest.mark.parametrize("parts", [case for case in cases("Messages of PyTorch") if not case.id.startswith(OTHERS)])
def test_pytorch_has_the_message(parts, torch_texts):
    assert parts, "nothing in it is fixed"
    for part in parts:
        assert torch_texts(part), part
