"""Edits a JSON document as text, so that what is not edited keeps its formatting."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\[\]{}:]+")

Key = str | int
"""The name of a member of an object, or the index of an element of an array."""


@dataclass(slots=True)
class _Node:
    """A value of a document: its range, and the keys and values in it.

    Attributes:
        start: Its first character.
        end: The character after its last one.
        parts: Of each member or element: its key, where it starts (with the name of a
            member), and its value.
    """

    start: int
    end: int = 0
    parts: list[tuple[Key, int, _Node]] = field(default_factory=list)

    def at(self, key: Key) -> int:
        """Return the place of a key among the parts, the last of equal ones."""
        return max(n for n, (known, _, _) in enumerate(self.parts) if known == key)


def with_value(text: str, path: Sequence[Key], value: object) -> str:
    """Return the document with a value appended to a container.

    Args:
        text: A valid JSON document, an object or array.
        path: The keys that lead to the place of the value. All but the last exist. The
            last is a new name of an object, or the length of an array.
        value: A JSON value.
    """
    node = _found(text, path[:-1])
    body = text[node.start : node.end]
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indent(text)
    label = f"{json.dumps(path[-1])}: " if isinstance(path[-1], str) else ""
    outer = _line_indent(text, node.start)
    inner = outer + unit
    if node.parts:
        first, last = node.parts[0][1], node.parts[-1][2].end
        before = text[node.start + 1 : first]
        many_lines = "\n" in before
        if many_lines:
            inner = before.rpartition("\n")[2]
        shown = _shown(value, unit if many_lines else None, inner, newline)
        between = f",{newline}{inner}" if many_lines else ", "
        return f"{text[:last]}{between}{label}{shown}{text[last:]}"
    if "\n" not in text.strip() and text.strip() not in ("{}", "[]"):
        shown = _shown(value, None, "", newline)
        filled = f"{body[0]}{label}{shown}{body[-1]}"
    else:
        shown = _shown(value, unit, inner, newline)
        filled = f"{body[0]}{newline}{inner}{label}{shown}{newline}{outer}{body[-1]}"
    return text[: node.start] + filled + text[node.end :]


def without(text: str, path: Sequence[Key]) -> str:
    """Return the document without one member or element.

    Args:
        text: A valid JSON document.
        path: The keys that lead to it.
    """
    node = _found(text, path[:-1])
    at = node.at(path[-1])
    _, start, value = node.parts[at]
    if at > 0:
        start, end = node.parts[at - 1][2].end, value.end
    elif len(node.parts) > 1:
        end = node.parts[1][1]
    else:
        start, end = node.start + 1, node.end - 1
    return text[:start] + text[end:]


def _shown(value: object, unit: str | None, inner: str, newline: str) -> str:
    if unit is None:
        return json.dumps(value)
    return json.dumps(value, indent=unit).replace("\n", newline + inner)


def _indent(text: str) -> str:
    """Return one level of the document's indent."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _found(text: str, path: Sequence[Key]) -> _Node:
    node = _parsed(text, _after_space(text, 0))
    for key in path:
        node = node.parts[node.at(key)][2]
    return node


def _parsed(text: str, start: int) -> _Node:
    """Return the value that starts at a place of a valid document."""
    node = _Node(start)
    opening = text[start]
    if opening not in "{[":
        kind = _STRING if opening == '"' else _SCALAR
        node.end = _end(kind.match(text, start))
        return node
    closing = "}" if opening == "{" else "]"
    at = _after_space(text, start + 1)
    while text[at] != closing:
        begin, key = at, len(node.parts)
        named: Any = key
        if opening == "{":
            at = _end(_STRING.match(text, at))
            named = json.loads(text[begin:at])
            at = _after_space(text, _after_space(text, at) + 1)
        value = _parsed(text, at)
        node.parts.append((named, begin, value))
        at = _after_space(text, value.end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    node.end = at + 1
    return node


def _after_space(text: str, at: int) -> int:
    return _end(_SPACE.match(text, at))


def _end(found: re.Match[str] | None) -> int:
    if found is None:
        msg = "not a valid JSON document"
        raise ValueError(msg)
    return found.end()
