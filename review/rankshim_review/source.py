"""Reads files with the line of each value, and limits what a hostile file can cost."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import reprlib
from collections.abc import Iterator
from typing import Any

import yaml

from .shell import TooLong

LARGEST_FILE = 8 << 20  # bytes; `kubectl get pod -o yaml` of a thousand pods has fewer
DEEPEST = 100  # of nesting; manifests' schemas use much less
MOST_NODES = 500_000
MOST_MERGED = 10_000  # what `<<` may copy in one file, because a chain of them doubles with each link
LARGEST_NUMBER = 10_000  # of replicas: more nodes than any job has
MOST_EFFORT = 4_000_000  # fields looked at in one file, which takes seconds; with aliases a small file can say as much as a huge one
LETTERS = 16  # of text that cost as much as a field
LONGEST_NUMBER = 40  # characters; Kubernetes' numbers have 64 bits


class Mistake(Exception):
    """Why a document cannot be read, on one line."""

    def __init__(self, file: str, line: int, text: str) -> None:
        super().__init__(text)
        self.file, self.line, self.text = file, line, text


class Unread(Mistake):
    """A document that is not wrong but cannot be reviewed, such as one that another document completes."""


class _Shown(reprlib.Repr):
    """The beginning of a value; with aliases, its end may never come."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2

    def repr_Map(self, value: Map, level: int) -> str:
        return self.repr_dict(value, level)

    def repr_Sequence(self, value: Sequence, level: int) -> str:
        return self.repr_list(value, level)


_SHOWN = _Shown()


class Map(dict[str, Any]):
    """A mapping that knows its line, and that of each key."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}

    def __repr__(self) -> str:
        return _SHOWN.repr(self)


class Sequence(list[Any]):
    """A list that knows the line of each entry."""

    def __init__(self, lines: list[int]) -> None:
        super().__init__()
        self.lines = lines

    def __repr__(self) -> str:
        return _SHOWN.repr(self)


@dataclasses.dataclass
class Effort:
    """How much of a file may still be looked at."""

    left: int = MOST_EFFORT


def whole_number(text: str) -> int | None:
    """Parses a whole number; None if it is not one, or has more digits than any real count."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


