"""Whatever happens at the gate: without go the script never runs, and with it all is as in a plain start."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest
from lib.events import until
from lib.process import descendants


RAN = "print('ran')\n"
# A module whose import takes as long as the test wants: it tells that it runs, and waits until the pipe `hold` is opened.
SLOW = "import os\nprint('importing', flush=True)\nopen(os.environ['HOLD']).close()\n"
OLD = [f"{version}/bin/python" for version in sorted(pathlib.Path.home().glob(".pyenv/versions/[23].[67]*"))]


@pytest.fixture
def slow(start, tmp_path):
    """slow(…) is start.prepared(…) for a script that imports a "torch", whose import is slow."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text(SLOW)
    os.mkfifo(tmp_path / "hold")
    start.write(train="import torch\n" + RAN)
    start.slow_env = {"HOLD": str(tmp_path / "hold"), "PYTHONPATH": f":{tmp_path}/packages"}

    def prepared(names="auto"):
        process = start.prepared("train.py", env=start.slow_env, names=names)
        assert process.hear() == "h"
        process.wait_line("^importing$")
        return process

    prepared.release = lambda: open(tmp_path / "hold", "w").close()
    return prepared


def has_not_run(process):
    return process.stderr == "" and "ran" not in process.stdout


# ---- the end of rankshim ----

def test_if_rankshim_is_gone_before_python_starts_the_script_never_runs(start):
    start.write(train=RAN)
    with start.prepared("train.py") as process:
        process.end.close()
        assert (process.wait(), process.stdout, process.stderr) == (0, "", "")


def test_if_rankshim_is_gone_during_an_import_the_script_never_runs(slow):
    with slow() as process:
        process.end.close()
        slow.release()
        assert process.wait() == 0 and has_not_run(process)


def test_if_rankshim_is_gone_while_it_waits_it_ends_at_once(start):
    start.write(train=RAN)
    with start.prepared("train.py") as process:
        assert process.is_ready()
        process.end.close()
        assert (process.wait(), process.stdout, process.stderr) == (0, "", "")


def test_another_word_than_go_is_none(start):
    start.write(train=RAN)
    with start.prepared("train.py") as process:
        assert process.is_ready()
        process.end.send(b"no")
        assert process.wait() == 0 and has_not_run(process)


# ---- signals ----

ENDS = {signal.SIGTERM: 143, signal.SIGINT: 0, signal.SIGUSR1: 138, signal.SIGHUP: 129}


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_it_waits_ends_it_at_once_and_says_nothing(start, number):
    start.write(train=RAN)
    with start.prepared("train.py") as process:
        assert process.is_ready()
        process.signal(number)
        assert (process.wait(), process.stdout, process.stderr) == (128 + number, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_an_import_ends_it_at_once_and_says_nothing(slow, number):
    with slow() as process:
        process.signal(number)
        assert process.wait() == 128 + number and has_not_run(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_images_own_sitecustomize_ends_it_and_says_nothing(slow, start, tmp_path, number):
    (tmp_path / "packages" / "sitecustomize.py").write_text(SLOW)
    with start.prepared("train.py", env=start.slow_env) as process:
        process.wait_line("^importing$")
        process.signal(number)
        assert process.wait() == ENDS[number] and has_not_run(process)


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, "close"])
def test_at_no_moment_of_its_start_does_an_end_let_the_script_run(start, how):
    start.write(train="import asyncio, json\n" + RAN)
    for milliseconds in range(0, 150, 2):
        with start.prepared("train.py") as process:
            try:
                process.popen.wait(milliseconds / 1000)
            except subprocess.TimeoutExpired:
                pass
            if how == "close":
                process.end.close()
            else:
                process.signal(how)
            process.wait()
            assert "ran" not in process.stdout, milliseconds


# ---- go at an odd moment ----

def test_go_during_an_import_counts_when_the_import_ends(slow):
    with slow() as process:
        process.end.send(b"g")
        slow.release()
        assert (process.hear(), process.wait(), process.stdout) == ("r", 0, "importing\nran\n")


