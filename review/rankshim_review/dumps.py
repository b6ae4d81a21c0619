"""Reads the dumps of torch's flight recorder, which `rankshim --hang-dumps DIR` keeps: the last collectives of each rank.

A dump is a pickle of plain values (pytorch:torch/csrc/distributed/c10d/FlightRecorder.hpp), and untrusted: only the opcodes that
torch writes for such values are read, so nothing in it can be called, and it takes no more memory than its size allows.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .reports import LARGEST, NoReport, printable, rank_names

NAME = re.compile(r"(?:.*_)?rank_(\d{1,5})")  # also torch's own default, comm_lib_trace_rank_0
OPCODES = frozenset((
    "PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE",
    "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
))
LIBRARY = re.compile(r"/(?:site|dist)-packages/torch/|/lib/python3[^/]*/(?!(?:site|dist)-packages/)|^<")


class _Unpickler(pickle._Unpickler):  # in Python: its memo is a dict, and its opcodes are in a table
    dispatch: ClassVar = {ord(opcode.code): pickle._Unpickler.dispatch[ord(opcode.code)]
                          for opcode in pickletools.opcodes if opcode.name in OPCODES}


@dataclass(frozen=True, order=True)
class Collective:
    """The last collective of a process group that a rank has entered."""

    group: str
    number: int
    operation: str  #: "all_reduce"
    has_completed: bool
    frame: str  #: "step (/app/train.py:37)"; empty if unknown

    def line(self, ranks: str) -> str:
        return (f"{rank_names(ranks)}: {'completed' if self.has_completed else 'did not complete'} {self.operation}, "
                f"number {self.number} of {self.group}{', at ' + self.frame if self.frame else ''}")


@dataclass(frozen=True)
class Dumps:
    #: the ranks ("0,2-15") of each last collective; without the groups all of whose ranks have completed the same one
    collectives: tuple[tuple[Collective, str], ...]
    missing: str  #: the ranks below the highest that have no dump

    @property
    def lines(self) -> list[str]:
        lines = [collective.line(ranks) for collective, ranks in self.collectives] or ["all had completed"]
        return lines + ([f"There is no dump of {rank_names(self.missing)}."] if self.missing else [])


def read_dumps(folder: str) -> Dumps:
    """Raises NoReport if there is no dump, or one of them is not a dump."""
    try:
        names = [file.name for file in os.scandir(folder) if file.is_file()]
    except OSError as error:
        raise NoReport(f"{printable(folder)}: {error.strerror}") from None
    paths = {int(found[1]): os.path.join(folder, found[0]) for found in filter(None, map(NAME.fullmatch, sorted(names)))}
    if not paths:
        raise NoReport(f"{printable(folder)} has no dump of torch's flight recorder, such as rank_0")
    ranks: dict[Collective, list[int]] = {}
    for rank, path in sorted(paths.items()):
        for collective in _read(path):
            ranks.setdefault(collective, []).append(rank)
    shown = [collective for collective in sorted(ranks)
             if not collective.has_completed or any(other.group == collective.group and other != collective for other in ranks)]
    return Dumps(tuple((collective, _ranges(ranks[collective])) for collective in shown),
                 _ranges([rank for rank in range(max(paths)) if rank not in paths]))


def _read(path: str) -> list[Collective]:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise NoReport(f"it is larger than {LARGEST >> 20} MiB")
        return list(_last_collectives(_Unpickler(io.BytesIO(content)).load()))
    except OSError as error:
        raise NoReport(f"{printable(path)}: {error.strerror}") from None
    except Exception as error:  # whatever an unpickler raises on bytes that are no pickle
        why = str(error) if isinstance(error, NoReport) else f"{type(error).__name__}: {printable(str(error))}"
        raise NoReport(f"{printable(path)} is not a dump of torch's flight recorder: {why}") from None


def _last_collectives(dump: Any) -> Iterator[Collective]:
    """Those of each process group. Entries are in the order in which they were made."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in dump["entries"]:
        if not entry["is_p2p"]:
            name, description = entry["process_group"]
            last[_text(name), _text(description)] = entry
    for (name, description), entry in last.items():
        yield Collective(
            group=description or name,
            number=int(entry["collective_seq_id"]),
            operation=_text(entry["profiling_name"]).rpartition(":")[2],
            has_completed=entry["retired"] is True or entry["state"] == "completed",
            frame=_users_frame(entry.get("frames") or ()),
        )


def _users_frame(frames: Any) -> str:
    """The innermost frame that is neither torch's nor Python's."""
    for frame in frames:
        if not LIBRARY.search(_text(frame["filename"])):
            return f"{_text(frame['name'])} ({_text(frame['filename'])}:{int(frame['line'])})"
    return ""


def _text(value: Any) -> str:
    if not isinstance(value, str):  # a list that contains itself many times over would have no end
        raise NoReport(f"a {type(value).__name__} is where a text must be")
    return printable(value)


def _ranges(ranks: list[int]) -> str:
    """"0,2-15"; `ranks` are sorted."""
    ranges: list[list[int]] = []
    for rank in ranks:
        if ranges and ranges[-1][1] == rank - 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
