"""Puts a binary that was built before into the wheel: on PATH, without a Python script that would start it.

RANKSHIM_BINARY  the static binary, as scripts/build makes it
RANKSHIM_ARCH    what it is for: x86_64 or aarch64
"""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# A static binary needs no C library, so every tag is true. PEP 600, PEP 656; as uv's wheels have them.
TAG = "py3-none-manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}"


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        binary, architecture = os.environ.get("RANKSHIM_BINARY"), os.environ.get("RANKSHIM_ARCH")
        if not binary or not architecture:
            raise SystemExit("rankshim is a C++ program, which pip does not compile. On Debian 12 or Ubuntu 24.04 run "
                             "scripts/build in this folder, then pip with RANKSHIM_BINARY=$PWD/dist/rankshim and "
                             f"RANKSHIM_ARCH={os.uname().machine}")
        build_data["shared_scripts"][os.path.abspath(binary)] = "rankshim"
        build_data["pure_python"] = False
        build_data["tag"] = TAG.format(architecture)
