"""A stand-in for torch.distributed.run, for the soak: sets of workers that end well, fail, hang and leave orphans, in the
folders that torchrun makes, and one set after the other until a TERM. What happens is decided by SOAK_SEED alone."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

WORKERS = 2
# How a worker ends, as a shell command. A worker hangs by exec: otherwise a signal of rankshim would end only the shell,
# and its sleep would be an orphan that lives for a thousand seconds.
FATES = {
    "success": "exit 0",
    "failure": "exit 3",
    "error file": 'mkdir -p "${0%/*}"; echo \'{"message": {"message": "ValueError: boom"}}\' >"$0"; exit 1',
    "signal": "kill -SEGV $$",
    "orphans": "for i in 1 2 3 4 5; do (setsid sleep 0.0$i &) ; done; exit 1",
    "orphans that end by signals": "(setsid sh -c 'kill -9 $$' &); exit 1",
    "hanging": "trap '' USR1; exec sleep 1000",
    "stopped": "kill -STOP $$; exec sleep 1000",
}


def main():
    dice = random.Random(int(os.environ["SOAK_SEED"]))
    stops = []
    signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
    for number in [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
                   signal.SIGPWR, signal.SIGURG, signal.SIGWINCH, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)]:
        signal.signal(number, lambda *_: None)
    logs = next(word.partition("=")[2] for word in sys.argv if word.startswith("--log_dir="))
    run = tempfile.mkdtemp(prefix="run_", dir=logs)
    attempt = 0
    while not stops:
        folder = f"{run}/attempt_{attempt}"
        os.mkdir(folder)
        fates = [dice.choice(list(FATES)) for _ in range(WORKERS)]
        workers = [start(fate, rank, f"{folder}/{rank}/error.json") for rank, fate in enumerate(fates)]
        fill_the_disk(dice)
        for worker, fate in zip(workers, fates):
            try:
                worker.wait(dice.uniform(0.2, 1.0))
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        print(json.dumps({"attempt": attempt, "fates": fates}), flush=True)
        shutil.rmtree(folder)
        attempt += 1
    sys.exit(0)


def start(fate, rank, error_file):
    own = {"LOCAL_RANK": str(rank), "RANK": str(rank), "WORLD_SIZE": str(WORKERS), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
           "TORCHELASTIC_ERROR_FILE": error_file}
    return subprocess.Popen(["/bin/sh", "-c", FATES[fate], error_file], env={**os.environ, **own}, start_new_session=True,
                            stdin=subprocess.DEVNULL)


def fill_the_disk(dice):
    """The folder of temporary files, which is a small one of memory, is full in a third of the time."""
    full = pathlib.Path(os.environ["TMPDIR"]) / "full"
    full.unlink(missing_ok=True)
    if dice.random() < 0.33:
        try:
            full.write_bytes(bytes(8 << 20))
        except OSError:
            pass


main()
