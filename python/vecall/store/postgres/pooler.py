"""Finds a pooler between vecall and its database, and what must not be relied on then.

A pooler in transaction mode may run each transaction in another server process. What
belongs to a session is then lost, or is found by others: its settings, and its prepared
statements, unless the pooler gives them names of its own (pgbouncer 1.21 or later with
`max_prepared_statements`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

_SETTING = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\\\s])*)")
_NAMES_OF_PSYCOPG = "_pg3_"
_REFUSALS = tuple(
    f"unsupported {each}"
    for each in (
        "startup parameter: options",
        "startup parameter in options",
        "options startup parameter",
    )
)


def is_pooled(connection: Connection) -> bool:
    """Whether the server process is another one than the connection began with."""
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    pid: int = row[0]
    return pid != connection.info.backend_pid


def renames_statements(connection: Connection) -> bool:
    """Whether the pooler gives prepared statements names of its own.

    Otherwise the statement that a name means depends on the server process.

    Args:
        connection: A connection through the pooler, for this question only.
    """
    mark = secrets.token_hex(8)
    with connection.transaction():
        rows = connection.execute(
            f"SELECT name FROM pg_prepared_statements WHERE strpos(statement, '{mark}')"
            " > 0".encode(),
            prepare=True,
        ).fetchall()
        own = [name for (name,) in rows if name.startswith(_NAMES_OF_PSYCOPG)]
        for name in own:  # the process goes on to serve others
            connection.execute(
                sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)), prepare=False
            )
    return not own


def use_own_names(connection: Connection) -> None:
    """Let no two connections give prepared statements the same names.

    psycopg counts from 0. A name that reached the process of another connection would
    mean another statement there; now it means none, which is an error.
    """
    connection._prepared._prepared_idx = secrets.randbits(48) << 14


def refuses_options(error: psycopg.Error) -> bool:
    """Whether a pooler refused the startup parameter `options`, or a part of it."""
    return any(each in str(error) for each in _REFUSALS)


def settings_in(options: str) -> dict[str, str]:
    """Return the settings in the text of the startup parameter `options`.

    Raises:
        ValueError: It has something else too.
    """
    if _SETTING.sub("", options).strip():
        raise ValueError
    return {
        name.replace("-", "_"): re.sub(r"\\(.)", r"\1", value)
        for name, value in _SETTING.findall(options)
    }


def set_for_transaction(settings: Mapping[str, str]) -> bytes:
    """Return a statement that sets something until the transaction ends."""
    return _set_for_transaction(tuple(settings.items()))


@lru_cache(maxsize=64)  # composing it takes as long as the server takes to execute it
def _set_for_transaction(settings: tuple[tuple[str, str], ...]) -> bytes:
    calls = [
        sql.SQL("set_config({}, {}, true)").format(name, value)
        for name, value in settings
    ]
    return (sql.SQL("SELECT ") + sql.SQL(", ").join(calls)).as_bytes()
