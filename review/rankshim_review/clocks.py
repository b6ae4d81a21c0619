"""Converts the reports of linked nodes to a single clock, node 0's.

The nodes' clocks differ. Linked nodes launch when node 0 says "go", and stop when it says "stop" (docs/protocol.md). The times
that node 0 and another node record for such a moment differ by the offset of their clocks, plus the time that the message took. A
node that tells node 0 of its failure bounds the offset from the other side, so that its error is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .reports import SECOND, Phase, Report, report_of_hub


def align(reports: Sequence[Report]) -> tuple[list[Report], str, dict[str, dict[str, float]]]:
    """Returns the reports by node 0's clock, a note about the alignment, and each clock's offset and error by the report's path."""
    hub = report_of_hub(reports)
    if len(reports) == 1:
        return list(reports), "", {}
    if hub is None:
        return list(reports), "Each node's times are by its own clock: there is no report of node 0 of linked nodes.", {}
    aligned, offsets = [], {}
    for report in reports:
        go, own = report.launched_at, hub.launched_at  # not the end of "meet", because a spare met before it waited
        is_linked = report.phase("meet") is not None and hub.phase("meet") is not None
        if report is hub or go is None or own is None or not is_linked:
            aligned.append(report)
            continue
        offset = go - own
        told = report.cause is not None and report.cause.who == "node"
        known, heard = hub.interrupted_at, report.interrupted_at
        if told and known is not None and heard is not None:  # the order to stop was sent when node 0 knew, at the earliest
            offset = min(offset, heard - known)
        offsets[report.path] = {"clock_offset_seconds": offset / SECOND}
        is_blamed = hub.cause is not None and hub.cause.who == "node" and hub.cause.node_rank == report.node_rank
        if is_blamed and not told and known is not None and heard is not None:  # it failed before node 0 knew
            rounded = (len(report.phases) + len(hub.phases)) * SECOND // 1000  # each phase is rounded to a millisecond
            offsets[report.path]["clock_error_seconds"] = (max(0, offset - (heard - known)) + rounded) / SECOND
        aligned.append(shift(report, -offset))
    whose = f"node {hub.node_rank or 0}"
    return aligned, f"All times are by {whose}'s clock: the clocks are aligned by the moment at which the linked nodes launched.", offsets


def shift(report: Report, by: int) -> Report:
    cause = report.cause
    return replace(
        report, started=report.started + by, ended=report.ended + by,
        phases=tuple(Phase(phase.name, phase.begin + by, phase.end + by) for phase in report.phases),
        workers=tuple(replace(worker, ended=worker.ended + by) for worker in report.workers),
        past_attempts=tuple(replace(past, started=past.started + by, ended=past.ended + by) for past in report.past_attempts),
        cause=replace(cause, time=cause.time + by) if cause and cause.time is not None else cause)
