"""How the values of items are stored: small ones as JSON, large ones in pieces.

The row of a large value has a text that is not JSON: "@", the number of pieces, ",",
how many of the last ones hold the outline, ":", and the outline if none do. The outline
is JSON: the value with null in place of its long strings, and for each of these which
null of the value it is, from 0, its number of pieces, and whether they are escaped. A
piece is a row of its own, under a namespace that no caller can name.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from vecall.errors import CorruptFileError
from vecall.scalars import json_default

PIECES = "\x1f"
"""The stored text of the pieces' namespace: one label, which is empty."""

LARGE = 65_536
"""Characters up to which a value is one text, about."""

_LONG = 16_384  # characters of a string from which on it has pieces of its own
_PIECE = 262_144  # characters
_MARK = "@"  # no JSON text begins with it
_PARSE = json.JSONDecoder().raw_decode  # faster than json.loads
_HEAD = 32  # characters in which the numbers of a large value are

_JSON: Any = {
    "allow_nan": False,
    "separators": (",", ":"),
    "default": json_default,
}
_ENCODE = json.JSONEncoder(ensure_ascii=False, **_JSON).encode
_ENCODE_ASCII = json.JSONEncoder(**_JSON).encode

DAMAGED_ITEM = (
    "the file is damaged: an item fails its checks; `vecall doctor` says more"
)


class StoredValue(NamedTuple):
    """The value of an item as it is stored.

    Attributes:
        text: The text of the item's row.
        pieces: The texts of its pieces, in order.
    """

    text: str
    pieces: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes in UTF-8."""
        return sum(
            len(each) if each.isascii() else len(each.encode())
            for each in (self.text, *self.pieces)
        )

    @property
    def outline_bytes(self) -> int:
        """Bytes in UTF-8 without the long strings."""
        last = _numbers(self.text)[1] if self.pieces else 0
        return (
            StoredValue("", self.pieces[-last:]).nbytes
            if last
            else len(self.text.encode())
        )


def json_text(value: Any) -> str:
    """Return a value of plain dicts and lists as JSON that UTF-8 can hold.

    Raises:
        TypeError: A value of another type.
        ValueError: NaN, Inf, or a cycle.
        RecursionError: Nested too deeply.
    """
    text = _ENCODE(value)
    return text if _is_valid(text) else _ENCODE_ASCII(value)  # a lone surrogate


def in_pieces(value: Any) -> StoredValue:
    """Return a large value of plain dicts and lists as it is stored.

    No step of it takes longer for a longer string, apart from the copy of a piece.
    """
    found = _Pieces()
    outline = json_text([found.outlined(value), found.places])
    pieces = found.pieces
    last = _cut(outline) if len(outline) > LARGE else []
    pieces += last
    if not pieces:
        return StoredValue(json_text(value))
    head = f"{_MARK}{len(pieces)},{len(last)}:"
    return StoredValue(head if last else head + outline, tuple(pieces))


class _Pieces:
    """The long strings of a value, and which null of the outline each of them is."""

    def __init__(self) -> None:
        self.places: list[list[int]] = []
        self.pieces: list[str] = []
        self._nulls = 0

    def outlined(self, value: Any) -> Any:
        """Return a value without its long strings, and collect these."""
        if isinstance(value, dict):
            return {name: self.outlined(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.outlined(each) for each in value]
        if isinstance(value, str):
            if len(value) <= _LONG:
                return value
            parts, is_escaped = _storable(_cut(value))
            self.places.append([self._nulls, len(parts), int(is_escaped)])
            self.pieces += parts
        elif value is not None:
            return value
        self._nulls += 1
        return None


def _filled(outline: Any, texts: dict[int, str], nulls: Iterator[int]) -> Any:
    """Return an outline with texts in place of some of its nulls, by their numbers."""
    if outline is None:
        return texts.pop(next(nulls), None)
    if isinstance(outline, list | dict):
        steps: Any = enumerate(outline)
        if isinstance(outline, dict):
            steps = list(outline.items())
        for step, each in steps:
            if each is None or isinstance(each, list | dict):
                outline[step] = _filled(each, texts, nulls)
    return outline


def _cut(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _storable(parts: list[str]) -> tuple[list[str], bool]:
    """Return texts that both storages hold, and whether they are escaped."""
    if all("\0" not in part and _is_valid(part) for part in parts):
        return parts, False
    return [json.dumps(part)[1:-1] for part in parts], True


def _is_valid(text: str) -> bool:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def number_of_pieces(text: str) -> int:
    """Return how many pieces the value of a row has; 0 of a small one.

    Raises:
        CorruptFileError: Not a text that vecall writes.
    """
    return _numbers(text)[0] if text.startswith(_MARK) else 0


def _numbers(text: str) -> tuple[int, int]:
    try:
        count, last = text[1:_HEAD].partition(":")[0].split(",")
        numbers = int(count), int(last)
    except ValueError:
        raise CorruptFileError(DAMAGED_ITEM) from None
    if not 0 <= numbers[1] <= numbers[0] or numbers[0] < 1:
        raise CorruptFileError(DAMAGED_ITEM)
    return numbers


def parsed_value(text: str, pieces: Sequence[str]) -> Any:
    """Return the value of a row and its pieces.

    Raises:
        CorruptFileError: They do not fit together.
    """
    if not text.startswith(_MARK):
        return _PARSE(text)[0]
    count, last = _numbers(text)
    if count != len(pieces):
        raise CorruptFileError(DAMAGED_ITEM)
    outline = "".join(pieces[-last:]) if last else text.partition(":")[2]
    try:
        value, places = _PARSE(outline)[0]
        parts = iter(pieces)
        texts: dict[int, str] = {}
        for number, length, is_escaped in places:
            some = list(islice(parts, length))
            if is_escaped:
                some = [json.loads(f'"{part}"') for part in some]
            texts[number] = "".join(some)
        filled = _filled(value, texts, itertools.count())
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CorruptFileError(DAMAGED_ITEM) from None
    if texts:
        raise CorruptFileError(DAMAGED_ITEM)
    return filled
