"""Connections to a database: their settings, their pool, and the end of the process."""

from __future__ import annotations

import math
import os
import queue
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vecall.concurrency.executor import free_error_frames
from vecall.errors import ClosedError, ConfigError
from vecall.store.postgres.schema import SHARED
from vecall.store.postgres.transaction import prepare_connection
from vecall.store.postgres.url import (
    MISPLACED,
    DatabaseUrl,
    NoAnswerError,
    NoConnectionFreeError,
    database_errors,
    is_behind_pooler,
    is_connection_lost,
    pooler_refuses_options,
    pooler_renames_statements,
    set_for_transaction,
    startup_settings_in,
)
from vecall.system import at_fork, socket_has_input
from vecall.telemetry import warn_caller

# A connection whose waits end, also if the server acknowledges and never answers.

_Result = TypeVar("_Result")
_MOST_AGE_S = 1_800.0


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Ends a wait for the server after a time. The connection is then closed.

    The server's own time limits (`statement_timeout`) do not help against a network
    that swallows packets, nor against a proxy that has lost its server.
    """

    generation = 0  # a number of the borrower; connections of an older one are lost
    warned = False  # whether the server has sent a warning
    # What each transaction sets for itself, because a pooler is between; None without
    # one.
    settings: dict[str, str] | None = None
    _opened_at = 0.0
    _left = float("inf")  # seconds
    _is_each = True

    def allow(self, seconds: float, *, each: bool) -> None:
        """Set how long it waits for the server: each time, or until the next call."""
        self._left = seconds
        self._is_each = each

    def note_opened(self, generation: int) -> None:
        """Record that it has just been opened."""
        self.generation = generation
        self._opened_at = monotonic()
        self.add_notice_handler(self.note_warning)

    def is_usable_connection(self, generation: int) -> bool:
        """Whether it can be borrowed: not lost, nor old, nor ended by the server."""
        if self.closed or self.generation != generation:
            return False
        if monotonic() - self._opened_at > _MOST_AGE_S:
            return False
        # An idle connection has nothing to read but its end.
        return not socket_has_input(self.pgconn.socket)

    def wait(
        self, gen: Generator[Any, Any, _Result], *args: Any, **kwargs: Any
    ) -> _Result:
        """Wait for the server; NoAnswerError, and closed, when the time is over."""
        begin = monotonic()
        try:
            return super().wait(
                self._wait_for_server_until(gen, begin + self._left), *args, **kwargs
            )
        finally:
            if not self._is_each:
                self._left -= monotonic() - begin

    def note_warning(self, notice: psycopg.errors.Diagnostic) -> None:
        """Record a warning of the server."""
        self.warned |= notice.severity_nonlocalized == "WARNING"

    def _wait_for_server_until(
        self, gen: Generator[Any, Any, _Result], deadline: float
    ) -> Generator[Any, Any, _Result]:
        """Pass on what psycopg waits for. It resumes at least ten times a second."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() >= deadline:
                    self.pgconn.finish()
                    raise NoAnswerError("the server did not answer in time")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _Result = end.value
            return result


# Opens connections with vecall's settings, directly or through a pooler.

_SETTINGS = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "vecall",
}
_OF_SERVER = 0.9  # of the time: the server ends a statement before the client does
_OF_CONNECTING = 0.4  # of the time, for all hosts of the URL


