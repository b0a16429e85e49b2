"""A transaction in PostgreSQL, for the SQL of jobs and reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.types.numeric import NumericBinaryLoader

from vecall.clock import ExpiryClock
from vecall.store.erased_names import USERS_PART, hidden_user_under
from vecall.store.models import ACTIVE_MODEL
from vecall.store.postgres.bulk_insert import (
    MAX_ROWS,
    bulk_insert,
    column_types,
)
from vecall.store.postgres.dialect import decoded, encoded, translated
from vecall.store.postgres.pooler import use_own_names
from vecall.store.sql import (
    given_rows,
    insert_many,
    rows_with_marks,
    statement_among,
    statement_with_marks,
)
from vecall.store.transaction import (
    PartitionEntry,
    ReadsAhead,
    Statement,
    enter,
    leave,
    read_ahead,
    retire,
)

Connection = psycopg.Connection[tuple[Any, ...]]

# After a crash of one of its processes a server recovers without a new start, and may
# give numbers of transactions twice. Recovery resets the statistics.
SERVER_STARTED = (
    "CAST(1000000 * extract(epoch FROM greatest(pg_postmaster_start_time(), "
    "pg_stat_get_bgwriter_stat_reset_time())) AS BIGINT)"
)
_TEXT = 25  # PostgreSQL's number of the type
_LOOK = "SELECT part FROM look(?, ?, ?) AS part WHERE part IS NOT NULL"
_FEW = 16  # values: a text with so many marks is parsed once
_MISSING = PartitionEntry(0, 0, 0, 0)
_WRITTEN = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)")
_NAMES = re.compile(r"\w+")


class NotSentError(Exception):
    """A transaction has ended, and the statement was not sent before."""


class _WholeNumberLoader(NumericBinaryLoader):
    """Sums of bigint are numeric; here all of them are whole."""

    def load(self, data: Any) -> Any:
        return int(super().load(data))


def prepare_connection(connection: Connection) -> None:
    """Set how a new connection converts values."""
    connection.adapters.register_loader("numeric", _WholeNumberLoader)
    connection.prepared_max = 400
    use_own_names(connection)


class _RoundTrips:
    """Counts how often a transaction waited for the server."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class PostgresResult:
    """The rows of a statement, with values as SQLite returns them.

    It does not refer to its transaction, which may refer to it: such a cycle would hold
    the connection until the garbage collector finds it.
    """

    __slots__ = ("_cursor", "_places", "_round_trips", "_texts")

    def __init__(
        self,
        cursor: psycopg.Cursor[tuple[Any, ...]],
        round_trips: _RoundTrips,
    ) -> None:
        """Read the rows of an executed cursor when they are needed."""
        self._cursor = cursor
        self._round_trips = round_trips
        self._texts: list[int] | None = None
        self._places: list[int] = []

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""
        if self._cursor.pgresult is None:
            self._round_trips.count += 1
            with self._cursor.connection.pipeline():
                pass  # send the statement, and read its result
        return self._cursor.rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last."""
        self._count()
        row = self._cursor.fetchone()
        return None if row is None else self._converted([row])[0]

    def fetchmany(self, size: int, /) -> list[tuple[Any, ...]]:
        """Return at most `size` further rows."""
        self._count()
        return self._converted(self._cursor.fetchmany(size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all further rows."""
        self._count()
        return self._converted(self._cursor.fetchall())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield all further rows."""
        while rows := self.fetchmany(1_000):
            yield from rows

    def close(self) -> None:
        """Drop the further rows."""
        self._cursor.close()

    def _count(self) -> None:
        if self._cursor.pgresult is None:  # it is still on its way
            self._round_trips.count += 1

    def _converted(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        if self._texts is None:
            columns = self._cursor.description or ()
            self._texts = [i for i, c in enumerate(columns) if c.type_code == _TEXT]
            self._places = [i for i, c in enumerate(columns) if c.name == "pos"]
        texts, places = self._texts, self._places
        for n, row in enumerate(rows):
            changed: list[Any] | None = None
            for i in texts:
                if (text := row[i]) is not None and "\x01" in text:
                    changed = changed or list(row)
                    changed[i] = decoded(text)
            for i in places:
                if (place := row[i]) is not None and place == int(place):
                    changed = changed or list(row)
                    changed[i] = int(place)  # as from a file
            if changed is not None:
                rows[n] = tuple(changed)
        return rows


class PostgresTransaction:
    """Executes the SQL of jobs and reads on one connection.

    Attributes:
        expiry_clock: The clock by which memories expire.
        secret: The key of the digests of names.
        number: PostgreSQL's number of the transaction; None before `enter`.
        server_started: When its server started or recovered, in microseconds; 0 before
            `enter`.
        head: Random bits that identify its changes.
        is_ended: It sends no further statement, but returns the results of those that
            were sent ahead.
    """

    in_transaction = True

    def __init__(
        self, connection: Connection, expiry_clock: ExpiryClock, secret: bytes
    ) -> None:
        """Use a connection that is in a transaction."""
        self.connection = connection
        self.expiry_clock = expiry_clock
        self.secret = secret
        self.number: int | None = None
        self.server_started = 0
        self.head = 0
        self._round_trips = _RoundTrips()
        self.is_ended = False
        self._ahead: dict[Statement, PostgresResult] = {}

    @property
    def round_trips(self) -> int:
        """How often it waited for the server, without the end."""
        return self._round_trips.count

    def execute(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> PostgresResult:
        """Execute one statement. In a pipeline it is sent with the next read.

        Raises:
            NotSentError: The transaction has ended.
        """
        if self._ahead and not isinstance(values, Mapping):
            known = self._ahead.pop((sql, tuple(values)), None)
            if known is not None:
                return known
            for table in _WRITTEN.findall(sql):
                self._forget(table)
        return self._sent(sql, values)

    def _forget(self, table: str) -> None:
        """Drop what was read ahead of a table that this transaction now changes."""
        for key in [key for key in self._ahead if table in _NAMES.findall(key[0])]:
            del self._ahead[key]

    def send_ahead(self, statements: Iterable[Statement]) -> None:
        """Send SELECT statements whose results `execute` returns later."""
        for sql, values in statements:
            key = sql, tuple(values)
            if key not in self._ahead:
                self._ahead[key] = self._sent(sql, values)

    def _sent(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> PostgresResult:
        if self.is_ended:
            raise NotSentError
        cursor = self.connection.cursor(binary=True)
        given: Any
        if isinstance(values, Mapping):
            given = {name: _given(value) for name, value in values.items()}
        else:
            given = [_given(value) for value in values] or None
        query: Any = translated(sql)
        cursor.execute(query if given else query.replace("%%", "%"), given)
        return PostgresResult(cursor, self._round_trips)

    def insert(self, into: str, rows: Sequence[tuple[Any, ...]], conflict: str) -> None:
        """Insert rows, as `insert_many` does."""
        self._forget(into.split(maxsplit=1)[0])
        for start in range(0, len(rows), MAX_ROWS):
            query: Any
            query, values = bulk_insert(into, rows[start : start + MAX_ROWS], conflict)
            self.connection.cursor(binary=True).execute(query, values)

    def look(self, app: str, user: str) -> None:
        """Make a user the only one whose data the transaction sees."""
        hidden = hidden_user_under(self.secret, app, user)
        found = self.execute(_LOOK, (app, user, hidden))
        self._ahead[USERS_PART, (app, user)] = found


class _Among(tuple[Any, ...]):
    """Values that are sent as one array."""

    __slots__ = ()


def _given(value: Any) -> Any:
    if type(value) is str:
        return encoded(value)
    return [_given(each) for each in value] if type(value) is _Among else value


@statement_among.register
def _statement_among(
    transaction: PostgresTransaction,  # noqa: ARG001
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Statement:
    """Send many values as one array: psycopg parses each mark in every call."""
    if len(among) <= _FEW:
        return statement_with_marks(query, before, among)
    return f"{query.removesuffix(' IN')} = ANY(?)", (*before, _Among(among))


@given_rows.register
def _given_rows(
    transaction: PostgresTransaction,  # noqa: ARG001
    name: str,
    rows: Sequence[tuple[Any, ...]],
) -> Statement:
    if len(rows) <= _FEW:
        return rows_with_marks(name, rows)
    arrays = ", ".join(f"CAST(? AS {type_}[])" for type_ in column_types(name))
    values = [_Among(column) for column in zip(*rows, strict=True)]
    return f"WITH {name} AS (SELECT * FROM unnest({arrays}))", values


@enter.register
def _enter(
    transaction: PostgresTransaction,
    app: str,
    user: str,
    *,
    create: bool,
    now: float,
    ahead: ReadsAhead | None = None,
) -> PartitionEntry:
    hidden = hidden_user_under(transaction.secret, app, user)
    found = transaction.execute(
        "SELECT id, seq, live, bytes, head, is_hidden, "
        "CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT), "
        "CAST(current_setting('vecall.head') AS BIGINT), "
        f"{SERVER_STARTED} "
        "FROM enter(?, ?, ?, ?, ?)",
        (app, user, hidden, create, now),
    )
    transaction.send_ahead([(ACTIVE_MODEL, ())])
    if ahead is not None and ahead.likely_part is not None:
        transaction.send_ahead(ahead.of(ahead.likely_part))
    row = found.fetchone()
    assert row is not None
    *entry, transaction.number, transaction.head, transaction.server_started = row
    if entry[0] is None:
        return _MISSING
    if ahead is not None and ahead.likely_part != entry[0]:
        transaction.send_ahead(ahead.of(entry[0]))
    return PartitionEntry(*entry)


@insert_many.register
def _insert_many(
    connection: PostgresTransaction,
    into: str,
    rows: Sequence[tuple[Any, ...]],
    conflict: str = "",
) -> None:
    connection.insert(into, rows, conflict)


@read_ahead.register
def _read_ahead(
    transaction: PostgresTransaction, statements: Callable[[], Iterable[Statement]]
) -> bool:
    transaction.send_ahead(statements())
    return True


@leave.register
def _leave(
    transaction: PostgresTransaction, part: int, seq: int, live: int, nbytes: int
) -> int:
    transaction.execute(
        "UPDATE part SET seq = ?, head = ?, live = live + ?, bytes = bytes + ? "
        "WHERE id = ?",
        (seq, transaction.head, live, nbytes, part),
    )
    return transaction.head


@retire.register
def _retire(transaction: PostgresTransaction, part: int) -> None:
    """Do nothing but remove the snapshot: a sequence never gives a number twice."""
    transaction.execute("DELETE FROM snap WHERE part = ?", (part,))
