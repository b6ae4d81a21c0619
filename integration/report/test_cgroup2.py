"""The reports on memory under cgroup v2, with memory.oom.group 0 and 1. The memory controller of this machine may be
cgroup v1's: a small virtual machine plays all scenes in one boot. It is emulated, which works everywhere: a /dev/kvm
that can be opened may still not run a kernel."""

import collections
import json
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from lib.process import clean_environment, run
from lib.requirements import cannot, why_not_static

HERE = pathlib.Path(__file__).resolve().parent / "cgroup2"
KERNEL = HERE.parents[2] / ".venv" / "share" / "linux" / "vmlinuz"
LIMIT = 64 << 20
BOOT = 180  # seconds, for a machine that is busy with other things; idle, it is a tenth

GROUP_IS_SET = "memory.oom.group is set: a process over the memory limit of 64 MiB ends the whole container"
LAST_WORD = "if nothing follows, the container was killed before rankshim could write more"


def until(words, files):
    """Shell: waits until a file has the words; goes on without them after a while, so that the test reports it."""
    return f"i=0; until grep -qs '{words}' {files} || [ $((i += 1)) = 200 ]; do usleep 20000; done"


WATCHED = until("^inotify", "/proc/1/fdinfo/*")  # rankshim sees what becomes of memory.events
REACHED = until("was reached", "/dev/termination-log")
OUTLIVED = until("the others keep running", "/scene/outlived/stderr")

# memory.oom.group, rankshim's options, and the script that is its command.
SCENES = {
    "program": (0, [], f"{WATCHED}; exec hog"),
    "shell": (0, [], f"{WATCHED}; hog; exit $?"),
    "launcher": (0, [], f"{WATCHED}; hog || exit 1"),
    "outlived": (0, ["--log-level=debug"], f"{WATCHED}; hog || :; {OUTLIVED}; kill -KILL $$"),
    "together": (1, [], f"{WATCHED}; hog"),
    "named": (1, ["--termination-log=/scene/named/mine"],
              f"{WATCHED}; hog softly; {until('was reached', '/scene/named/mine')}; hog"),
    "failing": (1, [], f"{WATCHED}; hog softly; {REACHED}; grep -q 'was reached' /dev/termination-log && exit 3"),
    "fine": (1, [], f"{WATCHED}; hog softly; {REACHED}; grep -q 'was reached' /dev/termination-log"),
}


class Scene:
    """What is left of a scene: `code`, and the texts `log` (the termination log), `stderr`, `mine`."""

    def __init__(self, files):
        self.code = int(files["code"])
        self.log = files["log"]
        self.mine = files["mine"]
        self.stderr = files["stderr"]
        self.report = json.loads(files["report"]) if "report" in files else None
        self.events = {key: int(count) for key, count in map(str.split, files["events"].splitlines())}

    @property
    def cause(self):
        return self.report["root_cause"]


def why_not(rankshim):
    """Why there can be no virtual machine here; None where there can."""
    for tool in ("busybox", "cc", "qemu-system-x86_64", "readelf"):
        if shutil.which(tool) is None:
            return f"missing: {tool} (scripts/setup installs it)"
    if not KERNEL.exists():
        return f"missing: {KERNEL} (scripts/setup unpacks it)"
    # The virtual machine has no libraries.
    return why_not_static(rankshim) or why_not_static(shutil.which("busybox"))


def make_root(folder, rankshim):
    """The archive that the kernel unpacks as the machine's file system."""
    root = folder / "root"
    for name in ("bin", "dev", "proc", "sys"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
    shutil.copy(rankshim, root / "bin" / "rankshim")
    subprocess.run(["cc", "-static", "-O1", "-o", root / "bin" / "hog", HERE / "hog.c"], check=True)
    shutil.copy(HERE / "init.sh", root / "init")
    (root / "init").chmod(0o755)
    (root / "scenes").write_text("".join(
        shlex.join(["scene", name, str(group), *options, "--", "sh", "-c", script]) + "\n"
        for name, (group, options, script) in SCENES.items()))
    archive = folder / "initramfs"
    names = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
    with archive.open("wb") as file:
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], check=True, cwd=root, input=names.encode(), stdout=file,
                       stderr=subprocess.DEVNULL)
    return archive


@pytest.fixture(scope="module")
def scenes(rankshim, tmp_path_factory):
    """Every Scene by its name."""
    if reason := why_not(rankshim):
        cannot(reason)
    archive = make_root(tmp_path_factory.mktemp("cgroup2"), rankshim)
    machine = run(["qemu-system-x86_64", "-accel", "tcg", "-smp", "1", "-m", "512", "-nodefaults", "-display", "none",
                   "-serial", "stdio", "-no-reboot", "-kernel", str(KERNEL), "-initrd", str(archive),
                   "-append", "console=ttyS0 panic=-1 loglevel=1"], clean_environment(), timeout=BOOT, name="machine")
    assert machine.code == 0, machine.transcript()
    files = collections.defaultdict(lambda: collections.defaultdict(str))
    for scene, what, line in re.findall(r"^(\w+) (\w+)\| (.*?)\r?$", machine.stdout, re.MULTILINE):
        files[scene][what] += line + "\n"
    assert sorted(files) == sorted(SCENES), machine.transcript()
    return {name: Scene(texts) for name, texts in files.items()}


