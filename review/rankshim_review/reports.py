"""Reads rankshim's reports (docs/report.md) as untrusted files: an invalid one is an error that names the member.

Times are whole microseconds since 1970, by the clock of the node that wrote the report.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, NoReturn

WRONG_USAGE = 64
NOT_A_REPORT = 65

SECOND = 1_000_000
LARGEST = 64 << 20
LONGEST_SHOWN = 60
OUTCOMES = ("succeeded", "failed", "stopped", "not started")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MOST = 2**32  # of ranks, process ids and seconds: far above what a report has


class NoReport(Exception):
    """A file that is not a report; the text is one line that names the file and what is wrong."""


class Parser(argparse.ArgumentParser):
    """Wrong usage prints one line and exits with 64, as in rankshim."""

    def error(self, message: str) -> NoReturn:
        print(f"rankshim-review: error: {message}; {self.prog} --help shows the usage", file=sys.stderr)
        sys.exit(WRONG_USAGE)


@dataclass(frozen=True)
class Phase:
    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class Worker:
    local_rank: int
    rank: int | None
    pid: int
    how: str  #: "exit code 3", "SIGTERM"; empty if unknown
    ended: int

    @property
    def name(self) -> str:
        return f"worker {self.local_rank}" + (f" (rank {self.rank})" if self.rank is not None else "")


@dataclass(frozen=True)
class PastAttempt:
    """An attempt of the job (--job-restarts) that was followed by another one."""

    number: int
    exit_code: int
    verdict: str
    started: int
    ended: int
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Cause:
    """What failed first on this node, or the node that linked nodes blame for their end (`who` is "node"): another one, or this
    one, if its worker hung or exited too early."""

    who: str
    host: str
    node_rank: int | None
    exit_code: int | None
    local_rank: int | None
    pid: int | None
    lost_peer: bool
    time: int | None
    text: str  #: the exception, or the other node's reason; may be empty
    traceback: tuple[str, ...]


@dataclass(frozen=True)
class Stack:
    """The ranks of a hang that were at the same place."""

    ranks: str  #: "0,2-15"
    frames: tuple[str, ...]  #: "all_reduce (/app/train.py:37)", the innermost call first; empty: it could not be read


@dataclass(frozen=True)
class Hang:
    """How the job hung. Only node 0's report has `stacks` and `waits`."""

    kind: str
    lasted: int  #: 0: not known
    missing: str
    waiting: str
    stacks: tuple[Stack, ...]
    waits: tuple[str, ...]  #: "ranks 0 and 2 waited for rank 1 in all_reduce, number 21 of default_pg"

    @property
    def name(self) -> str:
        missing = f"{rank_names(self.missing)} missing" if self.missing else self.kind.replace("_", " ")
        return f"hang: {missing}" + (f", {rank_names(self.waiting)} waited" if self.waiting else "")

    @property
    def lines(self) -> list[str]:
        """All stacks, then who waited for whom."""
        lines = []
        for stack in self.stacks:
            lines += [rank_names(stack.ranks), *(f"    {frame}" for frame in stack.frames or ("its stack could not be read",))]
        return [*lines, *self.waits]


@dataclass(frozen=True)
class WorkerEnd:
    """What node 0 of linked nodes knows about another node's worker."""

    rank: int
    exit_code: int
    time: int


@dataclass(frozen=True)
class Tenure:
    """The time for which a node had a rank (--spares)."""

    rank: int
    node_rank: int
    host: str
    since: int
    until: int | None  #: None if it still has it
    why: str  #: why another node took over: "lost"


@dataclass(frozen=True)
class KnownNode:
    """What node 0 of linked nodes knows about a node."""

    node_rank: int
    state: str
    host: str
    exit_code: int | None
    failure: str
    worker_ends: tuple[WorkerEnd, ...]

    @property
    def name(self) -> str:
        return node_name(self.node_rank, self.host)