class Connector:
    """Opens connections to the database of a URL. Thread-safe."""

    def __init__(self, url: DatabaseUrl, *, durable: bool) -> None:
        """Open no connection yet. If `durable`, a commit waits for the disk."""
        self.prepares = url.prepares  # statements on connections to come
        self._url = url
        self._durable = durable
        self._refused: set[str] = set()  # URLs of poolers that refuse `options`

    def connect(
        self, conninfo: str | None = None, session: Mapping[str, str] | None = None
    ) -> BoundedConnection:
        """Return a new connection, to `conninfo` or else to the database of the URL."""
        # `session` has further settings of the session. A connection through a pooler,
        # whose `settings` is not None, does not have them. ConfigError: a pooler is
        # between, and `options` has more than settings.
        conninfo = conninfo or self._url.conninfo
        connection = self._open(conninfo, session or {})
        try:
            if is_behind_pooler(connection):
                connection.settings = self._session_settings(conninfo)
                if self.prepares:
                    with self._open(conninfo, {}) as asking:
                        self.prepares &= pooler_renames_statements(asking)
        except BaseException:
            connection.close()
            raise
        if not self.prepares:
            connection.prepare_threshold = None
        return connection

    def prepare_no_more(self) -> None:
        """Prepare no statement on connections to come."""
        self.prepares = False

    def _open(self, conninfo: str, session: Mapping[str, str]) -> BoundedConnection:
        try:
            connection = BoundedConnection.connect(
                self._url_with_settings(conninfo, session), autocommit=True
            )
        except psycopg.OperationalError as error:
            if conninfo in self._refused or not pooler_refuses_options(error):
                raise
            self._refused.add(conninfo)  # each transaction has its own settings
            return self._open(conninfo, session)
        connection.allow(self._url.timeout, each=True)
        prepare_connection(connection)
        return connection

    def _url_with_settings(self, conninfo: str, session: Mapping[str, str]) -> str:
        """Return a URL with vecall's settings; those that it has take precedence."""
        given = conninfo_to_dict(conninfo)
        hosts = str(given.get("host") or "").count(",") + 1
        timeout = self._url.timeout
        own, more = (
            [f"-c {name}={value}" for name, value in each.items()]
            for each in (self._connection_time_limits(), session)
        )
        options = " ".join([*own, _startup_options(given), *more]).strip()
        settings: dict[str, Any] = {
            "connect_timeout": max(2, math.ceil(timeout * _OF_CONNECTING / hosts)),
            "tcp_user_timeout": math.ceil(1000 * timeout),
            **_SETTINGS,
            **given,
            "options": "" if conninfo in self._refused else options,
        }
        return make_conninfo("", **settings)

    def _session_settings(self, conninfo: str) -> dict[str, str]:
        """Return the settings that a session has without a pooler."""
        try:
            given = startup_settings_in(_startup_options(conninfo_to_dict(conninfo)))
        except ValueError:
            msg = "path: options: behind a pooler, expected only -c NAME=VALUE"
            raise ConfigError(msg) from None
        return {**self._connection_time_limits(), **given}

    def _connection_time_limits(self) -> dict[str, str]:
        limit = f"{max(1, round(1000 * self._url.timeout * _OF_SERVER))}ms"
        limits = {
            "statement_timeout": limit,
            "lock_timeout": limit,
            "idle_in_transaction_session_timeout": "60s",
        }
        return limits if self._durable else {**limits, "synchronous_commit": "off"}


def _startup_options(given: dict[str, Any]) -> str:
    return str(given.get("options") or os.environ.get("PGOPTIONS") or "")


# Connections that transactions borrow.
#
# psycopg_pool 3.3 connects on threads of its own, with growing pauses, and gives up
# some seconds after a server is gone. Those who wait for a connection then wait for
# their whole time, although the server is back: after an outage of some ten seconds,
# the first statement came 13.9 s after the server, and a new pool would have done the
# same. Here the borrower opens the connection.


