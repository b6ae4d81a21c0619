"""The table of CPython's offsets (shim/look/python_offsets.inc) against the headers of this machine."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from lib.requirements import cannot

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TABLE = "shim/look/python_offsets.inc"


def headers():
    """The folders of CPython's headers, 3.8 and later: Debian's, and those of pyenv."""
    if not shutil.which("cc"):
        cannot("missing: cc (scripts/setup installs it)")
    folders = [*pathlib.Path("/usr/include").glob("python3.*"), *pathlib.Path.home().glob(".pyenv/versions/*/include/python3.*")]
    found = [str(folder) for folder in folders if re.fullmatch(r"python3\.([89]|1\d)", folder.name)]
    found = [folder for folder in found if pathlib.Path(folder, "internal").is_dir()]
    return found or cannot("missing: CPython's headers (libpython3-dev)")


def check(repository, *folders):
    command = [sys.executable, str(repository / "scripts" / "python-offsets"), "--check", *folders]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_of_offsets_is_what_the_headers_say():
    done = check(REPOSITORY, *headers())
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_row_that_differs_from_the_headers_is_named(tmp_path):
    for name in ("scripts/python-offsets", TABLE):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    table = tmp_path / TABLE
    table.write_text(re.sub(r"\.previous_frame = \d+", ".previous_frame = 4000", table.read_text()))
    done = check(tmp_path, headers()[0])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "python_offsets.inc has no such row" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--check", "/nowhere"]])
def test_without_headers_it_fails(arguments):
    command = [sys.executable, str(REPOSITORY / "scripts" / "python-offsets"), *arguments]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
