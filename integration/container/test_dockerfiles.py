"""Every Dockerfile that the documents show, and that of the example, is built by podman; its image starts a script."""

import json
import re
import shutil

import pytest

from container import podman, stranger
from lib.documents import REPOSITORY, blocks

BASES = ("your/pytorch:image", "registry.example/pytorch:v1")
BRING = "COPY --from=rankshim /rankshim"
EXAMPLE = REPOSITORY / "examples" / "sagemaker" / "Dockerfile"


def cases():
    """The text of each, by its place."""
    yield pytest.param(EXAMPLE.read_text(), id=str(EXAMPLE.relative_to(REPOSITORY)))
    for block in blocks("dockerfile"):
        texts = block.halves() if block.text.startswith("# before") else {"": block.text}
        for when, text in texts.items():
            yield pytest.param(whole(text), id=f"{block.name}-{when}")


def whole(text):
    """A Dockerfile with the lines that a page has left out, because they are on it already."""
    brought = "" if BRING in text else f"{BRING} /usr/local/bin/rankshim\n"
    return text if "FROM " in text else f"FROM {BASES[0]}\n{brought}{text}"


@pytest.fixture(scope="module")
def bases(engine):
    """The images that the Dockerfiles start from: a Debian with Python, which runs a script alone instead of by torchrun."""
    stranger.make_image(engine)
    for name in BASES:
        engine.must("tag", stranger.IMAGE, podman.full_name(name))


@pytest.mark.parametrize("text", list(cases()))
def test_the_image_of_a_dockerfile_starts_a_script(engine, bases, tmp_path, text):
    (tmp_path / "Dockerfile").write_text(text)
    (tmp_path / "train.py").write_text("import sys\nprint('trained', sys.argv[1:])\n")
    shutil.copytree(REPOSITORY / "install" / "nvidia", tmp_path / "install" / "nvidia")
    podman.build(engine, tmp_path / "Dockerfile", tmp_path, "localhost/shown", timeout=60)
    words = [json.loads(words) for words in re.findall(r"^ENTRYPOINT (.*)$", text, re.M)]
    entrypoint = words[-1] if words else []
    if entrypoint and entrypoint[0] != "rankshim":
        return  # what a page shows as before has its own launcher
    started = ["run", "--rm", "--log-driver=passthrough", "--network=none", "--env=RANKSHIM_LAUNCHER=none",
               f"--volume={tmp_path}:/job:ro", *([] if "COPY train.py" in text else ["--workdir=/job"]), "localhost/shown"]
    added = [] if entrypoint[-1:] == ["train.py"] else ["train.py"] if entrypoint else ["rankshim", "--", "train.py"]
    assert engine.must(*started, *added, "train").splitlines()[-1] == "trained ['train']"
    if re.search(r'^CMD \["train.py"\]$', text, re.M):  # what docs/index.md says that it runs then
        assert engine.must(*started).splitlines()[-1] == "trained []"
        assert engine.must(*started, "bash", "-c", "echo a shell").splitlines() == ["a shell"]
        assert engine.podman(*started, "doctor").stdout.startswith("ok       job ")
        assert engine.must(*started, "explain", "train.py").splitlines()[0] == "platform     single-node"
