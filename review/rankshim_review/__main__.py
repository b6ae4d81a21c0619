"""The script rankshim-review. It reviews manifests before a job runs or, with a subcommand, reports of jobs that have ended."""

from __future__ import annotations

import importlib
import sys


def main() -> int:
    if sys.version_info < (3, 9):  # noqa: UP036 - the wheel is for 3.8 too, whose binary needs no Python
        print(f"rankshim-review: error: this is Python {sys.version.split()[0]}; 3.9 or later is needed", file=sys.stderr)
        return 71
    arguments = sys.argv[1:]
    try:
        if arguments[:1] in (["trace"], ["collect"]):
            return int(importlib.import_module(f".{arguments[0]}", __package__).main(arguments[1:]))
        return int(importlib.import_module(".review", __package__).main(arguments))
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "rich", "tree_sitter", "tree_sitter_bash"):
            raise
        print(f"rankshim-review: error: no Python module {error.name}: pip install 'rankshim[review]'", file=sys.stderr)
        return 71
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
