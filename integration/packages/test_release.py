"""scripts/release itself, and the workflows that call the scripts."""

import os
import re
import subprocess

import pytest
import yaml

from lib import network as networks
from packages.conftest import PYTHON, REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))


def release(repository, *arguments, timeout=60):
    return subprocess.run([*networks.machine_network(), repository / "scripts/release", *arguments],
                          capture_output=True, text=True, timeout=timeout)


def clone_into(folder):
    subprocess.run(["git", "clone", "-q", REPOSITORY, folder], check=True)
    return folder


def version(repository):
    return re.search(r"^project\(rankshim VERSION (\S+)", (repository / "CMakeLists.txt").read_text(), re.M)[1]


def test_another_version_is_refused_in_one_line():
    done = release(REPOSITORY, "99.0.0")
    assert done.returncode == 64
    assert re.fullmatch(r"release: the version is \d+\.\d+\.\d+, not 99\.0\.0: .*CMakeLists\.txt.*\n", done.stderr)


def test_an_uncommitted_change_is_refused_and_named(tmp_path):
    clone = clone_into(tmp_path / "clone")
    (clone / "new").touch()
    done = release(clone, version(clone))
    assert done.returncode == 1
    assert done.stderr == "release: not committed, so no release could name its source: ?? new\n"


def test_a_release_that_fails_leaves_no_folder_behind(tmp_path):
    """What makes the packages is in the clone one that fails when it has begun; building takes minutes."""
    clone = clone_into(tmp_path / "clone")
    for script in ("build", "setup"):
        (clone / "scripts" / script).write_text("#!/bin/sh\n")
    (clone / "packaging" / "package.py").write_text("import os, sys\nos.makedirs(sys.argv[1])\nsys.exit('no binary')\n")
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").symlink_to(PYTHON)
    git = ["git", "-C", clone, "-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run([*git, "commit", "-qam", "Nothing is built"], check=True)
    done = release(clone, version(clone), "x86_64")
    assert (done.returncode, done.stderr) == (1, "no binary\n")
    assert not list((clone / "dist").iterdir())


@pytest.fixture(scope="module")
def two_releases(tmp_path_factory):
    """SHA256SUMS of two whole releases, built in two fresh clones. A fixture: building has no limit of time."""
    sums = []
    for name in ("one", "another"):
        clone = clone_into(tmp_path_factory.mktemp(name) / "rankshim")
        done = release(clone, version(clone), timeout=3600)
        assert done.returncode == 0, done.stdout + done.stderr
        sums.append((clone / f"dist/release-{version(clone)}/SHA256SUMS").read_text())
    return sums


@pytest.mark.nightly
def test_two_builds_of_one_commit_give_the_same_hashes(two_releases):
    assert two_releases[0] == two_releases[1]
    assert "-aarch64.cdx.json" in two_releases[0]


def test_actionlint_finds_nothing_in_the_workflows():
    done = subprocess.run([PYTHON.parent / "actionlint", *WORKFLOWS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


DEBIAN = r"debian:bookworm@sha256:[0-9a-f]{64}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_by_hash_what_it_runs_and_leaves_no_credentials(workflow):
    text = workflow.read_text()
    taken = re.findall(r"uses: (.*)", text)
    assert taken and [each for each in taken if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each)] == []
    jobs = yaml.safe_load(text)["jobs"].values()
    assert [job for job in jobs if not re.fullmatch(DEBIAN, job["container"]["image"])] == []
    checkouts = [step for job in jobs for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False]


def test_the_image_and_the_workflows_start_from_one_debian_by_its_digest():
    bases = re.findall("^FROM (.*) AS build$", (REPOSITORY / "Dockerfile").read_text(), re.M)
    bases += [job["container"]["image"] for workflow in WORKFLOWS for job in yaml.safe_load(workflow.read_text())["jobs"].values()]
    assert len(bases) == 3 and len(set(bases)) == 1 and re.fullmatch(DEBIAN, bases[0])
    others = re.findall("^FROM (.*)$", (REPOSITORY / "packaging/Containerfile").read_text(), re.M)
    assert others == ["scratch"]


def test_the_release_attests_each_of_its_files():
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text())
    steps = workflow["jobs"]["release"]["steps"]
    (attested,) = [at for at, step in enumerate(steps) if step.get("uses", "").startswith("actions/attest@")]
    (made,) = [at for at, step in enumerate(steps) if step.get("run", "").startswith("scripts/release ")]
    assert made < attested and steps[attested]["with"] == {"subject-path": "dist/release-*/*"}
    assert workflow["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_step_of_a_workflow_is_a_script_of_the_repository(workflow):
    steps = [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands
    for command in commands:
        if not command.startswith("apt-get "):  # git, without which there is no checkout
            assert os.access(REPOSITORY / command.split()[0], os.X_OK), command
