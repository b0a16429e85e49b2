"""Validates JSON and numbers that are read from a file or an export.

A file or an export may come from an untrusted source and have valid checksums. So every
value is checked here before it is used.
"""

from __future__ import annotations

import itertools
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from typing import Any, NamedTuple

from vecall.clock import to_seconds, ttl_seconds
from vecall.errors import CorruptFileError, InvalidArgumentError
from vecall.scalars import exact_arguments, is_utf8, json_default
from vecall.types import check_share

_DEPTH = 200
_STRINGS = ("id", "author", "kind", "source", "trust")
_PAST_STRINGS = (*_STRINGS[1:], "session", "event", "digest", "text")


def _parse_json(text: str) -> Any:
    """Return the value of a JSON text; None if it is none, or a number not finite."""
    try:
        return _decode(text)
    except (RecursionError, TypeError, ValueError):
        return None


def parse_given_object(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object in a caller's string: not too deep, all numbers finite."""
    found = _parse_json(text)
    if not isinstance(found, dict) or not _is_shallow_json(found):
        msg = f"{name}: expected a JSON object as a string, all numbers finite"
        raise InvalidArgumentError(msg)
    return found


def parse_stored_object(text: str) -> dict[str, Any]:
    """Return a JSON object of the file."""
    found = _parse_json(text)
    if not isinstance(found, dict):
        raise CorruptFileError(NO_VALUE)
    return found


def parse_json_list(text: str) -> list[Any]:
    """Return a JSON array of the file."""
    found = _parse_json(text)
    if not isinstance(found, list):
        raise CorruptFileError(NO_VALUE)
    return found


WHOLE = frozenset([int])  # the types of whole numbers


def require_whole_numbers(*values: object) -> None:
    """Check that values of the file are whole numbers."""
    if not WHOLE.issuperset(map(type, values)):
        raise CorruptFileError(NO_VALUE)


def check_revision_values(values: Mapping[str, Any], name: str) -> None:
    """Check an overwritten revision of a memory, or its digest."""
    if not isinstance(values.get("digest", values.get("text")), str):
        raise InvalidArgumentError(f"{name}: expected a text, or a digest of it")
    for field, value in values.items():
        if value is None:
            continue
        if field in ("ts", "updated_at"):
            to_seconds(_require_json_number(value, name), f"{name}.{field}")
        elif field == "importance":
            check_share(value, f"{name}.{field}")
        elif field in ("content", "meta"):
            parse_given_object(_require_json_type(value, str, name), f"{name}.{field}")
        elif field in _PAST_STRINGS:
            _require_json_type(value, str, name)
        elif field == "state" and value == "quarantined":
            continue
        else:
            raise InvalidArgumentError(f"{name}: expected the fields of a memory")


def check_buffered_turn(event: Mapping[str, Any], name: str) -> None:
    """Check a buffered turn or compaction."""
    content, actions = event.get("content"), event.get("actions")
    if content is None and not isinstance(actions, Mapping):
        raise InvalidArgumentError(f"{name}: expected a content or actions")
    if content is not None:
        _check_event_content(content, name)
    if isinstance(actions, Mapping):
        _check_compaction(actions.get("compaction"), name)
    for field in _STRINGS:
        if event.get(field) is not None:
            _require_json_type(event[field], str, name)
    if event.get("timestamp") is not None:
        to_seconds(_require_json_number(event["timestamp"], name), f"{name}.timestamp")
    if event.get("importance") is not None:
        check_share(event["importance"], f"{name}.importance")
    meta = event.get("custom_metadata", {})
    if not isinstance(meta, Mapping):
        raise InvalidArgumentError(f"{name}.custom_metadata: expected a mapping")
    for field in ("ttl", "revision_ttl"):
        if meta.get(field) is not None:
            ttl_seconds(_require_json_number(meta[field], name))


def _check_event_content(content: object, name: str) -> None:
    if isinstance(content, Mapping):
        parts = content.get("parts")
        role = content.get("role")
        good = isinstance(parts, list) and isinstance(role, str | None)
        checked = parts if isinstance(parts, list) and good else [None]
        values = [p.get("text") if isinstance(p, Mapping) else p for p in checked]
    else:
        values = [content]
    texts = [text for text in values if isinstance(text, str)]
    if not values or len(texts) < len(values):
        msg = f"{name}.content: expected a text, or parts with texts"
        raise InvalidArgumentError(msg)
    if not any(text.strip() for text in texts):
        raise InvalidArgumentError(f"{name}.content: must not be blank")


def _check_compaction(compaction: object, name: str) -> None:
    if not isinstance(compaction, Mapping):
        raise InvalidArgumentError(f"{name}.actions: expected a compaction")
    for field in ("start_timestamp", "end_timestamp"):
        if compaction.get(field) is not None:
            to_seconds(_require_json_number(compaction[field], name), f"{name}.{field}")
    _check_event_content(compaction.get("compacted_content"), name)


def _require_json_number(value: Any, name: str) -> Any:
    return _require_json_type(value, int | float, name)


def _require_json_type(value: Any, types: Any, name: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, types):
        raise InvalidArgumentError(f"{name}: expected texts and numbers as they were")
    return value


def _is_shallow_json(value: object) -> bool:
    """Whether a value is nested at most 200 levels, which other JSON writers accept."""
    level: list[object] = [value]
    for _ in range(_DEPTH):
        deeper: list[object] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        if not deeper:
            return True
        level = deeper
    return False


def _parse_finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _refuse_json_constant(_: str) -> float:
    raise ValueError


_decode = json.JSONDecoder(
    parse_constant=_refuse_json_constant, parse_float=_parse_finite_float
).decode


NO_VALUE = (
    "the file is damaged: a value is not as vecall writes it; `vecall doctor` says more"
)


# The texts that checksums are of: one spelling for each value.
#
# A checksum was once of the `repr` of what a caller gave. A number of NumPy's, such as
# a TTL, was written as a plain number with a checksum of its NumPy spelling. Rows with
# such a checksum are whole; `old_numpy_spellings` finds them again.


def canonical_column_text(value: object) -> str:
    """Return the text of a string or a number of a row; "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float.__repr__(value)
    return int.__repr__(value)


def old_numpy_spellings(
    texts: Sequence[str], values: Sequence[object], places: Sequence[int]
) -> Iterator[list[str]]:
    """Yield the texts of a row as a value of NumPy's at some places had spelled them.

    A caller's value, or one made of it, may be at the `places`.
    """
    spelled: dict[int, str] = {}
    for at in places:
        value = values[at]
        if type(value) is float:
            spelled[at] = f"np.float64({value!r})"
        elif type(value) is str:
            spelled[at] = f"np.str_({value!r})"
    for count in range(1, len(spelled) + 1):
        for chosen in combinations(spelled, count):
            yield [
                spelled[at] if at in chosen else text for at, text in enumerate(texts)
            ]


# How the values of items are stored: small ones as JSON, large ones in pieces.
#
# The row of a large value has a text that is not JSON: "@", the number of pieces, ",",
# how many of the last ones hold the outline, ":", and the outline if none do. The
# outline is JSON: the value with null in place of its long strings, and for each of
# these which null of the value it is, from 0, its number of pieces, and whether they
# are escaped. A piece is a row of its own, under a namespace that no caller can name.

PIECES = "\x1f"  # the stored text of the pieces' namespace: one label, which is empty

LARGE = 65_536  # characters up to which a value is one text, about

_LONG = 16_384  # characters of a string from which on it has pieces of its own
_PIECE = 262_144  # characters
MARK = "@"  # no JSON text begins with it
_PARSE = json.JSONDecoder().raw_decode  # faster than json.loads
_HEAD = 32  # characters in which the numbers of a large value are

_JSON: Any = {"allow_nan": False, "separators": (",", ":"), "default": json_default}
_ENCODE = json.JSONEncoder(ensure_ascii=False, **_JSON).encode
_ENCODE_ASCII = json.JSONEncoder(**_JSON).encode

DAMAGED_ITEM = (
    "the file is damaged: an item fails its checks; `vecall doctor` says more"
)


class StoredValue(NamedTuple):
    """The value of an item as it is stored."""

    text: str  # the text of the item's row
    pieces: tuple[str, ...] = ()  # the texts of its pieces, in order

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
        last = _piece_counts(self.text)[1] if self.pieces else 0
        return (
            StoredValue("", self.pieces[-last:]).nbytes
            if last
            else len(self.text.encode())
        )


def encode_json_value(value: Any) -> str:
    """Return a value of plain dicts and lists as JSON that UTF-8 can hold."""
    text = _ENCODE(value)
    is_valid = text.isascii() or is_utf8(text)
    return text if is_valid else _ENCODE_ASCII(value)  # a lone surrogate


def value_in_pieces(value: Any) -> StoredValue:
    """Return a large value of plain dicts and lists as it is stored."""
    # No step of it takes longer for a longer string, apart from the copy of a piece.
    found = _Pieces()
    outline = encode_json_value([found.take_long_strings(value), found.places])
    pieces = found.pieces
    last = _cut_into_pieces(outline) if len(outline) > LARGE else []
    pieces += last
    if not pieces:
        return StoredValue(encode_json_value(value))
    head = f"{MARK}{len(pieces)},{len(last)}:"
    return StoredValue(head if last else head + outline, tuple(pieces))


class _Pieces:
    """The long strings of a value, and which null of the outline each of them is."""

    def __init__(self) -> None:
        self.places: list[list[int]] = []
        self.pieces: list[str] = []
        self._nulls = 0

    def take_long_strings(self, value: Any) -> Any:
        """Return a value without its long strings, and collect these."""
        if isinstance(value, dict):
            return {name: self.take_long_strings(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.take_long_strings(each) for each in value]
        if isinstance(value, str):
            if len(value) <= _LONG:
                return value
            parts, is_escaped = _storable_pieces(_cut_into_pieces(value))
            self.places.append([self._nulls, len(parts), int(is_escaped)])
            self.pieces += parts
        elif value is not None:
            return value
        self._nulls += 1
        return None


def _fill_outline(outline: Any, texts: dict[int, str], nulls: Iterator[int]) -> Any:
    """Return an outline with texts in place of some of its nulls, by their numbers."""
    if outline is None:
        return texts.pop(next(nulls), None)
    if isinstance(outline, list | dict):
        steps: Any = enumerate(outline)
        if isinstance(outline, dict):
            steps = list(outline.items())
        for step, each in steps:
            if each is None or isinstance(each, list | dict):
                outline[step] = _fill_outline(each, texts, nulls)
    return outline


def _cut_into_pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _storable_pieces(parts: list[str]) -> tuple[list[str], bool]:
    """Return texts that both storages hold, and whether they are escaped."""
    if all("\0" not in part and is_utf8(part) for part in parts):
        return parts, False
    return [json.dumps(part)[1:-1] for part in parts], True


def count_value_pieces(text: str) -> int:
    """Return how many pieces the value of a row has; 0 of a small one."""
    return _piece_counts(text)[0] if text.startswith(MARK) else 0


def _piece_counts(text: str) -> tuple[int, int]:
    try:
        count, last = text[1:_HEAD].partition(":")[0].split(",")
        numbers = int(count), int(last)
    except ValueError:
        raise CorruptFileError(DAMAGED_ITEM) from None
    if not 0 <= numbers[1] <= numbers[0] or numbers[0] < 1:
        raise CorruptFileError(DAMAGED_ITEM)
    return numbers


def parse_item_value(text: str, pieces: Sequence[str]) -> Any:
    """Return the value of a row and its pieces."""
    if not text.startswith(MARK):
        return _PARSE(text)[0]
    count, last = _piece_counts(text)
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
        filled = _fill_outline(value, texts, itertools.count())
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CorruptFileError(DAMAGED_ITEM) from None
    if texts:
        raise CorruptFileError(DAMAGED_ITEM)
    return filled


# The records of items, and how their namespaces are stored.
#
# A namespace is a sequence of labels. It is stored as one text in which a unit
# separator (U+001F) ends each label, so a namespace and all below it are one range of
# texts in code point order.

_END, _AFTER_END = "\x1f", "\x20"
_ESCAPES = (("\x1e", "\x1e0"), ("\x1f", "\x1e1"))
_CRC_BYTES = 4
HEAD_DIGITS, HEADS = 8, 32
MOST_VECTORS = 1 << 10  # maximum number of vectors of one item


@lru_cache(maxsize=1024)
def encode_namespace(labels: tuple[str, ...]) -> str:
    """Return a namespace as one text."""
    parts = []
    for label in labels:
        for raw, escaped in _ESCAPES:
            label = label.replace(raw, escaped)  # noqa: PLW2901
        parts.append(label + _END)
    return "".join(parts)


@lru_cache(maxsize=1024)
def decode_namespace(text: str) -> tuple[str, ...]:
    """Return the labels of a stored namespace."""
    labels = []
    for label in text.split(_END):
        for raw, escaped in reversed(_ESCAPES):
            label = label.replace(escaped, raw)  # noqa: PLW2901
        labels.append(label)
    if labels.pop() != "":
        raise CorruptFileError(DAMAGED_ITEM)
    return tuple(labels)


def namespace_range(labels: Sequence[str]) -> tuple[str, str | None]:
    """Return the lowest text of a namespace, and the lowest one above all below it."""
    # None is no upper bound.
    low = encode_namespace(tuple(labels))
    return low, (low[:-1] + _AFTER_END) if low else None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ItemPut:
    """One item to be written; all fields are validated."""

    namespace: str  # the stored text of its namespace
    key: str
    value: str  # its value as it is stored
    vectors: bytes = b""  # its vectors as float32, one after the other; b"" for none
    ttl: float | None = None  # TTL in seconds; None is no expiry
    # The version that is replaced; 0 if there must be none; None replaces any.
    if_version: int | None = None
    pieces: tuple[str, ...] = ()  # the pieces of a large value


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ItemDrop:
    """One item to be deleted; nothing happens if there is none."""

    namespace: str  # the stored text of its namespace
    key: str
    if_version: int | None = None  # the version that is deleted; None deletes any
    # Whether an item of another version is left alone; otherwise it is a conflict.
    is_optional: bool = False


class ItemState(NamedTuple):
    """What a storage knows about the items of one (app, user)."""

    part: int
    seq: int = 0  # the number of the newest written item; it never goes back
    gone: int = 0  # the number of items that were deleted or replaced so far
    dim: int = 0  # the dimension of all vectors; 0 before the first
    # The name of the embedder of the vectors, if it was given.
    embedder: str | None = None
    # Eight random hex digits of each of the newest 32 changes, oldest first; "" before
    # the first change. They tell a later state from another history with the same
    # numbers.
    heads: str = ""

    @property
    def head(self) -> str:
        """The random digits of the newest change."""
        return self.heads[-HEAD_DIGITS:]

    def is_after_change(self, head: str) -> bool:
        """Return whether this is the state after a change, or a later one."""
        # `head` has the random digits of the change; "" is before the first one. Also
        # False if more than 32 changes came after it.
        starts = range(0, len(self.heads), HEAD_DIGITS)
        return not head or any(self.heads.startswith(head, at) for at in starts)


class ItemRow(NamedTuple):
    """A stored item."""

    rid: int  # its row number, `part << 32 | version`
    ns: str  # the stored text of its namespace
    key: str
    value: str  # its value as it is stored
    created_at: float  # when the key was first written, in seconds since 1970
    updated_at: float  # when this version was written, in seconds since 1970
    ttl: float | None  # TTL in seconds
    expires_at: float | None  # when it expires, on the expiry clock
    # Its vectors with their checksum; None if it has none or they were not read.
    vecs: bytes | None = None
    pieces: tuple[str, ...] = ()  # the pieces of a large value, if they were read

    @property
    def version(self) -> int:
        """The version of the item."""
        return self.rid & 0xFFFFFFFF


class ItemVectors(NamedTuple):
    """The vectors of a stored item, as float32."""

    rid: int
    ns: str
    key: str
    vectors: bytes


ITEM_COLUMNS = "rid, ns, key, value, created_at, updated_at, ttl, expires_at"
"""The columns of an `ItemRow` without the vectors, in its order."""

_WAS_NUMPY = (2, 4, 5, 6, 7)  # the key and the times


def item_checksum(row: ItemRow, *, is_stored: bool = False) -> int:
    """Return the CRC-32 of an item without its vectors, or of a piece."""
    if row.ns == PIECES:  # its other columns follow from its number
        return zlib.crc32(row.value.encode(), zlib.crc32(str(row.rid).encode()))
    values = row[:8] if is_stored else exact_arguments(row[:8])
    return zlib.crc32(repr(values).encode())


def has_old_item_checksum(row: ItemRow, crc: object) -> bool:
    """Whether a checksum is of a spelling that vecall wrote once."""
    # That of a key which was a member of an enum named the enum, so it is not known.
    values = row[:8]
    old = old_numpy_spellings(list(map(repr, values)), values, _WAS_NUMPY)
    return any(zlib.crc32(f"({', '.join(text)})".encode()) == crc for text in old)


def check_item_checksum(
    values: Sequence[Any], crc: object, vecs: bytes | None = None
) -> ItemRow:
    """Return the item of a row of `ITEM_COLUMNS`; its vectors are not checked here."""
    # Whole numbers come back as floats; their text has to be that of the checksum.
    row: ItemRow = tuple.__new__(ItemRow, (*values, vecs, ()))  # no call of Python's
    known = crc == item_checksum(row, is_stored=True)
    if not known and not has_old_item_checksum(row, crc):
        raise CorruptFileError(DAMAGED_ITEM)
    return row


def vectors_with_checksum(rid: int, vectors: bytes) -> bytes:
    """Return vectors as they are stored."""
    return vectors + _vectors_crc(rid, vectors)


def checked_vectors(rid: int, stored: object, dim: int) -> bytes:
    """Return the vectors of a stored column; b"" if the item has none."""
    if stored is None:
        return b""
    if not isinstance(stored, bytes) or len(stored) <= _CRC_BYTES:
        raise CorruptFileError(DAMAGED_ITEM)
    vectors, crc = stored[:-_CRC_BYTES], stored[-_CRC_BYTES:]
    if crc != _vectors_crc(rid, vectors) or dim < 1 or len(vectors) % (4 * dim):
        raise CorruptFileError(DAMAGED_ITEM)
    return vectors


def _vectors_crc(rid: int, vectors: bytes) -> bytes:
    crc = zlib.crc32(vectors, zlib.crc32(str(rid).encode()))
    return crc.to_bytes(_CRC_BYTES, "little")
