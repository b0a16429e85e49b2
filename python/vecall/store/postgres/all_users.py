"""Begins a transaction that reads all users, for the tools of a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from vecall.clock import Clock, ExpiryClock
from vecall.store.postgres.errors import database_errors
from vecall.store.postgres.transaction import PostgresTransaction, prepare_connection
from vecall.store.postgres.url import DatabaseUrl

_LONGEST = "1h"  # a statement


@contextmanager
def reading_all_users(url: DatabaseUrl) -> Iterator[PostgresTransaction]:
    """Begin a transaction that reads one state of all users.

    Raises:
        ConfigError: The database refuses access.
        StorageError: The database cannot be reached.
    """
    with (
        database_errors(),
        psycopg.connect(
            url.keeper or url.conninfo, autocommit=True, connect_timeout=10
        ) as opened,
    ):
        prepare_connection(opened)
        with opened.transaction():
            opened.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            opened.execute("SET LOCAL ROLE vecall_keeper")
            # Of the transaction: a pooler gives the session to other programs.
            opened.execute(f"SET LOCAL statement_timeout = '{_LONGEST}'".encode())
            opened.execute(
                "SELECT set_config('search_path', quote_ident(%s), true)", (url.schema,)
            )
            yield PostgresTransaction(opened, ExpiryClock(Clock()), b"")
