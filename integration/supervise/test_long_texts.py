"""Long texts and a small stack: nothing that rankshim does with a text takes stack for each of its bytes."""

import os
import pathlib
import re
import subprocess

import pytest

from lib.process import clean_environment, last_line, run, shell
from lib.requirements import cannot

BUILDS = pathlib.Path(__file__).resolve().parents[2] / "build"
STACK = 128 << 10  # bytes; the limit of the workers is what it was


@pytest.mark.attack
@pytest.mark.parametrize(("content", "count"), [("[", 300_000), ("1,", 500_000)], ids=["nested", "many"])
def test_an_error_file_of_many_values_is_read(rankshim, content, count):
    script = f"""printf '{{"message": [' >"$TORCHELASTIC_ERROR_FILE"
        yes '{content}' | head -n {count} | tr -d '\\n' >>"$TORCHELASTIC_ERROR_FILE"
        test $(wc -c <"$TORCHELASTIC_ERROR_FILE") -ge {count * len(content)} && exit 3"""
    argv = ["prlimit", f"--stack={STACK}:", rankshim, "--launcher=native", "--nproc-per-node=1", "--", *shell(script)]
    done = run(argv, clean_environment(), name="rankshim")
    assert done.code == 3, done.transcript()
    assert "exited with code 3" in last_line(done)


TEXT_FUNCTION = re.compile(r"mem|str|stp|wcs|wmem|bcmp|bcopy|bzero")


def calls(objects):
    """What each function of object files refers to, by their names. Each has a section of its own (-ffunction-sections)."""
    found = {}
    for file in objects:
        listing = subprocess.run(["readelf", "--sections", "--symbols", "--relocs", "--wide", file], capture_output=True,
                                 text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
        sections = dict(re.findall(r"^ +\[ *(\d+)\] (\.text\S*)", listing, re.MULTILINE))
        relocations = {name: set(re.findall(r" [0-9a-f]{16} (\S+) [-+] [0-9a-f]+$", entries, re.MULTILINE))
                       for name, entries in re.findall(r"^Relocation section '\.rela(\S+)'.*\n((?:.+\n)*)", listing, re.MULTILINE)}
        for index, name in re.findall(r" FUNC +(?:GLOBAL|WEAK) +\S+ +(\d+) (\S+)$", listing, re.MULTILINE):
            found[name] = relocations.get(sections[index], set())
    return found


def reached(name, graph):
    """What a function calls, and what that calls, and so on."""
    found, rest = set(), [name]
    while rest:
        new = graph.get(rest.pop(), set()) - found
        found |= new
        rest += new
    return found


@pytest.mark.parametrize("preset", ["release", pytest.param("release-aarch64", marks=pytest.mark.nightly)])
def test_no_function_of_the_released_c_library_for_texts_calls_itself(rankshim, preset):
    """As memcpy did, whose loop the compiler had made a call of memcpy."""
    if pathlib.Path(rankshim) != BUILDS.parent / "dist" / "rankshim":
        cannot("only the released binary has zig's C library")
    graph = calls(BUILDS / preset / "zig-tools" / f"{part}.o" for part in ("c", "compiler_rt"))
    texts = [name for name in graph if TEXT_FUNCTION.match(name)]
    assert {"memcpy", "memmove", "memset", "bcmp"} <= set(texts)
    assert [name for name in texts if name in reached(name, graph)] == []
