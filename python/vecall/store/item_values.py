"""How the values of items are stored: small ones as JSON, large ones in pieces.

The row of a large value has a text that is not JSON: "@", the number of pieces, ",",
how many of the last ones hold the outline, ":", and the outline if none do. The outline
is JSON: the value with null in place of its long strings, and for each of these its
path, its number of pieces, and whether they are escaped. A piece is a row of its own,
under a namespace that no caller can name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    places: list[list[Any]] = []
    pieces: list[str] = []
    outline = json_text([_outlined(value, [], places, pieces), places])
    last = _cut(outline) if len(outline) > LARGE else []
    pieces += last
    if not pieces:
        return StoredValue(json_text(value))
    head = f"{_MARK}{len(pieces)},{len(last)}:"
    return StoredValue(head if last else head + outline, tuple(pieces))


def _outlined(
    value: Any, path: list[Any], places: list[list[Any]], pieces: list[str]
) -> Any:
    """Return a value without its long strings, and collect these."""
    if isinstance(value, str):
        if len(value) <= _LONG:
            return value
        parts, is_escaped = _storable(_cut(value))
        places.append([list(path), len(parts), is_escaped])
        pieces += parts
        return None
    if not isinstance(value, dict | list):
        return value
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[Any] = []
    for step, each in steps:
        path.append(step)
        found.append(_outlined(each, path, places, pieces))
        path.pop()
    return dict(zip(value, found, strict=True)) if isinstance(value, dict) else found


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
        holder, places = _PARSE(outline)[0]
        parts = iter(pieces)
        whole = [holder]
        for path, number, is_escaped in places:
            some = list(islice(parts, number))
            if is_escaped:
                some = [json.loads(f'"{part}"') for part in some]
            place: Any = whole
            step: Any = 0
            for following in path:
                place, step = place[step], following
            place[step] = "".join(some)
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CorruptFileError(DAMAGED_ITEM) from None
    return whole[0]
