"""rankshim-review trace: the timeline of real reports as a trace in Chrome's format, and as a page."""

from __future__ import annotations

import html.parser
import json
import re
import signal
import time
from datetime import datetime, timedelta

import pytest
from lib.process import clean_environment, run
from lib.requirements import needs_strace
from rankshim_review import trace
from rankshim_review.clocks import align
from rankshim_review.reports import duration, read_all
from review.jobs import LONGEST, Job, an_hour_ahead, changed, content

SECOND = 1_000_000
HOSTILE = "</text></title><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e&lt;b&gt;\"'"
# Rank 3 of 6 fails when every rank is up.
TRAIN = f"""
import os, pathlib, time
rank = int(os.environ["RANK"])
pathlib.Path(f"up-{{rank}}").touch()
while len(list(pathlib.Path(".").glob("up-*"))) < 6: time.sleep(0.01)
if rank == 3: raise ValueError({HOSTILE!r})
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def linked(rankshim, tmp_path_factory):
    """Three linked nodes with two workers each; worker 1 of node 1 fails, and ends all."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(TRAIN)
    job = Job(rankshim, folder, 3, ["train.py"], "--link=on")
    assert job.wait() == [76, 1, 76]
    return job.paths


def traced(capsys, *paths):
    """The events of a trace, checked."""
    assert trace.main(list(paths)) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    return document["traceEvents"]


def check(document):
    """The Trace Event Format, and what Perfetto asks for on top: a thread's id is one process's only, and no two events of
    a thread overlap."""
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"} and document["displayTimeUnit"] == "ms"
    fields = {"M": {"ph", "name", "pid", "tid", "args"}, "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
              "i": {"ph", "name", "cat", "pid", "tid", "ts", "s", "args"}}
    arguments = {"process_name": ("name", str), "process_labels": ("labels", str), "process_sort_index": ("sort_index", int),
                 "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}
    processes, ends = {}, {}
    for event in document["traceEvents"]:
        assert set(event) == fields[event["ph"]], event
        assert type(event["pid"]) is int and event["pid"] > 0 and type(event["tid"]) is int and event["tid"] > 0
        assert isinstance(event["name"], str) and event["name"].isprintable() and isinstance(event["args"], dict)
        assert processes.setdefault(event["tid"], event["pid"]) == event["pid"]
        if event["ph"] == "M":
            name, kind = arguments[event["name"]]
            assert set(event["args"]) == {name} and type(event["args"][name]) is kind
        else:
            assert type(event["ts"]) is int and event["ts"] >= 0
        if event["ph"] == "X":
            assert type(event["dur"]) is int and event["dur"] > 0
            assert event["ts"] >= ends.get(event["tid"], 0)
            ends[event["tid"]] = event["ts"] + event["dur"]
        assert event.get("s", "t") == "t"


def named(events, what):
    """The processes or threads by their names."""
    return {event["args"]["name"]: event[{"process_name": "pid", "thread_name": "tid"}[what]] for event in events if event["name"] == what}


def rows(events, process):
    """The names of a process's rows, in their order."""
    order = {event["tid"]: event["args"]["sort_index"] for event in events if event["name"] == "thread_sort_index"}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == process}
    return [names[tid] for tid in sorted(names, key=order.get)]


def bars(events, process, row):
    (tid,) = [event["tid"] for event in events if (event["name"], event["pid"], event["args"].get("name")) == ("thread_name", process, row)]
    return [event for event in events if (event["ph"], event["tid"]) == ("X", tid)]


def test_each_node_is_a_process_with_its_phases_and_a_row_for_each_worker(capsys, linked):
    events = traced(capsys, *linked)
    processes = named(events, "process_name")
    assert [name.split(" (")[0] for name in processes] == ["node 0", "node 1", "node 2"]
    assert list(processes.values()) == [1, 2, 3]
    for rank, process in enumerate(processes.values()):
        assert rows(events, process) == ["phases", f"worker 0 (rank {2 * rank})", f"worker 1 (rank {2 * rank + 1})"]
        phases = content(linked[rank])["phases"]
        shown = {bar["name"]: bar["dur"] / SECOND for bar in bars(events, process, "phases")}
        assert shown == {name: pytest.approx(seconds) for name, seconds in phases.items() if seconds}
        for worker in content(linked[rank])["workers"]:
            (bar,) = bars(events, process, f"worker {worker['local_rank']} (rank {worker['rank']})")
            assert bar["args"]["ended"] != "" and bar["dur"] / SECOND == pytest.approx(worker["seconds"], abs=0.1)
            assert bar["args"]["end"] == worker.get("signal", "exit code 1")


