"""Each package of a release is installed as its user would, and what comes out runs."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from container import podman
from lib.process import clean_environment
from lib.requirements import cannot
from packages.conftest import EPOCH, PYTHON, REPOSITORY, package

NOT_COPIED = {"build", "dist", ".venv", ".cache"}


def must(*command, **more):
    done = subprocess.run([str(word) for word in command], env=clean_environment(more.pop("env", None)),
                          capture_output=True, text=True, timeout=100, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def needs_root():
    if os.geteuid() != 0:
        cannot("needs root to install a package into a folder")


def runs(binary):
    return must(binary, "--version").startswith("rankshim ")


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.nightly
def test_the_packages_made_again_in_another_folder_time_zone_and_file_system_are_the_same(release, rankshim, tmp_path):
    shutil.copytree(REPOSITORY, tmp_path / "elsewhere", symlinks=True,
                    ignore=lambda folder, _: NOT_COPIED if folder == str(REPOSITORY) else ())
    (tmp_path / "elsewhere/.venv").symlink_to(REPOSITORY / ".venv")
    package(tmp_path / "elsewhere", tmp_path / "again", rankshim, TZ="Asia/Tokyo", TMPDIR="/dev/shm")
    assert hashes(tmp_path / "again") == hashes(release)


def test_the_sums_are_of_every_file(release, documented):
    listed = must(*documented("sha256sum "), cwd=release)
    assert {line.split(":")[0] for line in listed.splitlines()} == {*os.listdir(release)} - {"SHA256SUMS"}


@pytest.fixture
def bin(tmp_path):
    """The programs of a new environment. It has no pip: that of .venv works for it, and asks no index."""
    bin = tmp_path / "venv/bin"
    must(PYTHON, "-m", "venv", "--without-pip", bin.parent)
    (bin / "pip").write_text(f'#!/bin/sh\nexec "{PYTHON}" -m pip --python "{bin}/python" "$@"\n')
    (bin / "pip").chmod(0o755)
    return bin


def pip_install(command, release, bin, **variables):
    must(*command, cwd=release, env={"PATH": f"{bin}:/usr/bin:/bin", "PIP_NO_INDEX": "1", **variables})


def test_a_wheel_puts_the_binary_itself_on_path(release, documented, bin):
    pip_install(documented("pip install rankshim"), release, bin)
    python, binary = bin / "python", bin / "rankshim"
    assert binary.read_bytes()[:4] == b"\x7fELF"
    assert must(python, "-m", "rankshim", "--version") == must(binary, "--version")
    # It becomes the binary: no Python stays in between.
    assert must(python, "-m", "rankshim", "--", "sh", "-c", "tr '\\0' ' ' </proc/$PPID/cmdline").startswith(str(binary))
    binary.unlink()
    gone = subprocess.run([python, "-m", "rankshim"], capture_output=True, text=True)
    assert gone.returncode == 1 and "no rankshim in" in gone.stderr


def test_the_wheel_brings_rankshim_review_which_asks_the_wheels_binary(release, documented, bin):
    pip_install(documented('pip install "'), release, bin, PIP_NO_DEPS="1")
    (packages,) = bin.parent.glob("lib/python*/site-packages")
    example = REPOSITORY / "examples/kubeflow-v1/job.yaml"
    lacks = subprocess.run([bin / "rankshim-review", example], capture_output=True, text=True)
    assert lacks.returncode == 71
    assert re.fullmatch(r"rankshim-review: error: no Python module (yaml|tree_sitter\w*): pip install 'rankshim\[review\]'\n", lacks.stderr)
    # Instead of an index: its dependencies are among the packages of .venv.
    (packages / "of-the-tests.pth").write_text(f"{pathlib.Path(yaml.__file__).parents[1]}\n")
    reviewed = json.loads(must(bin / "rankshim-review", "--format", "json", example))
    assert [pod["node_rank"] for pod in reviewed["jobs"][0]["pods"]] == ["0", "1", "2"]
    (bin / "rankshim").unlink()
    gone = subprocess.run([bin / "rankshim-review", example], capture_output=True, text=True)
    assert gone.returncode != 0 and "no rankshim in" in gone.stderr and "Traceback" not in gone.stderr


def test_the_hook_of_pre_commit_starts_the_wheels_script():
    (hook,) = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split()[0] == "rankshim-review" and 'rankshim-review = "' in (REPOSITORY / "pyproject.toml").read_text()
    wanted = [path for path in ("job.yaml", "compose.yml", "job.sbatch", "train.py") if re.search(hook["files"], path)]
    assert wanted == ["job.yaml", "compose.yml", "job.sbatch"]


def test_a_wheel_is_for_every_c_library(only):
    """uv and ruff have the same tags."""
    for architecture in ("x86_64", "aarch64"):
        with zipfile.ZipFile(only(f"*_{architecture}.whl")) as wheel:
            (name,) = [name for name in wheel.namelist() if name.endswith("/WHEEL")]
            metadata = wheel.read(name).decode()
        assert set(re.findall(r"^Tag: py3-none-(.*)$", metadata, re.M)) == {
            f"manylinux2014_{architecture}", f"manylinux_2_17_{architecture}", f"musllinux_1_1_{architecture}"}


def test_the_sdist_describes_how_to_build_and_makes_the_wheel(only, rankshim, tmp_path):
    must("tar", "-C", tmp_path, "-xf", only("rankshim-?.?.?.tar.gz"))
    (source,) = tmp_path.iterdir()
    build = [PYTHON, "-m", "hatchling", "build", "--target", "wheel"]
    refused = subprocess.run(build, cwd=source, capture_output=True, text=True, env=clean_environment())
    assert refused.returncode != 0 and "scripts/build" in refused.stderr + refused.stdout
    assert os.access(source / "scripts/build", os.X_OK)
    must(*build, cwd=source, env={"RANKSHIM_BINARY": rankshim, "RANKSHIM_ARCH": "x86_64",
                                  "SOURCE_DATE_EPOCH": EPOCH})
    wheel = only("*_x86_64.whl")
    assert (source / "dist" / wheel.name).read_bytes() == wheel.read_bytes()


def expected(zsh):
    """What an installation puts below its prefix."""
    return {
        "bin/rankshim", "share/man/man1/rankshim.1.gz", "share/bash-completion/completions/rankshim",
        "share/fish/vendor_completions.d/rankshim.fish", f"{zsh}/_rankshim", "share/doc/rankshim/README.md",
        "share/doc/rankshim/CHANGELOG.md", "share/doc/rankshim/settings.md", "share/doc/rankshim/rankshim.toml",
        *(f"share/doc/rankshim/licenses/{name}.txt" for name in notices()),
    }


def notices():
    """The notices of the released binary, as CMakeLists.txt lists them."""
    text = (REPOSITORY / "CMakeLists.txt").read_text()
    return [*re.search(r"set\(notices (.*)\)", text)[1].split(),
            *re.search(r"APPEND notices (musl .*)\)", text)[1].split()]


def files(prefix):
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}


def test_the_tarball_holds_the_binary_the_licences_the_man_page_and_completions(release, documented, tmp_path):
    needs_root()
    must("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /usr/local && exec "$@"', tmp_path, *documented("tar "),
         cwd=release)
    assert files(tmp_path) == expected("share/zsh/site-functions") | {"share/doc/rankshim/LICENSE"}
    assert runs(tmp_path / "bin/rankshim")


def test_the_deb_installs_into_an_empty_root(only, tmp_path):
    needs_root()
    (tmp_path / "var/lib/dpkg/info").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/updates").mkdir()
    (tmp_path / "var/lib/dpkg/status").touch()
    must("dpkg", f"--root={tmp_path}", "--force-architecture", "--install", only("*_amd64.deb"))
    assert files(tmp_path / "usr") == expected("share/zsh/vendor-completions") | {"share/doc/rankshim/copyright"}
    assert runs(tmp_path / "usr/bin/rankshim")
    must("dpkg", f"--root={tmp_path}", "--verify", "rankshim")


def test_the_rpm_installs_into_an_empty_root(only, tmp_path):
    needs_root()
    must("rpm", f"--root={tmp_path}", "--ignorearch", "--install", only("*.x86_64.rpm"))
    assert files(tmp_path / "usr") - files(tmp_path / "usr/lib") >= expected("share/zsh/site-functions")
    listed = must("rpm", "--query", "--package", "--list", only("*.aarch64.rpm")).splitlines()
    assert "/usr/bin/rankshim" in listed and "/usr/share/doc/rankshim/LICENSE" in listed
    assert runs(tmp_path / "usr/bin/rankshim")


def test_the_image_has_both_architectures_and_labels(only, tmp_path):
    must("tar", "-C", tmp_path, "-xf", only("*-oci.tar"))

    def blob(descriptor):
        return json.loads((tmp_path / "blobs" / descriptor["digest"].replace(":", "/")).read_text())

    (index,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    images = blob(index)["manifests"]
    assert {image["platform"]["architecture"] for image in images} == {"amd64", "arm64"}
    for image in images:
        config = blob(blob(image)["config"])
        assert config["architecture"] == image["platform"]["architecture"]
        assert config["created"].startswith("2001-09-09T01:46:40")
        assert config["config"]["Entrypoint"] == ["/rankshim"]
        assert set(config["config"]["Labels"]) == {
            f"org.opencontainers.image.{name}" for name in ("title", "description", "version", "revision", "licenses")}
        assert len(config["rootfs"]["diff_ids"]) == 1


def test_the_image_loads_and_runs(only, release, documented, tmp_path):
    if reason := podman.why_not():
        cannot(reason)
    archive = only("*-oci.tar")
    with podman.Engine(tmp_path) as engine:
        loaded = engine.run("sh", "-c", 'cd "$0" && exec "$@"', release, *documented("podman load "))
        assert loaded.code == 0, loaded.transcript()
        name = archive.name.removesuffix("-oci.tar").replace("rankshim-", "localhost/rankshim:")
        assert engine.must("run", "--rm", "--network=none", name, "--version").startswith("rankshim ")


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_the_bill_of_materials_satisfies_its_schema_and_names_all_that_has_a_notice(only, architecture, rankshim):
    text = only(f"*-{architecture}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    (digest,) = bill["metadata"]["component"]["hashes"]
    assert digest["content"] == hashlib.sha256(pathlib.Path(rankshim).read_bytes()).hexdigest()
    llvm = {"libc++", "libc++abi", "libunwind"}
    texts = {"mit", "bsl-1.0", "llvm-exception", "rankshim"}
    named = {component["name"] for component in bill["components"]}
    assert named - llvm | {"llvm"} == set(notices()) - texts
    assert llvm <= named


def test_the_provenance_names_the_commit_and_every_library(only):
    text = only("*.provenance.txt").read_text()
    assert must("git", "-C", REPOSITORY, "rev-parse", "HEAD").strip() in text
    for name in ("c-ares", "musl", "libc++", "ziglang"):
        assert re.search(rf"^  {re.escape(name)} +\d", text, re.M), name
