"""Parses a shell script into statements, in order, with the words that are known before it runs.

The grammar is tree-sitter-bash's, which also reads scripts with mistakes or template marks, in a time that depends only on the
length.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import fnmatch
import functools
import operator
import re
import string
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import tree_sitter
import tree_sitter_bash

LONGEST = 128 << 10  # MAX_ARG_STRLEN of linux/binfmts.h: of one argument or variable
MOST_TEXT = 2 << 20  # of all of them: a quarter of the usual stack, 8 MiB (execve(2), "Limits on size of arguments and environment")
LONGEST_NAME = 255  # of a host, or a rank in it: what ${NAME##PATTERN} is worked out of
LONGEST_SUM = 100  # characters of $((…))
_PARAMETER = re.compile(r"\$\{(?P<name>\w+)(?:\[(?P<index>[@*]|[0-9]{1,4})\])?(?:(?P<operator>:?[-=]|##?|%%?)(?P<word>.*))?\}", re.S)


class TooLong(Exception):
    """A value, or all of them together, is longer than exec accepts."""


class Variables(dict[str, str]):
    """An environment that exec accepts. One that becomes too large raises TooLong."""

    size = 0  # characters, plus the two that end a name and a value

    def __setitem__(self, name: str, value: str) -> None:
        before = len(name) + len(self[name]) + 2 if name in self else 0
        self.size += len(name) + len(value) + 2 - before
        if self.size > MOST_TEXT:
            raise TooLong(f"the variables are longer than {MOST_TEXT >> 20} MiB, the most that exec takes")
        super().__setitem__(name, value)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A simple command. A word with a `$` is one that only the shell knows, as written."""

    words: list[str]
    assigned: dict[str, str]  # by the lines above, and before the command itself
    line: int
    is_certain: bool = True  # not in a branch, and all of it was read
    stdin: str = ""  # of a here-document


@dataclasses.dataclass
class Budget:
    """How much the words of a script, and of the scripts in it, may still grow."""

    left: int = MOST_TEXT