def test_a_program_over_the_limit_is_137_and_out_of_memory(scenes):
    scene = scenes["program"]
    assert scene.code == 137
    assert scene.events["oom_kill"] == 1 and scene.events["oom_group_kill"] == 0
    assert scene.report["outcome"] == "failed" and scene.report["exit_code"] == 137
    assert (scene.cause["who"], scene.cause["signal"], scene.cause["out_of_memory"]) == ("program", "SIGKILL", True)
    memory = scene.report["memory"]
    assert memory["oom_kills"] == 1 and memory["limit_bytes"] == LIMIT and memory["oom_group"] is False
    assert LIMIT - (1 << 20) < memory["peak_bytes"] <= LIMIT
    verdict = scene.report["verdict"]
    assert "was killed by SIGKILL" in verdict and ": out of memory: the limit is 64 MiB, the peak was 64 MiB" in verdict
    assert scene.log.startswith(f"{verdict}\nexit code 137") and scene.stderr.endswith(f"{verdict}\n")
    assert "memory.oom.group" not in scene.stderr and LAST_WORD not in scene.log


def test_a_shell_that_passes_its_childs_kill_on_is_out_of_memory_too(scenes):
    scene = scenes["shell"]
    assert scene.code == 137
    assert (scene.cause["who"], scene.cause["exit_code"], scene.cause["out_of_memory"]) == ("program", 137, True)
    assert scene.report["memory"]["oom_kills"] == 1
    assert "sh exited with code 137" in scene.log and ": out of memory: the limit is 64 MiB" in scene.log


def test_a_launcher_that_ends_by_itself_after_its_childs_kill_keeps_its_code_and_the_kill_is_reported(scenes):
    scene = scenes["launcher"]
    assert scene.code == 1
    assert (scene.cause["who"], scene.cause["exit_code"]) == ("program", 1)
    assert scene.report["memory"]["oom_kills"] == 1
    assert "sh exited with code 1" in scene.log
    assert "the kernel killed a process because the memory limit was reached: the limit is 64 MiB, the peak was 64 MiB" in scene.log
    assert scene.stderr.endswith(f"{scene.report['verdict']}\n")


def test_a_program_that_outlived_its_childs_kill_and_is_killed_later_is_not_out_of_memory(scenes):
    scene = scenes["outlived"]
    assert scene.code == 137
    assert scene.events["oom_kill"] == 1 and scene.report["memory"]["oom_kills"] == 1
    assert (scene.cause["who"], scene.cause["signal"], scene.cause["out_of_memory"]) == ("program", "SIGKILL", False)
    assert "was killed by SIGKILL" in scene.log
    assert ": earlier, the kernel killed a process because the memory limit was reached: the limit is 64 MiB" in scene.log


def test_with_oom_group_a_process_over_the_limit_takes_pid_1_along_and_the_line_about_memory_remains(scenes):
    scene = scenes["together"]
    assert scene.code == 137
    assert scene.events["oom_group_kill"] == 1 and scene.events["oom_kill"] >= 2
    assert scene.report is None, "rankshim was killed before its end"
    assert GROUP_IS_SET in scene.stderr and "ended" not in scene.stderr
    assert scene.log.startswith("rankshim, at 2") and GROUP_IS_SET in scene.log and LAST_WORD in scene.log


def test_that_the_limit_was_reached_is_in_a_termination_log_of_any_name_before_the_kill(scenes):
    scene = scenes["named"]
    assert scene.code == 137
    assert scene.events["oom_group_kill"] == 1 and scene.report is None
    assert GROUP_IS_SET in scene.mine and f"the memory limit of 64 MiB was reached; {LAST_WORD}" in scene.mine
    assert scene.log == ""


def test_the_verdict_replaces_the_provisional_line_and_success_removes_it(scenes):
    failing = scenes["failing"]
    assert failing.code == 3
    assert failing.events["oom_kill"] == 0 and failing.report["memory"]["oom_kills"] == 0
    assert failing.report["memory"]["oom_group"] is True
    assert failing.cause["exit_code"] == 3 and failing.cause["out_of_memory"] is False
    assert failing.log == "", "the provisional word is taken back, and a plain exit code is the log's own to explain"
    fine = scenes["fine"]
    assert (fine.code, fine.report["outcome"], fine.log) == (0, "succeeded", "")
