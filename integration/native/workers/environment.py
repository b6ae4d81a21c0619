"""A worker without torch that prints what it was started with."""

import json
import os
import sys

with open("/proc/self/environ") as file:
    given = dict(entry.split("=", 1) for entry in file.read().split("\0") if entry)
# One write: torchrun's workers share standard output.
sys.stdout.write(json.dumps({"given": given, "seen": dict(os.environ), "argv": sys.argv}) + "\n")
