"""The documents of the repository, and the blocks of code in them.

A `console` block holds commands alone, each behind "$ ". What they print is the `text` block that follows it, with nothing but empty lines
between the two. A comment in the page's source, directly above a block, says that no shell of the tests can take it, and why:

    <!-- not run: cluster -->

A `shell` block is a piece of a script, such as the lines of a batch job.
"""

import pathlib
import re
from dataclasses import dataclass

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "examples", "install", "integration")
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(path for folder in FOLDERS for path in REPOSITORY.glob(f"{folder}/**/*.md")
                                                if ".pytest_cache" not in path.parts)])
FENCE = re.compile(r"\s*(```+|~~~+)\s*(.*?)\s*$")
MARK = re.compile(r"<!-- not run: ([\w-]+) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block: its document's path in the repository, the heading above it, its first line, its language, its text; the word of its
    mark, or ""; and whether nothing is between it and the block before it."""

    document: str
    heading: str
    line: int
    language: str
    text: str
    mark: str = ""
    follows: bool = False

    @property
    def name(self):
        return f"{self.document}:{self.line}"

    @property
    def commands(self):
        """The lines that a reader types."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]

    def halves(self):
        """What the document shows as before and after the change, by these two words."""
        parts = re.split(r"^# (before|after)\b.*\n", self.text, flags=re.M)
        assert parts[0] == "" and parts[1::2] == ["before", "after"], f"{self.name}: not a before and an after"
        return dict(zip(parts[1::2], parts[2::2]))


def blocks(*languages):
    """All blocks in these languages, or all there are."""
    return [block for path in DOCUMENTS for block in of(path) if not languages or block.language in languages]


def consoles(document):
    """(block, what the document shows of its output) for each console block of a document."""
    found = of(REPOSITORY / document)
    for block, after in zip(found, [*found[1:], None]):
        if block.language == "console":
            yield block, after.text if after is not None and after.language == "text" and after.follows else ""


def scripts():
    """The blocks that some test must name, because no shell of the tests can take them as they are."""
    return [block for block in blocks("shell", "console") if block.language == "shell" or block.mark]


def shell(document, heading):
    """The script of the one such block below a heading of a document. A test that calls this must run what it gets."""
    found = [block for block in scripts() if (block.document, block.heading) == (document, heading)]
    assert len(found) == 1, f"{document}, {heading}: {len(found)} blocks that no shell of the tests takes"
    return found[0] if found[0].language == "shell" else Script(found[0].commands)


class Script:
    """The commands of a console block, as the text of a script."""

    def __init__(self, commands):
        self.text = "".join(f"{command}\n" for command in commands)


def shape(line):
    """A line of rankshim's log without what differs each time: numbers, what explains in brackets, how long it took."""
    return re.sub(r" after .*", "", re.sub(r" \((?!rank|\d).*?\)", "", re.sub(r"\d+", "0", line)))


def shown(document):
    """The shapes of the lines that the document's blocks of text show."""
    return {shape(line) for block in blocks("text") if block.document == document for line in block.text.splitlines()}


def of(path):
    """The blocks of a document, in its order."""
    document = str(path.relative_to(REPOSITORY))
    found, heading, fence, mark, follows = [], "", None, "", False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        edge = FENCE.match(line)
        if fence is None and edge:
            fence, language, start, lines = edge[1], edge[2], number, []
        elif fence is not None and edge and edge[1].startswith(fence) and not edge[2]:
            found.append(Block(document, heading, start, language, "".join(f"{each}\n" for each in lines), mark, follows))
            fence, mark, follows = None, "", True
        elif fence is not None:
            lines.append(line)
        elif line.strip():
            marked = MARK.fullmatch(line.strip())
            mark, follows = marked[1] if marked else "", False
            if line.startswith("#"):
                heading = line.lstrip("#").strip()
    assert fence is None, f"{document}:{start}: a block without an end"
    return found
