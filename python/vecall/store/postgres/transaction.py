"""A transaction in PostgreSQL, for the SQL of jobs and reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.types.numeric import Int4, Int8, NumericBinaryLoader

from vecall.clock import ExpiryClock
from vecall.store.names import USERS_PART, hidden_user_under
from vecall.store.postgres.url import use_own_statement_names
from vecall.store.rows import MemoryCounts
from vecall.store.transaction import (
    ACTIVE_MODEL,
    LoggedChange,
    PartitionEntry,
    ReadsAhead,
    Statement,
    announce_reads,
    enter_partition,
    given_rows,
    insert_many,
    leave_partition,
    retire_partition,
    rows_with_marks,
    statement_among,
    statement_with_marks,
)

# Translates the SQL of jobs and reads for PostgreSQL.
#
# `store/transaction.py` says what that SQL may contain. Each text is translated once.

_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")
_LENGTH_OF_BLOB = re.compile(r"length\(CAST\((\w+) AS BLOB\)\)")
_CHARS = re.compile(r"\bchar\(([0-9, ]+)\)")
_PLACES = re.compile(r"\binstr\(")
_SAME = re.compile(r"\bIS (?!NULL\b|NOT\b)")
_LIMIT = re.compile(r"\bLIMIT (%s|%\(\w+\)s)")
_USER = re.compile(r"(?<!%\()\buser\b")
_HINT = re.compile(r" INDEXED BY \w+")
_EITHER = re.compile(r"\b(min|max)\(")
_LITERAL = re.compile(r"'[^']*'")

# A stored vector that is equal stays where it is; else every update of a row would
# write its vector again.
_VECTOR = (
    "vec = (SELECT CASE WHEN mem.vec IS NOT DISTINCT FROM given.vec THEN mem.vec "
    "ELSE given.vec END FROM (SELECT CAST(? AS BLOB) AS vec) AS given)"
)

# PostgreSQL's text has no NUL. These two forms take its place; their order is that of
# the characters that they stand for.
_NUL = "\x01\x02"
_ONE = "\x01\x03"


# Not at import: most texts depend on the call; all take about 30 us each, over 2 ms.
@lru_cache(maxsize=4096)
def translate_sql(sql: str) -> str:
    """Return a statement for PostgreSQL, with psycopg's placeholders."""
    sql = sql.replace("%", "%%")
    sql = _HINT.sub("", sql)
    sql = sql.replace("x''", "''::bytea")
    if sql.startswith("UPDATE mem SET "):
        sql = sql.replace("vec = ?", _VECTOR)
    sql = _LENGTH_OF_BLOB.sub(_octet_length_sql, sql)
    sql = _CHARS.sub(_char_function_sql, sql)
    sql = _translate_outside_literals(sql)
    sql = _LIMIT.sub(r"LIMIT nullif(CAST(\1 AS BIGINT), -1)", sql)
    return _larger_and_smaller(sql)


def encoded(text: str) -> str:
    """Return a text as PostgreSQL stores it: without NUL, reversibly."""
    if "\0" in text or "\x01" in text:
        return text.replace("\x01", _ONE).replace("\0", _NUL)
    return text


def decoded(text: str) -> str:
    """Return a text that `encoded` returned as it was."""
    if "\x01" in text:
        return text.replace(_NUL, "\0").replace(_ONE, "\x01")
    return text


def _translate_outside_literals(sql: str) -> str:
    """Translate names, types and marks where no literal is."""
    done: list[str] = []
    at = 0
    for literal in _LITERAL.finditer(sql):
        done += [_translate_sql_names(sql[at : literal.start()]), literal.group()]
        at = literal.end()
    return "".join([*done, _translate_sql_names(sql[at:])])


