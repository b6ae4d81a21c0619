"""The documents keep their word: every console example is run, every link leads somewhere."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from lib.requirements import cannot

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for folder in ("", "docs/", "examples/", "examples/*/", "install/", "integration/*/")
    for path in REPOSITORY.glob(f"{folder}*.md")
)
# Commands of ```sh blocks that are too large for an example, and where they are run.
RUN_ELSEWHERE = {
    "scripts/demo": "integration/scripts",
    "scripts/test": "this very run",
    "scripts/test nightly": "every night: it compiles for minutes",
    "scripts/test quick": "a part of this very run",
    "scripts/bench": "integration/scripts",
    "scripts/build": "scripts/test",
    "scripts/scale": "integration/scripts",
    "scripts/setup": "scripts/test",
}


def blocks(language):
    for document in DOCUMENTS:
        for number, match in enumerate(re.finditer(rf"^```{language}\n(.*?)^```", document.read_text(), re.M | re.S)):
            yield pytest.param(match[1], id=f"{document.relative_to(REPOSITORY)}-{number}")


def examples(block):
    """The commands of a console block ("$ " begins one, "> " goes on) with the output that the document shows."""
    command, shown = None, []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            if command is not None:
                yield command, "".join(shown)
            command, shown = line[2:], []
        elif line.startswith("> ") and not shown:
            command += line[2:]
        else:
            shown.append(line)
    if command is not None:
        yield command, "".join(shown)


@pytest.mark.parametrize("block", list(blocks("console")))
def test_a_console_example_prints_what_the_document_shows(block, rankshim, tmp_path):
    if "unshare " in block and os.geteuid() != 0:
        cannot("needs root for PID namespaces")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rankshim").symlink_to(rankshim)
    (tmp_path / "bin" / "python3").symlink_to("/usr/bin/python3")
    (tmp_path / "train.py").touch()
    (tmp_path / "run.sh").touch()
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    found = list(examples(block))
    assert found, "a console block without a command"
    for command, shown in found:
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            text=True,
        )
        assert done.stdout == shown, command


@pytest.mark.parametrize("block", list(blocks("sh")))
def test_a_shell_block_names_only_scripts_that_a_test_runs(block):
    for line in block.splitlines():
        command = line.split("#")[0].strip()
        if not command:
            continue
        assert command in RUN_ELSEWHERE, f"{command}: run it in a test and say where"
        script = REPOSITORY / command.split()[0]
        assert os.access(script, os.X_OK)


@pytest.mark.parametrize("block", list(blocks("shell")))
def test_a_block_for_a_cluster_is_correct_shell_and_names_files_that_exist(block):
    """What needs a cluster, a registry or Docker cannot be run here. integration/examples tries the files."""
    checked = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, timeout=30)
    assert checked.returncode == 0, checked.stderr
    for path in re.findall(r"(?:^|[\s=])((?:examples|install)/[^\s]+)", block):
        assert (REPOSITORY / path).exists(), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_between_documents_leads_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (document.parent / target).exists(), target


def test_the_readme_is_one_screen_and_its_platforms_are_profiles():
    text = (REPOSITORY / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    (table,) = re.findall(r"^## Platforms\n(.*?)^## ", text, re.M | re.S)
    named = [name for row in re.findall(r"^\| \w.*$", table, re.M) for name in re.findall(r"`([\w-]+)`", row)]
    assert named and {name for name in named if not (REPOSITORY / f"config/platforms/{name}.toml").exists()} == set()


def test_the_configuration_reference_is_what_the_tables_say(tmp_path):
    now = tmp_path / "configuration.md"
    written = subprocess.run([sys.executable, REPOSITORY / "packaging/reference.py", "--docs", now],
                             capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    assert now.read_text() == (REPOSITORY / "docs/configuration.md").read_text(), (
        "options.h or usage.h has changed: packaging/reference.py --docs")
