"""The packages of a release, made once from the binary under test."""

import os
import pathlib
import re
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


@pytest.fixture
def documented(release):
    """A command of docs/in-an-image.md for this machine's package, by how it starts, to be run in the folder of the release:
    documented("pip install ")."""
    page = (REPOSITORY / "docs" / "in-an-image.md").read_text()
    (text,) = re.findall(r"^## From a package\n(.*?)^## ", page, re.M | re.S)
    version = next(release.glob("*-oci.tar")).name.removeprefix("rankshim-").removesuffix("-oci.tar")
    debians = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()

    def find(start):
        (command,) = re.findall(rf"`({start}[^`]*)`", text)
        for shown, here in {"VERSION": version, "x86_64": os.uname().machine, "amd64": debians}.items():
            command = command.replace(shown, here)
        return ["bash", "-ec", command]

    return find
