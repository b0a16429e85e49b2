"""Converts rows to the engine's input: hashed words, names and sessions, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from vecall._core import Engine
from vecall.errors import InvalidArgumentError
from vecall.lexical import memory_terms
from vecall.store import Row, RowWithVector
from vecall.timestamps import to_micros

Key = tuple[str, str]

_NEVER = np.iinfo(np.int64).max
_NOWHERE = float("nan")  # the position of a fact, which has no neighbours
_UNKNOWN_SESSION = 1  # for turns without a session


def name_key(name: str) -> int:
    """Return the engine's 64-bit number of a session, author or kind."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return max(int.from_bytes(digest, "little"), _UNKNOWN_SESSION + 1)


def _session(row: Row) -> int:
    if row.session is not None:
        return name_key(row.session)
    return 0 if row.pos is None else _UNKNOWN_SESSION


class _Names:
    """Caches the numbers of names within one batch."""

    def __init__(self) -> None:
        self._known: dict[str | None, int] = {None: 0}

    def __call__(self, name: str | None) -> int:
        number = self._known.get(name)
        if number is None:
            assert name is not None
            number = self._known[name] = name_key(name)
        return number


def add_rows(
    engine: Engine, key: Key, stored: Sequence[RowWithVector], model: int | None
) -> int:
    """Add rows to the engine, with their words and the vectors of one model.

    A row that the engine refuses costs no other row. It is added without its vector;
    if that is refused as well, by its number alone, so that no search finds it.

    Returns:
        The number of rows that the engine refused.
    """
    try:
        _add(engine, key, stored, model)
        return 0
    except InvalidArgumentError:
        return sum(_is_refused(engine, key, entry, model) for entry in stored)


def _is_refused(
    engine: Engine, key: Key, entry: RowWithVector, model: int | None
) -> bool:
    bare = entry.row._replace(
        text="", author=None, kind=None, session=None, pos=None, ts=0.0
    )
    forms = (entry, entry._replace(vec=None), RowWithVector(bare, None))
    for form in forms[:-1]:
        try:
            _add(engine, key, [form], model)
        except InvalidArgumentError:
            continue
        return form is not entry
    _add(engine, key, forms[-1:], model)
    return True


def _add(
    engine: Engine, key: Key, stored: Sequence[RowWithVector], model: int | None
) -> None:
    rows = [entry.row for entry in stored]
    terms = [memory_terms(row.text, row.author, row.ts) for row in rows]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(found) for found in terms], out=offsets[1:])
    expires = [_NEVER if (end := row.end) is None else to_micros(end) for row in rows]
    names = _Names()
    vectors, has_vector = _vectors(engine.dim, stored, model)
    engine.add_rows(
        key,
        np.array([row.rid for row in rows], np.int64),
        np.array([to_micros(row.time) for row in rows], np.int64),
        np.array(expires, np.int64),
        np.array([_session(row) for row in rows], np.uint64),
        np.array(
            [_NOWHERE if row.pos is None else row.pos for row in rows], np.float64
        ),
        np.array([term for found in terms for term in found], np.uint64),
        offsets,
        vectors,
        has_vector,
        np.array([names(row.author) for row in rows], np.uint64),
        np.array([names(row.kind) for row in rows], np.uint64),
    )


def _vectors(
    dim: int, stored: Sequence[RowWithVector], model: int | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    if not dim:
        return None, None
    vectors = np.zeros((len(stored), dim), np.float32)
    has_vector = np.zeros(len(stored), np.uint8)
    for i, entry in enumerate(stored):
        # Rows that another process migrated to another model are found by words.
        if entry.vec is not None and entry.model == model and len(entry.vec) == 4 * dim:
            vectors[i] = np.frombuffer(entry.vec, "<f4")
            has_vector[i] = 1
    return vectors, has_vector
