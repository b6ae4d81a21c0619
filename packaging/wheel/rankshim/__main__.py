"""python -m rankshim: becomes the binary that the wheel put among the scripts."""

import os
import pathlib
import sys
import sysconfig


def find_rankshim() -> str:
    """The binary that came with this package: in the environment, the user's folders, or `pip install --target`'s."""
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else "posix_user"
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=user),
        str(pathlib.Path(__file__).resolve().parent.parent / "bin"),
    ]
    for folder in folders:
        binary = os.path.join(folder, "rankshim")
        if os.access(binary, os.X_OK):
            return binary
    sys.exit(f"rankshim: error: no rankshim in {', '.join(folders)}; install its wheel again")


if __name__ == "__main__":
    binary = find_rankshim()
    if sys.argv[1:2] == ["demo"]:
        os.environ.setdefault("RANKSHIM_PYTHON", sys.executable)
    os.execv(binary, [binary, *sys.argv[1:]])
