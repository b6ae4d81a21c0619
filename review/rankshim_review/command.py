"""Finds in the command line of a container what starts the training: rankshim, or another launcher.

The binary interprets the launcher's own words (binary.py).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from .launchers import STARTS
from .shell import Shell, Statement, TooLong, Variables, substitute

__all__ = ["Command", "TooLong", "Variables", "base_name", "expand", "find", "option", "parse", "substitute"]

SHELLS = {"sh", "bash", "ash", "dash", "zsh"}
DEEPEST = 5  # of nested shells
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OF_KUBERNETES = re.compile(r"\$\$|\$\(([^()]*)\)")
_SHELLS_SCRIPT = re.compile("-[abd-z]*c[a-z]*")
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_PYTHONS_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]+|-[WX].*")
_STARTERS = {"srun", "mpirun", "mpiexec", "orterun"}  # of the same on several nodes
# Those that the binary knows, torchrun, whose flags it parses, and what reads the node's rank by itself. Ray assigns its own ranks.
_LAUNCHERS = [start.split() for start in (
    *STARTS, "torchrun", "-m torch.distributed.run", "-m torch.distributed.launch", "dist_train.sh", "dist_test.sh", "-m llamafactory.cli",
    "axolotl train", "-m axolotl.cli.train") if start not in (*_STARTERS, "ray start")]
_SERVERS = re.compile("vllm serve|sglang serve|-m sglang.launch_server")  # each works for itself unless it is told of several nodes
_MENTION = re.compile(rf"(?<![\w-])({'|'.join(re.escape(' '.join(start)) for start in _LAUNCHERS)})(?![\w-])")
_WITHOUT_VALUE = {"--", "--standalone", "--no_ssh", "--no_python", "--no-python", "--multi_gpu", "--use_deepspeed", "--use_fsdp"}
# Commands that mention a launcher, but do not start it: `module load deepspeed`, `: "${MODELS:=/data/deepspeed}"`.
_QUIET = re.compile(r":|module|ml|spack|export|echo|printf|which|command|type|pip3?|ls|cat|cp|mv|rm|mkdir|cd|ln|grep|sed|awk|pkill"
                    r"|killall|kill|test|apt(-get)?|git|rsync|tar|touch|wget|curl|chmod|source|\.|head|tail|ps|trap|alias|hash|scontrol|tee|find")
# Options whose value is a name, such as `srun -J deepspeed`; of conda's alone, because `sudo -n` and `time -p` take none.
_NAMED = re.compile("--launcher|-J|--((container-|job-)?name|prefix)")
_CONDAS, _CONDAS_NAMED = re.compile("conda|mamba|micromamba"), ("-n", "-p")
# How much a launch line tells, most first.
RANKSHIM, LAUNCHER, STARTER, PYTHON, NOTHING = range(4, -1, -1)


@dataclasses.dataclass
class Command:
    """The words `before` and `after` rankshim; without rankshim, `before` has all of them. `environment` is what a shell has set."""

    before: list[str]
    after: list[str] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    rankshim: str = ""  # as named in the command
    in_shell: bool = False  # in `sh -c …` or a script
    launch: list[str] = dataclasses.field(default_factory=list)  # from the launcher on, if there is no rankshim
    told: int = NOTHING
    line: int = 1  # of a script
    is_certain: bool = True  # not in a branch of a script
    others: list[str] = dataclasses.field(default_factory=list)  # the other launch lines of the script

    @property
    def launcher(self) -> str:
        """The launcher's name for messages."""
        if self.told == LAUNCHER and (own := _python(self.launch))[:1] == ["-m"]:
            return own[1]
        return base_name(self.launch[0]) if self.launch else ""


def base_name(word: str) -> str:
    return word.rpartition("/")[2]


def mentions_launcher(text: str) -> bool:
    return _MENTION.search(text) is not None


def expand(text: str, environment: dict[str, str]) -> str:
    """Expands $(NAME) as Kubernetes does: an unknown name stays, $$ becomes $.

    Source: kubernetes/kubernetes:third_party/forked/golang/expansion/expand.go.
    """
    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return substitute(_OF_KUBERNETES, value, text)


def parse(words: list[str], environment: dict[str, str], host: str = "", files: dict[str, str] | None = None) -> Command:
    """Parses a container's command and arguments. `host` is the value of HOSTNAME there, and `files` are those that are known, such
    as a script in a ConfigMap."""
    shell = Shell({**({"HOSTNAME": host} if host else {}), **environment}, files=files or {})
    return _best(words, _of_words(Statement(words, {}, 1), shell, None, 0))


def find(text: str, shell: Shell, step: dict[str, str] | None = None) -> Command:
    """Parses a script. After srun, a shell's own words also have the variables of the `step`, and the host differs between nodes."""
    return dataclasses.replace(_best([], _of_script(text, shell, step, 0)), in_shell=True)


def _best(words: list[str], found: Iterable[Command]) -> Command:
    """The first of those that tell the most; what surely runs takes precedence over what may run."""
    best: list[Command] = []
    for each in found:
        key = (each.told, each.is_certain)
        if not best or key > (best[0].told, best[0].is_certain):
            best = [each]
        elif key[0] == best[0].told:
            best.append(each)
    if not best:
        return Command(words)
    first = best[0]
    others = {" ".join(each.launch or each.after): each for each in best[1:] if (each.launch, each.after) != (first.launch, first.after)}
    return dataclasses.replace(first, others=list(others) if first.told >= STARTER else [])


def _of_script(text: str, shell: Shell, step: dict[str, str] | None, depth: int) -> Iterator[Command]:
    for statement in shell.statements(text) if depth < DEEPEST else ():
        for found in _of_words(statement, shell, step, depth):
            yield dataclasses.replace(found, line=statement.line, is_certain=found.is_certain and statement.is_certain)


