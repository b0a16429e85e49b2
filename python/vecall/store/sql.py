"""Statements over many rows.

sqlite3 releases the GIL in every call. Next to a busy thread, it takes a switch
interval of 5 ms to get the GIL back. So vecall writes a session of a hundred turns with
a handful of statements instead of hundreds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

from vecall.store.transaction import Statement, Transaction

_VARIABLES = 900  # per statement; every SQLite allows 999


@singledispatch
def insert_many(
    connection: Any,
    into: str,
    rows: Sequence[tuple[Any, ...]],
    conflict: str = "",
) -> None:
    """Insert rows in order.

    A kind of transaction may register its own implementation.

    Args:
        connection: The transaction.
        into: The table and its columns, for example "chg (part, seq)".
        rows: The values of the columns, for each row.
        conflict: The statement's ON CONFLICT clause.
    """
    if not rows:
        return
    width = len(rows[0])
    placeholders = f"({', '.join('?' * width)})"
    limit = max(1, _VARIABLES // width)
    for start in range(0, len(rows), limit):
        batch = rows[start : start + limit]
        values = [value for row in batch for value in row]
        connection.execute(
            f"INSERT INTO {into} VALUES {', '.join([placeholders] * len(batch))} "
            f"{conflict}",
            values,
        )


@singledispatch
def statement_among(
    connection: Any,  # noqa: ARG001
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Statement:
    """Return a statement of which a column has one of some values.

    A kind of transaction may register its own implementation.

    Args:
        connection: The transaction.
        query: Ends in "IN", for example "SELECT rid FROM mem WHERE part = ? AND id IN".
        before: Values of the question marks in it.
        among: The values of the last column, of one type; not None.
    """
    return statement_with_marks(query, before, among)


def statement_with_marks(
    query: str, before: Sequence[Any], among: Sequence[Any]
) -> Statement:
    """Return `statement_among` with a mark for each value."""
    return f"{query} ({', '.join('?' * len(among))})", (*before, *among)


@singledispatch
def given_rows(
    connection: Any,  # noqa: ARG001
    name: str,
    rows: Sequence[tuple[Any, ...]],
) -> Statement:
    """Return the WITH clause of a table of given rows.

    A kind of transaction may register its own implementation.

    Args:
        connection: The transaction.
        name: The table and its columns, for example "said (hash, author)".
        rows: The values of the columns, for each row; at least one.
    """
    return rows_with_marks(name, rows)


def rows_with_marks(name: str, rows: Sequence[tuple[Any, ...]]) -> Statement:
    """Return `given_rows` with a mark for each value."""
    marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(rows))
    return f"WITH {name} AS (VALUES {marks})", [value for row in rows for value in row]


def in_statements(
    connection: Transaction, query: str, before: Sequence[Any], among: Sequence[Any]
) -> Iterator[Statement]:
    """Yield the statements that `select_in` executes."""
    limit = _VARIABLES - len(before)
    for start in range(0, len(among), limit):
        some = among[start : start + limit]
        yield statement_among(connection, query, before, some)


def select_in(
    connection: Transaction,
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query that ends in "IN", for many values.

    Args:
        connection: The connection.
        query: For example "SELECT rid FROM mem WHERE part = ? AND id IN".
        before: Values of the question marks in it.
        among: Values of which the last column must have one.
    """
    for statement in in_statements(connection, query, before, among):
        yield from connection.execute(*statement).fetchall()


def execute_in(
    connection: Transaction, statement: str, before: Sequence[Any], among: Sequence[Any]
) -> None:
    """Execute an UPDATE or DELETE that ends in "IN", for many values.

    Args:
        connection: The connection.
        statement: For example "DELETE FROM mem WHERE part = ? AND id IN".
        before: Values of the question marks in it.
        among: Values of which the last column must have one.
    """
    for each in in_statements(connection, statement, before, among):
        connection.execute(*each)
