"""rankshim-review collect: the reports of a job's nodes as one, where they were not linked (--link off).

Which node failed first is known by the nodes' clocks only, and two failures that are closer than these can be trusted
have no order. A report that says itself that the cause is on another node (`lost_peer`) is not the first one then.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import count, islice
from typing import Any

from .reports import NOT_A_REPORT, Parser, Report, clock_time, duration, in_order, is_close, printable, read_all

SHOWN = 10  # of the nodes without a report
LARGEST_CLOCK_ERROR = 86400


def main(arguments: list[str]) -> int:
    """Returns the exit code of the report of the node that failed first; 0 if all nodes ended well."""
    parser = Parser(prog="rankshim-review collect", description="Which node of a job failed first, by the reports of its nodes.")
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="what rankshim --report has written, one file for each node")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--clock-error", type=_seconds, default=0.1, metavar="SECONDS",
                        help="how wrong the clock of each node can be (default: 0.1)")
    options = parser.parse_args(arguments)
    reports = read_all(options.reports)
    if reports is None:
        return NOT_A_REPORT
    failed = in_order(reports, options.clock_error)
    well = sorted((report for report in reports if report.ended_well), key=lambda report: report.ended)
    show = _json if options.format == "json" else _text
    print(show(failed, well, options.clock_error))
    return failed[0].exit_code if failed else 0


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= LARGEST_CLOCK_ERROR:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds from 0 to {LARGEST_CLOCK_ERROR}")
    return number


def _unordered(failed: Sequence[Report], clock_error: float) -> list[list[Report]]:
    """Groups of nodes of which each is closer to the next than two clocks can be wrong. Consequences are after their
    causes, whatever the clocks say."""
    groups: list[list[Report]] = []
    for report in [report for report in failed if not report.is_consequence] or failed:
        if groups and is_close(groups[-1][-1], report, clock_error):
            groups[-1].append(report)
        else:
            groups.append([report])
    return [group for group in groups if len(group) > 1]


def _missing(reports: Sequence[Report]) -> tuple[int, list[int]]:
    """How many nodes have no report, and the first of them."""
    number = max((int(report.nnodes) for report in reports if report.nnodes.isdecimal() and len(report.nnodes) < 10), default=0)
    there = {report.node_rank for report in reports}
    if None in there:
        return 0, []
    left = number - sum(rank < number for rank in there if rank is not None)
    return left, list(islice((rank for rank in count() if rank not in there), min(left, SHOWN)))


def _notes(failed: Sequence[Report], well: Sequence[Report], clock_error: float) -> list[str]:
    reports = [*failed, *well]
    notes = [f"The order of {_and([report.name for report in group])} is not certain: each failed within {2 * clock_error:g} s of "
             f"the next, and each clock may be wrong by {clock_error:g} s (--clock-error)."
             for group in _unordered(failed, clock_error)]
    if failed and failed[0].is_consequence:
        notes.append("The first failure is a consequence of another node's, by its own report. The report of that node is not here.")
    left, shown = _missing(reports)
    if left:
        more = f" and {left - len(shown)} more" if left > len(shown) else ""
        notes.append(f"There is no report of node{'s' if left > 1 else ''} {', '.join(map(str, shown))}{more}. "
                     "A node that was killed with its rankshim leaves none, and may have failed first.")
    runs = sorted({report.run_id for report in reports if report.run_id})
    if len(runs) > 1:
        notes.append(f"The reports are of different jobs: their run ids are {_and(runs)}.")
    return notes


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _text(failed: Sequence[Report], well: Sequence[Report], clock_error: float) -> str:
    lines = []
    for report in failed:
        later = report.failed_at - failed[0].failed_at
        if report is failed[0]:
            when = f"first, at {clock_time(report.failed_at)}"
        else:
            when = f"{duration(later)} later" if later >= 0 else f"{duration(-later)} earlier by its own clock"
            when += ", as a consequence" if report.is_consequence else ""
        what = "was stopped" if report.outcome == "stopped" else "failed"
        lines.append(f"{report.name} {what} {when}, with exit code {report.exit_code}: {report.verdict}")
    lines += [f"{report.name} ended well: {report.verdict}" for report in well]
    return "\n".join([*lines, *_notes(failed, well, clock_error)])


def _json(failed: Sequence[Report], well: Sequence[Report], clock_error: float) -> str:
    def node(report: Report) -> dict[str, Any]:
        return {
            "report": printable(report.path),
            "host": report.host,
            "node_rank": report.node_rank,
            "outcome": report.outcome,
            "exit_code": report.exit_code,
            "verdict": report.verdict,
            "time": clock_time(report.ended if report.ended_well else report.failed_at),
            "consequence": report.is_consequence,
        }

    return json.dumps({
        "version": 1,
        "exit_code": failed[0].exit_code if failed else 0,
        "clock_error_seconds": clock_error,
        "first": node(failed[0]) if failed else None,
        "nodes": [node(report) for report in [*failed, *well]],
        "not_ordered": [[printable(report.path) for report in group] for group in _unordered(failed, clock_error)],
        "missing": _missing([*failed, *well])[0],
    })
