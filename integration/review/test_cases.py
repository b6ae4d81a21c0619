"""The cases name what is found in them, at its line: `# error: CHECK, CHECK`."""

import json
import pathlib
import re

import pytest
from rankshim_review.checks import PER_POD

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CASES = sorted((pathlib.Path(__file__).with_name("cases")).iterdir())


def expected(path):
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for level, checks in re.findall(r"# (error|warning): (\w+(?:, \w+)*)(?= # |$)", line):
            found += [(level, check.strip(), number) for check in checks.split(",")]
    return sorted(found)


def found_in(path, review):
    code, out, err = review("--format", "json", path)
    assert err == ""
    return code, json.loads(out)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_case_has_what_its_comments_say_and_nothing_else(path, review):
    code, document = found_in(path, review)
    found = sorted((each["level"], each["check"], each["line"]) for each in document["findings"])
    assert found == expected(path), json.dumps(document["findings"], indent=1)
    assert code == (78 if "error" in [level for level, _, _ in found] else 0)


def test_every_check_has_a_case():
    named = {check for path in CASES for _, check, _ in expected(path)}
    # A machine that lets nobody set a host name: test_review.py
    assert {check.__name__ for check in PER_POD} - {"unseen"} | {"agree", "note", "unread", "unreadable"} == named


def test_strict_makes_a_warning_an_exit_code(review):
    case = REPOSITORY / "integration/review/cases/shm.yaml"
    assert (review(case)[0], review("--strict", case)[0]) == (0, 1)


# What is true of the manifests of examples/ and install/: some are short, and some are patches of Kustomize.
ACCEPTED = {"shared_memory", "restarts", "bypass", "unread"}
MANIFESTS = sorted(path for folder in ("examples", "install") for pattern in ("*.yaml", "*.sbatch")
                   for path in (REPOSITORY / folder).rglob(pattern) if "templates" not in path.parts)


def test_the_repositorys_own_manifests_are_refused_nowhere(review):
    code, out, err = review("--format", "json", *MANIFESTS)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert {each["check"] for each in document["findings"]} <= ACCEPTED
    # The one that bypasses is what kustomize then changes.
    assert {each["file"] for each in document["findings"] if each["check"] == "bypass"} == {
        str(REPOSITORY / "install/kustomize/example/job.yaml")}
    reviewed = {pathlib.Path(job["file"]).parent.name for job in document["jobs"]}
    assert reviewed >= {"kubeflow-v1", "kubeflow-v2", "volcano", "jobset", "indexed-job", "leaderworkerset", "mpi", "slurm",
                        "docker-compose", "kueue", "cube-studio", "modelarts-lite", "openmmlab", "compose"}
    assert not [pod for job in document["jobs"] for pod in job["pods"] if pod["differs"]]
