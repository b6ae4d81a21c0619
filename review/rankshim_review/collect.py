"""rankshim-review collect: combines the reports of a job's nodes into one.

Linked nodes have agreed on which node is to blame, and their times are converted to node 0's clock. If nodes were not linked
(--link off), only their clocks show which of them failed first, and two failures that are closer together than the clocks can be
trusted have no order. A report that itself says that the cause is on another node (`lost_peer`) is then not the first one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import count, islice
from typing import Any

from .clocks import align
from .dumps import Dumps, read_dumps
from .reports import (
    NOT_A_REPORT,
    Cause,
    NoReport,
    Parser,
    Report,
    blamed,
    clock_time,
    duration,
    in_order,
    is_close,
    node_name,
    printable,
    read_all,
    report_of_hub,
)

SHOWN = 10  # of the nodes without a report
LARGEST_CLOCK_ERROR = 86400


def main(arguments: list[str]) -> int:
    """Returns the exit code of the node that failed first; 0 if all nodes succeeded."""
    parser = Parser(prog="rankshim-review collect", description="Which node of a job failed first, by the reports of its nodes.")
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="what rankshim --report has written, one file for each node")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--clock-error", type=_seconds, default=0.1, metavar="SECONDS",
                        help="how wrong the clock of each node can be (default: 0.1)")
    parser.add_argument("--dumps", metavar="DIR", help="show the last collectives of each rank by torch's dumps that rankshim --hang-dumps "
                                                       "has kept in DIR")
    options = parser.parse_args(arguments)
    reports = read_all(options.reports)
    if reports is None:
        return NOT_A_REPORT
    try:
        dumps = read_dumps(options.dumps) if options.dumps else None
    except NoReport as error:
        print(f"rankshim-review: error: {error}", file=sys.stderr)
        return NOT_A_REPORT
    reports, _, offsets = align(reports)
    job = Job(reports, options.clock_error, bool(offsets), dumps)
    print(_json(job) if options.format == "json" else _text(job))
    return job.exit_code


class Job:
    """What the reports say, taken together."""

    def __init__(self, reports: Sequence[Report], clock_error: float, one_clock: bool, dumps: Dumps | None):
        self.failed = in_order(reports, clock_error)
        self.succeeded = sorted((report for report in reports if report.succeeded), key=lambda report: report.ended)
        self.clock_error = clock_error
        self.one_clock = one_clock  #: all times are by the clock of the node that knows all
        self.blamed = blamed(reports)
        self.dumps = dumps

    @property
    def reports(self) -> list[Report]:
        return [*self.failed, *self.succeeded]

    @property
    def blamed_elsewhere(self) -> tuple[int, Cause] | None:
        """The node that linked nodes blame, if its report is not here."""
        return self.blamed if self.blamed and self.blamed[0] not in {report.node_rank for report in self.reports} else None

    @property
    def exit_code(self) -> int:
        if self.blamed_elsewhere and self.blamed_elsewhere[1].exit_code:
            return self.blamed_elsewhere[1].exit_code
        return self.failed[0].exit_code if self.failed else 0


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= LARGEST_CLOCK_ERROR:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to {LARGEST_CLOCK_ERROR}")
    return number


def _unordered(job: Job) -> list[list[Report]]:
    """Groups of nodes that failed so close to each other that their clocks cannot order them. Consequences come after their
    causes, whatever the clocks say; and linked nodes have agreed on the cause."""
    groups: list[list[Report]] = []
    for report in [] if job.blamed else [report for report in job.failed if not report.is_consequence] or job.failed:
        if groups and is_close(groups[-1][-1], report, job.clock_error):
            groups[-1].append(report)
        else:
            groups.append([report])
    return [group for group in groups if len(group) > 1]


def _missing(reports: Sequence[Report]) -> tuple[int, list[int]]:
    """How many nodes have no report, and the first of them."""
    number = max((int(report.nnodes) for report in reports if report.nnodes.isdecimal() and len(report.nnodes) < 10), default=0)
    number = max([number, *(report.members for report in reports)])
    there = {report.node_rank for report in reports}
    if None in there:
        return 0, []
    left = number - sum(rank < number for rank in there if rank is not None)
    return left, list(islice((rank for rank in count() if rank not in there), min(left, SHOWN)))


def _notes(job: Job) -> list[str]:
    notes = [f"The order of {_and([report.name for report in group])} is not certain: each failed within {2 * job.clock_error:g} s of "
             f"the next, and each clock may be wrong by {job.clock_error:g} s (--clock-error)."
             for group in _unordered(job)]
    if not job.blamed and job.failed and job.failed[0].is_consequence:
        notes.append("The first failure is a consequence of another node's, by its own report. The report of that node is not here.")
    left, shown = _missing(job.reports)
    if left:
        more = f" and {left - len(shown)} more" if left > len(shown) else ""
        notes.append(f"There is no report of node{'s' if left > 1 else ''} {', '.join(map(str, shown))}{more}."
                     + ("" if job.blamed else " A node that was killed with its rankshim leaves none, and may have failed first."))
    runs = sorted({report.run_id for report in job.reports if report.run_id})
    if len(runs) > 1:
        notes.append(f"The reports are of different jobs: their run ids are {_and(runs)}.")
    if job.one_clock:
        hub = report_of_hub(job.reports)
        notes.append(f"All times are by node {hub.node_rank or 0 if hub else 0}'s clock.")
    return notes


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _when(job: Job, report: Report) -> str:
    first = job.failed[0]
    later = report.failed_at - first.failed_at
    if report is not first:
        when = f"{duration(later)} later" if later >= 0 else f"{duration(-later)} earlier by its own clock"
    else:
        when = f"{'' if job.blamed_elsewhere else 'first, '}at {clock_time(report.failed_at)}"
    is_after = report is not first or job.blamed_elsewhere
    return f"{when}, as a consequence" if report.is_consequence and is_after else when


def _text(job: Job) -> str:
    lines = []
    if job.blamed_elsewhere:
        rank, cause = job.blamed_elsewhere
        lines.append(f"{node_name(rank, cause.host)} failed first; its report is not here, and the other nodes say of it: {cause.text}")
    for report in job.failed:
        what = "was stopped" if report.outcome == "stopped" else "failed"
        lines.append(f"{report.name} {what} {_when(job, report)}, with exit code {report.exit_code}: {report.verdict}")
    lines += [f"{report.name} succeeded: {report.verdict}" for report in job.succeeded]
    hang = next((report.hang for report in job.reports if report.hang and report.hang.stacks), None)
    if hang:
        lines += ["Where the ranks were when the job hung:", *hang.lines]
    if job.dumps:
        lines += ["The last collectives by torch's dumps:", *job.dumps.lines]
    return "\n".join([*lines, *_notes(job)])


def _json(job: Job) -> str:
    def node(report: Report) -> dict[str, Any]:
        return {
            "report": printable(report.path),
            "host": report.host,
            "node_rank": report.node_rank,
            "outcome": report.outcome,
            "exit_code": report.exit_code,
            "verdict": report.verdict,
            "time": clock_time(report.ended if report.succeeded else report.failed_at),
            "consequence": report.is_consequence,
        }

    first = node(job.failed[0]) if job.failed else None
    if job.blamed_elsewhere:
        rank, cause = job.blamed_elsewhere
        first = {"report": None, "host": cause.host, "node_rank": rank, "outcome": "failed", "exit_code": cause.exit_code,
                 "verdict": cause.text, "time": None, "consequence": False}
    dumps = {"dumps": {"collectives": [{**vars(collective), "ranks": ranks} for collective, ranks in job.dumps.collectives],
                       "missing": job.dumps.missing}} if job.dumps else {}
    return json.dumps({
        "version": 1,
        "exit_code": job.exit_code,
        "clock_error_seconds": job.clock_error,
        "first": first,
        "nodes": [node(report) for report in job.reports],
        "not_ordered": [[printable(report.path) for report in group] for group in _unordered(job)],
        "missing": _missing(job.reports)[0],
        **dumps,
    })
