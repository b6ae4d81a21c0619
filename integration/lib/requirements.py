"""What a test needs of the machine."""

import os

import pytest


def cannot(reason):
    """Skips the test with the reason; fails it with CI=true, where everything must be tried."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, but {reason}", pytrace=False)
    pytest.skip(reason)
