"""rankshim-review collect: who failed first, by reports that the real binary has written."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal

import pytest
from rankshim_review import collect, trace
from review.jobs import Job, an_hour_ahead, changed, content

# Node 0 fails when node 1 has written what it says before its end; so each failure has its place.
FAILS_AFTER_NODE_1 = "if [ $NODE_RANK = 1 ]; then exec 9>ended; exit 3; fi; while [ ! -e node-1.json ]; do sleep 0.01; done; exit 4"
APART = ("--link=off", "--wait=none")


def collected(capsys, *arguments):
    """The exit code, and the lines on stdout."""
    code = collect.main(list(arguments))
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture(scope="module")
def two_failures(rankshim, tmp_path_factory):
    job = Job(rankshim, tmp_path_factory.mktemp("job"), 2, ["sh", "-c", FAILS_AFTER_NODE_1], *APART, workers=1)
    assert job.wait() == [4, 3]
    return job.paths


@pytest.fixture(scope="module")
def one_failure(rankshim, tmp_path_factory):
    """Node 1 of 3 fails by itself, and node 0 as one whose peer is gone; node 2 succeeds."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text("import os, pathlib, time\n"
                                     "rank = int(os.environ['RANK'])\n"
                                     "at = '[gloo/transport/tcp/pair.cc:538]'\n"
                                     "if rank == 0: raise RuntimeError(f'{at} Connection closed by peer [127.0.0.1]:4711')\n"
                                     "while rank == 1 and not pathlib.Path('node-0.json').exists(): time.sleep(0.01)\n"
                                     "if rank == 1: raise ValueError('loss is nan')\n")
    job = Job(rankshim, folder, 3, ["train.py"], *APART, workers=1)
    assert job.wait() == [1, 1, 0]
    return job.paths


def test_the_node_that_failed_first_is_the_first_line_and_its_code_the_exit_code(capsys, two_failures):
    code, lines = collected(capsys, *two_failures, "--clock-error=0")
    assert code == 3
    assert len(lines) == 2
    first = content(two_failures[1])
    assert lines[0] == (f"node 1 ({os.uname().nodename}) failed first, at {first['root_cause']['time']}, "
                        f"with exit code 3: {first['verdict']}")
    assert lines[1].startswith(f"node 0 ({os.uname().nodename}) failed ") and " later, with exit code 4: " in lines[1]


def test_failures_that_are_closer_than_the_clocks_can_be_trusted_have_no_order(capsys, two_failures):
    code, lines = collected(capsys, *two_failures, "--clock-error=60")
    assert code == 3
    host = os.uname().nodename
    assert lines[2:] == [f"The order of node 1 ({host}) and node 0 ({host}) is not certain: each failed within 120 s of the "
                         "next, and each clock may be wrong by 60 s (--clock-error)."]
    assert json.loads(collected(capsys, *two_failures, "--clock-error=60", "--format=json")[1][0])["not_ordered"] == [two_failures[::-1]]


def test_a_node_that_lost_its_peer_is_not_the_first_if_the_clocks_leave_that_open(capsys, one_failure):
    assert content(one_failure[0])["root_cause"]["lost_peer"], "the binary sees that a peer was lost"
    code, lines = collected(capsys, *one_failure, "--clock-error=60")
    assert code == 1
    assert [line.split(" (")[0] for line in lines] == ["node 1", "node 0", "node 2"], "what is a consequence has its order"
    assert " failed first, at " in lines[0] and "loss is nan" in lines[0]
    assert " earlier by its own clock, as a consequence, with exit code 1" in lines[1]
    assert " succeeded: " in lines[2]


def test_a_node_that_lost_its_peer_long_before_any_failure_is_first_and_its_cause_is_elsewhere(capsys, one_failure):
    code, lines = collected(capsys, *one_failure, "--clock-error=0")
    assert lines[0].startswith("node 0 ") and code == 1
    assert lines[-1] == ("The first failure is a consequence of another node's, by its own report. "
                         "The report of that node is not here.")


