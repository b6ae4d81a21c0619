"""Asks the binary, by running `rankshim explain` in a folder that looks like the pod, with the pod's host name.

The binary is static, so the pod's root needs only it, the devices that the pod requests, /etc/hosts as the kubelet writes it, and
the files from its ConfigMaps. Nothing else of this machine is visible.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x20000, 0x4000000, 0x10000000  # linux/sched.h
LONGEST = 30  # seconds for one call, which usually takes milliseconds
LONGEST_SHOWN = 100  # characters of a path
CONTRADICTION = "R10"  # `rankshim help R10`: a flag and a variable that contradict each other
UNLIKELY = 7919  # nodes
LETS_ONLY_ROOT = "this machine lets only root give those to a process (a container, or AppArmor): run as root, or allow user namespaces"
IS_DYNAMIC = "this binary starts only where its libraries or its interpreter are: name the released one, which is static, by --rankshim"
ADDRESS = "192.0.2.1"  # RFC 5737: for documentation; a pod's address is unknown before it runs


class Unusable(Exception):
    """There is no binary; the text is one line."""


class Unanswered(Exception):
    """Why the binary cannot be asked about a pod, on one line."""


def find() -> str:
    """The binary in the same wheel, else the first one in PATH."""
    try:
        from rankshim.__main__ import find_rankshim
    except ImportError:
        found = shutil.which("rankshim")
        if found is None:
            raise Unusable("no rankshim in PATH: install the wheel, or name the binary with --rankshim") from None
        return found
    return find_rankshim()


@dataclasses.dataclass(frozen=True)
class Answer:
    """What `explain` says: its document, or what prevents the pod from starting."""

    document: dict[str, Any]
    errors: list[str]
    unseen: bool = False  # it depends on something that this machine does not permit
    codes: list[str] = dataclasses.field(default_factory=list)  # the errors' codes, for `rankshim help CODE`
    names: list[str] = dataclasses.field(default_factory=list)  # the variables and flags in the errors

    def fact(self, name: str) -> str:
        return str(self.document.get("topology", {}).get(name, {}).get("value", ""))

    def source(self, name: str) -> str:
        return str(self.document.get("topology", {}).get(name, {}).get("source", ""))


class Binary:
    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rankshim-review-")
        self._count = 0
        try:
            # Copy it once, because its file system may not permit links.
            self._copy = pathlib.Path(shutil.copy(path, pathlib.Path(self._folder.name) / "rankshim"))
            self._copy.chmod(0o755)
            self.help = subprocess.run([self._copy, "help", "all"], capture_output=True, text=True, timeout=LONGEST, check=True,
                                       env={}).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise Unusable(f"{path} is not a rankshim that runs here: {error}") from None
        if "rankshim explain" not in self.help:
            raise Unusable(f"{path} is not rankshim: it has no subcommand explain")
        self.isolates = True
        self.why_not = ""  # empty: pods are isolated; otherwise whatever depends on a host name or a file is unknown
        self._is_slow = False
        try:
            self.run(["version"], {}, host="pod")
        except Unanswered as error:
            self.isolates = False
            self.why_not = IS_DYNAMIC if isinstance(error.__cause__, FileNotFoundError) else LETS_ONLY_ROOT

    def close(self) -> None:
        self._folder.cleanup()

    @functools.cached_property
    def _with_value(self) -> set[str]:
        """The options that take a value, according to the binary."""
        return set(re.findall(r"^  --([a-z][a-z-]*) \S", self.help, re.M))

    def has_option(self, word: str) -> bool:
        name = word.partition("=")[0]
        return name == "--" or re.search(rf"^  {re.escape(name).replace('--', '--(?:[[]no-[]])?', 1)}( |$)", self.help, re.M) is not None

    @functools.cached_property
    def subcommands(self) -> set[str]:
        return set(re.findall(r"^(?:usage:|      ) rankshim ([a-z]+)", self.help, re.M))

    def settings(self, arguments: list[str], environment: dict[str, str]) -> dict[str, str]:
        """The options before the command, overriding the RANKSHIM_* variables: {name without dashes: value}."""
        found = {name[len("RANKSHIM_"):].lower().replace("_", "-"): value
                 for name, value in environment.items() if name.startswith("RANKSHIM_") and value}
        words = iter(arguments[:len(arguments) - len(self.program(arguments))])
        for word in words:
            name, equals, value = word[2:].partition("=")
            if word != "--":
                found[name] = value if equals or name not in self._with_value else next(words, "")
        return found

    def program(self, arguments: list[str]) -> list[str]:
        """The command after the options."""
        at = 0
        while at < len(arguments) and arguments[at].startswith("--") and arguments[at] != "--":
            at += 2 if "=" not in arguments[at] and arguments[at][2:] in self._with_value else 1
        return arguments[at + (arguments[at:at + 1] == ["--"]):]

    def explain(self, arguments: list[str], environment: dict[str, str], *, host: str, domain: str = "",
                devices: dict[str, int] | None = None, files: dict[str, str] | None = None) -> Answer:
        if not self.isolates and {"config", "profile"} & set(self.settings(arguments, environment)):
            return Answer({}, [], unseen=True)  # a file of this machine that the manifest names
        try:
            done = self.run(["explain", "--format", "json", *arguments], environment, host=host, domain=domain,
                            devices=devices, files=files)
        except Unanswered as error:
            return Answer({}, [str(error)])
        try:
            document = json.loads(done.stdout)
        except ValueError:
            document = {}
        if not self.isolates and devices and Answer(document, []).source("nproc_per_node") == "default":
            count = max(devices.values())  # of the devices that this process cannot be given
            return self.explain([f"--nproc-per-node={count}", *arguments], environment, host=host, domain=domain, devices=devices)
        if done.returncode == 0 and document and (self.isolates or not _depends_on_the_machine(document)):
            return Answer(document if self.isolates else {**document, "warnings": []}, [])
        if not self.isolates:
            return Answer({}, [], unseen=True)
        errors = [f"{fault['what']}; {fault['fix']}" for fault in document.get("errors", [])]
        said = [line.partition("error: ")[2] for line in done.stderr.splitlines() if "error: " in line]
        return Answer({}, errors or said or [f"rankshim explain exited with {done.returncode}"],
                      codes=[str(fault.get("code", "")) for fault in document.get("errors", [])],
                      names=[str(name) for fault in document.get("errors", []) for name in fault.get("names", [])])

    def alone(self, launch: list[str], environment: dict[str, str]) -> Answer:
        """What a torchrun is told if rankshim does not help it: by its words, and with less weight by torch's variables."""
        own = {name: value for name, value in environment.items() if name.startswith("PET_")}
        found = self.explain(["--", *launch], own, host="node")
        while CONTRADICTION in found.codes and (beaten := set(found.names) & set(own)):
            own = {name: value for name, value in own.items() if name not in beaten}
            found = self.explain(["--", *launch], own, host="node")
        return found

    def added(self, launch: list[str]) -> list[str]:
        """The flags for the number of nodes that a launcher has not been given: those that rankshim would add on a great many
        nodes."""
        variables = {"NNODES": str(UNLIKELY), "NODE_RANK": "1", "MASTER_ADDR": ADDRESS, "NPROC_PER_NODE": "1"}
        words = self.explain(["--", *launch], variables, host="node").document.get("command", [])
        return [word for word in map(str, words) if word not in launch and re.search(rf"={UNLIKELY}(,|$)|^--hostfile", word)]

    def run(self, arguments: list[str], environment: dict[str, str], *, host: str, domain: str = "",
            devices: dict[str, int] | None = None, files: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the binary as the pod would, and waits for it. Raises Unanswered."""
        if self._is_slow:
            raise Unanswered(f"not reviewed: for a pod before this one, rankshim took longer than {LONGEST} s")
        self._count += 1
        root = pathlib.Path(self._folder.name) / str(self._count)
        short = host[:-len(domain) - 1] if domain and host.endswith(f".{domain}") else host  # setHostnameAsFQDN
        own = f"{ADDRESS}\t{f'{short}.{domain} ' if domain else ''}{short}\n"
        made = {"/etc/hosts": f"127.0.0.1\tlocalhost\n{own}", **(files or {})}
        made.update({f"/dev/{name}{index}": "" for name, count in (devices or {}).items() for index in range(count)})
        inside = "" if self.isolates else str(root)
        try:
            for name in ("rankshim", "bin/python3"):  # any executable file will do, because nothing starts it
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                os.link(self._copy, root / name)
            for path, text in made.items():
                _write(root, path, text)
            return subprocess.run(
                [f"{inside}/rankshim", *arguments], env={**environment, "HOSTNAME": host, "PATH": f"{inside}/bin"}, text=True,
                errors="replace", stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST, cwd=root,
                preexec_fn=functools.partial(_become, str(root).encode(), host.encode()) if self.isolates else None,
            )
        except subprocess.TimeoutExpired:
            self._is_slow = True
            raise Unanswered(f"not reviewed: rankshim took longer than {LONGEST} s") from None
        except subprocess.SubprocessError as error:
            raise Unanswered(f"not reviewed: {error}") from None
        except OSError as error:  # E2BIG: variables with the names of thousands of hosts
            raise Unanswered(f"the kernel does not start a container with these variables: {error.strerror}") from error
        finally:
            shutil.rmtree(root, ignore_errors=True)


def _write(root: pathlib.Path, path: str, text: str) -> None:
    """Writes a file of the pod. The path comes from the manifest, and must not lead out of the root."""
    target = root / os.path.normpath("/" + path).lstrip("/")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    except OSError as error:
        shown = path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}…"
        raise Unanswered(f"not reviewed: {shown} cannot be a file of the pod: {error.strerror}") from None


def _depends_on_the_machine(document: dict[str, Any]) -> bool:
    """Whether one of the document's facts comes from this machine's name, files or devices instead of the pod's.

    Otherwise a manifest could have a variable that names a file of this machine, and its text would be shown.
    """
    sources = " ".join(str(fact.get("source", "")) for fact in document.get("topology", {}).values())
    return re.search(r"hostname|/|devices", sources) is not None


_libc = ctypes.CDLL(None, use_errno=True)


def _become(root: bytes, host: bytes) -> None:
    """Called in the new process: gives it its own host name and root, with a user namespace unless this user is root."""
    if _libc.unshare(CLONE_NEWUTS) != 0 and _libc.unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    host = host[:64]  # the kernel's limit (uname(2))
    if _libc.sethostname(host, len(host)) != 0 or _libc.chroot(root) != 0:
        raise OSError(ctypes.get_errno(), "sethostname, chroot")
    os.chdir("/")
