#!/usr/bin/env python3
"""Makes every package of a release from binaries that are built: what scripts/release does after scripts/build.

    packaging/package.py FOLDER ARCHITECTURE=BINARY...    into the new folder FOLDER

Needs what `scripts/setup release` installs. Reproducible: the same sources, binaries and tools give the same bytes,
in any folder and at any time; times in the packages are SOURCE_DATE_EPOCH, else the commit's.
"""

import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import bill_of_materials
import provenance
import reference

ROOT = reference.ROOT
# An architecture's name in Debian and in OCI images.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
GNU_ONLY = "gnu.txt"  # the notice of the build by g++, which is not released


def main():
    binaries = dict(word.partition("=")[::2] for word in sys.argv[2:])
    if not binaries or not set(binaries) <= set(ARCHITECTURES):
        sys.exit("usage: packaging/package.py FOLDER x86_64=BINARY aarch64=BINARY")
    release = pathlib.Path(sys.argv[1]).resolve()
    release.mkdir(parents=True)
    os.environ.setdefault("SOURCE_DATE_EPOCH", provenance.git("log", "-1", "--format=%ct"))
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="rankshim-release-") as name:
        work = pathlib.Path(name)
        subprocess.run([sys.executable, ROOT / "packaging" / "reference.py", work / "reference"], check=True)
        for architecture, binary in binaries.items():
            make = Architecture(release, work / architecture, work / "reference", architecture, pathlib.Path(binary))
            make.binary()
            make.tarball()
            make.deb()
            make.rpm()
            make.wheel()
            make.bill_of_materials()
        hatchling(release, "sdist")
        image(release, work, binaries)
    (release / f"rankshim-{VERSION}.provenance.txt").write_text(provenance.text(VERSION, list(binaries)))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(release.iterdir())]
    (release / "SHA256SUMS").write_text("".join(sums))


VERSION = reference.version()


class Architecture:
    """What there is one of for each architecture."""

    def __init__(self, release, work, texts, architecture, binary):
        self._release, self._work, self._texts = release, work, texts
        self._architecture, self._binary = architecture, binary
        self._name = f"rankshim-{VERSION}-linux-{architecture}"
        work.mkdir()

    def binary(self):
        shutil.copy(self._binary, self._release / self._name)
        (self._release / self._name).chmod(0o755)

    def tree(self, prefix, zsh="share/zsh/site-functions"):
        """What an installation puts below a prefix."""
        copy_to(self._binary, prefix / "bin/rankshim", 0o755)
        copy_to(self._texts / "rankshim.bash", prefix / "share/bash-completion/completions/rankshim")
        copy_to(self._texts / "rankshim.fish", prefix / "share/fish/vendor_completions.d/rankshim.fish")
        copy_to(self._texts / "_rankshim", prefix / zsh / "_rankshim")
        page = prefix / "share/man/man1/rankshim.1.gz"
        page.parent.mkdir(parents=True)
        page.write_bytes(gzip.compress((self._texts / "rankshim.1").read_bytes(), mtime=0))
        documents = prefix / "share/doc/rankshim"
        for path in ("LICENSE", "README.md", "CHANGELOG.md", "docs/settings.md", "config/rankshim.toml"):
            copy_to(ROOT / path, documents / pathlib.Path(path).name)
        for notice in (ROOT / "licenses").glob("*.txt"):
            if notice.name != GNU_ONLY:
                copy_to(notice, documents / "licenses" / notice.name)

    def tarball(self):
        self.tree(self._work / "tarball" / self._name)
        tar(self._work / "tarball", [self._name], self._release / f"{self._name}.tar.gz",
            "--use-compress-program=gzip -9n")

    def deb(self):
        root = self._work / "deb"
        self.tree(root / "usr", zsh="share/zsh/vendor-completions")
        documents = root / "usr/share/doc/rankshim"
        (documents / "LICENSE").rename(documents / "copyright")  # Debian Policy 12.5
        debian = ARCHITECTURES[self._architecture]
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(
            f"Package: rankshim\nVersion: {VERSION}\nArchitecture: {debian}\nMaintainer: The rankshim authors\n"
            f"Installed-Size: {kibibytes(root)}\nSection: admin\nPriority: optional\n"
            "Description: container's entrypoint that launches PyTorch on any platform\n"
            " rankshim reads the rank variables of the platform, waits for the master, starts\n"
            " torchrun or any other program, passes signals on, and reports how it ended.\n")
        run("dpkg-deb", "--root-owner-group", "--build", root, self._release / f"rankshim_{VERSION}_{debian}.deb")

    def rpm(self):
        self.tree(self._work / "rpm/tree/usr")
        folder = self._work / "rpm"
        run("rpmbuild", "-bb", "--quiet", f"--target={self._architecture}-linux", f"--define=_topdir {folder}/build",
            f"--define=_rpmdir {self._release}", "--define=_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
            f"--define=version {VERSION}", f"--define=tree {folder}/tree", ROOT / "packaging/rankshim.spec")

    def wheel(self):
        hatchling(self._release, "wheel", RANKSHIM_BINARY=str(self._binary.resolve()), RANKSHIM_ARCH=self._architecture)

    def bill_of_materials(self):
        text = bill_of_materials.text(VERSION, self._architecture, self._binary)
        (self._release / f"{self._name}.cdx.json").write_text(text)


def image(release, work, binaries):
    """An image of all architectures, as an archive of OCI's image layout."""
    podman = ["podman", f"--root={work}/podman/root", f"--runroot={work}/podman/run", "--storage-driver=vfs"]
    labels = {"title": "rankshim", "description": "A container's entrypoint that launches PyTorch on any platform",
              "version": VERSION, "revision": provenance.commit(), "licenses": "MIT"}
    for architecture, binary in binaries.items():
        context = work / "image" / architecture
        copy_to(binary, context / "rankshim", 0o755)
        run(*podman, "build", "--quiet", "--isolation=chroot", "--layers=false", "--identity-label=false",
            f"--timestamp={os.environ['SOURCE_DATE_EPOCH']}", f"--platform=linux/{ARCHITECTURES[architecture]}",
            f"--manifest=rankshim:{VERSION}", f"--file={ROOT}/packaging/Containerfile",
            *(f"--label=org.opencontainers.image.{key}={value}" for key, value in labels.items()), context)
    run(*podman, "manifest", "push", "--quiet", "--all", f"rankshim:{VERSION}", f"oci:{work}/oci:rankshim:{VERSION}")
    tar(work / "oci", ["blobs", "index.json", "oci-layout"], release / f"rankshim-{VERSION}-oci.tar")


def hatchling(release, target, **variables):
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", release, cwd=ROOT,
        env=os.environ | variables)


def copy_to(source, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(mode)


def kibibytes(folder):
    """As Debian counts an installed size: each file and folder rounded up (deb-substvars(5))."""
    return sum(max(1, -(-path.stat().st_size // 1024)) if path.is_file() else 1 for path in folder.rglob("*"))


def tar(folder, names, target, *options):
    run("tar", "-C", folder, "--sort=name", f"--mtime=@{os.environ['SOURCE_DATE_EPOCH']}", "--owner=0", "--group=0",
        "--numeric-owner", "--format=gnu", *options, "-cf", target, *names)


def run(*command, **more):
    """What it prints is shown only where it fails."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **more)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}package: {command[0]} ended with {done.returncode}")


if __name__ == "__main__":
    main()
