"""The script rankshim-review: manifests before a job runs, or, with a subcommand, reports of jobs that have ended."""

from __future__ import annotations

import sys


def main() -> int:
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["trace"]:
            from .trace import main as trace
            return trace(arguments[1:])
        if arguments[:1] == ["collect"]:
            from .collect import main as collect
            return collect(arguments[1:])
        from .review import main as review
        return review(arguments)
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "rich"):
            raise
        print("rankshim-review: error: PyYAML and rich are needed: pip install 'rankshim[review]'", file=sys.stderr)
        return 71
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
