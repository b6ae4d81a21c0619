"""A Python process that starts with rankshim's sitecustomize behaves as it would without it."""

import json
import shutil
import subprocess
import sys

import pytest

TELL = """import json, os, sys
before = sys.modules.get("sitecustomize")
try:
    import sitecustomize
    own = sitecustomize.__file__
except ImportError:
    own = None
print(json.dumps({"variable": os.environ.get("PYTHONPATH"), "path": sys.path, "own": own, "loaded": before is not None}))
"""
NAMES = ["python2", *[f"python3.{minor}" for minor in range(6, 15)]]


def started(site, options=(), python=sys.executable, **how):
    """The output of TELL from a process with rankshim's folder first in PYTHONPATH."""
    (site.folder / "tell.py").write_text(TELL)
    done = site.run([python, *options, site.folder / "tell.py"], **how)
    assert (done.code, done.stderr) == (0, ""), done.transcript()
    return json.loads(done.stdout)


@pytest.fixture
def own(tmp_path):
    """A folder with a sitecustomize of the image's."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys\nassert 'rankshim-site' not in str(sys.path)\n")
    return str(tmp_path / "own")


def test_our_folder_is_off_the_path_and_the_children_of_the_command_still_get_it(site):
    subject = site()
    found = started(subject)
    assert found["variable"] == str(subject.python)
    assert str(subject.python) not in found["path"]
    bare = started(subject, env={"PYTHONPATH": ""})  # Ubuntu has a sitecustomize, Debian has none
    assert (found["own"], found["loaded"]) == (bare["own"], bare["loaded"])


@pytest.mark.parametrize("worker", [False, True])
def test_the_images_own_sitecustomize_runs_and_is_the_one_that_is_known(site, own, worker):
    found = started(site(had_path=True), path=f":{own}", worker=worker)
    assert (found["own"], found["loaded"]) == (f"{own}/sitecustomize.py", True)
    assert own in found["path"]


@pytest.mark.parametrize(("had_path", "before", "after", "left"), [
    (False, "", "", None),
    (True, "", ":/a:/b", "/a:/b"),
    (True, "/x:", ":/a", "/x:/a"),
    (False, "", ":/added", ":/added"),
    (False, "/added:", "", "/added:"),
])
def test_in_a_worker_pythonpath_is_what_it_would_be_without_us(site, tmp_path, had_path, before, after, left):
    subject = site(had_path)
    found = started(subject, worker=True, env={"PYTHONPATH": f"{before}{subject.python}{after}"})
    assert found["variable"] == left
    bare = started(subject, env={"PYTHONPATH": left or ""})
    assert found["path"] == bare["path"]


def test_an_error_of_the_images_sitecustomize_is_reported_by_python_as_usual(site, tmp_path, own):
    (tmp_path / "own" / "sitecustomize.py").write_text("raise ValueError('own')\n")
    done = site(True).run([sys.executable, "-c", "print('on')"], path=f":{own}")
    assert (done.code, done.stdout) == (0, "on\n")
    assert done.stderr == "Error in sitecustomize; set PYTHONVERBOSE for traceback:\nValueError: own\n"


@pytest.mark.parametrize("options", [["-I"], ["-S"], ["-E"]])
def test_an_isolated_python_never_reads_us(site, options):
    subject = site()
    (subject.python / "sitecustomize.py").write_text("print('read')\n")
    assert subject.run([sys.executable, "-c", ""]).stdout == "read\n"
    assert subject.run([sys.executable, *options, "-c", ""]).stdout == ""


def test_where_the_working_directory_is_gone_a_python_still_starts(site, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = site().run(["sh", "-c", f"cd {gone} && rmdir {gone} && exec python -c 'print(1)'"], path=":/added")
    assert (done.code, done.stdout) == (0, "1\n"), done.transcript()


@pytest.fixture(scope="module")
def others():
    """The other Pythons in PATH. (A name can be there and start nothing: pyenv's.)"""
    paths = [path for path in map(shutil.which, NAMES) if path]
    return [path for path in paths if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]


@pytest.mark.parametrize("worker", [False, True])
def test_any_other_python_starts_too(site, own, others, worker):
    if not others:
        pytest.skip("no other Python is in PATH")
    for python in others:
        found = started(site(had_path=True), python=python, path=f":{own}", worker=worker)
        assert found["loaded"] and found["own"].startswith(f"{own}/sitecustomize.py"), python
