"""rankshim does not use what the image's torch lacks. The trees of torch here are made up: only the files that rankshim looks
for are in them."""

import pathlib
import sys

import pytest

from lib.process import clean_environment, run

OLD_LAUNCH = pathlib.Path(__file__).with_name("old_launch.py").read_text()
# As torch 1.x writes its options, and as 2.x does.
SPELLINGS = {"1.13": '"--log_dir", "--tee", "--role", "--monitor_interval"',
             "2.0": '"--log-dir", "--log_dir", "--tee", "--role", "--monitor-interval", "--monitor_interval"'}


@pytest.fixture
def image(tmp_path, rankshim):
    """image(FILE, TEXT): an interpreter whose torch/distributed has this file, and a function that runs rankshim with it."""

    def make(file, text):
        folder = tmp_path / "site" / "torch" / "distributed"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("import os\nos.write(1, b'torch is imported\\n')\n")
        (folder / "__init__.py").touch()
        (folder / file).write_text(text)
        python = tmp_path / "python3"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site:$PYTHONPATH exec "{sys.executable}" -S "$@"\n')
        python.chmod(0o755)

        def start(*words):
            return run([rankshim, f"--python={python}", *words], clean_environment(), name="rankshim")

        start.python = python
        return start

    return make


@pytest.mark.parametrize("version", SPELLINGS)
def test_options_that_the_images_torchrun_does_not_know_are_left_out_without_an_import_of_torch(image, tmp_path, version):
    start = image("run.py", f"import sys\nknown = [{SPELLINGS[version]}]\nprint(sys.argv[1:])\n")
    (tmp_path / "train.py").touch()
    options = "--signals-to-handle=SIGTERM --tee 3 --new-in-2.99=x --log-dir=/logs --monitor-interval=1 --virtual-local-rank"
    done = start("--torchrun-args", options, "--", f"{tmp_path}/train.py")
    assert done.code == 0, done.transcript()
    imported, argv = done.stdout.splitlines()
    assert imported == "torch is imported", "by torchrun alone"
    assert argv.endswith(f"'--max_restarts=0', '--tee=3', '--log_dir=/logs', '--monitor_interval=1', '{tmp_path}/train.py']")
    left_out = [line.split("does not know ")[1] for line in done.stderr.splitlines() if "does not know" in line]
    assert left_out == [f"{option}, so it is dropped"
                        for option in ("--signals_to_handle=SIGTERM", "--new-in-2.99=x", "--virtual_local_rank")]


# A script of those days, and one of today.
SCRIPTS = {"argument": ("parser.add_argument('--local_rank')", "--local_rank=1"), "variable": ("", "none")}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_an_image_with_torch_distributed_launch_alone_chooses_it(image, tmp_path, kind):
    start = image("launch.py", OLD_LAUNCH)
    reads, argument = SCRIPTS[kind]
    script = tmp_path / "train.py"
    script.write_text(f"import os, sys  # {reads}\nrank = os.environ['LOCAL_RANK']\n"
                      "os.write(1, f'{rank} {(sys.argv[1:] or [\"none\"])[0]}\\n'.encode())\n"
                      "sys.exit(42 if rank == '1' else 0)\n")
    done = start("--nproc-per-node=2", "--torchrun-args=--tee=3", "--", str(script))
    assert done.code == 1, "torch.distributed.launch's own, whatever the worker's was"
    assert f"1 {argument}" in done.stdout.splitlines()
    assert f"torch in {start.python} has no torchrun: torch.distributed.launch starts the workers" in done.stderr
    assert "torch.distributed.launch does not know --tee=3, so it is dropped" in done.stderr
    assert "starting torch.distributed.launch" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("rankshim: error: torch.distributed.launch exited with code 1")


@pytest.mark.parametrize("option", ["--nnodes=1:2", "--max-restarts=1"])
def test_an_image_without_torchrun_cannot_start_what_only_torchrun_does(image, tmp_path, option):
    start = image("launch.py", OLD_LAUNCH)
    (tmp_path / "train.py").touch()
    done = start("--master-addr=127.0.0.1", option, "--", f"{tmp_path}/train.py")
    assert done.code == 78, done.transcript()
    assert "is older than torchrun (1.9), which elastic jobs and restarts need" in done.stderr