def _translate_sql_names(sql: str) -> str:
    sql = sql.replace("?", "%s")
    sql = _NAMED.sub(r"%(\1)s", sql)
    sql = _PLACES.sub("strpos(", sql)
    sql = _SAME.sub("IS NOT DISTINCT FROM ", sql)
    sql = _USER.sub('"user"', sql)
    return sql.replace("AS BLOB", "AS BYTEA").replace("AS INTEGER", "AS BIGINT")


def _octet_length_sql(found: re.Match[str]) -> str:
    name = found.group(1)
    if name != "text":
        return f"octet_length({name})"
    # Each character that is stored as two counts once.
    once = f"replace(replace({name}, chr(1) || chr(2), '0'), chr(1) || chr(3), '1')"
    return f"octet_length({once})"


def _char_function_sql(found: re.Match[str]) -> str:
    codes = [int(code) for code in found.group(1).split(",")]
    forms = [f"chr({ord(char)})" for code in codes for char in encoded(chr(code))]
    return f"({' || '.join(forms)})"


def _larger_and_smaller(sql: str) -> str:
    """Give min and max of several values the names that PostgreSQL has for them."""
    done: list[str] = []
    at = 0
    for found in _EITHER.finditer(sql):
        depth, several, end = 1, False, found.end()
        while depth:
            char = sql[end]
            depth += (char == "(") - (char == ")")
            several = several or (char == "," and depth == 1)
            end += 1
        name = {"min": "least", "max": "greatest"}[found.group(1)]
        done += [sql[at : found.start()], f"{name}(" if several else found.group()]
        at = found.end()
    return "".join([*done, sql[at:]])


# Inserts rows into a PostgreSQL table with one statement.
#
# Each column of many rows is sent as one binary array, and `unnest` makes rows of them.
# psycopg parses a text with a mark for each value of each row in every call, which
# takes longer than the server takes to insert the rows. A value that all rows have is
# sent once: an array takes psycopg ten times as long as a value. COPY is no choice:
# row-level security refuses it.

MAX_ROWS = 2_000  # rows of one statement, which the client holds as one message

_WHOLE = frozenset("part rid seq head uses crc".split())
_NUMBERS = frozenset(
    "at pos ts created_at updated_at expires_at valid_until due_at ttl "
    "importance_prior last_used".split()
)
_BYTE_COLUMNS = frozenset("hash vec vecs".split())
# Columns that have another type in one table than elsewhere.
_OTHER = {("told", "pos"): "int8", ("mem", "model"): "int4"}


def column_type(table: str, column: str) -> str:
    """Return PostgreSQL's name of the type of a column."""
    other = _OTHER.get((table, column))
    if other is not None:
        return other
    if column in _WHOLE:
        return "int8"
    if column in _NUMBERS:
        return "float8"
    return "bytea" if column in _BYTE_COLUMNS else "text"


@lru_cache(maxsize=64)
def column_types(columns: str) -> tuple[str, ...]:
    """Return the types of columns, given as in "chg (part, seq)"."""
    table, _, names = columns.rstrip(")").partition(" (")
    return tuple(column_type(table, name) for name in names.split(", "))


def bulk_insert(
    into: str, rows: Sequence[tuple[Any, ...]], conflict: str
) -> tuple[str, list[Any]]:
    """Return a statement that inserts 1 to `MAX_ROWS` rows, and its values."""
    types = column_types(into)
    columns = list(zip(*rows, strict=True))
    varies = [not _is_constant(*each) for each in zip(columns, types, strict=True)]
    if len(rows) > 1 and True not in varies:
        varies[0] = True  # the array says how many rows there are
    once: list[Any] = []
    arrays: list[Any] = []
    for column, type_, many in zip(columns, types, varies, strict=True):
        convert = _CONVERTERS[type_]
        if many and type_ in ("text", "float8"):
            # psycopg refuses an array of whole and other numbers.
            arrays.append([None if v is None else convert(v) for v in column])
        elif many:
            arrays.append(list(column))
        else:
            # Each number has the type of its column: psycopg would choose one by the
            # number, and prepare a statement for each choice.
            once.append(None if column[0] is None else convert(column[0]))
    return _bulk_insert_statement(into, conflict, tuple(varies)), once + arrays