def test_the_json_has_the_first_node_and_all_others(capsys, one_failure):
    code, lines = collected(capsys, *one_failure, "--clock-error=60", "--format=json")
    (line,) = lines
    document = json.loads(line)
    assert document["exit_code"] == code == 1
    assert document["first"] == document["nodes"][0]
    assert document["first"]["verdict"] == content(one_failure[1])["verdict"]
    assert [(node["node_rank"], node["outcome"], node["consequence"]) for node in document["nodes"]] == [
        (1, "failed", False), (0, "failed", True), (2, "succeeded", False)]
    assert (document["missing"], document["not_ordered"], document["clock_error_seconds"]) == (0, [], 60)


def test_a_node_without_a_report_is_named_because_it_may_have_failed_first(capsys, one_failure):
    assert collected(capsys, one_failure[1])[1][-1] == (
        "There is no report of nodes 0, 2. A node that was killed with its rankshim leaves none, and may have failed first.")
    node = content(one_failure[1])["node"]
    many = changed(one_failure[1], node={**node, "nnodes": "999999999"})
    assert "nodes 0, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 999999988 more" in collected(capsys, many)[1][-1]


def test_reports_of_different_jobs_are_told_apart(capsys, one_failure, two_failures):
    other = changed(two_failures[0], node={**content(two_failures[0])["node"], "run_id": "another"})
    assert collected(capsys, *one_failure[1:], other)[1][-1] == "The reports are of different jobs: their run ids are another and rankshim."


def test_a_job_that_ended_well_is_zero(capsys, one_failure):
    code, lines = collected(capsys, one_failure[2])
    assert (code, lines[0].split(": ")[0]) == (0, f"node 2 ({os.uname().nodename}) succeeded")


def test_a_stopped_node_is_said_to_be_stopped(capsys, rankshim, tmp_path):
    job = Job(rankshim, tmp_path, 1, ["sh", "-c", "echo UP; exec sleep 1000"], workers=1)
    job.nodes[0].wait_line("UP")
    job.nodes[0].signal(signal.SIGTERM)
    assert job.wait() == [143]
    code, lines = collected(capsys, *job.paths)
    assert code == 143 and " was stopped first, at " in lines[0]


VICTIM = "raise RuntimeError('[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete')"
# What rank 1 of 3 does, and how node 1's rankshim ends.
CULPRITS = {
    "fails": ("time.sleep(0.2); raise ValueError('boom')", "time.sleep(1000)", 1),
    "hangs": ("time.sleep(1000)", VICTIM, 124),
    "exits early": ("raise SystemExit", f"time.sleep(0.5); {VICTIM}", 76),
}


@pytest.fixture(scope="module", params=CULPRITS)
def linked(request, rankshim, tmp_path_factory):
    """Three linked nodes, whose node 1 is to blame, and has a clock that is an hour ahead."""
    folder = tmp_path_factory.mktemp("job")
    culprit, others, code = CULPRITS[request.param]
    (folder / "train.py").write_text(f"import os, time\nif os.environ['RANK'] == '1': {culprit}\nelse: {others}\n")
    job = Job(rankshim, folder, 3, ["train.py"], "--link=on", workers=1)
    assert job.wait() == [76, code, 76]
    return [job.paths[0], an_hour_ahead(job.paths[1]), job.paths[2]]


def without_stacks(lines):
    """The lines without where the ranks were when the job hung, which node 0's report has."""
    title = "Where the ranks were when the job hung:"
    if title not in lines:
        return lines
    start = lines.index(title)
    end = next(at for at, line in enumerate(lines) if line.startswith(("All times are", "There is no report")))
    return lines[:start] + lines[end:]


def test_the_node_that_linked_nodes_blame_is_the_first_whatever_its_clock_says(capsys, linked):
    code, lines = collected(capsys, *linked[::-1])
    first = content(linked[1])
    assert code == first["exit_code"]
    assert lines[0].startswith(f"node 1 ({os.uname().nodename}) failed first, at {content(linked[0])['ended'][:11]}")
    assert lines[0].endswith(f"with exit code {code}: {first['verdict']}")
    assert sorted(line.split(" (")[0] for line in lines[1:3]) == ["node 0", "node 2"]
    for line in lines[1:3]:
        assert re.search(r" failed [\d.]+ m?s (later|earlier by its own clock), as a consequence, with exit code 76: ", line), line
    assert without_stacks(lines)[3:] == ["All times are by node 0's clock."]


