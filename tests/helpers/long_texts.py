"""Texts that cost most: of characters, by their properties, and of regular expressions.

A text is a beginning, a unit that is repeated, and an end. Units of characters come
from the Unicode database, one of each kind that normalisation and the tokenizer treat
alike. Units of expressions come from the expressions themselves: what is compiled in
the package, and each literal in its source, is parsed. Each prefix and each repetition
gives texts that match up to there and no further.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import Any, NamedTuple

import vecall

FOLDER = Path(vecall.__file__).parent
_WITH_PATTERN = (
    "compile findall finditer fullmatch match search split sub subn"
).split()
_MOST_OF_A_CLASS = 2


class Unit(NamedTuple):
    """What a text repeats, between its beginning and its end."""

    begin: str
    unit: str
    end: str

    def text(self, characters: int) -> str:
        times = max(1, (characters - len(self.begin) - len(self.end)) // len(self.unit))
        return self.begin + self.unit * times + self.end


def kind_of(char: str) -> tuple[object, ...]:
    """Characters with the same kind are the same to the code that reads texts."""
    split = unicodedata.normalize("NFKD", char)
    return (
        unicodedata.category(char),
        unicodedata.combining(char),
        len(split),
        tuple(map(unicodedata.combining, split))[:4],
        len(char.casefold()),
        char.casefold() == char,
        unicodedata.bidirectional(char),
        len(char.encode("utf-8", "surrogatepass")),
        ord(char) >> 7 if ord(char) < 0x3100 else ord(char) >> 12,
    )


def characters(*, every: bool) -> Iterator[str]:
    """Every code point, or one of each kind."""
    seen = set()
    # The rest of Unicode is unassigned, or for private use as U+F0000 is.
    some = (*range(0x32400), *range(0xE0000, 0xE0200), 0xF0000)
    points = range(0x110000) if every else some
    for char in map(chr, points):
        if every or (kind := kind_of(char)) not in seen:
            if not every:
                seen.add(kind)
            yield char


def expressions() -> dict[str, re.Pattern[Any]]:
    """Every regular expression of the package: compiled ones, and literal ones."""
    found: dict[str, re.Pattern[Any]] = {}
    for path in sorted(FOLDER.rglob("*.py")):
        name = ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
        for pattern in _literal(path):
            found.setdefault(f"{name} {pattern.pattern!r}"[:90], pattern)
    for module in _modules():
        for name, value in vars(module).items():
            for pattern in _patterns_in(value):
                key = f"{module.__name__} {name} {pattern.pattern!r}"[:90]
                if pattern not in found.values():
                    found[key] = pattern
    return found


def _modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages([str(FOLDER)], "vecall.", onerror=lambda _: None):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(info.name)
        except ImportError:  # of a framework that is not installed
            continue


def _patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif hasattr(type(value), "compiled"):  # vecall.text.lazy_pattern
        yield value.compiled
    elif isinstance(value, dict):
        for each in value.values():
            yield from _patterns_in(each)
    elif isinstance(value, list | tuple) and len(value) < 1_000:
        for each in value:
            yield from _patterns_in(each)


def _literal(path: Path) -> Iterator[re.Pattern[Any]]:
    """The expressions that a file gives to functions of `re` as literals."""
    source = path.read_text(encoding="utf-8")
    if not re.search(r"\bre\b", source):
        return  # it takes ten times as long to parse it
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _WITH_PATTERN
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            flags = 0
            for name in ("DOTALL", "ASCII", "I", "IGNORECASE", "MULTILINE"):
                if f"re.{name}" in ast.unparse(node).split(", ", 1)[-1]:
                    flags |= getattr(re, name)
            yield re.compile(node.args[0].value, flags)


def units_of(pattern: re.Pattern[Any]) -> set[Unit]:
    """Texts that make an expression try as much as it can."""
    source = pattern.pattern
    if isinstance(source, bytes):
        return set()
    parsed = parser.parse(source, pattern.flags)
    units: set[Unit] = set()
    _units("", parsed, units)
    return {each for each in units if each.unit}


def _units(  # noqa: PLR0912 - a branch for each kind of node
    before: str, nodes: Any, units: set[Unit]
) -> None:
    for code, value in nodes:
        if before:
            for end in ("", "\0"):
                units.add(Unit("", before, end))
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, _POSSESSIVE):
            _, most, inner = value
            for body in _samples(inner):
                if most > 1:
                    for end in ("", "\0", "x"):
                        units.add(Unit(before, body, end))
                    units.add(Unit("", before + body * 40, ""))
            _units(before, inner, units)
        elif code is codes.SUBPATTERN:
            _units(before, value[-1], units)
        elif code is codes.BRANCH:
            for each in value[1]:
                _units(before, each, units)
        elif code in (codes.ASSERT, codes.ASSERT_NOT) and value[0] > 0:
            _units(before, value[1], units)
        before += _samples([(code, value)])[0]
        if len(before) > 400:
            return
    for end in ("", "\0"):
        units.add(Unit("", before, end))
        units.add(Unit("", before + " ", end))


_POSSESSIVE = getattr(codes, "POSSESSIVE_REPEAT", None)


def _samples(nodes: Any) -> list[str]:
    """A few shortest texts that match a sequence of nodes; at least one."""
    made = [""]
    for code, value in nodes:
        more = _of_node(code, value)
        made = [one + other for one in made[:2] for other in more[:_MOST_OF_A_CLASS]]
    return made[:4]


def _of_node(code: Any, value: Any) -> list[str]:  # noqa: PLR0911 - a case a line
    if code is codes.LITERAL:
        return [chr(value)]
    if code is codes.NOT_LITERAL:
        return [" " if chr(value) != " " else "a"]
    if code is codes.ANY:
        return ["a", " "]
    if code is codes.IN:
        return _of_class(value)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, _POSSESSIVE):
        least, _, inner = value
        return [each * max(least, 1) for each in _samples(inner)]
    if code is codes.SUBPATTERN:
        return _samples(value[-1])
    if code is codes.BRANCH:
        return [each for branch in value[1] for each in _samples(branch)[:1]]
    if code is codes.ASSERT and value[0] > 0:
        return _samples(value[1])
    return [""]  # an anchor, a group again, or what must not follow


_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: ["1"],
    codes.CATEGORY_NOT_DIGIT: ["a"],
    codes.CATEGORY_SPACE: [" ", "\n"],
    codes.CATEGORY_NOT_SPACE: ["a"],
    codes.CATEGORY_WORD: ["a", "\u00e9"],
    codes.CATEGORY_NOT_WORD: [" ", "-"],
}


def _of_class(items: Any) -> list[str]:
    found: list[str] = []
    for code, value in items:
        if code is codes.NEGATE:
            known = {chr(v) for c, v in items if c is codes.LITERAL}
            found += [each for each in ("a", " ", "\x9d", "\n") if each not in known]
            break
        if code is codes.LITERAL:
            found.append(chr(value))
        elif code is codes.RANGE:
            found.append(chr(value[0]))
        elif code is codes.CATEGORY:
            found += _OF_CATEGORY[value]
    return [found[0], found[-1]] if found else [""]
