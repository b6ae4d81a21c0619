"""torchrun's own options, given to the real torchrun through rankshim."""

import pytest

from lib.process import clean_environment, run

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

LONG = 120  # for torchrun and its workers on a busy machine

# Each option of torchrun 2.0 to 2.13 that is not rankshim's, without those that need a plugin or an accelerator, and what
# torchrun prints of it as its configuration, where it does.
OPTIONS = {
    "monitor_interval": ("0.5", "monitor_interval         : 0.5"),
    "start_method": ("spawn", None),
    "event_log_handler": ("console", "event_log_handler        : console"),
    "role": ("trainer", None),
    "redirects": ("0:3", None),
    "tee": ("1:3", None),
    "local_ranks_filter": ("1", None),
    "duplicate_stdout_filters": ("OUT", "duplicate_stdout_filters : ['OUT']"),
    "duplicate_stderr_filters": ("ERR", "duplicate_stderr_filters : ['ERR']"),
    "signals_to_handle": ("SIGTERM,SIGINT", "signals_to_handle        : SIGTERM,SIGINT"),
    "shutdown_timeout": ("7", None),
}

WORKER = """
import os, sys
os.write(1, f"OUT {os.environ['ROLE_NAME']} {os.environ['LOCAL_RANK']}\\n".encode())
os.write(2, f"ERR {os.environ['TORCHELASTIC_RUN_ID']} {os.environ['TORCHELASTIC_MAX_RESTARTS']}\\n".encode())
"""


@pytest.fixture
def train(rankshim, tmp_path):
    """Runs two workers with torchrun's configuration on stderr; the ended process."""
    script = tmp_path / "train.py"
    script.write_text(WORKER)

    def start(*options, **variables):
        command = [rankshim, "--platform=generic", "--nproc-per-node=2", *options, "--", str(script)]
        return run(command, clean_environment({"LOGLEVEL": "INFO", "OMP_NUM_THREADS": "1", **variables}), timeout=LONG)

    return start


def as_arguments(options):
    words = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in options.items())
    return ["--torchrun-args", f"{words} --rdzv-conf=timeout=77", "--max-restarts=2", "--run-id=job7"], {}


def as_variables(options):
    return [], {f"PET_{name.upper()}": value for name, value in options.items()} | {
        "PET_MAX_RESTARTS": "2", "PET_RDZV_ID": "job7", "PET_RDZV_CONF": "timeout=77"}


@pytest.mark.parametrize("give", [pytest.param(as_arguments, marks=pytest.mark.nightly), as_variables])
def test_every_option_of_torchruns_reaches_it(train, tmp_path, give):
    logs = tmp_path / "logs"
    options, variables = give({name: value for name, (value, _) in OPTIONS.items()} | {"log_dir": str(logs)})
    done = train(*options, **variables)
    assert done.code == 0, done.transcript()
    assert "so it is dropped" not in done.stderr
    for line in [line for _, line in OPTIONS.values() if line] + [
            "max_restarts             : 2", "run_id                   : job7", f"log_dir                  : {logs}", "'timeout': '77'"]:
        assert line in done.stderr, line
    # What they do: worker 0 writes to its files alone, worker 1 to both, with its role before each line.
    assert done.stdout.splitlines() == ["[trainer1]:OUT trainer 1"]
    assert "[trainer1]:ERR job7 2" in done.stderr.splitlines()
    attempt, = logs.glob("job7_*/attempt_0")
    assert [(attempt / rank / "stdout.log").read_text() for rank in "01"] == ["OUT trainer 0\n", "OUT trainer 1\n"]
    assert '"name": "torchelastic.worker.status.SUCCEEDED"' in done.stderr, "the console has the events"