class Pool:
    """At most a number of connections. Thread-safe."""

    def __init__(
        self,
        connect: Callable[[], BoundedConnection],
        most: int,
        on_misplaced: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a pool without a connection, for `most` at a time."""
        # `on_misplaced` is called after an error of `MISPLACED`.
        self._connect = connect
        self._on_misplaced = on_misplaced
        self._idle: deque[BoundedConnection] = deque()
        # A thread that is interrupted inside a C call leaves no lock behind.
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(most):
            self._places.put(None)
        self._generation = 0
        self._closed = False
        self._abandoned = False

    @contextmanager
    def borrow_connection(self, seconds: float) -> Iterator[BoundedConnection]:
        """Lend a connection that is in no transaction; wait until one is free."""
        # After an error that says so, the connections are not lent again.
        try:
            self._places.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise NoConnectionFreeError("no connection was free in time") from None
        connection = None
        try:
            connection = self._take_connection()
            yield connection
        except psycopg.Error as error:
            if connection is not None and is_connection_lost(error):
                self.discard_lost_connection(connection)
            elif isinstance(error, MISPLACED):
                self._on_misplaced()
                self.discard_all_connections()
            raise
        finally:
            if connection is not None:
                self._return_connection(connection)
            self._places.put(None)

    def discard_lost_connection(self, connection: BoundedConnection) -> None:
        """Do not lend the connections that were opened before one that was lost."""
        if connection.generation == self._generation:
            self._generation += 1

    def discard_all_connections(self) -> None:
        """Do not lend the connections that are open now."""
        self._generation += 1

    def close(self) -> None:
        """Close all connections; those that are lent, when they come back."""
        self._closed = True
        self._drop_idle_connections()

    def abandon(self) -> None:
        """Close the idle connections, and each other one when it comes back."""
        # Work that was begun may still borrow one. Does not wait.
        self._abandoned = True
        self._drop_idle_connections()

    def _take_connection(self) -> BoundedConnection:
        if self._closed:
            raise ClosedError("the memory service is closed")
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if connection.is_usable_connection(self._generation):
                return connection
            connection.close()
        generation = self._generation
        connection = self._connect()
        connection.note_opened(generation)
        return connection

    def _return_connection(self, connection: BoundedConnection) -> None:
        if connection.closed or connection.pgconn.transaction_status:  # not idle
            connection.close()
            return
        self._idle.append(connection)
        if self._closed or self._abandoned:
            self._drop_idle_connections()

    def _drop_idle_connections(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


# Of users, and so what may have data that was deleted.
_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s))
AND relkind IN ('r', 'p') AND relname <> ALL (CAST(%s AS name[])) ORDER BY relname
"""

KEEPER = "vecall_keeper"
"""The role that sees all users."""
PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""Before each repetition of a transaction that another one was in the way of."""
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
        """Open a pool, and wait for its first connection, or why there is none."""
        self.url = url
        self._connector = Connector(url, durable=durable)
        self._closed = False
        self._single: weakref.WeakSet[BoundedConnection] = weakref.WeakSet()
        if not url.is_checked:
            warn_caller(
                "path: the connection to the database does not verify the server; use "
                "sslmode=verify-full"
            )
        most = url.readers + url.writers
        self._pool = Pool(self.connect, most, self.prepare_no_more)
        self._keepers = self._pool
        if url.keeper is not None:
            self._keepers = Pool(
                lambda: self.connect(url.keeper), 2, self.prepare_no_more
            )
        with database_errors():
            for pool in (self._pool, self._keepers):
                with pool.borrow_connection(url.timeout):
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
        self._connector.prepare_no_more()
        for pool in (self._pool, self._keepers):
            pool.discard_all_connections()

    @contextmanager
    def transaction(
        self,
        role: str,
        how: str = "",
        *,
        seconds: float | None = None,
        lock_wait: float | None = None,
    ) -> Iterator[BoundedConnection]:
        """Begin a transaction in a pipeline. The caller commits it; else it ends.

        That of `KEEPER` concerns several users. `how` has more for BEGIN, such as "READ
        ONLY". `seconds` is how long it waits for the database in total; by default the
        `timeout` of the URL, and that for each wait of the keeper's, whose data may be
        large. `lock_wait` is how long each statement waits for a lock; by default as
        long as for its result.
        """
        if self._closed:
            raise ClosedError("the memory service is closed")
        pool = self._keepers if role == KEEPER else self._pool
        each = role == KEEPER and seconds is None
        begin, limit = monotonic(), self.url.timeout if seconds is None else seconds
        with pool.borrow_connection(limit) as connection:
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
            finally:
                if connection.pgconn.transaction_status:  # not idle
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")

    @contextmanager
    def exclusive_transaction(self) -> Iterator[BoundedConnection]:
        """Begin a transaction across users while none writes. The caller commits it."""
        # Others wait behind the request for the lock. So it is given up when a running
        # write holds it up, and repeated for the `timeout` of the URL.
        deadline, pause = monotonic() + self.url.timeout, LOCK_WAIT_S
        while True:
            try:
                with ExitStack() as stack:
                    connection = stack.enter_context(
                        self.transaction(KEEPER, lock_wait=LOCK_WAIT_S)
                    )
                    connection.execute(OTHERS_WAIT)
                    connection.execute(b"SELECT 1").fetchone()  # wait for the lock
                    begun = stack.pop_all()
            except psycopg.errors.LockNotAvailable as error:
                if monotonic() + pause >= deadline:
                    raise
                free_error_frames(error)
            else:
                break
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        with begun:
            yield connection

    def vacuum_tables(self) -> str | None:
        """Return the space of deleted rows, as far as the keeper may."""
        # VACUUM runs in no transaction, so its settings are those of a session, which
        # must be vecall's own. Returned is why tables were not vacuumed; None if all of
        # them were.
        session = {"role": KEEPER, "statement_timeout": "0"}
        with (
            database_errors(),
            self.connect(self.url.keeper or self.url.conninfo, session) as connection,
        ):
            if connection.settings is not None:
                return "a pooler is between: set keeper_url to the server itself"
            connection.allow(math.inf, each=True)
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

    def abandon(self) -> list[Callable[[], None]]:
        """Return functions that close the connections that are idle, not waiting."""
        return [self._pool.abandon, self._keepers.abandon]

    def disown_connections_of_parent(self) -> None:
        """In a forked child: use and close none of the parent's connections."""
        self._closed = True
        _of_parent.extend(self._single)


def _disown_connections_after_fork() -> None:
    for connections in list(_opened):
        connections.disown_connections_of_parent()


at_fork(after_in_child=_disown_connections_after_fork)
