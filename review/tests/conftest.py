"""RANKSHIM is the binary to ask (default: dist/rankshim), as in integration/."""

import os
import pathlib

import pytest
from rankshim_review.binary import Binary

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def rankshim() -> str:
    return os.environ.get("RANKSHIM") or str(REPOSITORY / "dist" / "rankshim")


@pytest.fixture(scope="session")
def binary(rankshim):
    found = Binary(rankshim)
    if not found.isolates:
        assert os.environ.get("CI") != "true", "no user namespaces"
        pytest.skip("needs root or user namespaces")
    yield found
    found.close()


@pytest.fixture
def review(binary, rankshim, capsys, monkeypatch):
    """Runs rankshim-review in this process: review(WORD...) is its exit code, stdout and stderr."""
    from rankshim_review.review import main

    def run(*words):
        try:
            code = main(["--rankshim", rankshim, *map(str, words)])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run