@pytest.mark.parametrize("here", [(0, 2), (2,)])
def test_a_node_that_linked_nodes_blame_is_the_first_where_it_left_no_report(capsys, linked, here):
    code, lines = collected(capsys, *(linked[rank] for rank in here))
    host, cause = os.uname().nodename, content(linked[2])["root_cause"]
    assert code == cause.get("exit_code", 76)
    assert lines[0] == f"node 1 ({host}) failed first; its report is not here, and the other nodes say of it: {cause['reason']}"
    assert [line.split(" (")[0] for line in lines[1:1 + len(here)]] in ([f"node {rank}" for rank in order] for order in (here, here[::-1]))
    missing = "There is no report of node 1." if len(here) == 2 else "There is no report of nodes 0, 1."
    assert without_stacks(lines)[1 + len(here)] == missing
    document = json.loads(collected(capsys, *(linked[rank] for rank in here), "--format=json")[1][0])
    assert document["first"] == {"report": None, "host": host, "node_rank": 1, "outcome": "failed", "exit_code": cause.get("exit_code"),
                                 "verdict": cause["reason"], "time": None, "consequence": False}
    assert (document["exit_code"], document["not_ordered"]) == (code, [])


LONG = "9" * 5000
WRONG = [
    ("", "it is not JSON: Expecting value"),
    ("\udcff", "it is not JSON: 'utf-8' codec can't decode byte 0xff"),
    ('{"version": 1, "rankshim"', "it is not JSON: Expecting ':' delimiter"),
    ("[" * 100_000, "it is nested too deep"),
    ('{"version": ' + LONG + "}", "it is not JSON: Exceeds the limit"),
    ("[]", "the document must be an object, and is a list"),
    ("{}", "version is missing"),
    ('{"version": "1"}', 'version must be a whole number from 0 to 4294967296, and is "1"'),
    ('{"version": true}', "version must be a whole number from 0 to 4294967296, and is true"),
    ('{"version": 2}', "its version is 2, and this program knows version 1"),
    ({"outcome": "won"}, 'outcome must be one of succeeded, failed, stopped, not started, and is "won"'),
    ({"outcome": ["failed"]}, "outcome must be one of succeeded, failed, stopped, not started, and is a list"),
    ({"exit_code": 256}, "exit_code must be a whole number from 0 to 255, and is 256"),
    ({"exit_code": 1e999}, "exit_code must be a whole number from 0 to 255, and is Infinity"),
    ({"verdict": {"a": 1}}, "verdict must be a text, and is an object"),
    ({"node": None}, "node must be an object, and is null"),
    ({"node": {"host": 3}}, "node.host must be a text, and is 3"),
    ({"ended": "yesterday"}, 'ended must be a time such as 2026-11-25T17:50:28.380Z, and is "yesterday"'),
    ({"ended": "9999-12-31T23:59:59.999Z"}, "ended must be a time such as"),
    ({"started": "2199-11-25T17:50:28.380Z"}, "it ended before it started"),
    ({"phases": {"run": float("nan")}}, "phases.run must be a number of seconds, and is NaN"),
    ({"phases": {"run": -1}}, "phases.run must be a number of seconds, and is -1"),
    ({"phases": {"run": 10**40}}, "phases.run must be a number of seconds, and is 1000000000"),
    ({"phases": []}, "phases must be an object, and is a list"),
    ({"workers": {}}, "workers must be a list, and is an object"),
    ({"workers": [1]}, "workers.0 must be an object, and is 1"),
    ({"workers": [{"local_rank": -1}]}, "workers.0.local_rank must be a whole number from 0 to 4294967296, and is -1"),
    ({"root_cause": "x" * 100}, 'root_cause must be an object, and is "xxxxxxxx'),
    ({"root_cause": {"who": "worker", "traceback": "line"}}, 'root_cause.traceback must be a list of texts, and is "line"'),
    ({"nodes": [{"node_rank": 0, "state": "done"}, {"node_rank": "\u202e"}]},
     'nodes.1.node_rank must be a whole number from 0 to 4294967296, and is "\\u202e"'),
]


