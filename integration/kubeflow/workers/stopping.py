"""A worker without torch, for how things end: `stopping.py save|deaf|plain|CODE`.

save: at SIGTERM prints a line, saves, ends with 0.  deaf: ignores SIGTERM.  plain: is ended by it.
CODE: ends with that exit code at once; -N dies of signal N.
"""

import os
import signal
import sys


def save(number, _):
    sys.stdout.write(f"GOT {signal.Signals(number).name}\nSAVED\n")
    sys.stdout.flush()
    os._exit(0)


def main(what):
    if what == "save":
        signal.signal(signal.SIGTERM, save)
    elif what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif what != "plain":
        code = int(what)
        if code < 0:
            os.kill(os.getpid(), -code)
        sys.exit(code)
    sys.stdout.write(f"TRAINING rank={os.environ['RANK']}\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
