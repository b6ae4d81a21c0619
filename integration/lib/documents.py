"""The documents of the repository, and the blocks of code in them."""

import pathlib
import re
from dataclasses import dataclass

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "examples", "install", "integration")
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(path for folder in FOLDERS for path in REPOSITORY.glob(f"{folder}/**/*.md"))])
FENCE = re.compile(r"\s*(```+|~~~+)\s*(.*?)\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its document's path in the repository, the heading above it, its first line, its language, its text."""

    document: str
    heading: str
    line: int
    language: str
    text: str

    @property
    def name(self):
        return f"{self.document}:{self.line}"

    def halves(self):
        """What the document shows as before and after the change, by these two words."""
        parts = re.split(r"^# (before|after)\b.*\n", self.text, flags=re.M)
        assert parts[0] == "" and parts[1::2] == ["before", "after"], f"{self.name}: not a before and an after"
        return dict(zip(parts[1::2], parts[2::2]))


def blocks(*languages):
    """All blocks in these languages, or all there are."""
    return [block for path in DOCUMENTS for block in _blocks(path) if not languages or block.language in languages]


def shell(document, heading):
    """The one shell block below a heading of a document. A test that calls this has to run what it gets."""
    found = [block for block in blocks("shell") if (block.document, block.heading) == (document, heading)]
    assert len(found) == 1, f"{document}, {heading}: {len(found)} shell blocks"
    return found[0]


def shape(line):
    """A line of rankshim's log without what differs each time: numbers, what explains in brackets, how long it took."""
    return re.sub(r" after .*", "", re.sub(r" \((?!rank|\d).*?\)", "", re.sub(r"\d+", "0", line)))


def shown(document):
    """The shapes of the lines that the document's blocks of text show."""
    return {shape(line) for block in blocks("text") if block.document == document for line in block.text.splitlines()}


def _blocks(path):
    document = str(path.relative_to(REPOSITORY))
    heading, fence = "", None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence, language, start, lines = mark[1], mark[2], number, []
        elif fence is not None and mark and mark[1].startswith(fence) and not mark[2]:
            yield Block(document, heading, start, language, "".join(f"{each}\n" for each in lines))
            fence = None
        elif fence is not None:
            lines.append(line)
        elif line.startswith("#"):
            heading = line.lstrip("#").strip()
    assert fence is None, f"{document}:{start}: a block without an end"