@dataclasses.dataclass
class Shell:
    """Where a script runs: the host, its variables, the hosts of its Slurm job, and the files that are known."""

    variables: Mapping[str, str]
    host: str = ""  # of a batch script, which runs once for all nodes; empty where each node runs it
    hosts: tuple[str, ...] = ()
    budget: Budget = dataclasses.field(default_factory=Budget)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)  # {path: text}
    assigned: MutableMapping[str, str] = dataclasses.field(default_factory=Variables)
    arrays: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = collections.ChainMap(self.assigned, self.variables)  # type: ignore[arg-type]

    def statements(self, text: str) -> Iterator[Statement]:
        """The script's simple commands. What a line assigns holds from there on, except in a branch."""
        if any(len(line) > LONGEST for line in text.splitlines()):
            raise TooLong(f"a line of it is longer than {LONGEST >> 10} KiB")
        self._spend(len(text))
        stack: list[tuple[Any, bool, str]] = [(_parser().parse(text.encode()).root_node, True, "")]
        while stack:
            node, is_certain, stdin = stack.pop()
            if node.type == "variable_assignment":
                self._assign(node, is_certain)
            elif node.type == "command":
                yield from self._command(node, is_certain, stdin)
            elif node.type not in ("comment", "test_command", "heredoc_redirect", "file_redirect", "command_substitution"):
                if node.type == "redirected_statement":
                    stdin = self._here_document(node)
                children = node.named_children
                for at, child in reversed(list(enumerate(children))):
                    stack.append((child, is_certain and _is_reached(node, children, at), stdin))

    def _command(self, node: Any, is_certain: bool, stdin: str) -> Iterator[Statement]:
        own = dict(self.assigned)
        words: list[str] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                own[_text(child.child_by_field_name("name"))] = self._value(child.child_by_field_name("value"))
            elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment"):
                words += self._fields(child)
        self._spend(sum(map(len, words)))
        if words[:1] == ["read"] and stdin:  # read -r -d '' TEXT <<END
            self.assigned[words[-1]] = stdin
        elif words:
            yield Statement(words, own, node.start_point[0] + 1, is_certain and not node.has_error, stdin)

    def _assign(self, node: Any, is_certain: bool) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        key = _text(name)
        is_added = _text(node)[len(key):].startswith("+=")
        if value is not None and value.type == "array":
            words = [word for child in value.named_children if child.type != "comment" for word in self._fields(child)]
            self._spend(sum(map(len, words)) + len(words))
            self.arrays[key] = [*(self.arrays.get(key, []) if is_added else []), *words]
        elif name.type == "variable_name":
            written = self._value(value)
            if is_added:
                written = _within(self.known.get(key, "") + written)
            self._spend(len(written))
            if not is_certain and self.known.get(key) != written:
                written = f"${key}"  # the branch decides
            self.assigned[key] = written

    def _value(self, node: Any) -> str:
        return " ".join(self._fields(node)) if node is not None else ""

    def _here_document(self, node: Any) -> str:
        redirect = next((child for child in node.named_children if child.type == "heredoc_redirect"), None)
        parts = {child.type: child for child in redirect.named_children} if redirect is not None else {}
        if "heredoc_body" not in parts:
            return ""
        text = _text(parts["heredoc_body"])
        return text if re.search(r"['\"\\]", _text(parts["heredoc_start"])) else self.expand(text)

    def _fields(self, node: Any) -> list[str]:
        """The words that an argument becomes; a list or an unquoted variable can become several."""
        text = _text(node)
        listed = re.fullmatch(r'"?\$\{(\w+)\[[@*]\]\}"?', text)
        if listed and listed[1] in self.arrays:
            return self.arrays[listed[1]]
        made = self._word(node)
        return made.split() if node.type in ("simple_expansion", "expansion", "command_substitution") and made != text else [made]

    def _word(self, node: Any) -> str:
        text = _text(node).lstrip()
        if node.type in ("raw_string", "ansi_c_string"):
            return text[text.index("'") + 1:-1]
        if node.type == "command_name":
            return "".join(self._word(child) for child in node.named_children) if node.named_children else text
        if node.type == "concatenation":
            return _within("".join(self._word(child) for child in node.named_children))
        if node.type in ("string", "translated_string"):
            quote = text.index('"') + 1
            return self._joined(node, node.start_byte + quote, node.end_byte - 1, r'\\([$`"\\])|\\\n')
        if node.type in ("simple_expansion", "expansion"):
            return self._parameter(text)
        if node.type == "command_substitution":
            found = self._substitution(text)
            return self._same(text) if found is None else found
        if node.type == "arithmetic_expansion":
            number = self._arithmetic(text)
            return self._same(text) if number is None else str(number)
        if node.type == "word":
            return re.sub(r"\\(.)", r"\1", text)
        return text

    def _joined(self, node: Any, start: int, end: int, escapes: str) -> str:
        """Joins the expansions and the text between them, from which the grammar leaves out spaces."""
        made, whole = "", node.text
        for child in node.named_children:
            if child.type == "string_content":
                continue
            text = _text(child)
            made += _unescaped(whole[start - node.start_byte:child.start_byte - node.start_byte], escapes)
            made += text[:len(text) - len(text.lstrip())] + self._word(child)
            start = child.end_byte
            _within(made)
        return _within(made + _unescaped(whole[start - node.start_byte:end - node.start_byte], escapes))

    def expand(self, text: str) -> str:
        """`text` with the known values of $NAME and ${NAME}; also for text that a shell has already read once."""
        def value(found: re.Match[str]) -> str:
            name = found["named"] or found["braced"]
            return self.known.get(name, found[0]) if name else found[0]

        return substitute(string.Template.pattern, value, text)

    def _parameter(self, text: str) -> str:
        if re.fullmatch(r"\$\w+", text):
            if self.arrays.get(text[1:]):
                return self.arrays[text[1:]][0]
            return self.known.get(text[1:], self._same(text) if text == "$RANDOM" else text)
        if text == "$$":
            return self._same(text)
        found = _PARAMETER.fullmatch(text)
        if found is None:
            return text
        if found["index"]:
            listed = self.arrays.get(found["name"], [])
            index = found["index"]
            return (listed[int(index)] if int(index) < len(listed) else text) if index.isdigit() else " ".join(listed) or text
        value, operator, word = self.known.get(found["name"]), found["operator"] or "", (found["word"] or "").strip("\"'")
        if operator in ("-", ":-", "=", ":="):
            if value is None or (not value and ":" in operator):
                value = self.expand(word)
                if "=" in operator:
                    self.assigned[found["name"]] = value
            return value
        if value is None:
            return text
        if operator:
            return text if "$" in value or len(value) > LONGEST_NAME else _trimmed(value, operator, word)
        return value

    def _same(self, text: str) -> str:
        """Stands for what only the shell can work out. If that is the same on all nodes, the details do not matter."""
        return "$(…)" if self.host else text

    def _substitution(self, text: str) -> str | None:
        """The result of $(…) with the few commands that say which hosts there are; None if only the shell knows."""
        stages = [stage.strip() for stage in text.strip("$()`").split("|")]
        first = stages[0].split()
        if first[:2] == ["scontrol", "show"] and self.hosts:
            found = "\n".join(self.hosts)
        elif first[:1] == ["hostname"] and self.host:
            found = self.host
        elif first[:1] in (["echo"], ["printf"]) and len(first) > 1:
            found = self.expand(" ".join(first[1:]).replace('"', ""))
        else:
            return None
        if "$" in found:
            return None
        for stage in stages[1:]:
            if re.fullmatch(r"head\s+(-n\s*1|-1)", stage):
                found = (found.splitlines() or [""])[0]
            elif re.fullmatch(r"wc\s+-l", stage):
                found = str(len(found.splitlines()))
            else:
                return None
        return found

    def _arithmetic(self, text: str) -> int | None:
        """The result of $((…)) with whole numbers and known variables; None if only the shell knows."""
        def value(found: re.Match[str]) -> str:
            number = self.known.get(found[1], "")
            return number if re.fullmatch("[0-9]{1,15}", number) else found[0]

        inner = substitute(re.compile(r"\$?\{?\b([A-Za-z_]\w*)\}?"), value, text[3:-2]).strip()
        if len(inner) > LONGEST_SUM or not re.fullmatch(r"[-+*/%()\s0-9]+", inner):
            return None
        try:
            return _calculated(ast.parse(inner, mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError):
            return None

    def _spend(self, letters: int) -> None:
        self.budget.left -= letters
        if self.budget.left < 0:
            raise TooLong(f"with its variables it becomes longer than {MOST_TEXT >> 20} MiB")


def _calculated(tree: ast.expr) -> int:
    """The value of a sum of whole numbers. Raises a ValueError if it is something else, or leaves 64 bits."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.UnaryOp):
        return -_calculated(tree.operand) if isinstance(tree.op, ast.USub) else _calculated(tree.operand)
    if not isinstance(tree, ast.BinOp) or type(tree.op) not in _OPERATORS:
        raise ValueError("not a sum")
    made = _OPERATORS[type(tree.op)](_calculated(tree.left), _calculated(tree.right))
    if abs(made) >= 1 << 63:
        raise ValueError("more than 64 bits")
    return made


def _quotient(left: int, right: int) -> int:
    """The quotient, rounded towards 0 as in C and the shell."""
    made = abs(left) // abs(right)
    return made if (left < 0) == (right < 0) else -made


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _quotient,
    ast.Mod: lambda left, right: left - right * _quotient(left, right),
}


def _is_reached(node: Any, children: list[Any], at: int) -> bool:
    """Whether a part runs whenever the whole does: a condition, or what follows `cd work &&`, but not what depends on a test."""
    if node.type == "list":
        return at == 0 or (any(child.type == "&&" for child in node.children) and children[0].type in ("command", "list", "pipeline"))
    return node.type not in ("case_statement", "function_definition") and (
        at == 0 or node.type not in ("if_statement", "while_statement"))


def substitute(pattern: re.Pattern[str], value: Any, text: str) -> str:
    """`text` with each match replaced by `value`. Raises TooLong if exec would not accept the result, so that text that doubles
    with each variable is never built."""
    made, end, size = [], 0, 0
    for found in pattern.finditer(text):
        made += [text[end:found.start()], value(found)]
        size += len(made[-2]) + len(made[-1])
        end = found.end()
        if size > LONGEST:
            break
    if size + len(text) - end > LONGEST:
        _within("x" * (LONGEST + 1))
    return "".join([*made, text[end:]])


def _within(text: str) -> str:
    if len(text) > LONGEST:
        raise TooLong(f"one value becomes longer than {LONGEST >> 10} KiB, the most that exec takes")
    return text


def _trimmed(value: str, operator: str, pattern: str) -> str:
    """${NAME##PATTERN} and the like: POSIX, "Parameter Expansion"."""
    ends = range(len(value) + 1)
    order = ends if len(operator) == 1 else reversed(ends)
    match = re.compile(fnmatch.translate(pattern[:100]))
    for size in order:
        cut, rest = (value[:size], value[size:]) if operator[0] == "#" else (value[len(value) - size:], value[:len(value) - size])
        if match.match(cut):
            return rest
    return value


def _unescaped(text: bytes, escapes: str) -> str:
    return re.sub(escapes, lambda found: found[1] or "", text.decode("utf-8", "replace"))


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


@functools.lru_cache(maxsize=1)
def _parser() -> Any:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
