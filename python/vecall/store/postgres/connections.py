"""Connections to a database: their settings, their pool, and the end of the process."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vecall.caller_warnings import warn_caller
from vecall.errors import ClosedError
from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.errors import database_errors, is_lost
from vecall.store.postgres.pool import Pool
from vecall.store.postgres.transaction import prepare_connection
from vecall.store.postgres.url import DatabaseUrl

_SETTINGS = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "vecall",
}
_OF_SERVER = 0.9  # of the time: the server ends a statement before the client does
_OF_CONNECTING = 0.4  # of the time, for all hosts of the URL

_opened: weakref.WeakSet[Connections] = weakref.WeakSet()
_of_parent: list[Any] = []  # connections that a forked child must not close


class Connections:
    """The connections of one storage. Thread-safe."""

    def __init__(self, url: DatabaseUrl, *, durable: bool) -> None:
        """Open a pool, and wait for its first connection.

        Args:
            url: The database.
            durable: A commit waits for the disk of the server.

        Raises:
            ConfigError: The database refuses access.
            StorageError: The database cannot be reached.
        """
        self.url = url
        self._durable = durable
        self._closed = False
        self._single: weakref.WeakSet[BoundedConnection] = weakref.WeakSet()
        if not url.is_checked:
            warn_caller(
                "path: the connection to the database does not verify the server; use "
                "sslmode=verify-full"
            )
        self._pool = Pool(self.connect, url.readers + url.writers)
        self._keepers = self._pool
        if url.keeper is not None:
            self._keepers = Pool(lambda: self.connect(url.keeper), 2)
        with database_errors():
            for pool in (self._pool, self._keepers):
                with pool.borrowed(url.timeout):
                    pass  # the first connection, or why there is none
        _opened.add(self)

    def connect(self, conninfo: str | None = None) -> BoundedConnection:
        """Return a new connection outside of the pools.

        Raises:
            psycopg.Error: The database cannot be reached, or refuses access.
        """
        settings = with_settings(
            self.url, conninfo or self.url.conninfo, durable=self._durable
        )
        connection = BoundedConnection.connect(settings, autocommit=True)
        connection.allow(self.url.timeout, each=True)
        prepare_connection(connection)
        self._single.add(connection)
        return connection

    @contextmanager
    def transaction(
        self,
        *,
        keeper: bool,
        role: str,
        how: str = "",
        seconds: float | None = None,
    ) -> Iterator[BoundedConnection]:
        """Begin a transaction in a pipeline. The caller commits it; else it ends.

        Args:
            keeper: Whether it concerns several users.
            role: The role whose rights it has.
            how: More for BEGIN, such as "READ ONLY".
            seconds: How long it waits for the database in total. Default: the
                `timeout` of the URL, and that for each wait if it concerns several
                users, because its data may be large.

        Raises:
            psycopg.Error: The database cannot be reached, or refuses access.
        """
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)
        pool = self._keepers if keeper else self._pool
        each = keeper and seconds is None
        begin, limit = monotonic(), self.url.timeout if seconds is None else seconds
        with pool.borrowed(limit) as connection:
            connection.allow(limit - (0 if each else monotonic() - begin), each=each)
            try:
                with connection.pipeline():
                    connection.execute(f"BEGIN {how}".encode())
                    connection.execute(
                        sql.SQL(
                            "SELECT set_config('role', {}, true), "
                            "set_config('search_path', {}, true)"
                        ).format(role, self.url.schema)
                    )
                    yield connection
            except psycopg.Error as error:
                if is_lost(error):
                    pool.lose(connection)
                raise
            finally:
                if connection.pgconn.transaction_status:  # not idle
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")

    def vacuum(self) -> None:
        """Return the space of deleted rows, as far as the keeper may."""
        with (
            database_errors(),
            self.connect(self.url.keeper or self.url.conninfo) as connection,
        ):
            connection.allow(math.inf, each=True)
            connection.execute(b"SET statement_timeout = 0")
            connection.execute(b"SET ROLE vecall_keeper")
            for table in ("mem", "item", "chg", "tomb", "told", "hist", "idem", "part"):
                connection.execute(
                    sql.SQL("VACUUM {}.{}").format(
                        sql.Identifier(self.url.schema), sql.Identifier(table)
                    )
                )

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._closed = True
        for pool in (self._pool, self._keepers):
            pool.close()

    def drop(self) -> None:
        """In a forked child: use and close none of the parent's connections."""
        self._closed = True
        _of_parent.extend(self._single)


def with_settings(url: DatabaseUrl, conninfo: str, *, durable: bool) -> str:
    """Return a connection string with vecall's settings; those that it has win.

    Args:
        url: Its `timeout` is the base of the time limits.
        conninfo: The URL, or that of the keeper.
        durable: A commit waits for the disk of the server.
    """
    given = conninfo_to_dict(conninfo)
    timeout, hosts = url.timeout, str(given.get("host") or "").count(",") + 1
    limit = f"{max(1, round(1000 * timeout * _OF_SERVER))}ms"
    options: list[Any] = [
        f"-c statement_timeout={limit} -c lock_timeout={limit}",
        "-c idle_in_transaction_session_timeout=60s",
    ]
    if not durable:
        options.append("-c synchronous_commit=off")
    options.append(given.get("options") or "")
    settings: dict[str, Any] = {
        "connect_timeout": max(2, math.ceil(timeout * _OF_CONNECTING / hosts)),
        "tcp_user_timeout": math.ceil(1000 * timeout),
        **_SETTINGS,
        **given,
        "options": " ".join(options).strip(),
    }
    return make_conninfo("", **settings)


def _after_fork() -> None:
    for connections in list(_opened):
        connections.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
