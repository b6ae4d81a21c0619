"""rankshim-review trace: turns the reports of a job's nodes into a trace for Perfetto, or a page for a browser.

The trace is JSON in Chrome's Trace Event Format (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU):
a process for each node, its phases in the first row, its attempts if there were several, and a row for each worker.
Perfetto does not draw events of one row that overlap (perfetto.dev/docs/faq): none do here, and no two rows have one id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import page
from .clocks import align
from .reports import (
    NOT_A_REPORT,
    SECOND,
    Hang,
    KnownNode,
    Parser,
    Report,
    Worker,
    clock_time,
    in_order,
    read_all,
    report_of_hub,
)

CLOCK_ERROR = 0.1  # for clocks that cannot be aligned; the same default as in collect
WAITS = ("wait", "meet", "finish")


@dataclass(frozen=True)
class Bar:
    """A period in a row. `kind` is "wait", "work" (before and after the run), "run" or "told" (known only from node 0)."""

    name: str
    kind: str
    begin: int
    end: int
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    name: str
    end: str  #: how it ended
    is_cause: bool  #: whether the report names it as its root cause
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Lane:
    """A node: the row of its phases, and its workers' rows."""

    source: Report | KnownNode
    rows: Sequence[Row]


@dataclass(frozen=True)
class Mark:
    """Where and when the job first failed, or was first stopped."""

    lane: int
    row: int
    time: int
    text: str


@dataclass(frozen=True)
class Timeline:
    lanes: Sequence[Lane]
    first: Mark | None
    begin: int
    end: int


def main(arguments: list[str]) -> int:
    parser = Parser(prog="rankshim-review trace",
                    description="Writes the timeline of a job to stdout: a trace for ui.perfetto.dev or chrome://tracing, or a page.")
    parser.add_argument("reports", nargs="+", metavar="REPORT",
                        help="what rankshim --report has written: node 0's, or one file for each node")
    parser.add_argument("--html", action="store_true", help="a page that a browser shows, without a network, instead of a trace")
    options = parser.parse_args(arguments)
    reports = read_all(options.reports)
    if reports is None:
        return NOT_A_REPORT
    reports, note, offsets = align(reports)
    failed = in_order(reports, CLOCK_ERROR)
    timeline = lay_out(reports, failed[0] if failed else None, offsets)
    print(page.html(timeline, failed, note) if options.html else chrome(timeline))
    return 0


def lay_out(reports: Sequence[Report], first: Report | None, offsets: dict[str, dict[str, float]]) -> Timeline:
    """The nodes in order of rank, including those that only node 0 knows."""
    lanes = [_lane(report, offsets.get(report.path, {})) for report in reports]
    there = {report.node_rank for report in reports}
    hub = report_of_hub(reports)
    if hub:
        lanes += [_told_lane(node, hub) for node in hub.nodes if node.node_rank not in there]
        lanes = [_with_ranks(lane, hub) for lane in lanes]
    lanes.sort(key=lambda lane: (lane.source.node_rank is None, lane.source.node_rank or 0, lane.source.host))
    return Timeline(lanes, _mark(lanes, first) if first else None,
                    min(report.started for report in reports), max(report.ended for report in reports))


def _lane(report: Report, offset: dict[str, float]) -> Lane:
    phases = [Bar(phase.name, "wait" if phase.name in WAITS else "run" if phase.name == "run" else "work", phase.begin, phase.end,
                  {"begin": clock_time(phase.begin), **offset}) for phase in report.phases]
    run, cause = report.phase("run") or report.phase("launch"), report.cause
    end = f"ended for node {cause.node_rank}" if cause and cause.who == "node" and report.is_consequence else report.outcome
    end += f", exit code {report.exit_code}" if report.exit_code else ""
    rows = [Row("phases", end, False, phases)]
    if run and not report.workers:
        until = report.failed_at if report.outcome == "failed" else run.end
        rows.append(Row("command", "", cause is not None and cause.who == "program", [Bar("command", "run", run.begin, until)]))
    if report.hang:
        rows.append(Row("collectives", "", False, [_hang(report, report.hang)]))
    if report.past_attempts:
        rows.append(Row("attempts", "", False, _attempts(report)))
    last = {worker.local_rank: worker for worker in report.workers}
    for local_rank, worker in sorted(last.items()):
        begin = run.begin if run else report.started
        is_cause = cause is not None and cause.who == "worker" and cause.local_rank == local_rank
        restarts = 0 if report.past_attempts else report.restarts  # each attempt has its own launcher
        rows.append(Row(worker.name, worker.how, is_cause, [_worker(worker, begin, restarts)]))
    return Lane(report, rows)


def _with_ranks(lane: Lane, hub: Report) -> Lane:
    """The lane with the ranks that the node has had, if a spare has taken one."""
    bars: list[Bar] = []
    tenures = sorted((tenure for tenure in hub.history if tenure.node_rank == lane.source.node_rank), key=lambda tenure: tenure.since)
    if not tenures:
        return lane
    for tenure in tenures:
        begin = max(tenure.since, hub.started, bars[-1].end if bars else 0)
        end = hub.ended if tenure.until is None else tenure.until
        bars.append(Bar(f"node rank {tenure.rank}", "told", begin, max(begin, end), {"until": tenure.why} if tenure.why else {}))
    source, (phases, *others) = lane.source, lane.rows
    if isinstance(source, KnownNode) and source.state == "missing":  # in the last meeting; it had gone before
        source, phases = replace(source, host=tenures[-1].host), replace(phases, end=tenures[-1].why or source.state)
    return Lane(source, [phases, *others, Row("ranks", "", False, bars)])


