"""The public values of items: JSON documents under a namespace and a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from vecall.reprs import short_repr

Namespace = Sequence[str]
"""The labels of a namespace, from the outermost to the innermost."""


@dataclass(frozen=True, slots=True)
class Put:
    """Writes one item: replaces the item of this namespace and key, if there is one.

    Attributes:
        namespace: Its namespace: a sequence of labels. A label is a non-empty string
            without NUL.
        key: Its key in the namespace, a non-empty string without NUL.
        value: A JSON value: None, a boolean, a string, a finite number, an integer of
            any size, or lists and mappings of these. Keys of mappings are strings, and
            their order is preserved. A tuple is stored as a list.
        vectors: Vectors that find the item: numbers (n, dim), or (dim,) for one. They
            are finite and not zero. All vectors of a user's items have one dimension.
        ttl: TTL: seconds, a timedelta or "30d". None is no expiry.
        if_version: Write only if the item is in this version, or with 0 only if there
            is no item. None writes always.
    """

    namespace: Namespace
    key: str
    value: Any
    vectors: Any = None
    ttl: float | timedelta | str | None = None
    if_version: int | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Drop:
    """Deletes one item. If there is none, it does nothing.

    Attributes:
        namespace: Its namespace.
        key: Its key.
        if_version: Delete only if the item is in this version. None deletes always.
    """

    namespace: Namespace
    key: str
    if_version: int | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Item:
    """A stored item.

    Attributes:
        namespace: Its namespace.
        key: Its key.
        value: Its value.
        version: The version that the last write gave it, at least 1. Versions of one
            user's items increase from write to write.
        created_at: When the item was first written, in seconds since 1970.
        updated_at: When this version was written, in seconds since 1970.
        ttl: Its TTL in seconds; None if it does not expire.
        expires_in: Seconds until it expires; None if it does not.
        score: In a search by vector: the cosine of its nearest vector, in [-1, 1]. None
            if it has no vector, or if no vector was given.
    """

    namespace: tuple[str, ...]
    key: str
    value: Any
    version: int
    created_at: float
    updated_at: float
    ttl: float | None = None
    expires_in: float | None = None
    score: float | None = None

    __repr__ = short_repr