def test_the_first_failure_is_marked_in_the_row_of_its_worker_at_its_end(capsys, linked):
    events = traced(capsys, *linked)
    (mark,) = [event for event in events if event["ph"] == "i"]
    assert mark["pid"] == 2
    (bar,) = bars(events, 2, "worker 1 (rank 3)")
    assert (mark["tid"], mark["ts"]) == (bar["tid"], bar["ts"] + bar["dur"])
    assert "worker 1 (rank 3), failed first: exit code 1, ValueError: </text>" in mark["name"]
    assert "raise ValueError" in mark["args"]["traceback"]


def test_node_0_alone_shows_all_nodes_as_it_knows_them(capsys, linked):
    events = traced(capsys, linked[0])
    assert [name.split(" (")[0] for name in named(events, "process_name")] == ["node 0", "node 1", "node 2"]
    assert [rows(events, process) for process in (2, 3)] == [["phases", "rank 2", "rank 3"], ["phases", "rank 4", "rank 5"]]
    assert [bars(events, 2, row)[0]["name"] for row in ("rank 2", "rank 3")] == ["rank 2: exit code 143", "rank 3: exit code 1"]
    (failed,), (stopped,) = bars(events, 2, "phases"), bars(events, 3, "phases")
    assert failed["args"]["failure"].startswith("rank 3 exited with code 1: ValueError: ") and stopped["name"] == "stopped"
    (meet,) = [bar for bar in bars(events, 1, "phases") if bar["name"] == "meet"]
    assert failed["ts"] == pytest.approx(meet["ts"] + meet["dur"], abs=2000), "linked nodes launch together"
    (mark,) = [event for event in events if event["ph"] == "i"]
    assert (mark["pid"], mark["ts"]) == (2, failed["ts"] + failed["dur"])


def test_the_ranks_that_spares_have_taken_are_a_row_of_each_node(capsys, linked):
    """In a job with spares a node is called by the platform's number, and the history says which rank it has had."""
    report = content(linked[0])
    begin, end = report["started"], report["ended"]
    between = f"{datetime.fromisoformat(begin[:-1]) + (datetime.fromisoformat(end[:-1]) - datetime.fromisoformat(begin[:-1])) / 2}"
    between = between.replace(" ", "T")[:23] + "Z"
    nodes = [{**node, "index": index} for index, node in enumerate(report["nodes"])]
    nodes[1] = {"index": 1, "state": "lost", "host": "lost"}
    nodes[2]["node_rank"] = 1
    history = [{"node_rank": 1, "index": 1, "host": "lost", "since": begin, "until": between, "why": "lost"},
               {"node_rank": 1, "index": 2, "host": "spare", "since": between}]
    events = traced(capsys, changed(linked[0], nodes=nodes, history=history, node={**report["node"], "index": 0, "members": 3}))
    assert [name.split(" (")[0] for name in named(events, "process_name")] == ["node 0", "node 1", "node 2"]
    assert ["ranks" in rows(events, process) for process in (1, 2, 3)] == [False, True, True]
    (lost,), (spare,) = bars(events, 2, "ranks"), bars(events, 3, "ranks")
    assert (lost["name"], lost["args"], spare["name"], spare["args"]) == ("node rank 1", {"until": "lost"}, "node rank 1", {})
    assert lost["ts"] + lost["dur"] == spare["ts"]


def test_a_node_that_was_lost_before_the_last_meeting_is_called_by_its_host(capsys, linked):
    report = content(linked[0])
    nodes = [{**node, "index": index} for index, node in enumerate(report["nodes"])]
    nodes[1] = {"index": 1, "state": "missing"}
    history = [{"node_rank": 1, "index": 1, "host": "e", "since": report["started"], "until": report["ended"], "why": "lost"}]
    events = traced(capsys, changed(linked[0], nodes=nodes, history=history, node={**report["node"], "index": 0, "members": 3}))
    assert named(events, "process_name")["node 1 (e)"] == 2
    (label,) = [event["args"]["labels"] for event in events if event["name"] == "process_labels" and event["pid"] == 2]
    assert label == "lost"