def _of_words(statement: Statement, shell: Shell, step: dict[str, str] | None, depth: int) -> Iterator[Command]:
    """The launch lines in a statement: its own, or those of the shell that it starts."""
    words, own = statement.words, dict(statement.assigned)
    while words and _ASSIGNMENT.match(words[0]):  # behind `env`, say, no shell has read it
        name, _, value = words[0].partition("=")
        own[name] = value
        words = words[1:]
    if not words or _QUIET.fullmatch(base_name(words[0])) or "install" in words[:5] or words[1:2] == ["activate"]:
        return
    at = _rankshim(words)
    if at is not None:
        yield Command(words[:at], words[at + 1:], _known(own), words[at], told=RANKSHIM)
        return
    starter = next((at for at, word in enumerate(words) if base_name(word) in _STARTERS), None)
    for at, word in enumerate(words):
        script = _script(words, at, statement.stdin, shell.files)
        if script is not None:
            variables, host = {**shell.variables, **own}, shell.host
            is_step = starter is not None and starter < at
            if is_step and step is not None:
                # Each task reads the words by itself, with what the batch script exports.
                variables, host = {**variables, **step}, ""
            inner = Shell(variables, host, shell.hosts, shell.budget, shell.files)
            if is_step:
                yield Command(words, told=NOTHING)  # in case nothing in the script tells more
            for found in _of_script(script, inner, step, depth + 1):
                yield dataclasses.replace(found, before=[*words[:at], *found.before], in_shell=True,
                                          environment={**_known(own), **found.environment})
            return
        if at > 0 and _is_name(words, at):
            continue
        if launch := _launch(words[at:]):
            yield Command(words, environment=_known(own), launch=launch, told=LAUNCHER)
            return
        if _PYTHON.fullmatch(base_name(word)):
            program = _python(words[at:])
            if any(each.endswith(".py") for each in program) or (program[:1] == ["-m"] and "pip" not in program):
                yield Command(words, environment=_known(own), launch=words[at:], told=STARTER if starter is not None else PYTHON)
            return
    if starter is not None:
        yield Command(words, environment=_known(own), told=NOTHING)


def _is_name(words: list[str], at: int) -> bool:
    """Whether the word is the value of an option that takes a name."""
    of_conda = words[at - 1] in _CONDAS_NAMED and any(_CONDAS.fullmatch(base_name(word)) for word in words[:at])
    return of_conda or _NAMED.fullmatch(words[at - 1]) is not None


def _launch(words: list[str]) -> list[str]:
    """The words from the launcher on, if one begins with the first word; empty if none does."""
    own = _python(words)
    if own[:1] != ["-m"] and len(own) < len(words):  # an installed launcher is a Python script too: `python /usr/bin/deepspeed`
        return _launch(own)
    own = [base_name(word) for word in own[:1]] + own[1:]
    start = next((start for start in _LAUNCHERS if own[:len(start)] == start), [])
    is_alone = _SERVERS.fullmatch(" ".join(start)) is not None and option(own, "--nnodes", "-n") in ("", "1")
    return words if start and not is_alone else []


def _python(words: list[str]) -> list[str]:
    """The words without Python and its options: from the script or -m on."""
    if not words or not _PYTHON.fullmatch(base_name(words[0])):
        return words
    words = words[1:]
    while words and _PYTHONS_OPTION.fullmatch(words[0]):
        words = words[2 if words[0] in ("-W", "-X") else 1:]
    return words


def _known(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if "$" not in value}


def _script(words: list[str], at: int, stdin: str, files: Mapping[str, str]) -> str | None:
    """The text that a shell at this word reads: that of -c, of a here-document, of eval, or of a known file."""
    name = base_name(words[at])
    if name == "eval":
        return " ".join(words[at + 1:])
    if name not in SHELLS:
        return files.get(words[at])
    is_script, rest = False, words[at + 1:]
    while rest and rest[0].startswith(("-", "+")) and rest[0] != "--":
        is_script = is_script or _SHELLS_SCRIPT.fullmatch(rest[0]) is not None
        rest = rest[2 if re.fullmatch("[-+][a-zA-Z]*[oO]|--rcfile|--init-file", rest[0]) else 1:]  # `-euo pipefail`
    rest = rest[rest[:1] == ["--"]:]  # KubeRay's `bash -c -- …`
    if is_script:
        return rest[0] if rest else ""
    return files.get(rest[0]) if rest else stdin or None


def _rankshim(words: list[str]) -> int | None:
    """The index of rankshim: `apptainer exec --bind /opt/rankshim IMAGE /opt/rankshim/rankshim -- train.py`, `tini -- rankshim
    …`."""
    found = None
    for at, word in enumerate(words):
        if word == "--" and found is not None:
            break
        if base_name(word) == "rankshim":
            found = at
    return found


def without_unknown(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The words that are known before a shell runs, and what is left out: {flag: its value as written}."""
    own = _python(words)
    start = max(1, len(words) - len(own) + 2 * (own[:1] == ["-m"]))
    kept: list[str] = words[:start]
    left: dict[str, str] = {}
    for at, word in enumerate(words[start:], start):
        if word == "-m" or word.endswith(".py"):  # from here on they are the script's own
            return [*kept, *words[at:]], left
        if "$" not in word and "`" not in word:
            kept.append(word)
        elif "=" in word and word.startswith("-"):
            left.update([word.partition("=")[::2]])
        elif kept and kept[-1].startswith("--") and "=" not in kept[-1] and kept[-1] not in _WITHOUT_VALUE:
            left[kept.pop()] = word
        else:
            left[word] = word
    return kept, left


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
