"""The report, the termination log, the status and the JSON log, with plain programs."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from lib.events import until
from lib.process import Process, children, clean_environment, run
from lib.requirements import cannot
from lib.torch_stand_in import make_torch_stand_in
from report.conftest import JOB, answers, read_report, status, wait_channel


def test_a_programs_end_is_in_the_report_and_success_leaves_the_termination_log_empty(shim, tmp_path):
    log = tmp_path / "log"
    report = tmp_path / "report.json"
    options = [f"--report={report}", f"--termination-log={log}"]
    assert shim(*options, "--", "true").code == 0
    assert read_report(report)["outcome"] == "succeeded" and read_report(report)["root_cause"] is None
    assert not log.exists()
    assert shim(*options, "--", "sh", "-c", "exit 3").code == 3
    assert read_report(report)["outcome"] == "failed"
    assert read_report(report)["root_cause"]["who"] == "program" and read_report(report)["root_cause"]["exit_code"] == 3
    assert not log.exists(), "it is for what the log's own end does not say"
    assert shim(*options, "--", "sh", "-c", "kill -9 $$").code == 137
    assert log.read_text().startswith("sh was killed by SIGKILL after ")
    assert sorted(os.listdir(tmp_path)) == ["log", "report.json"]


def test_a_report_that_cannot_be_written_is_warned_about_before_the_verdict(shim, tmp_path):
    done = shim(f"--report={tmp_path}/none/report.json", f"--termination-log={tmp_path}/none/log", "--", "sh", "-c", "kill -9 $$")
    assert done.code == 137
    lines = done.stderr.splitlines()
    assert "the termination log" in lines[-3] and "the report cannot be written" in lines[-2]
    assert "sh was killed by SIGKILL" in lines[-1]
    done = shim(f"--report={tmp_path}/none/report.json", "--no-such-option", "--", "true")
    assert "the report cannot be written" in done.stderr and "--no-such-option" in done.stderr.splitlines()[-1]


def test_what_could_not_be_started_is_reported_too(shim, tmp_path):
    log = tmp_path / "log"
    report = tmp_path / "report.json"
    options = [f"--report={report}", f"--termination-log={log}"]
    assert shim(*options, "--", "train.py", env={"WORLD_SIZE": "3", "MASTER_ADDR": "x"}).code == 78
    assert read_report(report)["outcome"] == "not started"
    assert "NODE_RANK" in read_report(report)["verdict"] and "NODE_RANK" in log.read_text()
    assert shim(*options, "--", "no-such-program").code == 127
    assert "no-such-program was not found" in log.read_text()
    assert read_report(report)["outcome"] == "not started" and "workers" not in read_report(report)


def test_settings_that_cannot_be_used_leave_a_report_and_a_termination_log_too(shim, tmp_path):
    log = tmp_path / "log"
    report = tmp_path / "report.json"
    options = [f"--report={report}", f"--termination-log={log}", "--log-format=json", "--exit-map=config=9", "--", "true"]
    done = shim(*options, env={"RANKSHIM_GRACE": "5 sec"})
    assert done.code == 9
    assert "RANKSHIM_GRACE='5 sec'" in json.loads(done.stderr)["message"]
    assert read_report(report)["outcome"] == "not started" and read_report(report)["exit_code"] == 9
    assert "RANKSHIM_GRACE='5 sec'" in log.read_text()
    assert shim(f"--termination-log={log}", "--no-such-option", "--", "true").code == 64
    assert "unknown option --no-such-option" in log.read_text()


def test_a_report_is_written_in_place_where_it_cannot_be_replaced(rankshim, tmp_path, namespaces):
    if namespaces:
        cannot(namespaces)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("old" * 1000)
    target.touch()
    script = 'mount --bind "$1" "$2"; "$3" --report "$2" -- sh -c "exit 3"'
    done = run(["unshare", "--mount", "sh", "-c", script, "sh", source, target, rankshim], clean_environment())
    assert done.code == 3 and "cannot be written" not in done.stderr
    assert read_report(source)["exit_code"] == 3


def test_a_report_that_cannot_be_written_is_a_warning(shim):
    done = shim("--report=/proc/no/report", "--termination-log=/proc/no/log", "--", "sh", "-c", "kill -9 $$")
    assert done.code == 137
    assert done.stderr.count("cannot be written") == 2


def test_a_report_goes_into_pipes(shim, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        assert shim(f"--report={pipe}", "--", "true").code == 0
        assert json.loads(reader.read())["outcome"] == "succeeded"
    assert pipe.is_fifo()


@pytest.mark.attack
def test_a_link_is_never_followed_a_report_takes_its_place(shim, tmp_path):
    target, link = tmp_path / "precious", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    assert shim(f"--termination-log={link}", "--", "sh", "-c", "kill -9 $$").code == 137
    assert link.is_symlink() and target.read_text() == "precious"
    done = shim(f"--report={link}", "--", "sh", "-c", "kill -9 $$")
    assert (done.code, target.read_text()) == (137, "precious")
    assert not link.is_symlink() and read_report(link)["exit_code"] == 137


@pytest.mark.attack
def test_a_report_has_the_mode_and_owner_of_the_old_one_else_what_the_umask_leaves(rankshim, tmp_path):
    report = tmp_path / "report"
    command = f"umask 027; exec '{rankshim}' --report={report} -- true"
    assert subprocess.run(["sh", "-c", command], env=clean_environment(), check=False).returncode == 0
    assert report.stat().st_mode & 0o777 == 0o640
    report.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(report, 1234, 1235)
    before = report.stat()
    assert subprocess.run(["sh", "-c", command], env=clean_environment(), check=False).returncode == 0
    after = report.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_a_report_to_stdout_follows_the_commands_output(rankshim, tmp_path):
    with (tmp_path / "out").open("w+") as out:
        subprocess.run([rankshim, "--report=/dev/stdout", "--", "echo", "output"], stdout=out, env=clean_environment(), check=True)
        out.seek(0)
        first, report = out.read().splitlines()
    assert first == "output" and json.loads(report)["exit_code"] == 0


def test_the_termination_message_to_stdout_follows_the_commands_output(rankshim, tmp_path):
    with (tmp_path / "out").open("w+") as out:
        code = subprocess.run([rankshim, "--termination-log=/dev/stdout", "--", "sh", "-c", "echo output; kill -9 $$"], stdout=out,
                              env=clean_environment()).returncode
        out.seek(0)
        lines = out.read().splitlines()
    assert code == 137
    assert lines[0] == "output" and lines[1].startswith("sh was killed by SIGKILL") and len(lines) == 3


def test_a_report_reaches_a_socket(rankshim):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run([rankshim, "--report=/dev/stdout", "--", "true"], stdout=theirs, env=clean_environment(), check=True)
        theirs.close()
        assert json.loads(ours.makefile().read())["exit_code"] == 0


def test_a_report_reaches_a_shells_pipe(rankshim, tmp_path):
    script = f'"$0" --report=>(cat >{tmp_path}/got) -- true; wait $!'
    subprocess.run(["bash", "-c", script, rankshim], env=clean_environment(), check=True, timeout=60)
    assert read_report(tmp_path / "got")["exit_code"] == 0


def test_of_two_secrets_the_longer_is_taken_out_whole(shim, tmp_path):
    report = tmp_path / "report.json"
    # As torch's own record() writes it, which rankshim names in the agent's environment.
    fail = ("import json, os; json.dump({'message': {'message': 'no login for ' + os.environ['B_SECRET']}}, "
            "open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w')); raise SystemExit(1)")
    worker = tmp_path / "worker.py"
    worker.touch()
    make_torch_stand_in(tmp_path, fail)
    done = shim(f"--python={sys.executable}", f"--report={report}", "--", str(worker),
                env={"PYTHONPATH": str(tmp_path), "A_TOKEN": "abcdef", "B_SECRET": "abcdef-more"})
    assert done.code == 1
    assert "no login for [redacted]" in done.stderr and "more" not in report.read_text()


@pytest.mark.attack
@pytest.mark.parametrize("options", [[], ["--log-dir=logs", "--no-record"]], ids=["", "no folder of rankshim's"])
def test_an_exception_is_reported_whatever_the_time_of_its_file(shim, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    error, report, worker = tmp_path / "error.json", tmp_path / "report.json", tmp_path / "worker.py"
    worker.touch()
    error.write_text('{"message": {"message": "of an earlier run"}}')
    write = ("import json, os; path = os.environ['TORCHELASTIC_ERROR_FILE']; "
             "json.dump({'message': {'message': 'of this run'}}, open(path, 'w')); os.utime(path, (0, 0)); ")
    for script, told_of in [(write, True), ("", False)]:
        make_torch_stand_in(tmp_path, script + "raise SystemExit(1)")
        done = shim(f"--python={sys.executable}", f"--report={report}", *options, "--", str(worker),
                    env={"PYTHONPATH": str(tmp_path), "TORCHELASTIC_ERROR_FILE": str(error)})
        assert ("of this run" in done.stderr) == told_of
        assert "of an earlier run" not in done.stderr


def test_while_it_stops_the_termination_log_has_a_provisional_line(start, tmp_path):
    log = tmp_path / "log"
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"trap 'echo STOPPING; read word <{go}; exit 0' TERM; echo READY; while :; do sleep 1000 & wait $!; done"
    program = start(f"--termination-log={log}", "--", "bash", "-c", script)
    program.wait_line("READY")
    program.signal(signal.SIGTERM)
    program.wait_line("STOPPING")
    until(lambda: log.exists() and "SIGTERM came" in log.read_text(), "the provisional word")
    go.write_text("on\n")
    assert program.wait() == 0
    assert log.read_text() == ""


def test_status_shows_the_phase_and_serves_probes(shim, start, tmp_path):
    assert status(shim, tmp_path)[0] == 1
    program = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    answer = answers(shim, tmp_path)
    assert answer["phase"] == "run" and answer["failed"] is False
    assert answer["pid"] == program.pid and answer["workers"] == []
    assert status(shim, tmp_path)[0] == 0
    program.signal(signal.SIGTERM)
    program.wait()
    assert status(shim, tmp_path)[0] == 1
    assert os.listdir(tmp_path) == []


def test_status_shows_what_is_waited_for_and_counts_as_well(shim, start, tmp_path):
    job = {**JOB, "NODE_RANK": "1", "MASTER_ADDR": "no-such-master.invalid"}
    program = start(f"--run-dir={tmp_path}", "--wait=port", "--", "true", env=job)
    answer = answers(shim, tmp_path)
    assert (answer["phase"], answer["waiting_for"]) == ("wait", "no-such-master.invalid:29511 to answer")
    assert (answer["nnodes"], answer["node_rank"], answer["master"]) == ("2", 1, "no-such-master.invalid:29511")
    assert answer["platform"] == "generic"
    assert status(shim, tmp_path)[0] == 0
    program.signal(signal.SIGTERM)
    assert program.wait() == 143


def sockets(folder):
    """Those that answer with the status."""
    return [name for name in os.listdir(folder) if name.endswith(".sock")]


def test_the_first_instance_answers_and_a_killed_ones_socket_harms_nothing(shim, start, tmp_path):
    first = start(f"--run-dir={tmp_path}", "--", "setpriv", "--pdeathsig=KILL", "sleep", "1000", env=JOB)
    answers(shim, tmp_path)
    second = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    until(lambda: len(sockets(tmp_path)) == 2, "the other socket")
    oldest = min(first.pid, second.pid)  # the numbers begin anew at some time
    assert status(shim, tmp_path)[1]["pid"] == oldest
    second.signal(signal.SIGTERM)
    second.wait()
    assert status(shim, tmp_path)[1]["pid"] == first.pid
    first.signal(signal.SIGKILL)
    first.wait()
    third = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    assert until(lambda: status(shim, tmp_path)[1].get("pid"), "an answer") == third.pid
    names = {f"rankshim-{os.stat('/proc/self/ns/pid').st_ino}-{one.pid}.sock" for one in (first, third)}
    assert set(sockets(tmp_path)) == names, "that of the killed one stays"


def test_within_two_instances_the_nearest_answers(rankshim, tmp_path):
    folder = f"--run-dir={tmp_path}"
    ask = f'echo $PPID; until [ $(ls {tmp_path}/*.sock | wc -l) = 2 ]; do sleep 0.01; done; until "$0" status {folder}; do :; done'
    done = run([rankshim, folder, "--", rankshim, folder, "--", "sh", "-c", ask, rankshim], clean_environment())
    parent, answer = done.stdout.splitlines()
    assert json.loads(answer)["pid"] == int(parent)


# It becomes a shell whose pid is that of an instance that was killed, of which the socket is left.
TAKES_A_PID = """\
import os, socket, sys
left = socket.socket(socket.AF_UNIX)
left.bind(f"{sys.argv[1]}/rankshim-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}.sock")
left.listen()
left.close()
os.execvp("sh", ["sh", "-c", 'until "$0" status "--run-dir=$1"; do :; done', *sys.argv[2:0:-1]])
"""


def test_the_socket_of_a_killed_instance_hides_no_status_from_a_process_that_has_its_pid(start, rankshim, tmp_path):
    process = start(f"--run-dir={tmp_path}", "--", sys.executable, "-c", TAKES_A_PID, str(tmp_path), rankshim)
    assert process.wait() == 0, process.transcript()
    assert json.loads(process.stdout)["pid"] == process.pid


def test_a_status_command_that_waits_for_a_stopped_instance_can_be_ended(start, shim, tmp_path):
    program = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    answers(shim, tmp_path)
    place = str(tmp_path / sockets(tmp_path)[0])
    program.signal(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        asking = 0
        with contextlib.suppress(BlockingIOError):  # until the queue is full
            while asking < 100:
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(place)
                asking += 1
        assert 0 < asking < 100
        waits = start("status", f"--run-dir={tmp_path}")
        until(lambda: "unix_wait" in wait_channel(waits.pid), "it waits to be taken")
        waits.signal(signal.SIGTERM)
        assert waits.wait() == 143


def test_under_cgroup_v1_a_program_that_outlived_its_childs_kill_and_is_killed_later_is_not_out_of_memory(rankshim, memory_group, tmp_path):
    outlives = ("import glob, signal, subprocess, sys, time\n"
                "while not glob.glob(sys.argv[1] + '/*.sock'): time.sleep(0.01)\n"  # then rankshim follows the counters
                "print(subprocess.run([sys.executable, '-c', 'bytearray(1 << 30)']).returncode, flush=True)\n"
                "signal.pause()\n")
    inside = ["sh", "-c", f'echo $$ >{memory_group}/cgroup.procs; exec "$@"', "sh", rankshim, "--log-level=debug", f"--run-dir={tmp_path}"]
    report = tmp_path / "report.json"
    with Process([*inside, f"--report={report}", "--", sys.executable, "-c", outlives, tmp_path], clean_environment()) as program:
        program.wait_line("^-9$")
        program.wait_line("the others keep running")
        (command,) = children(program.pid)
        os.kill(command, signal.SIGKILL)
        assert program.wait() == 137
    found = json.loads(report.read_text())
    assert (found["memory"]["oom_kills"], found["root_cause"]["out_of_memory"]) == (1, False)


def test_two_jobs_on_one_machine_each_have_their_own_status(start, rankshim):
    tell = 'until "$0" status; do :; done; echo asked; sleep 1000'
    programs = [start("--", "sh", "-c", tell, rankshim) for _ in range(2)]
    for program in programs:
        program.wait_line("asked")
        assert f'"pid":{program.pid},' in program.stdout, program.transcript()


def test_two_slurm_jobs_in_one_cgroup_do_not_answer_for_each_other(start, shim):
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        cannot("this PID namespace is not the machine's")
    job = start("--platform=none", "--", "sh", "-c", "echo started; sleep 1000", env={"SLURM_JOB_ID": "1"})
    job.wait_line("started")
    for other in ({"SLURM_JOB_ID": "2"}, {}):
        done = shim("status", env=other)
        assert f'"pid":{job.pid},' not in done.stdout
    done = shim("status", env={"SLURM_JOB_ID": "1"})
    assert (done.code, f'"pid":{job.pid},' in done.stdout) == (0, True), done.stderr


def test_a_stranger_on_the_machine_does_not_get_a_jobs_status(rankshim):
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        cannot("this PID namespace is not the machine's")
    if os.geteuid() != 0:
        cannot("needs root for cgroup namespaces")
    # The tests' own cgroup is the job's too: in a namespace it is the root, which says nothing.
    alone = ["unshare", "--cgroup", "setsid", "--wait", rankshim]
    tell = 'until "$0" status; do :; done; echo asked; sleep 1000'
    with Process([*alone, "--", "sh", "-c", tell, rankshim], clean_environment()) as program:
        program.wait_line("asked")
        done = run([*alone, "status"], clean_environment())
    assert (done.code, done.stdout) == (1, "") and "no rankshim of this container or job answers" in done.stderr


@pytest.mark.alone
def test_sockets_that_another_user_has_planted_are_not_asked(shim, start, tmp_path):
    if os.geteuid() != 0:
        cannot("needs root to be another user")
    tmp_path.chmod(0o777)
    plant = """