def test_go_counts_too_if_rankshim_closes_its_end_after_it(slow):
    with slow() as process:
        process.end.send(b"g")
        process.end.close()
        slow.release()
        assert (process.wait(), process.stdout, process.stderr) == (0, "importing\nran\n", "")
    with slow() as process:
        slow.release()
        while not process.end.recv(8, 2).startswith(b"r"):  # MSG_PEEK: "r" is left unread
            pass
        process.end.send(b"g")
        process.end.close()
        assert (process.wait(), process.stdout) == (0, "importing\nran\n")


def test_go_brings_the_variables_that_were_not_known_before(start):
    start.write(train="import os\nprint(ascii([os.environ.get(n) for n in ('MASTER_ADDR', 'ODD', 'EMPTY')]), flush=True)\nos.system('echo $MASTER_ADDR')\n")
    with start.prepared("train.py") as process:
        assert process.is_ready()
        process.end.send(b"gMASTER_ADDR=10.0.0.7\0ODD=a=\xff\0EMPTY=\0")
        assert (process.wait(), process.stdout) == (0, "['10.0.0.7', 'a=\\udcff', '']\n10.0.0.7\n")


def test_two_that_wait_have_random_numbers_of_their_own(start):
    """A fork of one process would give them equal ones."""
    start.write(train="import random\nprint(random.random(), hash('abc'), hex(id(object())))\n")
    with start.prepared("train.py") as first, start.prepared("train.py") as second:
        assert first.is_ready() and second.is_ready()
        assert [first.go(), second.go()] == [0, 0]
        assert not set(first.stdout.split()) & set(second.stdout.split())


# By what happens: what the script imports, and what is written to it at the gate.
SCORED = {
    "nothing": ("child = []", ""),
    "an import starts a process": ("import os\nchild = [os.posix_spawn('/bin/sleep', ['sleep', '600'], {})]", ""),
    "the script is edited": ("child = []", "# edited\n"),
}


@pytest.mark.parametrize("case", SCORED)
def test_until_go_the_kernel_kills_it_first_and_then_as_a_plain_start(start, tmp_path, case):
    imported, edited = SCORED[case]
    script = "import torch\nprint([open(f'/proc/{pid}/oom_score_adj').read() for pid in ['self'] + torch.child])\n"
    script += "import os\n[os.kill(pid, 9) for pid in torch.child]\n"
    env = fake(start, tmp_path, imported, script)
    score = lambda pid: pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text()
    with start.prepared("train.py", env=env) as process:
        assert process.is_ready()
        processes = [process.pid, *descendants(process.pid)]
        assert [score(pid) for pid in processes] == ["1000\n"] * len(processes)
        if edited:
            start.write(train=script + edited)
        assert (process.go(), process.stdout) == (0, f"{[score('self')] * len(processes)}\n")


LATE = ("--node_rank=0", "--master_addr=\u00e9=1")


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("command", [["train.py"], ["-m", "pkg.mod"]])
def test_go_brings_the_flags_of_the_command_that_were_not_known_before(start, python, command, edited):
    """The first word of each name is replaced: a later one is the script's."""
    text = "import sys\nprint(ascii([sys.argv, getattr(sys, 'orig_argv', [])]))\n"
    start.write(train=text, pkg__mod=text)

    def words(*flags):
        return [*command, "-v", *flags, "x", "--node_rank=7"]

    with start.plain(*words(*LATE), python=python) as plain:
        wanted = plain.wait(), plain.stdout, plain.stderr
    with start.prepared(*words("--node_rank=3", "--master_addr=node-0"), python=python) as process:
        assert process.is_ready()
        if edited:
            start.write(train=text + "\n", pkg__mod=text + "\n")
        process.end.send(b"g" + "".join(f"{flag}\0" for flag in LATE).encode())
        assert (process.wait(), process.stdout, process.stderr) == wanted and wanted[0] == 0


def test_a_flag_that_the_command_does_not_have_ends_it(start):
    start.write(train=RAN)
    with start.prepared("train.py", "--node_rank", "3") as process:
        assert process.is_ready()
        process.end.send(b"g--node_rank=0\0")
        assert process.wait() == 71 and has_not_run(process)


# ---- imports that do something ----

