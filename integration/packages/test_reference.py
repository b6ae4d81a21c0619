"""The man page and the completions, in the real man and the real shells."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from lib.process import clean_environment
from lib.requirements import cannot
from packages.conftest import PYTHON, REPOSITORY

# The shell's first input: rankshim is a function that prints its arguments.
SHOW = "rankshim() { printf 'got<%s>\\n' \"$*\"; }\n"
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {folder}/rankshim.bash\n"),
    "zsh": (["zsh", "-f", "-i"], "fpath=({folder} $fpath); autoload -U compinit; compinit -u -D\n"),
}
COMPLETED = [
    ("expl", "explain"),
    ("--wait-ti", "--wait-timeout"),
    ("--launcher torchr", "--launcher torchrun"),
    ("--platform kubeflow-py", "--platform kubeflow-pytorchjob"),
    ("platforms kubeflow-py", "platforms kubeflow-pytorchjob"),
    ("env --format dot", "env --format dotenv"),
    ("help explai", "help explain"),
    ("--no-stri", "--no-strict"),
    ("explain --master-a", "explain --master-addr"),
    ("--strict -- /etc/host.c", "--strict -- /etc/host.conf"),
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The folder with what packaging/reference.py writes."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([PYTHON, REPOSITORY / "packaging/reference.py", folder], check=True, timeout=200)
    return folder


def test_its_help_writes_no_file(tmp_path):
    helped = subprocess.run([PYTHON, REPOSITORY / "packaging/reference.py", "--help"], cwd=tmp_path, capture_output=True, text=True,
                            check=True, timeout=200)
    assert "--docs" in helped.stdout
    assert list(tmp_path.iterdir()) == []


def needs(tool):
    if shutil.which(tool) is None:
        cannot(f"no {tool} here (scripts/setup installs it)")


@pytest.mark.parametrize("typed, completed", COMPLETED)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(texts, shell, typed, completed):
    needs(shell)
    command, prepare = SHELLS[shell]
    shown = type_into(command, prepare.format(folder=texts) + SHOW, f"rankshim {typed}\t\n")
    assert shown.strip() == completed


def type_into(command, prepare, line):
    """What rankshim was given when the line was typed into a shell at a terminal."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(command[0], command, {**clean_environment(), "TERM": "vt100", "PS1": "$ "})
    try:
        # A tab counts only once the shell reads the line itself, which its prompt shows.
        os.write(terminal, (prepare + "echo rea''dy\n").encode())
        read_until(terminal, r"ready")
        os.write(terminal, line.encode())
        return read_until(terminal, r"got<((?!%s)[^>]*)>")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def read_until(terminal, pattern):
    printed, give_up = "", time.monotonic() + 60
    while time.monotonic() < give_up:
        if select.select([terminal], [], [], 1)[0]:
            printed += os.read(terminal, 4096).decode(errors="replace")
        if match := re.search(pattern, printed):
            return match[match.re.groups]
    raise AssertionError(f"no {pattern} in what the shell printed:\n{printed}")


@pytest.mark.parametrize("typed, completed", COMPLETED)
def test_fish_completes_what_is_typed(texts, typed, completed):
    needs("fish")
    asked = f"source {texts}/rankshim.fish; complete -C 'rankshim {typed}'"
    done = subprocess.run(["fish", "--no-config", "-c", asked], check=True, capture_output=True, text=True, timeout=60,
                          env=clean_environment())
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert offered == [completed.split()[-1]]


def test_the_man_page_is_clean_and_has_every_option(texts, shim):
    needs("man")
    page = subprocess.run(["man", "--warnings", "--local-file", texts / "rankshim.1"], capture_output=True, text=True,
                          timeout=60, env=clean_environment({"MANWIDTH": "100", "LC_ALL": "C"}))
    assert (page.returncode, page.stderr) == (0, "")
    options = re.findall(r"^  (--\S+)", shim("help", "all").stdout, re.M)
    assert "--nnodes" in options
    for option in options:
        assert re.search(rf"^ +{re.escape(option)}\b", page.stdout, re.M), option


def test_mandoc_finds_nothing_in_the_man_page(texts):
    needs("mandoc")
    done = subprocess.run(["mandoc", "-Tlint", "-Wstyle", texts / "rankshim.1"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
