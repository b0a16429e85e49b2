"""Connections to a database: their settings, their pool, and the end of the process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from vecall.caller_warnings import warn_caller
from vecall.errors import ClosedError
from vecall.store.postgres.errors import database_errors
from vecall.store.postgres.transaction import Connection, prepare_connection
from vecall.store.postgres.url import DatabaseUrl

_SETTINGS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 20_000,  # milliseconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "vecall",
    "options": (
        "-c statement_timeout=25s -c lock_timeout=25s "
        "-c idle_in_transaction_session_timeout=60s"
    ),
}
_WAIT_S = 25.0

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
        self._single: weakref.WeakSet[Connection] = weakref.WeakSet()
        if not url.is_checked:
            warn_caller(
                "path: the connection to the database does not verify the server; use "
                "sslmode=verify-full"
            )
        with database_errors():
            # The pool would only say that it timed out.
            self.connect(url.conninfo).close()
            self._pool = self._made_pool(url.conninfo, url.readers + url.writers)
            self._keepers = (
                self._pool if url.keeper is None else self._made_pool(url.keeper, 2)
            )
        _opened.add(self)

    def connect(self, conninfo: str | None = None) -> Connection:
        """Return a new connection outside of the pool.

        Raises:
            psycopg.Error: The database cannot be reached, or refuses access.
        """
        settings = self._with_settings(conninfo or self.url.conninfo)
        connection: Connection = psycopg.connect(settings, autocommit=True)
        prepare_connection(connection)
        self._single.add(connection)
        return connection

    @contextmanager
    def transaction(
        self, *, keeper: bool, role: str, how: str = ""
    ) -> Iterator[Connection]:
        """Begin a transaction in a pipeline. The caller commits it; else it ends.

        Args:
            keeper: Whether it concerns several users.
            role: The role whose rights it has.
            how: More for BEGIN, such as "READ ONLY".

        Raises:
            psycopg.Error: The database cannot be reached, or refuses access.
        """
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)
        pool = self._keepers if keeper else self._pool
        with pool.connection() as connection:
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
            finally:
                if connection.pgconn.transaction_status:  # not idle
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")

    def renew(self) -> None:
        """Replace the idle connections that a lost server has left behind."""
        for pool in {self._pool, self._keepers}:
            with suppress(psycopg.Error):
                pool.check()

    def vacuum(self) -> None:
        """Return the space of deleted rows, as far as the keeper may."""
        with (
            database_errors(),
            self.connect(self.url.keeper or self.url.conninfo) as connection,
        ):
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
        for pool in {self._pool, self._keepers}:
            pool.close(timeout=5.0)

    def drop(self) -> None:
        """In a forked child: use and close none of the parent's connections."""
        self._closed = True
        _of_parent.append(self._pool)
        _of_parent.append(self._keepers)
        _of_parent.extend(self._single)

    def _with_settings(self, conninfo: str) -> str:
        """Return a URL with vecall's settings; those that it has take precedence."""
        given = conninfo_to_dict(conninfo)
        options: list[Any] = [_SETTINGS["options"]]
        if not self._durable:
            options.append("-c synchronous_commit=off")
        options.append(given.get("options") or "")
        settings: dict[str, Any] = {
            **_SETTINGS,
            **given,
            "options": " ".join(options).strip(),
        }
        return make_conninfo("", **settings)

    def _made_pool(self, conninfo: str, most: int) -> ConnectionPool[Connection]:
        return ConnectionPool(
            self._with_settings(conninfo),
            min_size=1,
            max_size=most,
            open=True,
            timeout=_WAIT_S,
            kwargs={"autocommit": True},
            configure=prepare_connection,
            check=None,
            reconnect_timeout=5.0,
            num_workers=1,
        )


def _after_fork() -> None:
    for connections in list(_opened):
        connections.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
