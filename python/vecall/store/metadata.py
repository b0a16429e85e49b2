"""Rows by what their custom_metadata says.

Whether a row passes is decided on the JSON as Python reads it, which is what callers
see: SQLite cuts texts at a NUL and makes floats of large integers. SQL only leaves out
most of the rows that cannot pass.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from vecall.errors import CorruptFileError
from vecall.slices import in_slices
from vecall.store.values import stored_object
from vecall.types import Scalar

_LITERALS = {True: "true", False: "false", None: "null"}


def likely_rows(
    connection: sqlite3.Connection, part: int, wanted: Mapping[str, Scalar]
) -> Iterator[tuple[int, str]]:
    """Return number and metadata of the live rows of a partition that may pass."""
    needles = list(_needles(wanted))
    literally = " AND ".join(["instr(meta, ?)"] * len(needles))
    return connection.execute(
        "SELECT rid, meta FROM mem WHERE rid BETWEEN ? AND ? AND state = 'live' "
        f"AND meta IS NOT NULL AND (instr(meta, '\\') OR ({literally}))",
        (part << 32, (part << 32) | 0xFFFFFFFF, *needles),
    )


def passing(
    rows: Iterable[tuple[int, str]], wanted: Mapping[str, Scalar]
) -> Iterator[int]:
    """Yield the numbers of those rows whose metadata has all wanted values.

    Raises:
        CorruptFileError: The metadata of a row is not a JSON object.
    """
    for rid, meta in in_slices(rows):
        try:
            if has_values(stored_object(meta), wanted):
                yield rid
        except (TypeError, ValueError):
            msg = (
                f"the file is damaged: the metadata of memory row {rid} is not JSON; "
                "`vecall doctor --repair` sets it aside"
            )
            raise CorruptFileError(msg) from None


def has_values(metadata: Mapping[str, object], wanted: Mapping[str, Scalar]) -> bool:
    """Whether metadata has every wanted key with its value, as JSON compares them.

    Numbers are equal by value, 1 and 1.0 are, and true is no number.
    """
    return all(
        name in metadata and _equal(metadata[name], value)
        for name, value in wanted.items()
    )


def _equal(stored: object, wanted: Scalar) -> bool:
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    return stored == wanted


def _needles(wanted: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield what the JSON of a row that passes holds, unless it holds an escape.

    A lone surrogate is always escaped, so what stands here in its place is not found.
    """
    for name, value in wanted.items():
        yield _quoted(name)
        if isinstance(value, str):
            yield _quoted(value)
        elif value is None or isinstance(value, bool):
            yield _LITERALS[value]


def _quoted(text: str) -> str:
    return '"' + text.encode(errors="replace").decode() + '"'
