"""A script that was prepared finds its interpreter and its process as one that was started plainly."""

import json
import pathlib

import pytest

PROPERTIES = pathlib.Path(__file__).with_name("properties.py").read_text()
TORCH = "import torch, numpy\nfrom torch import nn\nimport torch.distributed as dist"
STANDARD = "import asyncio\nimport json, multiprocessing as mp, concurrent.futures\nfrom unittest import mock\nfrom xml.etree import *"
COMMANDS = {
    "a script with arguments": ["train.py", "a", "-b", ""],
    "a module of a package": ["-m", "pkg.mod", "x"],
    "a package": ["-m", "pkg"],
    "an absolute path": ["{folder}/pkg/mod.py"],
    "optimised": ["-O", "train.py"],
    "in development mode": ["-X", "dev", "-u", "train.py"],
    "with warnings": ["-Wd", "-B", "train.py"],
}


def differences(start, head, argv, **how):
    """By property: what the script finds plainly, and after the gate."""
    first, rest = PROPERTIES.split("\n", 1)
    script = f"{first}\n{head}\n{rest}"
    start.write(train=script, pkg____init__='"""A package."""\n', pkg____main__=script, pkg__mod=script)
    told = start.folder / "told"
    plain, prepared = start.both(*[word.format(folder=start.folder) for word in argv], env={"TELL_FILE": str(told)}, **how)
    assert plain == prepared and plain[0] == 0
    (expected, own), (found, others) = [json.loads(line) for line in told.read_text().splitlines()]
    assert len(expected) > 45 and not set(own) & set(others)
    return {name: (expected[name], found[name]) for name in expected if expected[name] != found[name]}


def rarely(often):
    """The commands, but for `often` nightly."""
    return [command if command in often else pytest.param(command, marks=pytest.mark.nightly) for command in COMMANDS]


@pytest.mark.parametrize("command", COMMANDS)
def test_after_imports_of_the_standard_library(start, command):
    assert differences(start, STANDARD, COMMANDS[command]) == {}


@pytest.mark.parametrize("command", rarely(["a module of a package"]))
def test_in_any_python(start, python, command):
    assert differences(start, STANDARD, COMMANDS[command], python=python) == {}


@pytest.mark.torch
@pytest.mark.parametrize("command", rarely(["a script with arguments"]))
def test_after_an_import_of_torch(start, torch, command):
    assert differences(start, TORCH, COMMANDS[command]) == {}


def test_one_that_cannot_be_used_but_may_go_already_starts_anew(start, tmp_path):
    """What it has imported would not be as in a plain start: another entry is first in sys.path."""
    first, rest = PROPERTIES.split("\n", 1)
    start.write(train=f"{first}\nimport numpy\n{rest}", packages__numpy="import sys\nsys.path.insert(0, '/nowhere')\n")
    env = {"TELL_FILE": str(tmp_path / "told"), "PYTHONPATH": f":{tmp_path}/packages"}
    with start.plain("train.py", "a", env=env) as plain:
        assert plain.wait() == 0
    with start.prepared("train.py", "a", env=env) as prepared:
        assert [prepared.hear(), prepared.hear()] == ["h", "x a module has changed sys.path"]
        assert prepared.go() == 0, prepared.transcript()
    (expected, _), (found, _) = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert {name: (expected[name], found[name]) for name in expected if expected[name] != found[name]} == {}