def test_a_spare_is_aligned_by_its_launch_and_not_by_its_first_meeting(capsys, linked):
    """It has met before it waited, and a report has the time of both meetings as one."""
    report = content(linked[1])
    phases = {}
    for name, seconds in report["phases"].items():
        if name == "launch":
            phases["spare"] = 50
        phases[name] = seconds
    began = f"{datetime.fromisoformat(report['started'][:-1]) - timedelta(seconds=50)}".replace(" ", "T")[:23] + "Z"
    events = traced(capsys, linked[0], changed(linked[1], phases=phases, started=began), linked[2])
    launches = [bar["ts"] for process in (1, 2) for bar in bars(events, process, "phases") if bar["name"] == "run"]
    assert len(launches) == 2 and abs(launches[0] - launches[1]) < SECOND


def test_the_clocks_of_linked_nodes_are_aligned(capsys, linked):
    """A node whose clock is an hour ahead is where it would be with a right one."""
    right, aligned = traced(capsys, *linked), traced(capsys, linked[0], an_hour_ahead(linked[1]), linked[2])
    strip = [[{**event, "args": 0} for event in events if event["ph"] in "Xi"] for events in (right, aligned)]
    assert strip[0] == strip[1]
    offset = [bars(events, 2, "phases")[0]["args"] for events in (right, aligned)]
    assert offset[1]["clock_offset_seconds"] - offset[0]["clock_offset_seconds"] == pytest.approx(3600)
    assert 0 <= offset[1]["clock_error_seconds"] == pytest.approx(offset[0]["clock_error_seconds"])
    assert abs(offset[0]["clock_offset_seconds"]) <= offset[0]["clock_error_seconds"], "it is the same clock: off by 0"
    assert "clock_offset_seconds" not in bars(aligned, 1, "phases")[0]["args"], "node 0's is the one"


def test_of_two_nodes_that_have_kept_the_roster_the_last_ones_clock_is_the_one(linked):
    """Node 0 was drained an hour before, and node 1 took over from it."""
    new = changed(linked[1], nodes=content(linked[0])["nodes"])
    times = {key: datetime.fromisoformat(content(linked[0])[key][:-1]) - timedelta(hours=1) for key in ("started", "ended")}
    earlier = {key: f"{time}".replace(" ", "T")[:23] + "Z" for key, time in times.items()}
    drained = changed(linked[0], **earlier)
    _, note, offsets = align(read_all([drained, new]))
    assert note.startswith("All times are by node 1's clock") and list(offsets) == [drained]


def test_a_node_0_that_itself_goes_on_late_after_the_meeting_moves_no_clock(rankshim, tmp_path):
    needs_strace()
    late = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=pwritev2", "-e", "inject=pwritev2:delay_exit=200000"]  # each line of its log
    job = Job(rankshim, tmp_path, 2, ["sh", "-c", "[ $RANK = 3 ] && exit 1; exec sleep 1000"], "--link=on", around=late)
    assert job.wait() == [76, 1]
    (offset,) = trace.align(read_all(job.paths))[2].values()
    assert abs(offset["clock_offset_seconds"]) <= offset["clock_error_seconds"], "it is the same clock: off by 0"


def test_no_node_seems_to_stop_before_node_0_said_so(linked):
    hub, failed, stopped = trace.align(read_all(linked))[0]
    assert failed.failed_at <= hub.failed_at <= stopped.failed_at
    assert hub.launched_at - stopped.launched_at <= 2000


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its elements, and the texts by element."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "rect", "line", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if self.open:
            self.texts.append((self.open[-1], data))

    def all(self, tag):
        return [text for kind, text in self.texts if kind == tag]

    def with_class(self, name):
        return [tag for tag, attributes in self.elements if name in attributes.get("class", "").split()]


def page(capsys, *paths):
    assert trace.main(["--html", *paths]) == 0
    return Page(capsys.readouterr().out)


def test_the_page_has_the_verdict_in_words_and_the_time_line_as_a_picture(capsys, linked):
    shown = page(capsys, *linked)
    assert shown.all("p")[0] == "failed, 3 nodes"
    (verdict,) = shown.all("h1")
    assert re.match(r"node 1 \(.*\) failed: rank 3 exited", verdict)
    labels = shown.all("text")
    for rank in range(3):
        assert any(label.startswith(f"node {rank} (") for label in labels)
    assert {f"worker {rank % 2} (rank {rank})" for rank in range(6)} <= set(labels)
    assert {"rect", "circle", "line"} <= {tag for tag, _ in shown.elements}
    assert shown.with_class("mark") in (["g"], ["g"] * 2), "in each picture"
    assert [label for label in labels if label.endswith((" ms", " s"))], "the axis has units"
    assert any(title.startswith("worker 1 (rank 3): exit code 1\n") for title in shown.all("title")), "what the mouse shows"
    assert "Traceback (most recent call last):" in "".join(shown.all("pre"))
    assert shown.all("td")[0] == verdict


