"""The command line of a container, and where rankshim is in it."""

from __future__ import annotations

import dataclasses
import re
import shlex
import string

SHELLS = {"sh", "bash", "ash", "dash", "zsh"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


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


def expand(text: str, environment: dict[str, str]) -> str:
    """$(NAME), as Kubernetes does: an unknown name stays, $$ is one $.

    Source: kubernetes/kubernetes:third_party/forked/golang/expansion/expand.go.
    """
    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^()]*)\)", value, text)


def parse(words: list[str], environment: dict[str, str]) -> Command:
    """Of a container's command and arguments."""
    if words and base_name(words[0]) in SHELLS:
        for at, word in enumerate(words[1:], 1):
            if re.fullmatch("-[a-z]*c[a-z]*", word) and at + 1 < len(words):
                rest = words[at + 1:]
                if rest[0] == "--":  # KubeRay's `bash -c -- …`
                    rest = rest[1:]
                return dataclasses.replace(script(rest[0] if rest else "", environment), in_shell=True)
    return _statement(words, {})


def script(text: str, environment: dict[str, str]) -> Command:
    """Of a shell script: the first statement with rankshim in it, else the last one.

    What a line assigns counts from there on. What only a shell knows (`$(…)`, a loop) stays as it is written.
    """
    assigned: dict[str, str] = {}
    last: list[str] = []
    for words in _statements(text):
        known = {**environment, **assigned}
        words = [string.Template(word).safe_substitute(known) if "$" in word else word for word in words]
        if words[0] in ("export", "declare", "local") or all(_ASSIGNMENT.match(word) for word in words):
            pairs = (word.partition("=") for word in words if _ASSIGNMENT.match(word) and "$" not in word)
            assigned.update({name: value for name, _, value in pairs})
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
