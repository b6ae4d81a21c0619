"""The packages of a release, made once from the binary under test."""

import pathlib
import shutil
import subprocess

import pytest

from lib.process import clean_environment
from lib.requirements import cannot, why_not_static

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PYTHON = REPOSITORY / ".venv/bin/python"
# 2001-09-09: what takes the time of day instead shows.
EPOCH = "1000000000"


def package(repository, folder, binary, **variables):
    """Runs packaging/package.py of a checkout; the one binary is used for both architectures."""
    done = subprocess.run(
        [PYTHON, repository / "packaging/package.py", folder, f"x86_64={binary}", f"aarch64={binary}"],
        env={**clean_environment(variables), "SOURCE_DATE_EPOCH": EPOCH}, capture_output=True, text=True, timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def release(rankshim, tmp_path_factory):
    """The folder that scripts/release would make."""
    missing = [tool for tool in ("dpkg-deb", "podman", "rpmbuild") if shutil.which(tool) is None]
    if missing:
        cannot(f"missing: {', '.join(missing)} (scripts/setup installs them)")
    if reason := why_not_static(rankshim):
        cannot(reason)
    folder = tmp_path_factory.mktemp("release") / "packages"
    package(REPOSITORY, folder, rankshim)
    return folder


@pytest.fixture
def only(release):
    """The one file of the release that a pattern means: only("*_amd64.deb")."""

    def find(pattern):
        (path,) = release.glob(pattern)
        return path

    return find