FAILS = {
    "an exception": "raise RuntimeError('first\\nsecond')",
    "an exit": "raise SystemExit(3)",
    "Ctrl-C": "raise KeyboardInterrupt",
    "an error in the text": "import (",
    "an exception without words": "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute",
}


def fake(start, tmp_path, text, script="import torch\n" + RAN):
    (tmp_path / "packages").mkdir(exist_ok=True)
    (tmp_path / "packages" / "torch.py").write_text(text)
    start.write(train=script)
    return {"PYTHONPATH": f":{tmp_path}/packages"}


@pytest.mark.parametrize("case", FAILS)
def test_a_leading_import_that_fails_leaves_the_rest_to_a_plain_start(start, tmp_path, case):
    with start.prepared("train.py", env=fake(start, tmp_path, FAILS[case])) as process:
        assert [process.hear(), process.hear()] == ["h", "x an import of the script fails"]
        process.end.close()
        assert process.wait() == 0 and has_not_run(process)


@pytest.mark.parametrize(("case", "text"), [
    ("an exception", "RuntimeError: first"), ("an exit", "SystemExit: 3"), ("Ctrl-C", "KeyboardInterrupt: "),
    ("an exception without words", "Mute: <unprintable>"),
])
def test_a_named_module_that_cannot_be_imported_is_told_in_a_line(start, tmp_path, case, text):
    with start.prepared("train.py", env=fake(start, tmp_path, FAILS[case]), names="json,torch") as process:
        assert [process.hear(), process.hear()] == ["h", f"x {text}"]
        process.end.close()
        assert process.wait() == 0 and has_not_run(process)


def test_the_line_is_short_and_whole(start, tmp_path):
    env = fake(start, tmp_path, "raise ValueError('\u00e9' * 300)")
    with start.prepared("train.py", env=env, names="torch") as process:
        assert process.hear() == "h"
        text = process.hear()
        assert text.startswith("x ValueError: \u00e9\u00e9") and len(text.encode()) <= 202
    with start.prepared("train.py", names="no_such_module") as process:
        assert [process.hear(), process.hear()] == ["h", "x ModuleNotFoundError: No module named 'no_such_module'"]


DOES = {
    "prints": "print('imported', flush=True)",
    "threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "threads that import": "import threading, importlib\nt = threading.Thread(target=importlib.import_module, args=('site',))\nt.start()\nt.join()",
    "handles signals": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, lambda *_: None)",
    "warns": "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\nwarnings.simplefilter('error')",
    "adds to the path": "import sys\nsys.path.append('/nowhere')",
    "keeps an error": "try:\n    import no_such_module\nexcept ImportError as e:\n    print(e.__context__, flush=True)",
    "looks at its caller": "import sys\nf = sys._getframe(1)\nwhile f.f_code.co_filename.startswith('<frozen'):\n    f = f.f_back\nprint(f.f_globals['__name__'], f.f_lineno)",
}
LOOK = "import signal, sys, threading\nprint(threading.active_count(), sys.path[1:], signal.getsignal(2), signal.getsignal(15) == signal.SIG_DFL)\n"


@pytest.mark.parametrize("case", DOES)
def test_what_an_import_does_is_as_if_the_script_had_imported(start, tmp_path, case):
    env = fake(start, tmp_path, DOES[case], "'Doc'\nimport os, torch\n" + LOOK)
    plain, prepared = start.both("train.py", env=env)
    assert plain == prepared and plain[0] == 0


CANNOT = {
    **{case: text for case, text in FAILS.items() if "import (" not in text},  # that one does not wait
    "the script's own module": "import random\nimport time",
    "another path": "import sys\nsys.path.insert(0, '/nowhere')",
}


