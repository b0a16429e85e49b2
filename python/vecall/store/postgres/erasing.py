"""Finds and forgets the names of a user in a database, for `vecall erase`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from vecall.store.erased_names import HIDDEN_APP, UserNames, names_of_user
from vecall.store.maintenance.name_traces import (
    ROWS_REMAIN,
    forms_in_text,
    has_name,
    number_of_user,
)
from vecall.store.postgres.all_users import reading_all_users
from vecall.store.postgres.dialect import decoded, encoded
from vecall.store.postgres.storage import open_postgres
from vecall.store.postgres.url import parse_url
from vecall.store.writes.delete import ForgetUser

_COLUMNS = """
SELECT c.relname, a.attname, t.typcategory = 'S' OR t.typname IN ('json', 'jsonb')
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
JOIN pg_type AS t ON t.oid = a.atttypid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
AND c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped
AND has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY c.relname, a.attnum
"""

Connection = psycopg.Connection[tuple[Any, ...]]


def names_in_database(url: str, user: str, app: str | None) -> UserNames:
    """Return the partitions of a user, as `names_of_user` does."""
    with reading_all_users(parse_url(url)) as reading:
        return names_of_user(reading, user, app)


def forget_hidden_in_database(url: str, names: Sequence[str]) -> None:
    """Delete all data of users whose names a purge has replaced by digests."""
    storage = open_postgres(url, "full")
    try:
        for name in names:
            storage.submit(ForgetUser(HIDDEN_APP, name)).result()
    finally:
        storage.close()


def traces_in_database(url: str, name: str, parts: Sequence[int] = ()) -> list[str]:
    """Return the places in the tables of the schema that have a name.

    Args:
        url: The database.
        name: The name.
        parts: Numbers of partitions; rows that have one of them are told, too.
    """
    with reading_all_users(parse_url(url)) as reading:
        return list(_places(reading.connection, name, parts))


def _places(opened: Connection, name: str, parts: Sequence[int]) -> Iterator[str]:
    columns = opened.execute(_COLUMNS).fetchall()
    for table, column, is_text in columns:
        if is_text and _has(opened, table, column, name):
            yield f"column {column} of table {table}"
        number = number_of_user(table, column)
        if number and parts and _has_rows(opened, table, number, parts):
            yield ROWS_REMAIN.format(table)


def _has(opened: Connection, table: str, column: str, name: str) -> bool:
    """Whether a column has a name; only texts with its characters leave the server."""
    forms = [encoded(form) for form in forms_in_text(name)]
    text = sql.SQL("CAST({} AS text)").format(sql.Identifier(column))
    test = sql.SQL("strpos({} COLLATE {}, %s) > 0").format(text, sql.Identifier("C"))
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
        text, sql.Identifier(table), sql.SQL(" OR ").join([test] * len(forms))
    )
    with opened.cursor("texts") as cursor:
        cursor.execute(query, forms)
        return any(has_name((table, column), decoded(text), name) for (text,) in cursor)


def _has_rows(
    opened: Connection, table: str, number: str, parts: Sequence[int]
) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE {} = ANY (%s))").format(
        sql.Identifier(table),
        sql.SQL(number),
    )
    found = opened.execute(query, (list(parts),)).fetchone()
    return found is not None and bool(found[0])