@pytest.mark.parametrize("main", [collect.main, trace.main], ids=["collect", "trace"])
@pytest.mark.parametrize(("wrong", "why"), WRONG, ids=[why[:50] for _, why in WRONG])
def test_a_file_that_is_no_report_is_one_line_with_its_name_and_what_is_wrong(capsys, two_failures, tmp_path, main, wrong, why):
    path = changed(two_failures[0], **wrong) if isinstance(wrong, dict) else str(tmp_path / "wrong.json")
    if isinstance(wrong, str):
        pathlib.Path(path).write_bytes(wrong.encode(errors="surrogateescape"))
    assert main([two_failures[1], path]) == 65
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"rankshim-review: error: {path} is not a report of rankshim: {why}")
    assert captured.err.count("\n") == 1 and len(captured.err) < 400


@pytest.mark.parametrize("main", [collect.main, trace.main], ids=["collect", "trace"])
def test_a_file_that_cannot_be_read_is_one_line(capsys, tmp_path, main):
    assert main([str(tmp_path)]) == 65
    assert capsys.readouterr().err == f"rankshim-review: error: {tmp_path}: Is a directory\n"
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert main([str(large)]) == 65
    assert capsys.readouterr().err == f"rankshim-review: error: {large} is not a report of rankshim: it is larger than 64 MiB\n"


@pytest.mark.parametrize("main", [collect.main, trace.main], ids=["collect", "trace"])
@pytest.mark.parametrize("arguments", [[], ["--nonsense", "file"]])
def test_wrong_usage_is_one_line_and_64(capsys, main, arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("error", ["x", "-1", "nan", "inf", "1e9"])
def test_a_clock_error_that_is_no_time_is_64(capsys, two_failures, error):
    with pytest.raises(SystemExit) as end:
        collect.main([f"--clock-error={error}", *two_failures])
    assert end.value.code == 64
    assert f"'{error}' is not a number of seconds from 0 to 86400" in capsys.readouterr().err


HANG = {
    "kind": "missing", "seconds": 2.5, "missing": "1", "waiting": "0,2-3", "place": {}, "waits_at": {},
    "groups": [{"ranks": "1", "pid": 7, "state": "S", "stack": [{"file": "/app/train.py", "line": 16, "function": "load\u202e"}]},
               {"ranks": "0,2-3", "pid": 8, "state": "S", "stack": []}],
    "waits": [{"ranks": "0,2-3", "for": "1", "group": "default_pg", "number": 21, "operation": "all_reduce"}],
}
STACKS = ["rank 1", "    load\N{REPLACEMENT CHARACTER} (/app/train.py:16)", "ranks 0 and 2-3", "    its stack could not be read",
          "ranks 0 and 2-3 waited for rank 1 in all_reduce, number 21 of default_pg"]


def test_of_a_job_that_hung_the_stacks_of_all_ranks_follow(capsys, two_failures):
    code, lines = collected(capsys, changed(two_failures[1], hang=HANG))
    assert code == 3
    start = lines.index("Where the ranks were when the job hung:")
    assert lines[start + 1:start + 1 + len(STACKS)] == STACKS


def test_a_trace_shows_how_long_a_job_hung(capsys, two_failures):
    path = changed(two_failures[1], hang=HANG)
    assert trace.main([path]) == 0
    events = json.loads(capsys.readouterr().out)["traceEvents"]
    hang = next(event for event in events if event["name"] == "hang: rank 1 missing, ranks 0 and 2-3 waited")
    assert hang["ph"] == "X" and hang["dur"] > 0
    assert hang["args"] == {"missing": "1", "waiting": "0,2-3", "stacks": "\n".join(STACKS)}
    assert trace.main([path, "--html"]) == 0
    page = capsys.readouterr().out
    assert "Where the ranks were when the job hung" in page and "/app/train.py:16" in page


@pytest.mark.parametrize("wrong", ["x", {}, {**HANG, "seconds": -1}, {**HANG, "groups": [{"ranks": 1}]}, {**HANG, "waits": 1}],
                         ids=["a text", "empty", "seconds", "groups", "waits"])
def test_a_hang_of_another_form_is_an_error(capsys, two_failures, wrong):
    assert collect.main([changed(two_failures[1], hang=wrong)]) == 65
    assert "hang" in capsys.readouterr().err
