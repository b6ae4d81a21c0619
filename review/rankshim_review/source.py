"""What a file holds, with the line of each value, and a bound for what a hostile file may cost."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import yaml

LARGEST_FILE = 8 << 20  # bytes; `kubectl get pod -o yaml` of a thousand pods has fewer
DEEPEST = 100  # of a manifest's schema, much less is used
MOST_NODES = 500_000
MOST_MERGED = 10_000  # what `<<` may copy in one file: a chain of them doubles with each link
LARGEST_NUMBER = 10_000  # of replicas: more nodes than any job has


class Mistake(Exception):
    """What keeps a document from being read, in one line."""

    def __init__(self, file: str, line: int, text: str) -> None:
        super().__init__(text)
        self.file, self.line, self.text = file, line, text


class Map(dict[str, Any]):
    """A mapping that knows its line, and that of each key."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class Sequence(list[Any]):
    """A list that knows the line of each entry."""

    def __init__(self, lines: list[int]) -> None:
        super().__init__()
        self.lines = lines


@dataclasses.dataclass(frozen=True)
class Field:
    """A place in a document: its value (None where there is none), and where it is.

    Reading it as another type than it has is a Mistake, which names the file, the line and the path.
    """

    value: Any
    file: str
    line: int
    path: str = ""

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *keys: str) -> Field:
        """The field below it; one that is not there has the line of the last one that is."""
        found = self
        for key in keys:
            inner = found._typed(dict, "a mapping")
            path = f"{found.path}.{key}".lstrip(".")
            line = getattr(inner, "lines", {}).get(key, found.line)
            found = Field(inner.get(key) if inner else None, found.file, line, path)
        return found

    def items(self) -> list[tuple[str, Field]]:
        return [(key, self.get(key)) for key in self._typed(dict, "a mapping") or {}]

    def entries(self) -> list[Field]:
        found = self._typed(list, "a list") or []
        lines = getattr(found, "lines", [self.line] * len(found))
        return [Field(value, self.file, line, f"{self.path}[{index}]")
                for index, (value, line) in enumerate(zip(found, lines))]

    def text(self, default: str = "") -> str:
        if self.value is None:
            return default
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, (dict, list)):
            raise self.mistake("a text is expected")
        return str(self.value)

    def number(self, default: int, most: int = LARGEST_NUMBER) -> int:
        """A whole number from 0 to `most`."""
        if self.value is None:
            return default
        text = self.text().strip()
        if not re.fullmatch("[0-9]{1,15}", text):
            raise self.mistake("a whole number is expected")
        if int(text) > most:
            raise self.mistake(f"more than {most} is not read")
        return int(text)

    def flag(self) -> bool:
        if self.value is not None and not isinstance(self.value, bool):
            raise self.mistake("true or false is expected")
        return bool(self.value)

    def words(self) -> list[str]:
        return [entry.text() for entry in self.entries()]

    def mistake(self, text: str) -> Mistake:
        shown = repr(self.value)
        if isinstance(self.value, str) and re.search(r"\$|\{\{|<.*>", self.value):
            text += " (a template? fill it in first)"
        return Mistake(self.file, self.line, f"{self.path or 'the document'} is {shown[:40]}"
                       f"{'…' if len(shown) > 40 else ''}: {text}")

    def _typed(self, kind: type, what: str) -> Any:
        if self.value is not None and not isinstance(self.value, kind):
            raise self.mistake(f"{what} is expected")
        return self.value


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML as Kubernetes reads it: no dates, keys are texts. `merged` counts what `<<` copies."""

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
            made[key] = self.construct_object(value_node)
            made.lines[key] = key_node.start_mark.line + 1

    def make_list(self, node: Any) -> Iterator[Sequence]:
        made = Sequence([entry.start_mark.line + 1 for entry in node.value])
        yield made
        made.extend(self.construct_object(entry) for entry in node.value)


def _untagged(loader: Any, _: str, node: Any) -> Any:
    """Of a tag that is not YAML's own (CloudFormation's !Ref): what is behind it."""
    if isinstance(node, yaml.ScalarNode):
        return node.value
    return (loader.make_map if isinstance(node, yaml.MappingNode) else loader.make_list)(node)


_Loader.add_multi_constructor("", _untagged)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.make_map)
_Loader.add_constructor("tag:yaml.org,2002:seq", _Loader.make_list)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def documents(file: str, text: str) -> list[Field]:
    """The documents of a YAML file that are not empty."""
    with _one_line(file, text):
        _check_size(file, text)
        return [Field(value, file, getattr(value, "line", 1))
                for value in yaml.load_all(text, _Loader) if value is not None]


@contextlib.contextmanager
def _one_line(file: str, text: str) -> Iterator[None]:
    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        hint = " (a template? give what `helm template` makes of it)" if re.search(r"^\s*(- )?\{\{", text, re.M) else ""
        raise Mistake(file, mark.line + 1 if mark else 1, f"this is no YAML: {what}{hint}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise Mistake(file, 1, f"this is no YAML that can be read: {str(error)[:100]}") from None


def _check_size(file: str, text: str) -> None:
    """Before anything is built of it: how deep it is, and how much."""
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
