"""The records of items, and how their namespaces are stored.

A namespace is a sequence of labels. It is stored as one text in which a unit separator
(U+001F) ends each label, so a namespace and all below it are one range of texts in code
point order.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from secrets import token_hex
from typing import Any, NamedTuple

from vecall.errors import CorruptFileError
from vecall.scalars import exact_arguments
from vecall.store.checksums import old_spellings
from vecall.store.item_values import DAMAGED_ITEM, PIECES

_END, _AFTER_END = "\x1f", "\x20"
_ESCAPES = (("\x1e", "\x1e0"), ("\x1f", "\x1e1"))
_CRC_BYTES = 4
HEAD_DIGITS, _HEADS = 8, 32
MOST_VECTORS = 1 << 10
"""Maximum number of vectors of one item."""


def encode_namespace(labels: Sequence[str]) -> str:
    """Return a namespace as one text."""
    return _encoded(tuple(labels))


@lru_cache(maxsize=1024)
def _encoded(labels: tuple[str, ...]) -> str:
    parts = []
    for label in labels:
        for raw, escaped in _ESCAPES:
            label = label.replace(raw, escaped)  # noqa: PLW2901
        parts.append(label + _END)
    return "".join(parts)


@lru_cache(maxsize=1024)
def decode_namespace(text: str) -> tuple[str, ...]:
    """Return the labels of a stored namespace.

    Raises:
        CorruptFileError: Not the text of a namespace.
    """
    labels = []
    for label in text.split(_END):
        for raw, escaped in reversed(_ESCAPES):
            label = label.replace(escaped, raw)  # noqa: PLW2901
        labels.append(label)
    if labels.pop() != "":
        raise CorruptFileError(DAMAGED_ITEM)
    return tuple(labels)


def namespace_range(labels: Sequence[str]) -> tuple[str, str | None]:
    """Return the range of stored texts of a namespace and all below it.

    Returns:
        The lowest text, and the lowest text above the range; None is no upper bound.
    """
    low = encode_namespace(labels)
    return low, (low[:-1] + _AFTER_END) if low else None


@dataclass(frozen=True, slots=True)
class ItemPut:
    """One item to be written; all fields are validated.

    Attributes:
        namespace: The stored text of its namespace.
        key: Its key.
        value: Its value as it is stored.
        vectors: Its vectors as float32, one after the other; b"" for none.
        ttl: TTL in seconds; None is no expiry.
        if_version: The version that is replaced; 0 if there must be none; None
            replaces any.
        pieces: The pieces of a large value.
    """

    namespace: str
    key: str
    value: str
    vectors: bytes = b""
    ttl: float | None = None
    if_version: int | None = None
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemDrop:
    """One item to be deleted; nothing happens if there is none.

    Attributes:
        namespace: The stored text of its namespace.
        key: Its key.
        if_version: The version that is deleted; None deletes any.
        is_optional: Whether an item of another version is left alone; otherwise it is
            a conflict.
    """

    namespace: str
    key: str
    if_version: int | None = None
    is_optional: bool = False


class ItemState(NamedTuple):
    """What a storage knows about the items of one (app, user).

    Attributes:
        part: The number of the partition.
        seq: The number of the newest written item; it never goes back.
        gone: The number of items that were deleted or replaced so far.
        dim: The dimension of all vectors; 0 before the first.
        embedder: The name of the embedder of the vectors, if it was given.
        heads: Eight random hex digits of each of the newest 32 changes, oldest first;
            "" before the first change. They tell a later state from another history
            with the same numbers.
    """

    part: int
    seq: int = 0
    gone: int = 0
    dim: int = 0
    embedder: str | None = None
    heads: str = ""

    @property
    def head(self) -> str:
        """The random digits of the newest change."""
        return self.heads[-HEAD_DIGITS:]

    def follows(self, head: str) -> bool:
        """Return whether this is the state after a change, or a later one.

        Also False if more than 32 changes came after it.

        Args:
            head: The random digits of the change; "" is before the first one.
        """
        starts = range(0, len(self.heads), HEAD_DIGITS)
        return not head or any(self.heads.startswith(head, at) for at in starts)

    def changed(self) -> ItemState:
        """Return this state with the random digits of another change."""
        added = self.heads + token_hex(HEAD_DIGITS // 2)
        return self._replace(heads=added[-_HEADS * HEAD_DIGITS :])


class ItemRow(NamedTuple):
    """A stored item.

    Attributes:
        rid: Its row number, `part << 32 | version`.
        ns: The stored text of its namespace.
        key: Its key.
        value: Its value as it is stored.
        created_at: When the key was first written, in seconds since 1970.
        updated_at: When this version was written, in seconds since 1970.
        ttl: TTL in seconds.
        expires_at: When it expires, on the expiry clock.
        vecs: Its vectors with their checksum; None if it has none or they were not
            read.
        pieces: The pieces of a large value, if they were read.
    """

    rid: int
    ns: str
    key: str
    value: str
    created_at: float
    updated_at: float
    ttl: float | None
    expires_at: float | None
    vecs: bytes | None = None
    pieces: tuple[str, ...] = ()

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


def item_checksum(row: ItemRow) -> int:
    """Return the CRC-32 of an item without its vectors, or of a piece."""
    if row.ns == PIECES:  # its other columns follow from its number
        return zlib.crc32(row.value.encode(), zlib.crc32(str(row.rid).encode()))
    return zlib.crc32(repr(exact_arguments(row[:8])).encode())


def has_old_checksum(row: ItemRow, crc: object) -> bool:
    """Whether a checksum is of a spelling that vecall wrote once.

    That of a key which was a member of an enum named the enum, so it is not known.
    """
    values = row[:8]
    old = old_spellings(list(map(repr, values)), values, _WAS_NUMPY)
    return any(zlib.crc32(f"({', '.join(text)})".encode()) == crc for text in old)


def checked_item(
    values: Sequence[Any], crc: object, vecs: bytes | None = None
) -> ItemRow:
    """Return the item of a stored row.

    Args:
        values: The columns `ITEM_COLUMNS`.
        crc: The stored checksum.
        vecs: The stored vectors, which are not checked here.

    Raises:
        CorruptFileError: The row fails its checksum.
    """
    # Whole numbers come back as floats; their text has to be that of the checksum.
    row = ItemRow(*(*values, vecs))
    if crc != item_checksum(row) and not has_old_checksum(row, crc):
        raise CorruptFileError(DAMAGED_ITEM)
    return row


def with_checksum(rid: int, vectors: bytes) -> bytes | None:
    """Return vectors as they are stored; None for none."""
    return vectors + _crc_of(rid, vectors) if vectors else None


def checked_vectors(rid: int, stored: object, dim: int) -> bytes:
    """Return the vectors of a stored column; b"" if the item has none.

    Raises:
        CorruptFileError: They fail their checksum.
    """
    if stored is None:
        return b""
    if not isinstance(stored, bytes) or len(stored) <= _CRC_BYTES:
        raise CorruptFileError(DAMAGED_ITEM)
    vectors, crc = stored[:-_CRC_BYTES], stored[-_CRC_BYTES:]
    if crc != _crc_of(rid, vectors) or dim < 1 or len(vectors) % (4 * dim):
        raise CorruptFileError(DAMAGED_ITEM)
    return vectors


def _crc_of(rid: int, vectors: bytes) -> bytes:
    crc = zlib.crc32(vectors, zlib.crc32(str(rid).encode()))
    return crc.to_bytes(_CRC_BYTES, "little")
