"""Inserts rows into a PostgreSQL table with one statement of constant length.

Each column of many rows is sent as one binary array, and `unnest` makes rows of them.
psycopg parses a text with a mark for each value of each row in every call, which takes
longer than the server takes to insert the rows. One row is sent as values: an array
takes psycopg ten times as long as a value. COPY is no choice: row-level security
refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from psycopg.types.numeric import Int4, Int8

from vecall.store.postgres.dialect import encoded, translated

MAX_ROWS = 2_000
"""Rows of one statement, which the client holds as one message."""

_WHOLE = frozenset("part rid seq head uses crc".split())
_NUMBERS = frozenset(
    "at pos ts created_at updated_at expires_at valid_until due_at ttl "
    "importance_prior last_used".split()
)
_BYTES = frozenset("hash vec vecs".split())
# Columns that have another type in one table than elsewhere.
_OTHER = {("told", "pos"): "int8", ("mem", "model"): "int4"}


def column_type(table: str, column: str) -> str:
    """Return PostgreSQL's name of the type of a column."""
    other = _OTHER.get((table, column))
    if other is not None:
        return other
    if column in _WHOLE:
        return "int8"
    if column in _NUMBERS:
        return "float8"
    return "bytea" if column in _BYTES else "text"


def column_types(columns: str) -> tuple[str, ...]:
    """Return PostgreSQL's names of the types of columns.

    Args:
        columns: The table and its columns, for example "chg (part, seq)".
    """
    table, _, names = columns.rstrip(")").partition(" (")
    return tuple(column_type(table, name) for name in names.split(", "))


@lru_cache(maxsize=64)
def bulk_insert(into: str, conflict: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement for a table, and the types of its columns.

    Args:
        into: The table and its columns, for example "chg (part, seq)".
        conflict: The ON CONFLICT clause, or "".
    """
    types = column_types(into)
    arrays = ", ".join(f"CAST(? AS {type_}[])" for type_ in types)
    sql = f"INSERT INTO {into} SELECT * FROM unnest({arrays}) {conflict}"
    return translated(sql).replace("%s", "%b"), types


@lru_cache(maxsize=64)
def single_insert(into: str, conflict: str) -> tuple[str, tuple[str, ...]]:
    """Return what `bulk_insert` returns, for one row."""
    types = column_types(into)
    marks = ", ".join("?" * len(types))
    sql = f"INSERT INTO {into} VALUES ({marks}) {conflict}"
    return translated(sql).replace("%s", "%b"), types


def row_values(row: Sequence[Any], types: Sequence[str]) -> list[Any]:
    """Return the values of a row for the statement of `single_insert`.

    Each number has the type of its column. psycopg would choose one by the number, and
    prepare a statement for each choice.
    """
    return [
        None if value is None else _CONVERTERS[type_](value)
        for value, type_ in zip(row, types, strict=True)
    ]


def column_values(
    rows: Sequence[tuple[Any, ...]], types: Sequence[str]
) -> list[list[Any]]:
    """Return the values of the columns for a statement of `bulk_insert`."""
    columns = zip(*rows, strict=True)
    return [_converted(*each) for each in zip(columns, types, strict=True)]


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int8": Int8,
    "int4": Int4,
    "float8": float,
    "text": encoded,
    "bytea": bytes,
}


def _converted(column: Sequence[Any], type_: str) -> list[Any]:
    if type_ == "text":
        return [None if value is None else encoded(value) for value in column]
    if type_ == "float8":  # psycopg refuses an array of whole and other numbers
        return [None if value is None else float(value) for value in column]
    return list(column)