@pytest.mark.parametrize("case", CANNOT)
def test_one_that_cannot_be_used_though_it_may_go_already_is_started_anew(start, tmp_path, case):
    """rankshim has taken it for the command, whose end is its own."""
    script = "import torch, os, sys\nprint('ran', os.environ['LATE'], os.environ.get('RANKSHIM_GATE'), sys.argv, os.environ['PYTHONPATH'])\n"
    env = fake(start, tmp_path, SLOW + CANNOT[case], script) | {"HOLD": str(tmp_path / "hold")}
    start.write(random="OWN = 1\n")
    os.mkfifo(tmp_path / "hold")

    def release():
        open(tmp_path / "hold", "w").close()

    with start.plain("train.py", "a", env=env | {"LATE": "1"}) as plain:
        release()
        wanted = plain.wait(), "importing\n" + plain.stdout, plain.stderr
    with start.prepared("train.py", "a", env=env) as process:
        assert process.hear() == "h"
        process.wait_line("^importing$")
        process.end.send(b"gLATE=1\0")
        release()
        until(lambda: process.stdout.count("importing") == 2, "the new start")
        release()
        assert (process.wait(), process.stdout, process.stderr) == wanted


def test_an_entry_in_front_of_the_path_is_left_to_a_plain_start(start, tmp_path):
    with start.prepared("train.py", env=fake(start, tmp_path, "import sys\nsys.path.insert(0, '/nowhere')")) as process:
        assert [process.hear(), process.hear()] == ["h", "x a module has changed sys.path"]


def test_a_module_of_the_scripts_folder_that_torch_would_find_is_left_to_a_plain_start(start, tmp_path):
    env = fake(start, tmp_path, "import random\n")
    start.write(random="print('own')\n")
    with start.prepared("train.py", env=env) as process:
        assert [process.hear(), process.hear()] == ["h", "x random is the script's own"]
        assert has_not_run(process)
    (start.folder / "random.py").unlink()
    (start.folder / "random").mkdir()  # without an __init__.py it is no module
    plain, prepared = start.both("train.py", env=env)
    assert plain == prepared and plain[1] == "ran\n"


# ---- scripts that are no usual ones ----

def test_an_odd_script_ends_as_in_a_plain_start(start):
    folder = start.folder
    start.write(error="import json\nprint('no'\n", raises="import json\njson.loads('x')\n", exits="import sys\nsys.exit('why')\n",
                huge="import json\n" + RAN + "#" * (1 << 20), escape="import json\nx = '\\d' is 1\n" + RAN, folder____main__=RAN)
    (folder / "latin.py").write_bytes(b"import json\nprint('\xe9')\n")
    (folder / "null.py").write_bytes(b"import json\n\0print(1)\n")
    (folder / "deep.py").write_text("import json\n" + "(" * 2000 + ")" * 2000 + "\n")
    with zipfile.ZipFile(folder / "app.zip", "w") as app:
        app.writestr("__main__.py", RAN)
        app.writestr("own.py", "print('own')\n")
    (folder / "of-bytes-é.py").write_text("import json\n" + RAN)
    names = ["error", "raises", "exits", "huge", "escape", "latin", "null", "deep", "missing", "of-bytes-é"]
    for argv in [*([f"{name}.py"] for name in names), ["folder"], ["app.zip"], ["-m", "no_such_module"], ["-m", "json"], ["-c", "print(1)"]]:
        plain, prepared = start.both(*argv)
        assert plain == prepared, argv


