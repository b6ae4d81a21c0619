"""A /tmp of a test's own, for programs that have fixed names there."""

import pathlib
import shlex

REPOSITORY = shlex.quote(str(pathlib.Path(__file__).resolve().parents[2]))


def over_tmp(mount):
    """A shell's words that mount something over /tmp, in a mount namespace of the test's. A checkout below /tmp stays there."""
    return f"""
mount -t tmpfs tmpfs /mnt && mkdir /mnt/checkout && mount --bind {REPOSITORY} /mnt/checkout
{mount}
mkdir -p {REPOSITORY} && mount --bind /mnt/checkout {REPOSITORY}
"""
