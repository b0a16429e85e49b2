"""Shares periodic work between servers: each piece has one claimant, under a lease.

No server leads. A claim is one short transaction that skips rows which another one
holds locked.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from vecall.clock import Clock, ExpiryClock
from vecall.concurrency.executor import InterruptibleFuture, free_error_frames
from vecall.errors import BusyError, ClosedError, VecallError
from vecall.store.postgres.connections import (
    LOCK_WAIT_S,
    PAUSES_S,
    BoundedConnection,
    Connections,
)
from vecall.store.postgres.transaction import (
    Connection,
    PostgresTransaction,
    encoded,
    prepare_connection,
)
from vecall.store.postgres.url import (
    AGAIN,
    MISPLACED,
    DatabaseUrl,
    NoAnswerError,
    as_typed,
    database_errors,
    is_connection_lost,
    set_for_transaction,
)
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import Change, DueSession, Version
from vecall.store.storage import ClaimedRows, ClaimedUser
from vecall.store.transaction import WriteJob
from vecall.store.writes.model_migration import require_running_migration
from vecall.store.writes.sessions import ClaimSession

T = TypeVar("T")

_SESSION = """
WITH due AS MATERIALIZED (
  SELECT part, session, kind FROM trig WHERE due_at <= :now
  ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE trig SET due_at = :until FROM part, due
WHERE trig.part = due.part AND trig.session = due.session AND trig.kind = due.kind
AND part.id = trig.part
RETURNING part.app, part.user, trig.session, EXISTS (SELECT 1 FROM told
  WHERE told.part = trig.part AND told.session = trig.session
  AND told.event IS NOT NULL)
"""
_USERS = """
WITH due AS MATERIALIZED (
  SELECT id FROM part WHERE (sweep_until IS NULL OR sweep_until <= :now) AND id IN (
    SELECT part FROM mem WHERE expires_at <= :now UNION
    SELECT part FROM mem WHERE valid_until <= :now AND state = 'live' UNION
    SELECT part FROM hist WHERE expires_at <= :now UNION
    SELECT part FROM item WHERE expires_at <= :now)
  LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE part SET sweep_until = :until FROM due WHERE part.id = due.id
RETURNING part.id, part.app, part.user
"""
_RELEASE = "UPDATE part SET sweep_until = NULL WHERE id = ?"
_RELEASE_FREE = """
WITH free AS MATERIALIZED (
  SELECT id FROM part WHERE id = ANY(:parts) FOR UPDATE SKIP LOCKED
), done AS (
  UPDATE part SET sweep_until = NULL FROM free WHERE part.id = free.id
)
SELECT id FROM part WHERE id = ANY(:parts) AND id NOT IN (SELECT id FROM free)
"""
# The next rows of the pass leave entries without a vector, so the cursor may move on:
# a claimant that dies loses none of them.
_PASS = """
INSERT INTO vec_next (rid, model, vec, until)
SELECT rid, CAST(:model AS INTEGER), x'', CAST(:until AS FLOAT8) FROM (
  SELECT rid FROM mem WHERE rid > :cursor ORDER BY rid LIMIT :most FOR KEY SHARE
) AS next
ON CONFLICT (rid) DO UPDATE SET until = excluded.until
RETURNING rid
"""
_LEFT = """
WITH due AS MATERIALIZED (
  SELECT rid FROM vec_next WHERE vec = x'' AND (until IS NULL OR until <= :now)
  ORDER BY rid LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE vec_next SET until = :until FROM due WHERE vec_next.rid = due.rid
RETURNING vec_next.rid
"""
_RELEASE_ROWS = """
UPDATE vec_next SET until = NULL WHERE rid IN (SELECT rid FROM vec_next
  WHERE rid = ANY(:rids) AND vec = x'' AND until < 'infinity' FOR UPDATE SKIP LOCKED)
RETURNING rid
"""
_OTHERS = (
    "SELECT 1 FROM vec_next WHERE vec = x'' AND (until IS NULL OR until < 'infinity') "
    "LIMIT 1"
)


@dataclass(eq=False)
class PostgresClaims:
    """Implements `Claims`."""

    # Begins a transaction across users, and commits it.
    _claiming: Callable[[], AbstractContextManager[PostgresTransaction]]
    _submit: Callable[[WriteJob], Future[Change]]  # queues a job

    def claim_session(self, lease_s: float) -> DueSession | None:
        """Claim a due session; see `Claims.claim_session`."""
        while rows := self._claim_rows(_SESSION, lease_s):
            ((*names, has_turns),) = rows
            session = DueSession(*names)
            if has_turns:
                return session
            # Under the lock of the user: disarm it, unless it has turns by now.
            with suppress(BusyError):  # a locked user's session stays claimed
                if self._submit(ClaimSession(*session, lease_s)).result().ids:
                    return session
        return None

    def users(self, most: int, lease_s: float) -> list[ClaimedUser]:
        """Claim users with expired data; see `Claims.users`."""
        rows = self._claim_rows(_USERS, lease_s, most=most)
        return [ClaimedUser(*row) for row in rows]

    def release_users(self, users: Sequence[ClaimedUser]) -> None:
        """End claims of users."""
        # A locked user is waited for alone, so that no other one is locked meanwhile.
        # If that takes long, its claim ends with its lease.

        def release_one(transaction: PostgresTransaction, part: int) -> None:
            limit = f"{int(1000 * LOCK_WAIT_S)}ms"
            transaction.execute("SELECT set_config('lock_timeout', ?, true)", (limit,))
            transaction.execute(_RELEASE, (part,))

        parts = [user.part for user in users]
        locked = self._claim_rows(_RELEASE_FREE, 0.0, parts=parts)
        for part in sorted(part for (part,) in locked):
            with suppress(BusyError):
                self._run_claim_statement(partial(release_one, part=part))

    def rows_to_embed(self, model: int, most: int, lease_s: float) -> ClaimedRows:
        """Claim rows that need a vector; see `Claims.rows_to_embed`."""

        def claim(transaction: PostgresTransaction) -> ClaimedRows:
            require_running_migration(transaction, model)
            now = transaction.expiry_clock.now()
            given = {"now": now, "until": now + lease_s, "most": most, "model": model}
            found = transaction.execute(
                "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'reembed_cursor' "
                "FOR UPDATE"
            ).fetchone()
            assert found is not None  # the migration is running
            passed = transaction.execute(_PASS, {**given, "cursor": found[0]})
            rids = sorted(rid for (rid,) in passed)
            if rids:
                transaction.execute(
                    "UPDATE meta SET value = ? WHERE key = 'reembed_cursor'",
                    (str(rids[-1]),),
                )
            else:
                rids = sorted(rid for (rid,) in transaction.execute(_LEFT, given))
            rows = load_rows(transaction, rids, any_state=True)
            valid = {stored.row.rid for stored in rows}
            lost = [rid for rid in rids if rid not in valid]
            if lost:  # of deleted or damaged rows
                transaction.execute(
                    "UPDATE vec_next SET until = 'infinity' WHERE rid = ANY(?)", (lost,)
                )
            others = not rids and transaction.execute(_OTHERS).fetchone() is not None
            return ClaimedRows(rids, rows, is_last=not rids and not others)

        return self._run_claim_statement(claim)

    def release_rows(self, rids: Sequence[int]) -> None:
        """End claims of rows."""
        self._claim_rows(_RELEASE_ROWS, 0.0, rids=list(rids))

    def _claim_rows(
        self, statement: str, lease_s: float, **given: Any
    ) -> list[tuple[Any, ...]]:
        """Run a statement with a lease from `:now` to `:until`; return its rows."""

        def claim(transaction: PostgresTransaction) -> list[tuple[Any, ...]]:
            now = transaction.expiry_clock.now()
            times = {"now": now, "until": now + lease_s}
            return transaction.execute(statement, {**times, **given}).fetchall()

        return self._run_claim_statement(claim)

    def _run_claim_statement(self, claim: Callable[[PostgresTransaction], T]) -> T:
        with database_errors():
            for pause in PAUSES_S:
                try:
                    with self._claiming() as transaction:
                        return claim(transaction)
                except AGAIN as error:
                    free_error_frames(error)
                time.sleep(pause)
            with self._claiming() as transaction:  # the last attempt
                return claim(transaction)


# Begins a transaction that reads all users, for the tools of a database.

_LONGEST = "1h"  # a statement


@contextmanager
def reading_all_users(url: DatabaseUrl) -> Iterator[PostgresTransaction]:
    """Begin a transaction that reads one state of all users."""
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


# The clock of the primary, which all servers of a database follow.
#
# The clocks of machines differ. Times that memories have, and those at which they
# expire, come from the primary's clock, so that servers agree. The distance between
# that clock and this machine's steady one is measured when a database is opened and
# once a minute.

_log = logging.getLogger("vecall")

_EVERY_S = 60.0
_JUMP_S = 60.0
_SAMPLES = 3
_NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)"


class ServerClock(Clock):
    """A clock whose wall time is the primary's. Thread-safe."""

    def __init__(self) -> None:
        """Begin with the time of this machine."""
        super().__init__()
        self._ahead = super().wall() - self.monotonic()

    def wall(self) -> float:
        """Return the primary's time, in seconds since 1970."""
        return self.monotonic() + self._ahead

    def measure_server(self, asked: Callable[[], float]) -> float:
        """Set the time to the primary's; return by how many seconds it was changed."""
        # `asked` asks the primary for its time, in seconds since 1970. It is called
        # several times; the fastest answer is the most exact one.
        samples = []
        for _ in range(_SAMPLES):
            before = self.monotonic()
            now = asked()
            took = self.monotonic() - before
            samples.append((took, now - before - took / 2))
        was_ahead, (_, self._ahead) = self._ahead, min(samples)
        return self._ahead - was_ahead


class ServerExpiryClock(ExpiryClock):
    """An expiry clock that follows small corrections of the primary's clock."""

    def __init__(self, clock: Clock) -> None:
        """Begin at the clock's time."""
        super().__init__(clock)
        self._latest = float("-inf")

    def now(self) -> float:
        """Return seconds since 1970 by which memories expire. It never goes back."""
        self._latest = now = max(self._latest, super().now())
        return now

    def wall_and_expiry_times(self) -> tuple[float, float]:
        """Return what `wall` and `now` do."""
        return self.wall(), self.now()

    def follow_server_clock(self, seconds: float) -> None:
        """Follow a change of the primary's clock, unless somebody has set that clock.

        After a jump, as after setting the clock of a machine, elapsed time counts.
        """
        if abs(seconds) > _JUMP_S:
            _log.warning(
                "the clock of the database was set %s by %.0f s; memories expire by "
                "elapsed time",
                "forward" if seconds > 0 else "back",
                abs(seconds),
            )
        else:
            self._ahead += seconds


def server_time_reader(connection: Connection) -> Callable[[], float]:
    """Return a function that asks a connection for the primary's time."""

    def asked() -> float:
        row = connection.execute(_NOW, prepare=False).fetchone()
        assert row is not None
        now: float = row[0]
        return now

    return asked


class ClockFollower:
    """Follows the primary's clock on a thread of its own."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: ServerClock,
        expiry_clock: ServerExpiryClock,
        measured: Callable[[], None],
    ) -> None:
        """Start the thread, which calls `measured` after each measurement."""
        self._reading = reading
        self._clock = clock
        self._expiry_clock = expiry_clock
        self._measured = measured
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._follow_clock, name="vecall-clock", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> list[Callable[[], None]]:
        """Return functions that end the thread, not waiting."""
        return [self._ending.set]

    def check_server_clock(self) -> None:
        """Measure the primary's time now. A database that is away is no error."""
        with suppress(psycopg.Error, VecallError):
            with self._reading() as connection:
                changed = self._clock.measure_server(server_time_reader(connection))
            self._expiry_clock.follow_server_clock(changed)
            self._measured()

    def _follow_clock(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self.check_server_clock()


# The statement that asks for versions of partitions, on a connection of its own.

Names = tuple[str, str]

_OF_THE_TIME = 0.25  # of the URL's `timeout`: a check is a small part of a call


class VersionStatement:
    """Sends the statement, and connects when it has to; for one thread at a time."""

    def __init__(self, connections: Connections) -> None:
        """Do not connect yet."""
        self.sent = 0  # the number of statements
        self._connections = connections
        self._connection: BoundedConnection | None = None
        self._query = sql.SQL(
            "SELECT n, part, seq, head FROM {}.heads(%s::text[], %s::text[])"
        ).format(sql.Identifier(connections.url.schema))

    def read_versions(self, names: list[Names]) -> dict[Names, Version | None]:
        """Return the version of each (app, user); None if there is no partition."""
        # A connection that is lost is replaced once.
        try:
            rows = self._read_version_rows(names)
        except psycopg.Error as error:
            if isinstance(error, MISPLACED):
                self._connections.prepare_no_more()
            elif not is_connection_lost(error) or isinstance(error, NoAnswerError):
                raise
            rows = self._read_version_rows(names)  # on a new connection
        found: dict[Names, Version | None] = dict.fromkeys(names)
        for place, part, seq, head in rows:
            found[names[place - 1]] = (part, seq, head)
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _read_version_rows(self, names: list[Names]) -> list[tuple[int, int, int, int]]:
        """Return the place among the names, and the version, of each partition."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connections.connect()
            seconds = self._connections.url.timeout * _OF_THE_TIME
            self._connection.allow(seconds, each=True)
        self.sent += 1
        connection = self._connection
        given = [[encoded(name) for name in each] for each in zip(*names, strict=True)]
        ask = partial(connection.execute, self._query, given, prepare=True, binary=True)
        try:
            if connection.settings is None:
                return ask().fetchall()
            with connection.pipeline():
                connection.execute(b"BEGIN READ ONLY")
                connection.execute(set_for_transaction(connection.settings))
                found = ask()
                connection.execute(b"COMMIT")
            return found.fetchall()
        except BaseException:
            connection.close()  # it may be lost, or in a transaction
            raise


# Asks the database for versions of partitions: one statement for all who wait.

_Waiting = tuple[Names, "Future[Version | None]"]
_MOST = 1_000  # versions in one statement


class VersionChecker:
    """Answers with states that are no older than the question. Thread-safe.

    `ask` sends questions from a thread: one that comes while a statement runs goes with
    the next one. `ask_version_here` sends one from the thread of its caller: no thread
    has to wake; if another caller does so at that time, it is as `ask`.
    """

    def __init__(self, connections: Connections, max_staleness: float = 0.0) -> None:
        """Start the thread."""
        # An answer of at most the age `max_staleness`, in seconds, is given again.
        self._of_thread = VersionStatement(connections)
        self._of_callers = VersionStatement(connections)
        # Has one element, or none while a caller uses it. A caller that is interrupted
        # right after taking it loses it; then all questions go to the thread.
        self._free: queue.SimpleQueue[VersionStatement] = queue.SimpleQueue()
        self._free.put(self._of_callers)
        self._max_staleness = max_staleness
        # Not a dict, which is slow at its beginning where much was removed.
        self._recent: OrderedDict[Names, tuple[float, Version | None]] = OrderedDict()
        # A caller that is interrupted inside a C call leaves no lock behind.
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._noting = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(
            target=self._answer_until_closed, name="vecall-versions", daemon=True
        )
        self._thread.start()

    @property
    def statements(self) -> int:
        """The number of statements that were sent."""
        return self._of_thread.sent + self._of_callers.sent

    def ask_version_here(self, app: str, user: str) -> Version | None:
        """Return the version of a partition; wait for the database."""
        names = (app, user)
        known = self._recent_version(names)
        if known is not None:
            return known[1]
        try:
            statement = self._free.get_nowait()
        except queue.Empty:
            return self.ask(app, user).result()
        try:
            if self._closed:
                raise ClosedError(_CLOSED)
            return self._ask_versions([names], statement)[names]
        except psycopg.Error as error:
            raise as_typed(error) from error
        finally:
            self._free.put(statement)
            if self._closed:
                _close_statement(self._free)

    def ask(self, app: str, user: str) -> Future[Version | None]:
        """Return a future of the version of a partition; None if there is none."""
        future: Future[Version | None] = InterruptibleFuture()
        names = (app, user)
        known = self._recent_version(names)
        if known is not None:
            future.set_result(known[1])
            return future
        with self._closing:
            if self._closed:
                raise ClosedError(_CLOSED)
            self._waiting.put((names, future))
        return future

    def note_version(self, app: str, user: str, version: Version | None) -> None:
        """Record a version that this process has just written."""
        if self._max_staleness:
            with self._noting:
                self._put_version((app, user), monotonic(), version)
                self._forget_outdated_versions()

    def close(self) -> None:
        """Answer what waits, and end the thread."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        _close_statement(self._free)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> list[Callable[[], None]]:
        """Return functions that end the thread, not waiting."""
        return [partial(self._waiting.put, None), partial(_close_statement, self._free)]

    def _answer_until_closed(self) -> None:
        ending = False
        while not ending:
            taken: list[_Waiting] = []
            first = self._waiting.get()
            while first is not None:
                taken.append(first)
                if len(taken) == _MOST:
                    break
                try:
                    first = self._waiting.get_nowait()
                except queue.Empty:
                    break
            else:
                ending = True
            if taken:
                self._answer_version_questions(taken)
            first = None
        self._of_thread.close()

    def _answer_version_questions(self, taken: list[_Waiting]) -> None:
        try:
            asked = list(dict.fromkeys(names for names, _ in taken))
            found = self._ask_versions(asked, self._of_thread)
        except BaseException as error:
            typed = as_typed(error) if isinstance(error, psycopg.Error) else error
            for _, future in taken:
                with suppress(Exception):  # the caller was cancelled
                    future.set_exception(typed)
            return
        for names, future in taken:
            if future.set_running_or_notify_cancel():
                future.set_result(found.get(names))

    def _recent_version(self, names: Names) -> tuple[float, Version | None] | None:
        """Return an answer that is recent enough to be given again."""
        if not self._max_staleness:
            return None
        known = self._recent.get(names)
        if known is None or monotonic() - known[0] > self._max_staleness:
            return None
        return known

    def _ask_versions(
        self, names: list[Names], statement: VersionStatement
    ) -> dict[Names, Version | None]:
        """Ask for versions, and keep the answers for a while."""
        asked = monotonic()
        found = statement.read_versions(names)
        if self._max_staleness:
            with self._noting:
                for each, version in found.items():
                    known = self._recent.get(each)
                    # A write of this process may have overtaken the answer.
                    if known is None or known[0] < asked:
                        self._put_version(each, asked, version)
                self._forget_outdated_versions()
        return found

    def _put_version(self, names: Names, at: float, version: Version | None) -> None:
        self._recent[names] = (at, version)
        self._recent.move_to_end(names)  # so that the order is nearly that of time

    def _forget_outdated_versions(self) -> None:
        """Remove the oldest versions, as far as they are too old to be given again."""
        limit = monotonic() - self._max_staleness
        outdated: list[Names] = []
        for names, (at, _) in self._recent.items():
            if at >= limit or len(outdated) == 2 * _MOST:  # the rest next time
                break
            outdated.append(names)
        for names in outdated:
            del self._recent[names]


def _close_statement(free: queue.SimpleQueue[VersionStatement]) -> None:
    """Close the connection of a statement that no caller uses."""
    with suppress(queue.Empty):
        free.get_nowait().close()


_CLOSED = "the memory service is closed"