@dataclass(frozen=True)
class Report:
    path: str
    outcome: str
    exit_code: int
    verdict: str
    host: str
    node_rank: int | None  #: in a job with spares, the platform's number, which all messages use for a node
    nnodes: str
    members: int  #: including the spares; 0 if there are none
    run_id: str
    started: int
    ended: int
    phases: tuple[Phase, ...]
    workers: tuple[Worker, ...]
    restarts: int
    attempt: int
    past_attempts: tuple[PastAttempt, ...]
    cause: Cause | None
    hang: Hang | None
    nodes: tuple[KnownNode, ...]
    history: tuple[Tenure, ...]

    @property
    def name(self) -> str:
        return node_name(self.node_rank, self.host)

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and self.outcome == "succeeded"

    def phase(self, name: str) -> Phase | None:
        """The last phase of this name, which is that of the last attempt."""
        return next((phase for phase in reversed(self.phases) if phase.name == name), None)

    @property
    def launched_at(self) -> int | None:
        start = self.phase("launch") or self.phase("run")
        return start.begin if start else None

    @property
    def interrupted_at(self) -> int | None:
        """When the first process failed, or else when the order or signal to stop came; None if everything had ended before."""
        if self.cause and self.cause.time is not None:
            return self.cause.time
        stop = self.phase("wind-down")
        return stop.begin if stop else None

    @property
    def failed_at(self) -> int:
        return self.ended if self.interrupted_at is None else self.interrupted_at

    @property
    def is_consequence(self) -> bool:
        """Whether the report itself says that the cause is on another node."""
        if self.cause is None:
            return False
        return self.cause.node_rank != self.node_rank if self.cause.who == "node" else self.cause.lost_peer


def node_name(rank: int | None, host: str) -> str:
    if rank is None:
        return f"host {host}"
    return f"node {rank} ({host})" if host else f"node {rank}"


def rank_names(ranks: str) -> str:
    """`0,2` as people say it: "ranks 0 and 2"."""
    *before, last = ranks.split(",")
    return f"rank {ranks}" if ranks.isdecimal() else f"ranks {', '.join(before)} and {last}" if before else f"ranks {ranks}"


def printable(text: str) -> str:
    """The text without characters that could control a terminal or change a page's text direction."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def read_all(paths: Sequence[str]) -> list[Report] | None:
    """Reads the reports; returns none, after a line on stderr, if one of the files is not a report."""
    try:
        return [_read(path) for path in paths]
    except NoReport as error:
        print(f"rankshim-review: error: {error}", file=sys.stderr)
        return None


def report_of_hub(reports: Sequence[Report]) -> Report | None:
    """The report of linked nodes' node 0, which knows them all, or of the last one that took over from it (--spares); None if it
    is missing."""
    return max((report for report in reports if report.nodes), key=lambda report: report.ended, default=None)


def blamed(reports: Sequence[Report]) -> tuple[int, Cause] | None:
    """The rank of the node that linked nodes blame, and why. Node 0 decides it, and each node's report has it. None if the nodes
    were not linked, or nobody is to blame."""
    hub = report_of_hub(reports)
    if hub and hub.cause and hub.cause.who != "node" and hub.node_rank is not None:
        return hub.node_rank, hub.cause
    for report in filter(None, [hub, *reports]):
        if report.cause and report.cause.who == "node" and report.cause.node_rank is not None:
            return report.cause.node_rank, report.cause
    return None


def in_order(reports: Sequence[Report], clock_error: float) -> list[Report]:
    """The reports of the nodes that failed: first that of the node that linked nodes blame, then by their clocks. Among those
    that the clocks cannot order, reports that themselves say that they are consequences come last."""
    failed = sorted((report for report in reports if not report.succeeded), key=lambda report: report.failed_at)
    culprit = blamed(reports)
    if culprit:
        return sorted(failed, key=lambda report: report.node_rank != culprit[0])
    first = next((report for report in failed if not report.is_consequence and is_close(failed[0], report, clock_error)), None)
    return [first, *(report for report in failed if report is not first)] if first else failed


def is_close(one: Report, later: Report, clock_error: float) -> bool:
    """Whether two clocks, each of which may be wrong by `clock_error` seconds, cannot tell which node failed first."""
    return later.failed_at - one.failed_at <= 2 * clock_error * SECOND


def clock_time(time: int) -> str:
    """The time in the form that reports use, such as "2026-11-25T17:50:28.380Z"."""
    return (EPOCH + timedelta(microseconds=time)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(time: int) -> str:
    """"12 ms", "1.009 s", "1 min 12 s", "2 h 3 min", "3 d 4 h"."""
    for large, small, unit, rest in ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s")):
        if time >= large * SECOND:
            more = time % (large * SECOND) // (small * SECOND)
            return f"{time // (large * SECOND)} {unit}" + (f" {more} {rest}" if more else "")
    return f"{time / SECOND:.4g} s" if time >= SECOND else f"{round(time / 1000, 1):g} ms"


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object, in which a name may occur twice."""