def _hang(report: Report, hang: Hang) -> Bar:
    """The period in which no collective ended; a moment if the report does not say how long it was."""
    begin = report.launched_at or report.started
    end = max(report.failed_at, begin + 1)
    arguments = {"missing": hang.missing, "waiting": hang.waiting, "stacks": "\n".join(hang.lines)}
    return Bar(hang.name, "wait", max(begin, end - max(hang.lasted, SECOND)), end, arguments)


def _attempts(report: Report) -> list[Bar]:
    """The attempts, one after the other, from the launch on."""
    bars, end = [], report.started
    for past in sorted(report.past_attempts, key=lambda past: past.started):
        bars.append(Bar(f"attempt {past.number}: exit code {past.exit_code}", "run", max(past.started, end), max(past.ended, end),
                        {"verdict": past.verdict}))
        end = bars[-1].end
    begin = max(report.launched_at or end, end)
    return [*bars, Bar(f"attempt {report.attempt}", "run", begin, report.ended, {"verdict": report.verdict})]


def _worker(worker: Worker, begin: int, restarts: int) -> Bar:
    arguments: dict[str, Any] = {"pid": worker.pid, "rank": worker.rank, "end": worker.how, "ended": clock_time(worker.ended)}
    if restarts:
        arguments["restarts"] = f"{restarts}; the report does not say when the last one was"
    return Bar(f"{worker.name}: {worker.how}" if worker.how else worker.name, "run", min(begin, worker.ended), worker.ended, arguments)


def _told_lane(node: KnownNode, hub: Report) -> Lane:
    """A node without a report here. It launched when node 0 did; its state and its workers' ends are what node 0 was last told."""
    cause = hub.cause
    is_cause = cause is not None and cause.who == "node" and cause.node_rank == node.node_rank
    end = node.state if not node.exit_code else f"{node.state}, exit code {node.exit_code}"
    bars = []
    if hub.launched_at is not None and node.state != "missing":
        arguments = {"failure": node.failure, "known": "by node 0's report only; the node's own report has its times"}
        bars.append(Bar(node.failure or node.state, "told", hub.launched_at, hub.failed_at if is_cause else hub.ended, arguments))
    rows = [Row("phases", end, is_cause, bars)]
    for worker in sorted(node.worker_ends, key=lambda worker: worker.rank):
        begin, how = min(hub.launched_at or worker.time, worker.time), f"exit code {worker.exit_code}"
        rows.append(Row(f"rank {worker.rank}", how, False, [Bar(f"rank {worker.rank}: {how}", "told", begin, worker.time)]))
    return Lane(node, rows)


def _mark(lanes: Sequence[Lane], first: Report) -> Mark:
    """The mark, in the row of the cause; or on a node that only node 0 knows, if the first report ended because of that node."""
    told = next((number for number, lane in enumerate(lanes) if lane.source is not first and isinstance(lane.source, KnownNode)
                 and lane.rows[0].is_cause and first.cause and first.cause.who == "node"), None)
    number = told if told is not None else next(number for number, lane in enumerate(lanes) if lane.source is first)
    source, rows = lanes[number].source, lanes[number].rows
    row = next((row for row, each in enumerate(rows) if each.is_cause), 0)
    state = source.outcome if isinstance(source, Report) else source.state
    stopped = "stopped" if state == "stopping" else state
    hung = isinstance(source, Report) and source.hang is not None and not row
    word = f"was {stopped}" if stopped in ("stopped", "not started", "lost") else "failed"
    word = "hung" if hung else word
    who = source.name + (f", {rows[row].name}," if row else "")
    what = f"{who} {word} first" if (row or len(lanes) > 1) and not hung else f"{who} {word}"
    how = ", ".join(filter(None, [rows[row].end if row else "", first.cause.text if first.cause else ""]))
    return Mark(number, row, first.failed_at, f"{what}: {how}" if how else what)


def chrome(timeline: Timeline) -> str:
    """The trace, with times relative to the first node's start."""
    events: list[dict[str, Any]] = []
    thread = 0
    for process, lane in enumerate(timeline.lanes, 1):
        events += [_metadata(process, thread + 1, "process_name", name=lane.source.name),
                   _metadata(process, thread + 1, "process_sort_index", sort_index=process),
                   _metadata(process, thread + 1, "process_labels", labels=lane.rows[0].end)]
        for number, row in enumerate(lane.rows):
            thread += 1
            events += [_metadata(process, thread, "thread_name", name=row.name),
                       _metadata(process, thread, "thread_sort_index", sort_index=number)]
            events += [{"ph": "X", "name": bar.name, "cat": bar.kind, "pid": process, "tid": thread, "ts": bar.begin - timeline.begin,
                        "dur": bar.end - bar.begin, "args": bar.arguments} for bar in row.bars if bar.end > bar.begin]
            first = timeline.first
            if first and (first.lane, first.row) == (process - 1, number):
                cause = lane.source.cause if isinstance(lane.source, Report) else None
                arguments = {"time": clock_time(first.time)}
                if cause:
                    arguments.update(what=cause.text, traceback="\n".join(cause.traceback))
                events.append({"ph": "i", "s": "t", "name": first.text, "cat": "failed", "pid": process, "tid": thread,
                               "ts": first.time - timeline.begin, "args": arguments})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"begin": clock_time(timeline.begin)}})


def _metadata(process: int, thread: int, what: str, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": arguments}
