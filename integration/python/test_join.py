"""A torchrun that the command starts joins the job where its own command line leaves that open. A stand-in for it
prints what it would read; that the real one joins is seen in test_two_nodes.py."""

import json
import os
import stat
import sys

import pytest

JOB = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "node-0", "PET_MASTER_PORT": "29500",
       "PET_RDZV_ENDPOINT": "node-0:29500", "PET_RDZV_ID": "job", "PET_RDZV_CONF": "is_host=false", "PET_LOCAL_ADDR": ""}
ELASTIC = {**JOB, "PET_NNODES": "2:4", "PET_RDZV_BACKEND": "c10d"}
STATIC = {name: JOB[name] for name in list(JOB)[:5]}
FOUND = {**JOB, "PET_LOCAL_ADDR": "127.0.0.1"}  # on the way to 127.0.0.5
MEET = {name: FOUND[name] for name in ["PET_NNODES", "PET_NPROC_PER_NODE", *list(JOB)[5:]]}
HOSTED = {name: FOUND[name] for name in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_CONF", "PET_LOCAL_ADDR")}
TELL = "import json, os\nprint(json.dumps({name: value for name, value in os.environ.items() if name.startswith('PET_')}))\n"


@pytest.fixture
def pet(site, tmp_path):
    """pet(ARGUMENTS): the PET_* that a torchrun with these arguments sees."""
    script = tmp_path / "bin" / "torchrun"
    script.parent.mkdir()
    script.write_text(f"#!/usr/bin/env -S python -u\n{TELL}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for name in ("run", "launch"):
        module = tmp_path / "modules" / "torch" / "distributed" / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(TELL)
        for folder in (module.parent, module.parent.parent):
            (folder / "__init__.py").touch()
    subject = site(had_path=True, job=JOB)

    def run(*words, job=JOB, towards="127.0.0.5", program=(str(script),), env=None):
        text = (subject.python / "sitecustomize.py").read_text()
        (subject.python / "sitecustomize.py").write_text(text[:text.rindex("serve(")] + f"serve(True, {job!r}, {towards!r}, True)\n")
        done = subject.run([*program, *words], path=f":{tmp_path}/modules", env=env)
        assert (done.code, done.stderr) == (0, ""), done.transcript()
        found = json.loads(done.stdout)
        found.pop("PET_LOG_DIR", None)
        return found

    run.script = str(script)
    run.logs = str(subject.python / "logs")
    run.subject = subject
    return run


@pytest.mark.parametrize("words", [
    "train.py",
    "--nproc_per_node=8 train.py --nnodes=1 --standalone",
    "--nproc-per-node 8 -m train --standalone",
    "-m train --rdzv_endpoint=localhost:0",
    "--rdzv_backend static --master_port 1 -- train.py --standalone",
    "--max_restarts 3 --log_dir=/logs --rdzv-id x train.py",
    "--nnodes 2 --node_rank=1 --master_addr=node-0 train.py",
    "--master_addr=node-0 train.py",
    "-t 3 --no_python bash --standalone",
])
def test_what_is_left_open_is_filled_in(pet, words):
    assert pet(*words.split()) == STATIC


@pytest.mark.parametrize("words", [
    "--standalone train.py", "--stand --nproc_per_node=8 train.py", "--nnodes=1 train.py", "--nnodes 1:1 train.py",
    "--rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py", "--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29400 train.py",
    "--master_addr localhost --master_port 6000 train.py", "--nnodes=1 --node_rank=0 --master_addr=localhost train.py",
])
def test_a_torchrun_that_must_stay_alone_gets_nothing_from_the_platform_either(pet, words):
    assert pet(*words.split()) == {}
    assert pet(*words.split(), env=ELASTIC) == {"PET_NPROC_PER_NODE": "8"}


def test_the_environment_may_say_so_too(pet):
    assert pet("train.py", env={"PET_STANDALONE": "1"}) == {"PET_STANDALONE": "1"}
    assert pet("train.py", env={"PET_NNODES": "1"}) == {}
    assert pet("train.py", env={"PET_NODE_RANK": "0"}) == {**STATIC, "PET_NODE_RANK": "0"}


@pytest.mark.parametrize(("job", "words", "found"), [
    (JOB, "--rdzv_backend=c10d train.py", MEET),
    (JOB, "--rdzv_backend=c10d --rdzv_endpoint=node-0:1 train.py", HOSTED),
    (JOB, "--rdzv_backend=c10d --rdzv_endpoint=node-0 train.py", HOSTED),
    (ELASTIC, "--rdzv_endpoint=node-0:1 train.py", {**HOSTED, "PET_NNODES": "2:4"}),
    ({**JOB, "PET_RDZV_ENDPOINT": "[fd00::1]:29500"}, "--rdzv-backend c10d --rdzv-endpoint [fd00::1]:1 train.py", HOSTED),
    (JOB, "--rdzv_backend=c10d --rdzv_endpoint=another:1 train.py",
     {name: value for name, value in HOSTED.items() if name != "PET_RDZV_CONF"}),
    (JOB, "--rdzv_backend=etcd-v2 --rdzv_endpoint=etcd:2379 train.py", {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8"}),
    (ELASTIC, "train.py", {**MEET, "PET_NNODES": "2:4", "PET_RDZV_BACKEND": "c10d"}),
    (ELASTIC, "--rdzv_backend=static train.py", {**STATIC, "PET_NNODES": "2:4"}),
    ({**JOB, "PET_MASTER_ADDR": "127.0.0.1"}, "--master_addr=localhost train.py", {**STATIC, "PET_MASTER_ADDR": "127.0.0.1"}),
    (None, "train.py", {}),
    ({}, "--standalone train.py", {}),
])
def test_each_rendezvous_gets_what_it_reads(pet, job, words, found):
    assert pet(*words.split(), job=job) == found


def test_the_masters_address_is_the_endpoint_by_another_name(pet):
    words = "--rdzv_backend=c10d --rdzv_endpoint=127.0.0.9:1 --nnodes=2 train.py".split()
    assert "PET_RDZV_CONF" not in pet(*words, towards="127.0.0.8")
    endpoint = {**JOB, "PET_MASTER_ADDR": "127.0.0.9"}
    assert pet(*words, job=endpoint, towards="127.0.0.9")["PET_RDZV_CONF"] == "is_host=false"


def test_the_local_address_is_given_where_it_is_needed_and_not_set(pet):
    assert pet("train.py", job=ELASTIC, towards="::1")["PET_LOCAL_ADDR"] == "::1"
    assert pet("train.py", job=ELASTIC, towards="127.0.0.7")["PET_LOCAL_ADDR"] == "127.0.0.1"
    assert pet("train.py", job=ELASTIC, env={"PET_LOCAL_ADDR": "10.0.0.9"})["PET_LOCAL_ADDR"] == "10.0.0.9"
    unset = {name: value for name, value in ELASTIC.items() if name != "PET_LOCAL_ADDR"}  # as where the platform sets it
    assert pet("train.py", job=unset, env={"PET_LOCAL_ADDR": "10.0.0.9"})["PET_LOCAL_ADDR"] == "10.0.0.9"
    assert "PET_LOCAL_ADDR" not in pet("--rdzv_backend=static", "train.py", job=ELASTIC)
    tell = [sys.executable, "-c", TELL]
    assert json.loads(pet.subject.run(tell, worker=True, env={**ELASTIC, "PET_LOCAL_ADDR": "127.0.0.1"}).stdout) == {}
    its_own = {"PET_LOCAL_ADDR": "10.0.0.9"}  # which the command has set
    assert json.loads(pet.subject.run(tell, worker=True, env={**ELASTIC, **its_own}).stdout) == its_own


@pytest.mark.parametrize("program", [
    ["torchrun"], ["python", "TORCHRUN"], ["python", "-u", "TORCHRUN"], ["python", "-m", "torch.distributed.run"],
    ["python", "-um", "torch.distributed.run"], ["python", "-mtorch.distributed.launch"],
    ["python", "-W", "ignore", "-X", "dev", "-B", "-m", "torch.distributed.launch", "--use_env"],
    ["env", "X=Y", "torchrun"], ["bash", "-c", "torchrun \"$@\"", "-"], ["bash", "-uc", "exec torchrun \"$@\"", "-"],
    ["timeout", "60", "torchrun"], ["nohup", "torchrun"], ["nice", "torchrun"], ["setsid", "-w", "torchrun"],
    ["env", "NODE_RANK=0", "NNODES=1", "torchrun"],
])
def test_torchrun_is_recognised_by_any_of_its_names_and_after_any_wrapper(pet, program):
    words = [pet.script if word == "TORCHRUN" else word for word in program]
    path = f"{os.path.dirname(pet.script)}:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
    assert pet("train.py", program=words, env={"PATH": path}) == STATIC


@pytest.mark.parametrize("program", [["python", "-c", TELL], ["python", "-c", TELL, "-m", "torch.distributed.run"]])
def test_no_other_program_sees_them(pet, program):
    assert pet("torchrun", program=[sys.executable, *program[1:]]) == {}


def test_a_worker_sees_the_platforms_variables_and_not_those_of_its_torchrun(pet):
    given = {**{name: value for name, value in JOB.items() if name != "PET_NNODES"}, "PET_LOG_DIR": pet.logs}
    done = pet.subject.run([sys.executable, "-c", TELL], worker=True, env={**JOB, **given, "PET_NNODES": "9"})
    assert json.loads(done.stdout) == {"PET_NNODES": "9"}


def test_its_logs_go_with_the_command_unless_somebody_wants_them(pet):
    def logs(*words, env=None):
        done = pet.subject.run([pet.script, *words], env=env)
        return json.loads(done.stdout).get("PET_LOG_DIR")

    assert logs("train.py") == pet.logs
    assert logs("--log-dir=/mine", "train.py") is None and logs("-t", "3", "train.py") is None
    assert logs("train.py", env={"PET_LOG_DIR": "/mine"}) == "/mine"
