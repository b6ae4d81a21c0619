"""A soak: one rankshim as PID 1 over one launcher whose workers fail, hang and leave orphans all the time, with signals of
all kinds, a full disk and a reader of its log that stops reading; and beside it short runs, each of which must end as it
should and leave nothing. At the end descriptors and children must be what they were at the beginning, and memory
what it was after a quarter of the time: within a minute the allocator has pages for all that there can be at once.

    soak.py RANKSHIM SECONDS [SEED]        as root, in a new mount namespace (scripts/soak)

Prints its figures as one JSON object.
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
WARM_UP = 5  # sets of workers before the first figures
MOST_GROWTH_KIB = 256
HARMLESS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
            signal.SIGURG, signal.SIGWINCH, signal.SIGCONT, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)]
# The script, the signal that it gets when it prints "ready" or None, rankshim's options, the right exit code.
RUNS = [
    ("exit 0", None, [], 0),
    ("exit 7", None, [], 7),
    ("kill -SEGV $$", None, [], 139),
    ("sleep 1000 & exit 3", None, ["--leftover-grace=0"], 3),
    ("(setsid sleep 1000 &); exit 3", None, ["--leftover-grace=50ms"], 3),
    ("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done", signal.SIGTERM, [], 5),
    ("trap '' TERM INT; echo ready; while :; do sleep 0.05; done", signal.SIGTERM, ["--grace=100ms"], 137),
    # By exec: a shell that gets its INT just while it starts a program forgets it, without rankshim too.
    ("echo ready; exec sleep 1000", signal.SIGINT, [], 130),
    ("echo ready; sleep 1000", signal.SIGHUP, [], 129),
    # Says so once it has stopped: a TERM before that would end it.
    ("(until grep -q '^State:.T' /proc/$$/status; do :; done; echo ready) & kill -STOP $$; sleep 1000", signal.SIGTERM,
     ["--grace=100ms"], 137),
    ("exit 4", None, ["--report=/dev/full", "--termination-log=/dev/full"], 4),
    ("yes | head -c 300000 >&2; exit 6", None, ["--log-level=debug", "--warn-on-reap"], 6),
    ("exit 0", None, ["--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", "--master-port=1", "--wait=port",
                      "--wait-timeout=100ms"], 75),
]


class Long:
    """The run that lasts, and what is seen of it."""

    def __init__(self, rankshim, seed, folder):
        script = folder / "train.py"
        script.touch()
        package = folder / "torch" / "distributed"
        package.mkdir(parents=True)
        for path in (package.parent / "__init__.py", package / "__init__.py"):
            path.touch()
        (package / "run.py").write_text((HERE / "agent.py").read_text())
        self.report = folder / "report.json"
        self.folder = folder
        self.attempts = 0
        self.log = b""  # the end of its stderr
        self.reads = threading.Event()
        self.reads.set()
        # Without Python's fault handler, whose stack for signals has room for four at once: with it the stand-in, which
        # handles 40 signals, is ended by SIGSEGV when five arrive together (docs/signals-and-ends.md).
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "TMPDIR": str(folder / "tmp"),
                       "SOAK_SEED": str(seed), "PYTHONFAULTHANDLER": ""}
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", rankshim, f"--python={sys.executable}",
             "--nproc-per-node=2", "--log-level=debug", "--warn-on-reap", "--grace=5s", f"--run-dir={folder}",
             f"--report={self.report}", f"--termination-log={folder / 'tmp' / 'log'}", "--", str(script)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        threading.Thread(target=self.read_attempts, daemon=True).start()
        threading.Thread(target=self.read_log, daemon=True).start()
        self.pid = until(lambda: next(iter(children(self.process.pid)), None), "rankshim")

    def read_attempts(self):
        for line in self.process.stdout:
            if line.startswith(b'{"attempt"'):
                self.attempts += 1

    def read_log(self):
        """Not while it is stalled: the pipe fills, and rankshim must not wait for it."""
        while True:
            self.reads.wait()
            text = os.read(self.process.stderr.fileno(), 65536)
            if not text:
                return
            self.log = (self.log + text)[-4096:]

    def figures(self):
        """Memory (KiB) and open descriptors of rankshim, after a moment when it has no child but the launcher."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")))
        until(lambda: len(children(self.pid)) == 1, "that all orphans are reaped")
        return {"memory_kib": memory, "descriptors": lasting_descriptors(self.pid)}