def test_a_hostile_message_is_text_and_nothing_is_loaded(capsys, linked):
    shown = page(capsys, *linked)
    assert {tag for tag, _ in shown.elements} == {"html", "head", "meta", "title", "style", "body", "p", "h1", "h2", "div", "svg",
                                                  "g", "rect", "text", "line", "circle", "pre", "table", "tr", "th", "td"}
    for _, attributes in shown.elements:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert "url(" not in "".join(shown.all("style")) and "@import" not in "".join(shown.all("style"))
    (verdict,) = shown.all("h1")
    assert "</text></title><script>alert(1)</script><img src=x onerror=alert(1)>" in verdict and "&lt;b&gt;\"'" in verdict
    assert all(character.isprintable() or character == "\n" for _, text in shown.texts for character in text)


def test_hostile_words_in_every_text_of_a_report_stay_words(capsys, linked):
    def poison(value):
        if isinstance(value, dict):
            kept = ("outcome", "started", "ended", "time")
            return {name: each if name in kept else poison(each) for name, each in value.items()}
        if isinstance(value, list):
            return [poison(each) for each in value]
        return HOSTILE + "\ud800\0" if isinstance(value, str) else value

    report = poison(content(linked[0]))
    report["phases"] = {HOSTILE: 0.5, **report["phases"]}
    paths = [changed(linked[0], **report), linked[1]]
    shown = page(capsys, *paths)
    assert not {"script", "img", "b"} & {tag for tag, _ in shown.elements}
    assert all(character.isprintable() or character == "\n" for _, text in shown.texts for character in text)
    traced(capsys, *paths)


def test_a_job_that_ended_well_has_no_mark(capsys, rankshim, tmp_path):
    job = Job(rankshim, tmp_path, 2, ["sh", "-c", "exit 0"], "--link=on")
    assert job.wait() == [0, 0]
    assert [event for event in traced(capsys, *job.paths) if event["ph"] == "i"] == []
    shown = page(capsys, *job.paths)
    assert shown.all("p")[0] == "succeeded, 2 nodes"
    assert shown.with_class("mark") == []


def test_a_stop_is_marked_as_one(capsys, rankshim, tmp_path):
    job = Job(rankshim, tmp_path, 1, ["sh", "-c", "echo UP; exec sleep 1000"])
    job.nodes[0].wait_line("UP")
    job.nodes[0].signal(signal.SIGTERM)
    assert job.wait() == [143]
    (mark,) = [event for event in traced(capsys, *job.paths) if event["ph"] == "i"]
    assert mark["name"].endswith(") was stopped")
    assert page(capsys, *job.paths).all("p")[0] == "stopped, 1 node"


def test_a_node_that_was_asked_to_stop_is_marked_as_such_whichever_report_tells_it(capsys, rankshim, tmp_path):
    job = Job(rankshim, tmp_path, 2, ["sh", "-c", "echo UP; exec sleep 1000"], "--link=on", workers=1)
    for node in job.nodes:
        node.wait_line("UP")
    job.nodes[1].signal(signal.SIGTERM)
    assert job.wait() == [76, 143]
    for paths, words in ((job.paths[:1], ") was stopped first: SIGTERM"), (job.paths, ") was stopped first")):
        (mark,) = [event for event in traced(capsys, *paths) if event["ph"] == "i"]
        assert mark["pid"] == 2 and mark["name"].startswith("node 1 (") and mark["name"].endswith(words), mark


def test_a_program_is_one_row(capsys, rankshim, tmp_path):
    run([rankshim, f"--report={tmp_path}/report.json", "--", "sh", "-c", "sleep 0.05; exit 3"], clean_environment())
    events = traced(capsys, f"{tmp_path}/report.json")
    assert rows(events, 1) == ["phases", "command"]
    (mark,) = [event for event in events if event["ph"] == "i"]
    (bar,) = bars(events, 1, "command")
    assert (mark["tid"], mark["ts"]) == (bar["tid"], bar["ts"] + bar["dur"])


