"""Rows of a vector store as a vector set of Redis holds them."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from vecall.errors import CorruptFileError
from vecall.vector_store.remote import StoredRow
from vecall.vector_store.validation import PartitionScope

_SECOND = 1_000_000
# The language of FILTER has neither integers above 2^53 nor negative numbers, so a time
# is two numbers: seconds since the year -1199, and microseconds.
_SHIFT = 100_000_000_000


def attributes_of(row: StoredRow) -> bytes:
    """Return a row without its id. Conditions read the first three fields."""
    seconds, micros = divmod(row.micros, _SECOND)
    fields = {
        "session": _hex(row.session),
        "seconds": seconds + _SHIFT,
        "micros": micros,
        "metadata": row.metadata,
    }
    return json.dumps(fields).encode()


def row_of(id: bytes, attributes: bytes) -> StoredRow:
    """Return the row of an id with its attributes.

    Raises:
        CorruptFileError: Something else wrote it.
    """
    try:
        fields = json.loads(attributes)
        session = bytes.fromhex(fields["session"]).decode() or None
        micros = (fields["seconds"] - _SHIFT) * _SECOND + fields["micros"]
        return StoredRow(id.decode(), session, micros, fields["metadata"])
    except (ValueError, TypeError, KeyError):
        msg = "a row of the vector store was not written by RedisVectorStore"
        raise CorruptFileError(msg) from None


def filter_terms(scope: PartitionScope) -> list[str]:
    """Return the conditions of a filter apart from `where`, for FILTER."""
    terms = []
    if scope.session is not None:
        terms.append(f'.session == "{_hex(scope.session)}"')
    for bound, beyond, within in ((scope.after, ">", ">="), (scope.before, "<", "<")):
        if bound is not None:
            seconds, micros = divmod(bound, _SECOND)
            seconds += _SHIFT
            terms.append(
                f"(.seconds {beyond} {seconds} or "
                f"(.seconds == {seconds} and .micros {within} {micros}))"
            )
    return terms


def _hex(session: str | None) -> str:
    """Return a name without quotes, backslashes and letters that JSON escapes."""
    return "" if session is None else session.encode().hex()


def vector_bytes(vector: NDArray[np.float32]) -> bytes:
    """Return a vector as the commands of vector sets read it."""
    return vector.astype("<f4").tobytes()
