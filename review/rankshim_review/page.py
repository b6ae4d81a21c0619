"""Makes the page of `rankshim-review trace --html`: the verdict in words and the timeline as plain SVG, in one file.

It is built as a tree of elements, whose texts and attributes the serializer escapes, because a worker's message is untrusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from .reports import SECOND, Report, clock_time, duration

if TYPE_CHECKING:
    from .trace import Lane, Timeline

WIDTH, LEFT, RIGHT = 1120, 210, 232  # of the picture, and of what is left and right of the timeline
PLOT = WIDTH - LEFT - RIGHT
TOP, NODE, WORKER, GAP = 46, 20, 16, 9  # the heights of the axis, of a node's row, of a worker's row, between nodes
LETTER, BOLD = 6.4, 7.3  # the usual width of a character in the picture, to see which texts fit
SHORT = 9  # the fewest characters of a name that are worth showing
MOST_WITH_WORKERS = 100  # rows; with more, only the node of the first failure shows its workers
MOST_NODES = 150
STEPS = sorted([*(size * 10**power for power in range(3, 8) for size in (1, 2, 5)),  # from 1 ms
                *(seconds * SECOND for seconds in (30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)),
                *(86400 * SECOND * size * 10**power for power in range(5) for size in (1, 2, 5))])
KINDS = (("wait", "waits"), ("work", "starts and ends"), ("run", "runs"), ("told", "as node 0 knows it"))


def html(timeline: Timeline, failed: Sequence[Report], note: str) -> str:
    """Returns the page. `failed` are the reports of the nodes that failed, the first failure first."""
    reports = [lane.source for lane in timeline.lanes if isinstance(lane.source, Report)]
    first = failed[0] if failed else reports[0]
    state = {"not started": "not started", "stopped": "stopped"}.get(first.outcome, "failed") if failed else "succeeded"
    nodes = len(timeline.lanes)
    root = ElementTree.Element("html", lang="en")
    head = _add(root, "head")
    _add(head, "meta", charset="utf-8")
    _add(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _add(head, "meta", {"http-equiv": "Content-Security-Policy"}, content="default-src 'none'; style-src 'unsafe-inline'")
    _add(head, "title", text=f"{state}: {first.verdict}")
    _add(head, "style", text=files(__package__).joinpath("page.css").read_text())
    body = _add(root, "body")
    _add(body, "p", {"class": f"state {state.split()[0]}"}, text=f"{state}, {nodes} node{'' if nodes == 1 else 's'}")
    _add(body, "h1", text=first.verdict)
    facts = [first.run_id and f"run id {first.run_id}", f"exit code {first.exit_code}",
             f"from {_utc(timeline.begin)} to {_utc(timeline.end)}, {duration(timeline.end - timeline.begin)}"]
    _add(body, "p", text=" · ".join(filter(None, facts)))
    if failed and first.is_consequence and timeline.first and timeline.lanes[timeline.first.lane].source is first:
        _add(body, "p", text="This is a consequence of another node's failure. The report of that node has the cause.")
    _pictures(body, timeline)
    if failed and first.cause and first.cause.traceback:
        _add(body, "h2", text="The traceback of the first failure")
        _add(body, "pre", text="\n".join(first.cause.traceback))
    hang = next((report.hang for report in reports if report.hang and report.hang.stacks), None)
    if hang:
        _add(body, "h2", text="Where the ranks were when the job hung")
        _add(body, "pre", text="\n".join(hang.lines))
    if len(reports) > 1:
        _add(body, "h2", text="What each node reports")
        table = _add(body, "table")
        for report in [*failed, *(report for report in reports if report.succeeded)][:MOST_NODES]:
            row = _add(table, "tr")
            _add(row, "th", text=report.name)
            _add(row, "td", text=report.verdict)
        _add(body, "p", text=note)
    elif nodes > 1:
        _add(body, "p", text="This is what node 0 knows. Give the reports of the other nodes as well to see their workers.")
    page: bytes = ElementTree.tostring(root, encoding="us-ascii", method="html")
    return "<!doctype html>\n" + page.decode()


def _utc(time: int) -> str:
    return clock_time(time).replace("T", " ").replace("Z", " UTC")


def _pictures(body: ElementTree.Element, timeline: Timeline) -> None:
    lanes, note = _shown(timeline)
    legend = _add(body, "p", {"class": "legend"})
    for kind, words in KINDS:
        if any(bar.kind == kind for lane in timeline.lanes for row in lane.rows for bar in row.bars):
            key = _add(legend, "svg", width="14", height="12")
            _add(key, "rect", {"class": kind}, width="14", height="12", rx="2")
            key.tail = f" {words}   "
    _picture(body, timeline, lanes, timeline.begin, timeline.end, timeline.begin)
    first = timeline.first
    if first:
        tail = max(timeline.end - first.time, 10_000)
        begin = first.time - tail // 4
        if 4 * (timeline.end - begin) < timeline.end - timeline.begin:
            _add(body, "h2", text="The end, from just before the first failure")
            _picture(body, timeline, lanes, begin, max(timeline.end, first.time + tail), first.time)
    if note:
        _add(body, "p", text=note)


def _shown(timeline: Timeline) -> tuple[list[tuple[int, Lane, int]], str]:
    """The lanes to draw, each with its number and how many of its rows to draw, and what is left out."""
    first = timeline.first.lane if timeline.first else 0
    numbers = sorted([first, *(number for number in range(len(timeline.lanes)) if number != first)][:MOST_NODES])
    workers = sum(len(timeline.lanes[number].rows) for number in numbers) <= MOST_WITH_WORKERS
    lanes = [(number, timeline.lanes[number], len(timeline.lanes[number].rows) if workers or number == first else 1) for number in numbers]
    left = len(timeline.lanes) - len(numbers)
    hidden = any(rows < len(lane.rows) for _, lane, rows in lanes)
    words = [f"{left} more nodes are not drawn." if left else "", "The workers of the other nodes are not drawn." if hidden else ""]
    return lanes, " ".join(filter(None, [*words, "The trace (without --html) has all." if any(words) else ""]))


def _picture(body: ElementTree.Element, timeline: Timeline, lanes: list[tuple[int, Lane, int]], begin: int, end: int, zero: int) -> None:
    span = max(end - begin, 1000)

    def place(time: int) -> float:
        return LEFT + PLOT * min(max((time - begin) / span, 0), 1)

    height = TOP + sum(NODE + WORKER * (rows - 1) + GAP for _, _, rows in lanes) + 4
    svg = _add(_add(body, "div", {"class": "picture"}), "svg", {"aria-label": "The timeline of the nodes and their workers"},
               viewBox=f"0 0 {WIDTH} {height}", role="img")
    _axis(svg, place, begin, begin + span, zero, height)
    y = TOP
    for number, lane, rows in lanes:
        for index, row in enumerate(lane.rows[:rows]):
            tall = WORKER if index else NODE
            marked = timeline.first is not None and (timeline.first.lane, timeline.first.row) == (number, index)
            first_lane = timeline.first is not None and timeline.first.lane == number
            style = "failed" if marked or (first_lane and not index) else "node" if not index else "worker"
            middle = f"{y + tall / 2 + 4:g}"
            label = row.name if index else lane.source.name
            _text(svg, label, LEFT - 10, middle, style, LEFT - 16 - (14 if index else 0), anchor="end")
            if row.end:
                _text(svg, row.end, WIDTH - RIGHT + 10, middle, style, RIGHT - 12)
            _add(svg, "line", {"class": "rule"}, x1=str(LEFT), x2=str(LEFT + PLOT), y1=f"{y + tall - 1.5:g}", y2=f"{y + tall - 1.5:g}")
            for bar in row.bars:
                if not (bar.begin < bar.end and begin < bar.end and bar.begin < begin + span):
                    continue
                left, right = place(bar.begin), place(bar.end)
                group = _add(svg, "g")
                _add(group, "title", text=_title(bar.name, bar.begin, bar.end, bar.arguments))
                _add(group, "rect", {"class": bar.kind}, x=f"{left:.1f}", y=f"{y + 1:g}", width=f"{max(right - left, 1):.1f}",
                     height=f"{tall - 4:g}", rx="2")
                wide = right - left - 10
                if (not index or row.name in ("attempts", "collectives", "ranks")) and wide > min(len(bar.name), SHORT) * LETTER:
                    _text(group, bar.name, left + 5, f"{y + tall / 2 + 2.5:g}", f"on {bar.kind}", wide)
            if marked and timeline.first:
                _mark(svg, timeline.first.text, place(timeline.first.time), y, tall, height)
            y += tall
        y += GAP


def _mark(svg: ElementTree.Element, text: str, x: float, y: float, tall: float, height: float) -> None:
    """Draws the first failure: a line through all rows, a dot in its own, and its name above."""
    group = _add(svg, "g", {"class": "mark"})
    _add(group, "title", text=text)
    _add(group, "line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1="24", y2=f"{height}")
    _add(group, "circle", cx=f"{x:.1f}", cy=f"{y + tall / 2 - 1:g}", r="5")
    to_left = x > LEFT + PLOT / 2
    _text(group, text, x - 5 if to_left else x + 5, "34", "failed", (x if to_left else WIDTH - x) - 5, anchor="end" if to_left else "start")


def _axis(svg: ElementTree.Element, place: Any, begin: int, end: int, zero: int, height: int) -> None:
    step = next((step for step in STEPS if (end - begin) / step <= 9), STEPS[-1])
    tick = -(-(begin - zero) // step) * step
    while zero + tick <= end:
        x = f"{place(zero + tick):.1f}"
        _add(svg, "line", {"class": "grid"}, x1=x, x2=x, y1="40", y2=str(height))
        sign = "+" if zero != begin and tick > 0 else "\N{MINUS SIGN}" if tick < 0 else ""
        label = f"{sign}{duration(abs(tick))}" if tick else "0"
        _add(svg, "text", {"class": "tick", "text-anchor": "middle"}, x=x, y="12", text=label)
        tick += step


def _title(name: str, begin: int, end: int, arguments: dict[str, Any]) -> str:
    more = [f"{key.replace('_', ' ')}: {value}" for key, value in arguments.items()
            if value not in (None, "") and key not in ("begin", "ended")]
    return "\n".join([name, f"{duration(end - begin)}, from {_utc(begin)} to {_utc(end)}", *more])


def _text(parent: ElementTree.Element, text: str, x: float, y: str, style: str, room: float, anchor: str = "start") -> None:
    """Draws a text on one line, cut to its room, with the whole text as its title."""
    letters = max(int(room / (BOLD if style in ("node", "failed") else LETTER)), 1)
    element = _add(parent, "text", {"class": style, "text-anchor": anchor}, x=f"{x:.1f}", y=y,
                   text=text if len(text) <= letters else text[:letters - 1] + "…")
    if len(text) > letters:
        element.set("textLength", f"{room - 1:g}")  # just within its room, however wide its letters are
        _add(element, "title", text=text)


def _add(parent: ElementTree.Element, tag: str, attributes: dict[str, str] | None = None, text: str | None = None,
         **more: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag, attributes or {}, **more)
    element.text = text
    return element