@pytest.mark.parametrize("options", [["--nonsense"], ["--nnodes=2"]], ids=["refused settings", "an unknown master"])
def test_what_was_never_started_is_a_page_with_its_verdict(capsys, rankshim, tmp_path, options):
    run([rankshim, f"--report={tmp_path}/report.json", *options, "--", "true"], clean_environment())
    report = f"{tmp_path}/report.json"
    shown = page(capsys, report)
    assert shown.all("p")[0] == "not started, 1 node"
    assert shown.all("h1") == [content(report)["verdict"]]
    traced(capsys, report)


def test_the_attempts_of_a_job_follow_each_other_in_a_row(capsys, rankshim, tmp_path):
    job = Job(rankshim, tmp_path, 2, ["sh", "-c", "test $RANK != 2 || exit 3; exec sleep 1000"], "--link=on", "--job-restarts=2")
    assert job.wait() == [76, 3]
    events = traced(capsys, *job.paths)
    for process, code in ((1, 76), (2, 3)):
        assert rows(events, process)[:2] == ["phases", "attempts"]
        attempts = bars(events, process, "attempts")
        assert [bar["name"] for bar in attempts] == [f"attempt 0: exit code {code}", f"attempt 1: exit code {code}", "attempt 2"]
        workers = [bars(events, process, row)[0] for row in rows(events, process)[2:]]
        assert all(worker["ts"] >= attempts[1]["ts"] + attempts[1]["dur"] for worker in workers), "they are those of the last one"
        assert all("restarts" not in worker["args"] for worker in workers)
    (mark,) = [event for event in events if event["ph"] == "i"]
    assert mark["pid"] == 2 and "worker 0 (rank 2), failed first: exit code 3" in mark["name"]


def test_a_large_job_is_a_page_that_can_be_read(capsys, linked):
    report = content(linked[0])
    nodes = [{**report["nodes"][2], "node_rank": rank, "host": f"job-node-{rank}"} for rank in range(2, 4096)]
    path = changed(linked[0], nodes=[*report["nodes"][:2], *nodes])
    shown = page(capsys, path)
    assert shown.all("p")[0] == "failed, 4096 nodes"
    assert ("3946 more nodes are not drawn. The workers of the other nodes are not drawn. The trace (without --html) has all."
            in shown.all("p"))
    assert len(shown.with_class("told")) < 1000
    assert len(named(traced(capsys, path), "process_name")) == 4096


def test_a_report_of_thirty_thousand_workers_costs_seconds(capsys, linked):
    worker = content(linked[0])["workers"][0]
    path = changed(linked[0], workers=[{**worker, "local_rank": rank, "rank": rank} for rank in range(30_000)])
    began = time.process_time()
    assert len(rows(traced(capsys, path), 1)) == 30_001
    assert time.process_time() - began < 20, "it was minutes"


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_torchruns_worker_is_marked_with_its_exception_and_says_that_it_was_restarted(capsys, rankshim, tmp_path):
    (tmp_path / "train.py").write_text("import os, time\nif os.environ['RANK'] == '1': raise ValueError('boom')\ntime.sleep(1000)\n")
    done = run([rankshim, f"--report={tmp_path}/report.json", "--nproc-per-node=2", "--max-restarts=1", "--", f"{tmp_path}/train.py"],
               clean_environment({"OMP_NUM_THREADS": "1"}), timeout=LONGEST)
    assert done.code == 1, done.transcript()
    events = traced(capsys, f"{tmp_path}/report.json")
    assert rows(events, 1) == ["phases", "worker 0 (rank 0)", "worker 1 (rank 1)"]
    assert {"launch", "run"} <= {bar["name"] for bar in bars(events, 1, "phases")}
    (mark,) = [event for event in events if event["ph"] == "i"]
    assert mark["name"].endswith("worker 1 (rank 1), failed first: exit code 1, ValueError: boom")
    (bar,) = bars(events, 1, "worker 1 (rank 1)")
    assert bar["args"]["restarts"].startswith("1;")


@pytest.mark.parametrize(("time", "text"), [(0, "0 ms"), (12_000, "12 ms"), (1_500, "1.5 ms"), (999_900, "999.9 ms"),
                                            (1_009_000, "1.009 s"), (72 * SECOND, "1 min 12 s"), (7380 * SECOND, "2 h 3 min"),
                                            (360_000 * SECOND, "4 d 4 h")])
def test_a_duration_is_in_units_that_a_person_reads(time, text):
    assert duration(time) == text