def test_a_script_that_is_a_pipe_is_read_only_by_python(start, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with start.prepared("pipe") as process:
        assert process.is_ready()
        process.end.send(b"g")
        (tmp_path / "pipe").write_text(RAN)
        assert (process.wait(), process.stdout) == (0, "ran\n")


EDITED = {
    "the script": (["train.py"], "auto", "train"),
    "a module": (["-m", "pkg.mod"], "auto", "pkg__mod"),
    "its package": (["-m", "pkg.mod"], "auto", "pkg____init__"),
    "the script's own module": (["train.py"], "auto,own", "own"),
}


@pytest.mark.parametrize("case", EDITED)
def test_what_is_edited_while_it_waits_is_the_new_text(start, case):
    argv, names, edited = EDITED[case]
    text = {name: f"import json\nimport own\nprint('{name}', 'old')\n" for name in ("train", "pkg____init__", "pkg__mod")}
    start.write(own="print('own', 'old')\n", **text)
    with start.prepared(*argv, names=names) as process:
        assert process.is_ready()
        start.write(**{edited: f"print('{edited}', 'edited')\n"})
        code = process.go()
    with start.plain(*argv) as plain:
        assert (plain.wait(), plain.stdout, plain.stderr) == (code, process.stdout, process.stderr)
    assert code == 0 and f"{edited} edited" in plain.stdout


def test_a_new_text_finds_nothing_imported(start, tmp_path):
    env = fake(start, tmp_path, "import os\nprint(os.environ.get('BEFORE'), flush=True)\n")
    with start.prepared("train.py", env=env) as process:
        assert process.is_ready()
        process.wait_line("^None$")
        start.write(train="import os\nos.environ['BEFORE'] = '1'\nimport torch\n" + RAN)
        assert (process.go(), process.stdout, process.stderr) == (0, "None\n1\nran\n", "")


def test_a_script_that_is_gone_after_it_was_read_ends_as_python_says(start):
    start.write(train="import json\n")
    with start.prepared("train.py") as process:
        assert process.is_ready()
        (start.folder / "train.py").unlink()
        assert process.go() == 2 and "No such file" in process.stderr


def test_warnings_of_the_compiler_and_of_imports_are_printed_once(start, python):
    start.write(train="import json\nfrom asyncio import coroutine\n" if "3.8" in python else "import json\nx = '\\d'\nprint(x is 'a')\n")
    plain, prepared = start.both("-W", "always", "train.py", python=python)
    assert plain == prepared


# ---- where there is no gate ----

@pytest.mark.parametrize("old", OLD, ids=[pathlib.Path(python).parts[-3] for python in OLD])
def test_in_a_python_before_38_nothing_runs(start, old):
    start.write(train=RAN)
    with start.prepared("train.py", python=old) as process:
        assert (process.hear(), process.wait(), process.stdout, process.stderr) == ("", 0, "", "")


def test_with_a_usercustomize_nothing_runs(start, tmp_path):
    start.write(train=RAN)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "usercustomize.py").write_text("")
    python = shutil.which("python3", path="/usr/bin")  # in a virtual environment Python reads none
    with start.prepared("train.py", python=python, env={"PYTHONPATH": f":{tmp_path}/own"}) as process:
        assert (process.hear(), process.wait(), process.stdout, process.stderr) == ("", 0, "", "")


def test_without_gate_py_nothing_runs(start):
    start.write(train=RAN)
    (start.site / "gate.py").unlink()
    with start.prepared("train.py") as process:
        assert (process.hear(), process.wait(), process.stdout, process.stderr) == ("", 0, "", "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_what_never_loads_us_does_not_answer_the_probe(start, option):
    with start.prepared("-c", "print('on')", names="-") as process:
        assert (process.hear(), process.hear(), process.wait(), process.stdout) == ("h", "", 0, "")
    with start.prepared(option, "-c", "print('on')", names="-") as process:
        assert (process.hear(), process.wait(), process.stdout) == ("", 0, "on\n")


def test_a_process_that_is_not_rankshims_child_only_drops_the_variable(start):
    start.write(train="import os\nprint(os.environ.get('RANKSHIM_GATE'))\n")
    with start.prepared("-c", f"{sys.executable} train.py; true", python="/bin/sh") as process:
        assert (process.wait(), process.stdout) == (0, "None\n")


def test_nothing_that_it_starts_has_the_variable_or_the_socket(start, tmp_path):
    look = "import os; print('RANKSHIM_GATE' in os.environ, sorted(map(int, os.listdir('/proc/self/fd')))[3:-1])"
    child = "import os, subprocess, sys\nif 'CHILD' not in os.environ:\n    "
    child += f"subprocess.run([sys.executable, '-c', {look!r}], close_fds=False, env={{**os.environ, 'CHILD': '1'}})\n"
    env = fake(start, tmp_path, child, "import torch\n" + child)
    (tmp_path / "packages" / "sitecustomize.py").write_text(child)
    with start.prepared("train.py", env=env) as process:
        assert process.is_ready()
        assert process.go() == 0 and process.stdout == "False []\n" * 3, process.transcript()


def test_an_image_whose_sitecustomize_fails_still_waits(start, tmp_path):
    env = fake(start, tmp_path, "")
    (tmp_path / "packages" / "sitecustomize.py").write_text("raise ValueError('own')\n")
    plain, prepared = start.both("train.py", env=env)
    assert plain == prepared and "ValueError: own" in plain[2] and plain[1] == "ran\n"