import os, socket, sys
os.setuid(65534)
planted = []
for number in range(20):
    one = socket.socket(socket.AF_UNIX)
    one.bind(sys.argv[1].replace(".sock", f"-{number}.sock"))
    one.listen(0)
    planted.append(one)
    for client in range(2):  # its queue is full: who asks would wait
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        client.connect_ex(one.getsockname())
        planted.append(client)
print("planted", flush=True)
sys.stdin.read()
"""
    job = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    answers(shim, tmp_path)
    stranger = subprocess.Popen(
        [sys.executable, "-c", plant, sockets(tmp_path)[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )  # its own folder is the one that another user can reach
    with stranger:
        assert stranger.stdout.readline() == b"planted\n"
        begin = time.monotonic()
        assert status(shim, tmp_path)[1]["pid"] == job.pid
        assert time.monotonic() - begin < 4, "one full queue takes 5 s"
        stranger.stdin.close()


def test_a_plain_program_on_a_node_alone_has_a_status_from_its_first_moment(shim, start, tmp_path):
    program = start(f"--run-dir={tmp_path}", "--", "sleep", "1000")
    code, answer = status(shim, tmp_path)  # as a liveness probe: once
    assert (code, answer["phase"], answer["pid"]) == (0, "run", program.pid)


def test_what_is_held_has_a_status_however_early_it_failed(shim, start, tmp_path):
    for options, env in [(["--", "true"], {"NNODES": "x"}), (["--", "false"], {})]:
        log = tmp_path / "log"
        program = start(f"--run-dir={tmp_path}", f"--termination-log={log}", "--hold-on-failure=30m", *options, env=env)
        program.wait_line("the container is kept")
        code, answer = status(shim, tmp_path)
        assert (code, answer["phase"], answer["failed"]) == (1, "held", True)
        program.signal(signal.SIGTERM)
        program.wait()


def test_a_run_dir_is_the_only_place(shim, start, tmp_path):
    missing = tmp_path / "missing"
    program = start(f"--run-dir={missing}", "--", "sleep", "1000", env={"TMPDIR": str(tmp_path)})
    program.wait_line(f"cannot create a socket in {missing} ")
    assert os.listdir(tmp_path) == []
    start("--", "sleep", "1000", env={"TMPDIR": str(tmp_path)})
    assert shim("status", f"--run-dir={missing}").code == 1


@pytest.mark.attack
def test_two_containers_that_share_a_run_folder_both_have_a_status(shim, start, rankshim, tmp_path):
    if os.geteuid() != 0:
        cannot("only root can have a PID namespace here")
    first = start(f"--run-dir={tmp_path}", "--", "sleep", "1000")
    assert answers(shim, tmp_path)["pid"] == first.pid
    script = f"until '{rankshim}' status --run-dir={tmp_path}; do :; done; read line"
    second = Process(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", rankshim, f"--run-dir={tmp_path}",
                      "--", "sh", "-c", script], clean_environment())
    try:
        assert json.loads(second.wait_line("^{", stream="stdout").text)["pid"] == 1
        assert status(shim, tmp_path)[1]["pid"] == first.pid
    finally:
        second.kill()


@pytest.mark.attack
@pytest.mark.parametrize("answer, code", [
    (b'{"phase":"run","failed":false}', 0),
    (b'{"phase":"run","failed":false}\x1b]0;title\x07', 1),
    (b'{"failed":false,"x":"' + bytes(300_000) + b'"}', 1),
    (b"[]", 1),
])
def test_only_an_object_of_bounded_size_is_an_answer(rankshim, tmp_path, answer, code):
    done = asked_of(rankshim, tmp_path, answer)
    assert (done.code, done.stdout) == (code, answer.decode() + "\n" if code == 0 else "")


@pytest.mark.attack
def test_a_stranger_is_no_instance_even_for_root(rankshim, tmp_path):
    if os.geteuid() != 0:
        cannot("only root can be another user")
    tmp_path.chmod(0o755)
    done = asked_of(rankshim, tmp_path, b'{"phase":"run","failed":false}', as_user=65534)
    assert (done.code, done.stdout) == (1, "")


def asked_of(rankshim, folder, answer, as_user=None):
    """`rankshim status` where somebody else answers every question."""
    place = socket.socket(socket.AF_UNIX)
    place.bind(str(folder / f"rankshim-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}.sock"))
    listens, ready = os.pipe()
    served = os.fork()
    if served == 0:
        if as_user is not None:
            os.setuid(as_user)
        place.listen()  # the process that listens is the peer
        os.write(ready, b"x")
        while True:
            with contextlib.suppress(OSError):
                place.accept()[0].sendall(answer)
    place.close()
    os.read(listens, 1)
    try:
        return run([rankshim, "status", f"--run-dir={folder}"], clean_environment())
    finally:
        os.kill(served, signal.SIGKILL)
        os.waitpid(served, 0)
        os.close(listens)
        os.close(ready)


def test_the_log_can_be_json(rankshim, tmp_path):
    done = run([rankshim, "--log-format=json", f"--run-dir={tmp_path}", "--", "sh", "-c", "exit 3"], clean_environment())
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["info", "error"]
    assert lines[-1]["message"].startswith("sh exited with code 3")
    assert lines[-1]["time"].endswith("Z")
    assert [line["phase"] for line in lines] == ["resolve", "wind-down"]
    assert (lines[-1]["node_rank"], lines[-1]["run_id"]) == (0, "rankshim")
    assert [(line["nnodes"], line["platform"], line.get("exit_code")) for line in lines] == [(1, "single-node", None), (1, "single-node", 3)]
    long = clean_environment({"RANKSHIM_RUN_ID": "\x01" * 5000, "RANKSHIM_PLATFORM": "none"})
    done = run([rankshim, "--log-format=json", "--", "sh", "-c", "exit 3"], long)
    assert json.loads(done.stderr.splitlines()[-1])["message"].startswith("sh exited with code 3")
    refused = run([rankshim, "--log-format=json", "--", "true"], clean_environment({"NODE_RANK": "1"}))
    last = json.loads(refused.stderr.splitlines()[-1])
    assert (last["exit_code"], last["cause"]) == (78, "config")


def test_on_a_terminal_the_status_is_for_a_reader(rankshim, tmp_path):
    """The container's own: a pipe, as a probe's, gets JSON."""
    asked = f'"{rankshim}" status --run-dir={tmp_path}'
    done = run([rankshim, f"--run-dir={tmp_path}", "--", "sh", "-c", f"until {asked} >/dev/null; do :; done; script -qec '{asked}' /dev/null"],
               clean_environment())
    assert re.search(r"^phase +run\s*$", done.stdout, re.M) and re.search(r"^node_rank +0\s*$", done.stdout, re.M), done.transcript()
    text = run([rankshim, f"--run-dir={tmp_path}", "--", "sh", "-c", f"until {asked} >/dev/null; do :; done; {asked} --format text"],
               clean_environment())
    assert re.search(r"^phase +run$", text.stdout, re.M)


def test_a_line_of_text_has_the_time_where_it_is_wanted(shim):
    line = shim("--log-time", "--", "sh", "-c", "exit 3").stderr.splitlines()[-1]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z rankshim: error: sh exited with code 3", line)


@pytest.mark.attack
def test_a_file_with_another_name_where_others_can_write_is_not_overwritten(shim, tmp_path):
    shared, target = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    shared.chmod(0o777)
    target.write_text("precious")
    (shared / "report").hardlink_to(target)
    done = shim(f"--termination-log={shared / 'report'}", "--", "sh", "-c", "kill -9 $$")
    assert (done.code, target.read_text()) == (137, "precious")
    assert "Too many links" in done.stderr
