"""The command line of a container, and where rankshim is in it."""

from __future__ import annotations

import collections
import dataclasses
import re
import shlex
import string
from collections.abc import Callable

LONGEST = 128 << 10  # MAX_ARG_STRLEN of linux/binfmts.h: of one argument or variable
MOST_TEXT = 2 << 20  # of all of them: a quarter of the usual stack, 8 MiB (execve(2), "Limits on size of arguments and environment")
SHELLS = {"sh", "bash", "ash", "dash", "zsh"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OF_KUBERNETES = re.compile(r"\$\$|\$\(([^()]*)\)")
_SHELLS_SCRIPT = re.compile("-[abd-z]*c[a-z]*")


class TooLong(Exception):
    """What a process cannot be given: a value, or all of them, are longer than exec takes."""


class Variables(dict[str, str]):
    """An environment that exec takes: one that becomes larger is TooLong."""

    size = 0  # letters, and the two that end a name and a value

    def __setitem__(self, name: str, value: str) -> None:
        before = len(name) + len(self[name]) + 2 if name in self else 0
        self.size += len(name) + len(value) + 2 - before
        if self.size > MOST_TEXT:
            raise TooLong(f"the variables are longer than {MOST_TEXT >> 20} MiB, the most that exec takes")
        super().__setitem__(name, value)


@dataclasses.dataclass
class Command:
    """`before` rankshim and `after` it; without a rankshim `before` is everything. `environment` is what a shell set."""

    before: list[str]
    after: list[str] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    rankshim: str = ""  # as the command names it
    in_shell: bool = False  # of `sh -c …`


def base_name(word: str) -> str:
    return word.rpartition("/")[2]


def substitute(pattern: re.Pattern[str], value: Callable[[re.Match[str]], str], text: str) -> str:
    """`text` with `value` for each match. TooLong where exec would not take it: what doubles with each variable is never made."""
    made, end, size = [], 0, 0
    for found in pattern.finditer(text):
        made += [text[end:found.start()], value(found)]
        size += len(made[-2]) + len(made[-1])
        end = found.end()
        if size > LONGEST:
            break
    if size + len(text) - end > LONGEST:
        raise TooLong(f"one value becomes longer than {LONGEST >> 10} KiB, the most that exec takes")
    return "".join([*made, text[end:]])


def expand(text: str, environment: dict[str, str]) -> str:
    """$(NAME), as Kubernetes does: an unknown name stays, $$ is one $.

    Source: kubernetes/kubernetes:third_party/forked/golang/expansion/expand.go.
    """
    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return substitute(_OF_KUBERNETES, value, text)


def parse(words: list[str], environment: dict[str, str]) -> Command:
    """Of a container's command and arguments."""
    if words and base_name(words[0]) in SHELLS:
        for at, word in enumerate(words[1:], 1):
            if _SHELLS_SCRIPT.fullmatch(word) and at + 1 < len(words):
                rest = words[at + 1:]
                if rest[0] == "--":  # KubeRay's `bash -c -- …`
                    rest = rest[1:]
                return dataclasses.replace(script(rest[0] if rest else "", environment), in_shell=True)
    return _statement(words, {})


def script(text: str, environment: dict[str, str]) -> Command:
    """Of a shell script: the first statement with rankshim in it, else the last one.

    What a line assigns counts from there on. What only a shell knows (`$(…)`, a loop) stays as it is written.
    """
    assigned = Variables()
    known = collections.ChainMap(assigned, environment)
    last: list[str] = []
    left = MOST_TEXT + len(text)

    def value(found: re.Match[str]) -> str:
        name = found["named"] or found["braced"]
        if found["escaped"]:
            return "$"
        return known.get(name, found[0]) if name else found[0]

    for words in _statements(text):
        words = [substitute(string.Template.pattern, value, word) for word in words]
        left -= sum(map(len, words))
        if left < 0:
            raise TooLong(f"with its variables it becomes longer than {MOST_TEXT >> 20} MiB")
        if words[0] in ("export", "declare", "local") or all(_ASSIGNMENT.match(word) for word in words):
            pairs = (word.partition("=") for word in words if _ASSIGNMENT.match(word) and "$" not in word)
            for name, _, given in pairs:
                assigned[name] = given
            continue
        found = _statement(words, assigned)
        if found.rankshim:
            return found
        last = words
    return Command(last, environment=assigned)


def _statements(text: str) -> list[list[str]]:
    text = re.sub(r"\\\n", " ", text)
    found: list[list[str]] = []
    for line in text.splitlines():
        if len(line) > LONGEST:
            raise TooLong(f"a line of it is longer than {LONGEST >> 10} KiB")
        words: list[str] = []
        try:
            lexer = shlex.shlex(re.sub(r"(^|\s)#.*", "", line), posix=True, punctuation_chars=";&|")
            lexer.whitespace_split = True
            lexer.commenters = ""  # a # within a word is a letter
            split = list(lexer)
        except ValueError:  # a quotation that goes on in the next line
            split = line.split()
        for word in split:
            if word and set(word) <= set(";&|"):
                found.append(words)
                words = []
            else:
                words.append(word)
        found.append(words)
    return [words for words in found if words]


def _statement(words: list[str], assigned: dict[str, str]) -> Command:
    own = dict(assigned)
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words[0].partition("=")
        own[name] = value
        words = words[1:]
    # The last before a `--`: `apptainer exec --bind /opt/rankshim IMAGE /opt/rankshim/rankshim -- train.py`.
    end = words.index("--") if "--" in words else len(words)
    for at in reversed(range(end)):
        if base_name(words[at]) == "rankshim":
            return Command(words[:at], words[at + 1:], own, words[at])
    return Command(words, environment=own)


def option(words: list[str], *names: str) -> str:
    """The value of a program's own option, by any of its names: `--nodes=3`, `--nodes 3`, `-N 3`, `-N3`."""
    value = ""
    for at, word in enumerate(words):
        for name in names:
            if word == name and at + 1 < len(words):
                value = words[at + 1]
            elif word.startswith(name + "=") and name.startswith("--"):
                value = word[len(name) + 1:]
            elif re.fullmatch(re.escape(name) + "[0-9].*", word) and not name.startswith("--") and len(name) == 2:
                value = word[2:]
    return value
