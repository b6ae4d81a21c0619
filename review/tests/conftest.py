"""RANKSHIM is the binary to ask (default: dist/rankshim), as in integration/."""

import os
import pathlib

import pytest
from rankshim_review.binary import Binary, Unusable

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def rankshim() -> str:
    return os.environ.get("RANKSHIM") or str(REPOSITORY / "dist" / "rankshim")


@pytest.fixture(scope="session")
def binary(rankshim):
    found = Binary(rankshim)
    try:
        found.run(["version"], {}, host="any")
    except Unusable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
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