class _Object:
    """A JSON object whose members are read by type."""

    def __init__(self, value: Any, where: str = ""):
        self.where = where
        if not isinstance(value, _Members):
            raise self.wrong("", "an object", value)
        self.members: list[tuple[str, Any]] = value
        self.value = dict(value)

    def wrong(self, name: str, wanted: str, value: Any) -> NoReport:
        shown = "an object" if isinstance(value, _Members) else "a list" if isinstance(value, list) else json.dumps(value)
        shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…"
        path = ".".join(filter(None, (self.where, name)))
        return NoReport(f"{path or 'the document'} must be {wanted}, and is {shown}")

    def take(self, name: str, wanted: str, good: Callable[[Any], bool], default: Any) -> Any:
        value = self.value.get(name, default)
        if value is ...:
            raise NoReport(f"{'.'.join(filter(None, (self.where, name)))} is missing")
        if value is not default and not good(value):
            raise self.wrong(name, wanted, value)
        return value

    def text(self, name: str, default: Any = ...) -> str:
        return printable(self.take(name, "a text", lambda value: isinstance(value, str), default))

    def count(self, name: str, default: Any = ..., most: int = MOST) -> Any:
        return self.take(name, f"a whole number from 0 to {most}",
                         lambda value: type(value) is int and 0 <= value <= most, default)

    def flag(self, name: str) -> bool:
        return bool(self.take(name, "true or false", lambda value: isinstance(value, bool), False))

    def time(self, name: str, default: Any = ...) -> Any:
        value = self.take(name, "a time", lambda value: isinstance(value, str), default)
        if value is default:
            return default
        try:
            found = datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
            if 2000 <= found.year < 2200:  # what a trace can express in nanoseconds
                return (found - EPOCH) // timedelta(microseconds=1)
        except ValueError:
            pass
        raise self.wrong(name, "a time such as 2026-11-25T17:50:28.380Z", value)

    def object(self, name: str) -> _Object:
        return _Object(self.take(name, "an object", lambda value: True, ...), self.path(name))

    def objects(self, name: str) -> list[_Object]:
        values = self.take(name, "a list", lambda value: type(value) is list, ())
        return [_Object(value, f"{self.path(name)}.{index}") for index, value in enumerate(values)]

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name


def _read(path: str) -> Report:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise NoReport(f"it is larger than {LARGEST >> 20} MiB")
        return _report(path, _Object(_parse(content)))
    except OSError as error:
        raise NoReport(f"{printable(path)}: {error.strerror}") from None
    except NoReport as error:
        raise NoReport(f"{printable(path)} is not a report of rankshim: {error}") from None


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content.decode(), object_pairs_hook=_Members)
    except RecursionError:
        raise NoReport("it is nested too deep") from None
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        raise NoReport(f"it is not JSON: {error}") from None


def _report(path: str, top: _Object) -> Report:
    if top.count("version") != 1:
        raise NoReport(f"its version is {top.value['version']}, and this program knows version 1")
    top.take("outcome", "one of " + ", ".join(OUTCOMES), lambda value: value in OUTCOMES, ...)
    node = top.object("node")
    ended = top.time("ended")
    started = top.time("started", ended)
    if started > ended:
        raise NoReport("it ended before it started")
    attempts = tuple(_past_attempt(attempt, started, ended) for attempt in top.objects("past_attempts"))
    return Report(
        path=path,
        outcome=top.value["outcome"],
        exit_code=top.count("exit_code", most=255),
        verdict=top.text("verdict"),
        host=node.text("host"),
        node_rank=node.count("index", node.count("node_rank", None)),
        nnodes=node.text("nnodes", ""),
        members=node.count("members", 0),
        run_id=node.text("run_id", ""),
        started=started,
        ended=ended,
        phases=(*(phase for past in attempts for phase in past.phases),
                *_phases(top.object("phases"), attempts[-1].ended if attempts else started, ended)),
        workers=tuple(_worker(worker, ended) for worker in top.objects("workers")),
        restarts=top.count("restarts", 0),
        attempt=top.count("attempt", 0),
        past_attempts=attempts,
        cause=_cause(top.object("root_cause"), ended) if top.value.get("root_cause") is not None else None,
        hang=_hang(top.object("hang")) if "hang" in top.value else None,
        nodes=tuple(_known_node(node, ended) for node in top.objects("nodes")),
        history=tuple(_tenure(tenure, ended) for tenure in top.objects("history")),
    )