def lasting_descriptors(pid):
    """What it has open in each of 20 looks: a file of /proc that it reads is open for a moment only."""
    lasting = collections.Counter(descriptors(pid))
    for _ in range(19):
        time.sleep(0.02)
        lasting &= collections.Counter(descriptors(pid))
    return sorted(lasting.elements())


def descriptors(pid):
    """What it has open at this moment, but for the pidfds of the workers."""
    names = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{number}")
            if name != "anon_inode:[pidfd]":
                names.append(name.rstrip("0123456789[]"))
        except FileNotFoundError:
            pass
    return sorted(names)


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def until(happened, what, timeout=60):
    end = time.monotonic() + timeout
    while not (found := happened()):
        if time.monotonic() > end:
            sys.exit(f"soak: {what}: not within {timeout} s")
        time.sleep(0.02)
    return found


def run_once(rankshim, dice, folder):
    """One short run: why it is not as it should be, or None."""
    script, number, options, right = dice.choice(RUNS)
    process = subprocess.Popen([rankshim, *options, "--", "/bin/sh", "-c", script],
                               env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    if number is not None:
        process.stdout.readline()
        process.send_signal(number)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{script!r} {options}: it hung"
    process.stdout.close()
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if code != right:
        return f"{script!r} {options}: {code} instead of {right}"
    left = os.listdir(folder)
    return f"{script!r} {options}: it left {left}" if left else None


def main():
    rankshim, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    for number in (signal.SIGINT, signal.SIGHUP):  # a shell's background job has them ignored
        signal.signal(number, signal.SIG_DFL)
    dice = random.Random(seed)
    wrong = []
    signals = runs = stalls = 0
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as place:
        folder, short = pathlib.Path(place) / "long", pathlib.Path(place) / "short"
        (folder / "tmp").mkdir(parents=True)
        short.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder / "tmp"], check=True)
        begin = time.monotonic()
        long = Long(rankshim, seed, folder)
        until(lambda: long.attempts >= WARM_UP, "the first sets of workers")
        before, settled_kib = long.figures(), None
        while time.monotonic() - begin < seconds:
            if settled_kib is None and time.monotonic() - begin > seconds / 4:
                settled_kib = long.figures()["memory_kib"]
            if not pathlib.Path(f"/proc/{long.pid}").exists():
                long.reads.set()
                code = long.process.wait(60)
                sys.exit(f"soak: the long run ended with {code} after {long.attempts} sets: {long.log.decode()}")
            what = dice.random()
            if what < 0.5:
                os.kill(long.pid, dice.choice(HARMLESS))
                signals += 1
            elif what < 0.55:
                long.reads.set() if not long.reads.is_set() else long.reads.clear()
                stalls += 1
            elif what < 0.65:
                runs += 1
                if why := run_once(rankshim, dice, short):
                    wrong.append(why)
            time.sleep(dice.uniform(0, 0.1))
        long.reads.set()
        after = long.figures()
        # The workers may be starting or ending just now; what has leaked stays.
        give_up = time.monotonic() + 20
        while after["descriptors"] != before["descriptors"] and time.monotonic() < give_up:
            time.sleep(0.1)
            after = long.figures()
        attempts = long.attempts
        os.kill(long.pid, signal.SIGTERM)
        code = long.process.wait(60)
        report = json.loads(long.report.read_text())
        left = sorted(os.listdir(folder / "tmp"))
        subprocess.run(["umount", folder / "tmp"], check=True)
    if code != 143:
        wrong.append(f"the long run ended with {code}")
    if set(left) - {"full", "log"}:
        wrong.append(f"the long run left {left}")
    if after["descriptors"] != before["descriptors"]:
        wrong.append(f"other descriptors: {before['descriptors']} and then {after['descriptors']}")
    if after["memory_kib"] - settled_kib > MOST_GROWTH_KIB:
        wrong.append("memory grew")
    print(json.dumps({"seconds": round(time.monotonic() - begin), "seed": seed, "sets_of_workers": attempts, "signals": signals,
                      "stalls": stalls, "short_runs": runs, "before": before, "settled_kib": settled_kib, "after": after,
                      "restarts_in_report": report.get("restarts"), "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
