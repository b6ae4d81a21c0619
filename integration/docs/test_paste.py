"""Whoever pastes the documents' commands into a shell gets what the documents show, and breaks nothing.

Each document's commands are typed into an interactive bash on a terminal, line by line, in a copy of this repository that holds the real
binary and what a user has: a script to train with. Some blocks are not typed: their page has a mark (lib.documents), and NOT_RUN has the reason.
"""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time

import pytest

from lib.documents import DOCUMENTS, REPOSITORY, blocks, consoles
from lib.process import clean_environment
from lib.requirements import cannot

# Why a shell of the tests cannot take a block. Another test runs it (test_docs.py sees to it).
NOT_RUN = {
    "checkout": "installs packages, compiles, or takes minutes",
    "cluster": "needs an API server, Helm, Slurm, Arena or Ray",
    "docker": "needs Docker or podman, and images",
    "reports": "needs the reports of a job that has ended",
    "torch": "needs a Python with torch, and takes as long as its import",
}
PROMPT = "\x1e"  # a character that nothing prints
COLOURS = re.compile(r"\x1b\[[\d;]*m")
LONGEST = 60  # seconds; a command of a page, on a machine that may be busy
PAGES = sorted({block.document for block in blocks("console") if not block.mark})


class Bash:
    """An interactive bash on a terminal of its own."""

    def __init__(self, folder):
        self._terminal, line = pty.openpty()
        fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
        modes = termios.tcgetattr(line)
        modes[1] &= ~termios.OPOST
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(line, termios.TCSANOW, modes)
        environment = {"PATH": f"{folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "TERM": "xterm",
                       "PS1": PROMPT, "PS2": PROMPT}
        self._bash = subprocess.Popen(["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"], cwd=folder,
                                      env=environment, stdin=line, stdout=line, stderr=line)
        os.close(line)
        self._until_prompt()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._bash.kill()
        self._bash.wait()
        os.close(self._terminal)

    def type(self, line):
        """What bash prints until it wants the next line, or None if the line has ended it."""
        assert len(line) < 4000, "a terminal's line has at most 4,095 characters"
        os.write(self._terminal, f"{line}\n".encode())
        return self._until_prompt()

    def give_up(self):
        """Ctrl-C, which ends a command that is not finished, such as a quote."""
        os.write(self._terminal, b"\x03")
        self._until_prompt()

    def _until_prompt(self):
        read, deadline = "", time.monotonic() + LONGEST
        while not read.endswith(PROMPT):
            if not select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                pytest.fail(f"nothing more within {LONGEST} s: {read}")
            try:
                read += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:  # bash has ended, and with it the terminal
                return None
        return COLOURS.sub("", read.removesuffix(PROMPT))


@pytest.fixture(scope="session")
def original(rankshim, tmp_path_factory):
    """This repository, a script to train with, and the binary: in bin/, which is in PATH, and beside the script."""
    if shutil.which("setsid") is None:
        cannot("missing: setsid (util-linux)")
    folder = tmp_path_factory.mktemp("paste") / "rankshim"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name, follow_symlinks=False)
    (folder / "bin").mkdir()
    for place in (folder / "bin/rankshim", folder / "rankshim"):
        shutil.copy(rankshim, place)
        place.chmod(0o755)
    (folder / "bin/python3").symlink_to("/usr/bin/python3")
    review = folder / "bin/rankshim-review"  # as the wheel has it (integration/packages)
    review.write_text(f"#!/bin/sh\nPYTHONPATH='{REPOSITORY}/review' exec '{sys.executable}' -m rankshim_review \"$@\"\n")
    review.chmod(0o755)
    for name in ("train.py", "run.sh"):
        (folder / name).write_text("# a user's own\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example", "commit", "--quiet", "--message=a")
    return folder


@pytest.fixture
def tree(original):
    """The same, as it was; afterwards nothing that was there has changed."""
    yield original
    changed = git(original, "status", "--porcelain", "--untracked-files=no")
    git(original, "reset", "--hard", "--quiet")
    git(original, "clean", "-ffdxq")
    assert changed == "", "a file of the tree has changed"


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, env=clean_environment(), check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("document", PAGES)
def test_the_commands_of_a_page_print_what_it_shows(document, tree):
    """In one shell, as somebody types who reads from the top."""
    needs_root(document)
    with Bash(tree) as bash:
        for block, shown in consoles(document):
            if not block.mark:
                assert "".join(map(bash.type, block.commands)).rstrip() == shown.rstrip(), block.name


@pytest.mark.parametrize("document", PAGES)
def test_each_block_of_a_page_needs_no_variable_of_the_one_before(document, tree):
    """A shell for each, in the page's order and in one folder: a later block may use a file of an earlier one."""
    needs_root(document)
    for block, shown in consoles(document):
        if not block.mark:
            with Bash(tree) as bash:
                assert "".join(map(bash.type, block.commands)).rstrip() == shown.rstrip(), block.name


@pytest.mark.parametrize("document", [str(path.relative_to(REPOSITORY)) for path in DOCUMENTS])
def test_a_page_that_is_pasted_as_it_is_breaks_nothing(document, tree):
    """With the prompts and the output, which bash does not understand; "> rankshim" would empty a file."""
    lines = [line for block in blocks("console", "text") if block.document == document for line in block.text.splitlines()]
    while lines:
        with Bash(tree) as bash:
            ended = False
            while lines and not ended:
                ended = bash.type(lines.pop(0)) is None  # as "exit code 1" does
            if not ended:
                bash.give_up()


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in blocks("console")])
def test_a_block_has_a_prompt_before_each_command_and_no_output(block):
    assert [line for line in block.text.splitlines() if not line.startswith("$ ")] == []


def test_every_mark_has_its_reason():
    marked = {block.mark for block in blocks() if block.mark}
    assert marked <= set(NOT_RUN), "NOT_RUN"
    assert [block.name for block in blocks() if block.mark and block.language != "console"] == []


def needs_root(document):
    if os.geteuid() != 0 and any("unshare " in command for block, _ in consoles(document) for command in block.commands):
        cannot("needs root for namespaces")