def _hang(hang: _Object) -> Hang:
    seconds = hang.take("seconds", "a number of seconds",
                        lambda value: type(value) in (int, float) and 0 <= value <= MOST, 0)
    return Hang(
        kind=hang.text("kind"),
        lasted=round(seconds * SECOND),
        missing=hang.text("missing", ""),
        waiting=hang.text("waiting", ""),
        stacks=tuple(Stack(group.text("ranks"),
                           tuple(f"{frame.text('function')} ({frame.text('file')}:{frame.count('line')})"
                                 for frame in group.objects("stack"))) for group in hang.objects("groups")),
        waits=tuple(f"{rank_names(wait.text('ranks'))} waited for {rank_names(wait.text('for')) if wait.text('for') else 'nobody'} in "
                    f"{wait.text('operation')}, number {wait.count('number', most=2**64)} of {wait.text('group')}"
                    for wait in hang.objects("waits")),
    )


def _phases(seconds: _Object, started: int, ended: int) -> tuple[Phase, ...]:
    """The phases, which follow each other from the start, in the order of the members."""
    phases, begin = [], started
    for name, taken in seconds.members:
        if type(taken) not in (int, float) or not 0 <= taken <= MOST:  # also where it is not a number (NaN)
            raise seconds.wrong(name, "a number of seconds", taken)
        end = min(begin + round(taken * SECOND), ended)
        phases.append(Phase(printable(name), begin, end))
        begin = end
    return tuple(phases)


def _past_attempt(attempt: _Object, started: int, ended: int) -> PastAttempt:
    begin = min(max(attempt.time("started"), started), ended)
    end = min(max(attempt.time("ended"), begin), ended)
    return PastAttempt(
        number=attempt.count("attempt"),
        exit_code=attempt.count("exit_code", most=255),
        verdict=attempt.text("verdict"),
        started=begin,
        ended=end,
        phases=_phases(attempt.object("phases"), begin, end),
    )


def _worker(worker: _Object, ended: int) -> Worker:
    code = worker.count("exit_code", None, most=255)
    return Worker(
        local_rank=worker.count("local_rank"),
        rank=worker.count("rank", None),
        pid=worker.count("pid"),
        how=worker.text("signal", "") or ("" if code is None else f"exit code {code}"),
        ended=min(worker.time("time"), ended),
    )


def _cause(root: _Object, ended: int) -> Cause:
    time = root.time("time", None)
    lines = root.take("traceback", "a list of texts",
                      lambda value: type(value) is list and all(isinstance(line, str) for line in value), ())
    return Cause(
        who=root.text("who"),
        host=root.text("host", ""),
        node_rank=root.count("node_rank", None),
        exit_code=root.count("exit_code", None, most=255),
        local_rank=root.count("local_rank", None),
        pid=root.count("pid", None),
        lost_peer=root.flag("lost_peer"),
        time=None if time is None else min(time, ended),
        text=root.text("exception", "") or root.text("reason", ""),
        traceback=tuple(printable(line) for line in lines),
    )


def _tenure(tenure: _Object, ended: int) -> Tenure:
    since, until = min(tenure.time("since"), ended), tenure.time("until", None)
    return Tenure(
        rank=tenure.count("node_rank"),
        node_rank=tenure.count("index"),
        host=tenure.text("host", ""),
        since=since,
        until=None if until is None else max(since, min(until, ended)),
        why=tenure.text("why", ""),
    )


def _known_node(node: _Object, ended: int) -> KnownNode:
    return KnownNode(
        node_rank=node.count("index") if "index" in node.value else node.count("node_rank"),
        state=node.text("state"),
        host=node.text("host", ""),
        exit_code=node.count("exit_code", None, most=255),
        failure=node.text("failure", ""),
        worker_ends=tuple(WorkerEnd(worker.count("rank"), worker.count("exit_code", most=255), min(worker.time("time"), ended))
                          for worker in node.objects("worker_ends")),
    )
