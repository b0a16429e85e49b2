"""Connections to a database: their settings, their pool, and the end of the process."""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql

from vecall.caller_warnings import warn_caller
from vecall.concurrency.freed_frames import free_frames
from vecall.errors import ClosedError
from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.connector import Connector
from vecall.store.postgres.errors import MISPLACED, database_errors, is_lost
from vecall.store.postgres.pool import Pool
from vecall.store.postgres.pooler import set_for_transaction
from vecall.store.postgres.rights import SHARED
from vecall.store.postgres.url import DatabaseUrl

# Of users, and so what may have data that was deleted.
_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s))
AND relkind IN ('r', 'p') AND relname <> ALL (CAST(%s AS name[])) ORDER BY relname
"""

LOCK_WAIT_S = 0.25
"""How long a write waits for a lock at once: others may wait behind it meanwhile."""

_LONGEST_PAUSE_S = 2.0
OTHERS_WAIT = b"LOCK TABLE model IN ACCESS EXCLUSIVE MODE"
"""Waits until no write of a user runs, and holds up new ones: each reads this table."""

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
        self._connector = Connector(url, durable=durable)
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

    def connect(
        self, conninfo: str | None = None, session: Mapping[str, str] | None = None
    ) -> BoundedConnection:
        """Return a new connection outside of the pools; see `Connector.connect`."""
        connection = self._connector.connect(conninfo, session)
        self._single.add(connection)
        return connection

    def prepare_no_more(self) -> None:
        """Prepare no statement on the connections that are borrowed from now on."""
        self._connector.prepares = False
        for pool in (self._pool, self._keepers):
            pool.lose_all()

    @contextmanager
    def transaction(
        self,
        *,
        keeper: bool,
        role: str,
        how: str = "",
        seconds: float | None = None,
        lock_wait: float | None = None,
    ) -> Iterator[BoundedConnection]:
        """Begin a transaction in a pipeline. The caller commits it; else it ends.

        Args:
            keeper: Whether it concerns several users.
            role: The role whose rights it has.
            how: More for BEGIN, such as "READ ONLY".
            seconds: How long it waits for the database in total. Default: the
                `timeout` of the URL, and that for each wait if it concerns several
                users, because its data may be large.
            lock_wait: How long each statement waits for a lock, in seconds. Default:
                as long as for its result.

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
                    settings = {"role": role, "search_path": self.url.schema}
                    if lock_wait is not None:
                        settings["lock_timeout"] = f"{max(1, int(1000 * lock_wait))}ms"
                    if connection.settings is not None:
                        settings = {**connection.settings, **settings}
                    connection.execute(set_for_transaction(settings))
                    yield connection
            except psycopg.Error as error:
                if is_lost(error):
                    pool.lose(connection)
                elif isinstance(error, MISPLACED):
                    self.prepare_no_more()
                raise
            finally:
                if connection.pgconn.transaction_status:  # not idle
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")

    @contextmanager
    def alone(self) -> Iterator[BoundedConnection]:
        """Begin a transaction across users while none writes. The caller commits it.

        Others wait behind the request for the lock. So it is given up when a running
        write holds it up, and repeated for the `timeout` of the URL.

        Raises:
            psycopg.Error: The database cannot be reached, refuses access, or another
                transaction held the lock.
        """
        deadline, pause = monotonic() + self.url.timeout, LOCK_WAIT_S
        while True:
            try:
                with ExitStack() as stack:
                    connection = stack.enter_context(
                        self.transaction(
                            keeper=True, role="vecall_keeper", lock_wait=LOCK_WAIT_S
                        )
                    )
                    connection.execute(OTHERS_WAIT)
                    connection.execute(b"SELECT 1").fetchone()  # wait for the lock
                    begun = stack.pop_all()
            except psycopg.errors.LockNotAvailable as error:
                if monotonic() + pause >= deadline:
                    raise
                free_frames(error)
            else:
                break
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        with begun:
            yield connection

    def vacuum(self) -> str | None:
        """Return the space of deleted rows, as far as the keeper may.

        VACUUM runs in no transaction, so its settings are those of a session, which
        must be vecall's own.

        Returns:
            Why tables were not vacuumed; None if all of them were.
        """
        session = {"role": "vecall_keeper", "statement_timeout": "0"}
        with (
            database_errors(),
            self.connect(self.url.keeper or self.url.conninfo, session) as connection,
        ):
            if connection.settings is not None:
                return "a pooler is between: set keeper_url to the server itself"
            connection.allow(math.inf, each=True)
            connection.warned = False
            connection.add_notice_handler(connection.note_warning)
            tables = connection.execute(_TABLES, (self.url.schema, list(SHARED)))
            for (table,) in tables.fetchall():
                connection.execute(
                    sql.SQL("VACUUM {}.{}").format(
                        sql.Identifier(self.url.schema), sql.Identifier(table)
                    )
                )
            if connection.warned:  # the server skips a table, and reports success
                return "vecall_keeper may not VACUUM, as before PostgreSQL 17"
        return None

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._closed = True
        for pool in (self._pool, self._keepers):
            pool.close()

    def abandon(self) -> Callable[[], None]:
        """Return a function that closes the connections that are idle, not waiting."""
        pools = (self._pool, self._keepers)

        def end() -> None:
            for pool in pools:
                pool.abandon()

        return end

    def drop(self) -> None:
        """In a forked child: use and close none of the parent's connections."""
        self._closed = True
        _of_parent.extend(self._single)


def _after_fork() -> None:
    for connections in list(_opened):
        connections.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
