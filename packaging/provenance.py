"""What a release was made from and with, as a text for building it again."""

import importlib.metadata
import os
import subprocess

from ingredients import ROOT, ingredients, os_release, output

# The programs whose versions can change a byte of what is released, pip's packages aside.
TOOLS = ("cmake", "dpkg-deb", "gzip", "ninja", "podman", "python3", "rpmbuild", "tar", "xz")


def text(version, architectures):
    """For a release of these architectures."""
    system = os_release()["PRETTY_NAME"]
    libraries = [(part.name, f"{part.version}  {part.purl}") for part in ingredients()]
    tools = [(name, output(name, "--version").splitlines()[0]) for name in TOOLS]
    tools += [(name, f"{importlib.metadata.version(name)}  pinned in scripts/pins") for name in
              ("ziglang", "hatchling", "cyclonedx-python-lib")]
    return f"""\
rankshim {version}: where this release comes from

source       commit {commit()}
time         SOURCE_DATE_EPOCH={os.environ["SOURCE_DATE_EPOCH"]}, the commit's
made on      {system}
made by      scripts/release {version} {" ".join(architectures)}

To make it again: on that system with the versions below, in a clone of the commit, run that command, and compare
SHA256SUMS.

linked in
{table(libraries)}
tools
{table(tools)}"""


def commit():
    """The commit of this working tree, and whether it has changes that are not committed."""
    return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain") else "")


def git(*arguments):
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"package: no git repository, so no commit to name: {done.stderr.strip()}")
    return done.stdout.strip()


def table(rows):
    width = max(len(name) for name, _ in rows)
    return "".join(f"  {name:<{width}}  {value}\n" for name, value in rows)
