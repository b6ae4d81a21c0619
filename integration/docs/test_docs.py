"""Every block of code in the documents is run or checked, and every link leads somewhere."""

import re
import subprocess
import sys
import tomllib
from decimal import ROUND_HALF_UP, Decimal

import pytest

from lib.documents import DOCUMENTS, REPOSITORY, blocks, scripts, shell
from lib.process import clean_environment, run

# What checks the blocks of each language: the file that takes all of them. A block of `shell`, or with a mark, is named by a test.
CHECKED_BY = {
    "console": "integration/docs/test_paste.py",
    "diff": "integration/examples/test_fragments.py",
    "dockerfile": "integration/container/test_dockerfiles.py",
    "python": "integration/docs/test_docs.py",
    "shell": "a test that calls lib.documents.shell(DOCUMENT, HEADING)",
    "text": "integration/docs/test_docs.py",
    "toml": "integration/docs/test_docs.py",
    "yaml": "integration/examples/test_fragments.py",
}
# Commands of this repository's own, and what runs each of them: a file, and the words for it there.
RUN_BY = {
    ".venv/bin/python -m pytest -m nightly integration/openmmlab": ("scripts/test", ".venv/bin/pytest integration "),
    "rankshim demo": ("integration/subcommands/test_demo.py", "shown_in_the_guide()"),
    "scripts/bench": ("integration/scripts/test_scripts.py", 'script("bench"'),
    "scripts/build": ("scripts/test", "scripts/build"),
    "scripts/demo": ("integration/scripts/test_scripts.py", '["demo"'),
    "scripts/release 0.1.0": ("integration/packages/test_release.py", '"scripts/release"'),
    "scripts/scale": ("integration/scripts/test_scripts.py", 'script("scale"'),
    "scripts/setup nightly": ("scripts/test", "tests=nightly"),
    "scripts/test": (".ci/run", "exec scripts/test"),
}


def each(*languages):
    return pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in blocks(*languages)])


def test_every_block_has_a_language_whose_blocks_are_checked():
    assert [block.name for block in blocks() if block.language not in CHECKED_BY] == []
    assert {block.language for block in blocks()} == set(CHECKED_BY)
    for language, path in CHECKED_BY.items():
        if language != "shell":
            assert f'"{language}"' in (REPOSITORY / path).read_text(), path


def test_every_shell_block_is_run_by_a_test_that_names_it():
    tests = "\n".join(path.read_text() for path in (REPOSITORY / "integration").rglob("test_*.py"))
    named = re.findall(r'\bshell\("([^"]+\.md)", "([^"]+)"\)', tests)
    assert sorted((block.document, block.heading) for block in scripts() if not own(block)) == sorted(set(named))


def own(block):
    """Whether a block has only commands of this repository's own, without what the page says of them."""
    return block.language == "console" and {command.split(" #")[0].strip() for command in block.commands} <= set(RUN_BY)


@pytest.mark.parametrize("command", RUN_BY)
def test_what_runs_a_command_of_the_repository_names_it(command):
    path, words = RUN_BY[command]
    assert words in (REPOSITORY / path).read_text(), path


def test_the_review_runs_from_a_checkout(rankshim):
    """With what pip installs there, which the interpreter of the tests has."""
    installs, starts = shell("docs/kubernetes.md", "From a checkout").text.splitlines()
    needed = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]["review"]
    assert installs == "pip install " + " ".join(word.split(">")[0] for word in needed)
    command = starts.replace("python3", sys.executable).replace("dist/rankshim", rankshim)
    done = subprocess.run(["bash", "-ec", command], cwd=REPOSITORY, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("examples/indexed-job/job.yaml:10: Job mnist, 3 pods, platform indexed-job\n"), done.stderr


@each("text")
def test_a_block_of_text_has_no_command_that_no_test_runs(block):
    command = re.compile(r"[$#] |scripts/|(rankshim|torchrun|python3?|pip|docker|podman|kubectl|helm|srun|sbatch|mpirun) ")
    # A line that rankshim prints has its name and its version first.
    lines = [line for line in block.text.splitlines() if not re.match(r"rankshim \d", line)]
    assert [line for line in lines if command.match(line)] == [], "make it a console or a shell block"


@each("toml")
def test_a_profile_or_a_launchers_file_has_no_mistake(block, shim, tmp_path):
    is_launcher = block.text.startswith("starts = ")
    kind = "launcher's file" if is_launcher else "profile"
    path = tmp_path / ("shown.launcher.toml" if is_launcher else "shown.toml")
    path.write_text(block.text)
    done = shim("platforms", "check", str(path))
    assert (done.code, done.stdout) == (0, f"{path} is a {kind}\n"), done.transcript()


@pytest.mark.torch
@each("python")
def test_a_script_trains_alone_under_rankshim_and_ends_well(block, rankshim, torch, tmp_path):
    """DistributedDataParallel(...) is that of a model so small that it does not matter."""
    (tmp_path / "train.py").write_text("import torch\n"
                                       "def DistributedDataParallel(_):\n"
                                       "    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))\n"
                                       + block.text)
    done = run([rankshim, "--launcher=native", "--", str(tmp_path / "train.py")], clean_environment({"OMP_NUM_THREADS": "1"}), timeout=180)
    assert done.code == 0, done.transcript()


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


def rows(document, heading):
    """The rows of the table below a heading, without its head, each as its cells."""
    (section,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^#)", (REPOSITORY / document).read_text(), re.M | re.S)
    return [row.strip("| ").split(" | ") for row in re.findall(r"^\|.*$", section, re.M)[2:]]


def rounded(cell):
    """A cell of the table of scripts/compare as README has it."""
    cell = re.sub(r" \([\d.]+\)$", "", cell)  # since all nodes knew
    if not re.fullmatch(r"[\d.]+", cell):
        return cell.replace("not in 60 s", "not within 60 s") if cell.startswith("not") else re.sub("nodes ended.*", "pods end", cell)
    return f"{Decimal(cell).quantize(Decimal('0.1'), ROUND_HALF_UP)} s"


def test_the_times_in_the_readme_are_those_of_one_run_of_scripts_compare():
    measured = [[rounded(cell) for cell in row[1:]] for row in rows("docs/how-it-works.md", "Beside other launchers")[:4]]
    expected = [[f"{ours} (native: {native})", torchrun, theirs] for ours, native, torchrun, theirs in measured]
    assert [row[1:] for row in rows("README.md", "How it compares") if re.match(r"[\d.]+ s ", row[1])] == expected


def test_the_generated_files_are_what_the_code_says(tmp_path):
    written = subprocess.run([sys.executable, REPOSITORY / "packaging/reference.py", "--docs", tmp_path],
                             capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    folders = {"launchers.py": "review/rankshim_review", "platforms.md": "docs", "settings.md": "docs", "signals-and-ends.md": "docs"}
    assert {file.name for file in tmp_path.iterdir()} == set(folders)
    stale = [name for name, folder in folders.items()
             if (tmp_path / name).read_text() != (REPOSITORY / folder / name).read_text()]
    assert stale == [], "options, exit codes, profiles or launchers have changed: packaging/reference.py --docs"