@dataclasses.dataclass(frozen=True)
class Field:
    """A place in a document: its value (None if there is none), and where it is.

    Reading it as a type that it does not have raises a Mistake, which names the file, the line and the path.
    """

    value: Any
    file: str
    line: int
    path: str = ""
    effort: Effort = dataclasses.field(default_factory=Effort, compare=False, repr=False)

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *keys: str) -> Field:
        """The field below this one. A missing field has the line of the last one that exists."""
        found = self
        self.spend(len(keys))
        for key in keys:
            inner = found._typed(dict, "a mapping")
            path = f"{found.path}.{key}".lstrip(".")
            line = getattr(inner, "lines", {}).get(key, found.line)
            found = Field(inner.get(key) if inner else None, found.file, line, path, self.effort)
        return found

    def items(self) -> list[tuple[str, Field]]:
        return [(key, self.get(key)) for key in self._typed(dict, "a mapping") or {}]

    def entries(self) -> list[Field]:
        found = self._typed(list, "a list") or []
        self.spend(len(found))
        lines = getattr(found, "lines", [self.line] * len(found))
        return [Field(value, self.file, line, f"{self.path}[{index}]", self.effort)
                for index, (value, line) in enumerate(zip(found, lines))]

    def text(self, default: str = "") -> str:
        if self.value is None:
            return default
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, (dict, list)):
            raise self.mistake("a text is expected")
        text = str(self.value)
        self.spend(1 + len(text) // LETTERS)
        if not _is_given(text):
            raise self.mistake("no process can be given this text")
        return text

    def number(self, default: int, most: int = LARGEST_NUMBER) -> int:
        """A whole number from 0 to `most`."""
        if self.value is None:
            return default
        number = whole_number(self.text().strip())
        if number is None:
            raise self.mistake("a whole number is expected")
        if number > most:
            raise self.mistake(f"more than {most} is not read")
        return number

    def flag(self) -> bool:
        if self.value is not None and not isinstance(self.value, bool):
            raise self.mistake("true or false is expected")
        return bool(self.value)

    def words(self) -> list[str]:
        return [entry.text() for entry in self.entries()]

    def string(self, whose: str) -> str:
        """A string, not a number or a boolean: `whose` schema accepts nothing else here."""
        if self.value is not None and not isinstance(self.value, str):
            raise self.mistake(f"{whose} takes only a text here; put it into quotation marks")
        return self.text()

    def spend(self, amount: int) -> None:
        """Counts the work done on the file. Raises a Mistake if it is more than a real file needs."""
        self.effort.left -= amount
        if self.effort.left < 0:
            raise Mistake(self.file, self.line, "this file says too much to be reviewed: its aliases or pods are too many")

    @contextlib.contextmanager
    def blamed(self, controllers: str = "") -> Iterator[None]:
        """Turns a TooLong into a Mistake at this place, or one about the `controllers` variable that became too long here."""
        try:
            yield
        except TooLong as error:
            if controllers:
                raise Mistake(self.file, self.line, f"with the controller's variable {controllers}, {error}") from None
            raise self.mistake(str(error)) from None

    def mistake(self, text: str) -> Mistake:
        shown = repr(self.value)
        if isinstance(self.value, str) and re.search(r"\$|\{\{|<[^<>]*>", self.value):
            text += " (a template? fill it in first)"
        return Mistake(self.file, self.line, f"{self.path or 'the document'} is {shown[:40]}"
                       f"{'…' if len(shown) > 40 else ''}: {text}")

    def _typed(self, kind: type, what: str) -> Any:
        if self.value is not None and not isinstance(self.value, kind):
            raise self.mistake(f"{what} is expected")
        return self.value


def _is_given(text: str) -> bool:
    """Whether a process can be given the text: NUL would end it, and half of a surrogate pair is not a character."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Reads YAML as Kubernetes does: no dates, and keys are strings. `merged` counts what `<<` copies."""

    merged = 0

    def flatten_mapping(self, node: Any) -> None:
        before = len(node.value)
        super().flatten_mapping(node)
        self.merged += max(0, len(node.value) - before)
        if self.merged > MOST_MERGED:
            raise yaml.constructor.ConstructorError(None, None, f"`<<` copies more than {MOST_MERGED} entries",
                                                    node.start_mark)

    def make_map(self, node: Any) -> Iterator[Map]:
        made = Map(node.start_mark.line + 1)
        yield made
        self.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else str(key_node.tag)
            if not _is_given(key):
                raise yaml.constructor.ConstructorError(None, None, "no process can be given this name", key_node.start_mark)
            made[key] = self.construct_object(value_node, deep=True)  # so it refuses what contains itself
            made.lines[key] = key_node.start_mark.line + 1

    def make_list(self, node: Any) -> Iterator[Sequence]:
        made = Sequence([entry.start_mark.line + 1 for entry in node.value])
        yield made
        made.extend(self.construct_object(entry, deep=True) for entry in node.value)

    def make_number(self, node: Any) -> Any:
        if len(node.value) > LONGEST_NUMBER:  # PyYAML takes minutes for 1:1:1…, and Python refuses to print a very long number
            raise yaml.constructor.ConstructorError(None, None, f"a number of {len(node.value)} letters", node.start_mark)
        whole = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


def _untagged(loader: Any, _: str, node: Any) -> Any:
    """The value after a tag that is not YAML's own (CloudFormation's !Ref)."""
    if isinstance(node, yaml.ScalarNode):
        return node.value
    return (loader.make_map if isinstance(node, yaml.MappingNode) else loader.make_list)(node)


# The same for YAML's other own tags: a !!set or !!omap is read as the value after it.
_Loader.yaml_constructors = {f"tag:yaml.org,2002:{kind}": _Base.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
                             for kind in ("null", "bool", "str")}
for _kind, _make in (("map", _Loader.make_map), ("seq", _Loader.make_list), ("int", _Loader.make_number),
                     ("float", _Loader.make_number)):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _make)
_Loader.add_multi_constructor("", _untagged)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def documents(file: str, text: str, effort: Effort | None = None) -> list[Field]:
    """The documents of a YAML file, except empty ones."""
    with _one_line(file, text):
        _check_size(file, text)
        effort = effort or Effort()
        return [Field(value, file, getattr(value, "line", 1), effort=effort)
                for value in yaml.load_all(text, _Loader) if value is not None]


@contextlib.contextmanager
def _one_line(file: str, text: str) -> Iterator[None]:
    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        hint = " (a template? give what `helm template` makes of it)" if re.search(r"^[ \t]*(- )?\{\{", text, re.M) else ""
        raise Mistake(file, mark.line + 1 if mark else 1, f"this is not YAML: {what}{hint}") from None
    except (ValueError, LookupError, OverflowError, RecursionError) as error:
        raise Mistake(file, 1, f"this is not YAML that can be read: {str(error)[:100]}") from None


def _check_size(file: str, text: str) -> None:
    """Checks, before anything is built, how deep the text nests and how large it is."""
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, _Base)):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise Mistake(file, line, f"this is nested more than {DEEPEST} deep")
        if nodes > MOST_NODES:
            raise Mistake(file, line, f"this has more than {MOST_NODES} values")