def _is_constant(column: Sequence[Any], type_: str) -> bool:
    """Whether all values are one and the same."""
    first = column[0]
    if len(column) > 1 and type_ == "float8" and first == 0:
        return False  # 0.0 and -0.0 are equal
    return column.count(first) == len(column)


@lru_cache(maxsize=256)
def _bulk_insert_statement(into: str, conflict: str, varies: tuple[bool, ...]) -> str:
    """Return the statement of `bulk_insert`; the values that vary come as arrays."""
    names: list[str] = []
    arrays: list[str] = []
    chosen: list[str] = []
    for type_, many in zip(column_types(into), varies, strict=True):
        if many:
            names.append(f"given_{len(names)}")
            arrays.append(f"CAST(? AS {type_}[])")
        chosen.append(names[-1] if many else f"CAST(? AS {type_})")
    source = f"FROM unnest({', '.join(arrays)}) AS given({', '.join(names)})"
    sql = f"INSERT INTO {into} SELECT {', '.join(chosen)} {source if names else ''} "
    return translate_sql(sql + conflict).replace("%s", "%b")


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int8": Int8,
    "int4": Int4,
    "float8": float,
    "text": encoded,
    "bytea": bytes,
}


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
    use_own_statement_names(connection)


class PostgresResult:
    """The rows of a statement, with values as SQLite returns them.

    It does not refer to its transaction, which may refer to it: such a cycle would hold
    the connection until the garbage collector finds it.
    """

    __slots__ = ("_cursor", "_places", "_texts")

    def __init__(self, cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
        """Read the rows of an executed cursor when they are needed."""
        self._cursor = cursor
        self._texts: list[int] | None = None
        self._places: list[int] = []

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""
        if self._cursor.pgresult is None:
            with self._cursor.connection.pipeline():
                pass  # send the statement, and read its result
        return self._cursor.rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last."""
        row = self._cursor.fetchone()
        return None if row is None else self._rows_from_postgres([row])[0]

    def fetchmany(self, size: int, /) -> list[tuple[Any, ...]]:
        """Return at most `size` further rows."""
        return self._rows_from_postgres(self._cursor.fetchmany(size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all further rows."""
        return self._rows_from_postgres(self._cursor.fetchall())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield all further rows."""
        while rows := self.fetchmany(1_000):
            yield from rows

    def close(self) -> None:
        """Drop the further rows."""
        self._cursor.close()

    def _rows_from_postgres(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
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
    """Executes the SQL of jobs and reads on one connection."""

    in_transaction = True

    def __init__(
        self, connection: Connection, expiry_clock: ExpiryClock, secret: bytes
    ) -> None:
        """Use a connection that is in a transaction."""
        self.connection = connection
        self.expiry_clock = expiry_clock  # memories expire by it
        self.secret = secret  # the key of the digests of names
        self.number: int | None = None  # PostgreSQL's; None before `enter`
        # When its server started or recovered, in microseconds; 0 before `enter`.
        self.server_started = 0
        self.head = 0  # random bits that identify its changes
        # It sends no further statement, but returns the results of those sent ahead.
        self.is_ended = False
        self._ahead: dict[Statement, PostgresResult] = {}

    def execute(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> PostgresResult:
        """Execute one statement. In a pipeline it is sent with the next read."""
        if self._ahead and not isinstance(values, Mapping):
            known = self._ahead.pop((sql, tuple(values)), None)
            if known is not None:
                return known
            for table in _WRITTEN.findall(sql):
                self.forget_ahead(table)
        return self._send_statement(sql, values)

    def forget_ahead(self, table: str) -> None:
        """Drop what was read ahead of a table that this transaction now changes."""
        for key in [key for key in self._ahead if table in _NAMES.findall(key[0])]:
            del self._ahead[key]

    def send_ahead(self, statements: Iterable[Statement]) -> None:
        """Send SELECT statements whose results `execute` returns later."""
        for sql, values in statements:
            key = sql, tuple(values)
            if key not in self._ahead:
                self._ahead[key] = self._send_statement(sql, values)

    def _send_statement(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> PostgresResult:
        if self.is_ended:
            raise NotSentError
        cursor = self.connection.cursor(binary=True)
        given: Any
        if isinstance(values, Mapping):
            given = {name: _encoded_value(value) for name, value in values.items()}
        else:
            given = [_encoded_value(value) for value in values] or None
        query: Any = translate_sql(sql)
        cursor.execute(query if given else query.replace("%%", "%"), given)
        return PostgresResult(cursor)

    def look_at_user(self, app: str, user: str) -> None:
        """Make a user the only one whose data the transaction sees."""
        hidden = hidden_user_under(self.secret, app, user)
        found = self.execute(_LOOK, (app, user, hidden))
        self._ahead[USERS_PART, (app, user)] = found


class _Among(tuple[Any, ...]):
    """Values that are sent as one array."""

    __slots__ = ()


def _encoded_value(value: Any) -> Any:
    if type(value) is str:
        return encoded(value)
    return [_encoded_value(each) for each in value] if type(value) is _Among else value


@statement_among.register
def _statement_among_array(
    transaction: PostgresTransaction,
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Statement:
    """Send many values as one array: psycopg parses each mark in every call."""
    if len(among) <= _FEW:
        return statement_with_marks(transaction, query, before, among)
    return f"{query.removesuffix(' IN')} = ANY(?)", (*before, _Among(among))


@given_rows.register
def _rows_as_arrays(
    transaction: PostgresTransaction, name: str, rows: Sequence[tuple[Any, ...]]
) -> Statement:
    if len(rows) <= _FEW:
        return rows_with_marks(transaction, name, rows)
    arrays = ", ".join(f"CAST(? AS {type_}[])" for type_ in column_types(name))
    values = [_Among(column) for column in zip(*rows, strict=True)]
    return f"WITH {name} AS (SELECT * FROM unnest({arrays}))", values


@enter_partition.register
def _enter_postgres_partition(
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
def _insert_many_as_arrays(
    transaction: PostgresTransaction,
    into: str,
    rows: Sequence[tuple[Any, ...]],
    conflict: str = "",
) -> int:
    transaction.forget_ahead(into.split(maxsplit=1)[0])
    count = 0
    for start in range(0, len(rows), MAX_ROWS):
        query: Any
        query, values = bulk_insert(into, rows[start : start + MAX_ROWS], conflict)
        cursor = transaction.connection.cursor(binary=True)
        count += cursor.execute(query, values).rowcount
    return count


@announce_reads.register
def _send_reads_ahead(
    transaction: PostgresTransaction, statements: Callable[[], Iterable[Statement]]
) -> bool:
    transaction.send_ahead(statements())
    return True


@leave_partition.register
def _leave_postgres_partition(
    transaction: PostgresTransaction,
    part: int,
    seq: int,
    changes: Sequence[LoggedChange],
    live: int,
    nbytes: int,
    added: MemoryCounts | None,  # noqa: ARG001
    gone: MemoryCounts | None,  # noqa: ARG001
) -> int:
    insert_many(transaction, "chg (part, seq, rid, op)", changes)
    transaction.execute(
        "UPDATE part SET seq = ?, head = ?, live = live + ?, bytes = bytes + ? "
        "WHERE id = ?",
        (seq, transaction.head, live, nbytes, part),
    )
    return transaction.head


@retire_partition.register
def _retire_postgres_partition(transaction: PostgresTransaction, part: int) -> None:
    """Do nothing but remove the snapshot: a sequence never gives a number twice."""
    transaction.execute("DELETE FROM snap WHERE part = ?", (part,))
