"""An image that has PyTorch and knows nothing of rankshim: Debian, its own Python, and PyTorch where pip puts it."""

import pathlib
import sys

from container import podman
from lib.requirements import cannot

IMAGE = "localhost/stranger"
PACKAGES = "/usr/local/lib/python3.11/dist-packages"  # where pip of Debian 12 installs
DEBIANS_PYTHON = (3, 11)


def make_image(engine):
    """Makes IMAGE, without PyTorch: that is too large to be copied, so torch_folder() is mounted at PACKAGES."""
    if sys.version_info[:2] != DEBIANS_PYTHON:
        cannot("PyTorch in .venv is for another Python than Debian 12's")
    if engine.podman("image", "exists", IMAGE).code != 0:
        podman.make_base_image(engine, [IMAGE], "python3")


def torch_folder():
    """The folder on this machine that has the package torch."""
    return next(path for path in sys.path if (pathlib.Path(path) / "torch" / "__init__.py").exists())
