"""rankshim-review in this process, and the binary that it asks."""

import pytest
from lib.requirements import cannot
from rankshim_review.binary import Binary


@pytest.fixture(scope="session")
def binary(rankshim):
    found = Binary(rankshim)
    if not found.isolates:
        cannot(found.why_not)
    yield found
    found.close()


@pytest.fixture
def review(binary, rankshim, capsys):
    """Runs rankshim-review in this process: review(WORD...) is its exit code, stdout and stderr."""
    from rankshim_review.review import main

    def run(*words):
        try:
            code = main(["--rankshim", rankshim, *map(str, words)])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run
