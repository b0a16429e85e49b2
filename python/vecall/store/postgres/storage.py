"""A PostgreSQL database as a storage."""

# ruff: noqa: D102 -- the protocols document the methods

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import psycopg
from psycopg import sql

from vecall.clock import Clock, ClockCheckpoint, ExpiryClock
from vecall.concurrency.join import in_event_loop
from vecall.errors import ConfigError, CorruptFileError, ReadOnlyError, VecallError
from vecall.store import rows as records
from vecall.store.maintenance.doctor import (
    ROWS_REMAIN,
    forms_in_text,
    has_name,
    partition_number_in_column,
)
from vecall.store.names import WRONG_USER, UserNames, names_of_user, part_of
from vecall.store.postgres import claims, schema
from vecall.store.postgres.connections import KEEPER, Connections
from vecall.store.postgres.doctor import PostgresMaintenance
from vecall.store.postgres.transaction import (
    NotSentError,
    PostgresTransaction,
    decoded,
    encoded,
)
from vecall.store.postgres.url import as_typed, database_errors, parse_database_url
from vecall.store.postgres.writers import Writers
from vecall.store.queries.item_reads import find_item_state, read_item_at
from vecall.store.rows import Change, ExistingMemories, SnapshotTag, Version
from vecall.store.storage import Storage, StorageReads
from vecall.store.transaction import (
    EmbeddingModel,
    Transaction,
    WriteJob,
    active_model,
    adopt_model,
    set_fact,
)
from vecall.store.values import ItemRow, ItemState
from vecall.store.writes import add
from vecall.store.writes.history import RecordSnapshot, count_purges
from vecall.store.writes.model_migration import begin_model_migration
from vecall.store.writes.partition_writer import PartitionWriter

# The read operations over one transaction of PostgreSQL.


class PostgresReads(StorageReads):
    """Implements `StorageReads`; every method is documented there."""

    __slots__ = ()

    def version(self, app: str, user: str) -> Version | None:
        found: Version | None = self._connection.execute(
            "SELECT id, seq, head FROM part WHERE app = ? AND user = ?", (app, user)
        ).fetchone()
        return found

    def require_gone(self, app: str, user: str) -> None:
        if self.version(app, user) is not None:
            raise CorruptFileError(WRONG_USER)

    def item_state(self, app: str, user: str) -> ItemState | None:
        return find_item_state(self._connection, app, user)


class SharedReads(PostgresReads):
    """Reads for all users with a role that sees one user: what no user owns."""

    __slots__ = ()

    @property
    def _connection(self) -> Transaction:
        raise ConfigError(
            "path: this call concerns several users, and the role of the URL may not "
            "become vecall_keeper"
        )

    def active_model(self) -> EmbeddingModel | None:
        return active_model(super()._connection)

    def unmoved_vectors(self) -> bool:
        return False  # a service for reads would not move them


# Snapshots in an unlogged table that all servers share.

_PIECE_BYTES = 4 << 20


@dataclass(slots=True)
class StoreSnapshot(RecordSnapshot):
    """Stores a snapshot and puts it on record."""

    data: bytes = b""  # the engine's bytes

    def _write_partition(self, partition: PartitionWriter) -> Change:
        change = RecordSnapshot._write_partition(self, partition)
        if self.is_recorded:
            part, execute = self.tag.part, partition.connection.execute
            execute("DELETE FROM snap WHERE part = ?", (part,))
            for n, start in enumerate(range(0, len(self.data), _PIECE_BYTES)):
                execute(
                    "INSERT INTO snap (part, n, data) VALUES (?, ?, ?)",
                    (part, n, self.data[start : start + _PIECE_BYTES]),
                )
        return change

    def header(self, connection: Transaction) -> bytes:
        """Return the first bytes of the snapshot that is in place."""
        query = f"SELECT substr(data, 1, {records.HEADER_BYTES}) FROM snap "
        found = connection.execute(
            f"{query} WHERE part = ? AND n = 0", (self.tag.part,)
        ).fetchone()
        return b"" if found is None else bytes(found[0])


@dataclass(eq=False)
class PostgresSnapshots:
    """Implements `Snapshots`."""

    # Begins to read one partition, `part`, or across users.
    _reading: Callable[..., AbstractContextManager[PostgresTransaction]]
    # Begins a transaction across users, and commits it.
    _writing: Callable[[], AbstractContextManager[PostgresTransaction]]
    _submit: Callable[[WriteJob], Future[Change]]  # queues a job

    def snapshot_generation(self) -> int:
        with database_errors(), self._reading() as transaction:
            return count_purges(transaction)

    def read_snapshot(self, part: int, record: bytes) -> bytes | None:
        try:
            with self._reading(part=part) as transaction:
                found = transaction.execute(
                    "SELECT data FROM snap WHERE part = ? ORDER BY n", (part,)
                ).fetchall()
        except psycopg.errors.FeatureNotSupported:
            return None  # a replica has no unlogged tables
        except psycopg.Error as error:
            raise as_typed(error) from None
        data = b"".join(piece for (piece,) in found)
        return records.checked_snapshot(part, record, data) if found else None

    def write_snapshot(
        self, app: str, user: str, tag: SnapshotTag, data: bytes, generation: int
    ) -> bool:
        record = records.record_of_snapshot(tag.nonce, data)
        storing = StoreSnapshot(app, user, record, tag, generation, data=data)
        self._submit(storing).result()
        return storing.is_recorded

    def remove_snapshot(self, part: int) -> None:
        with database_errors(), self._writing() as transaction:
            transaction.execute("DELETE FROM snap WHERE part = ?", (part,))


Durability = Literal["full", "process"]
_CLOSING_S = 2.0  # to store the clock at the end
_SAVED_EVERY_S = 30.0  # of all servers together
_READ_ONLY = "the service is open read-only"
_ONE_STATE = "ISOLATION LEVEL REPEATABLE READ READ ONLY"


def open_postgres(
    url: str,
    durability: Durability,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
    max_staleness: float = 0.0,
) -> Storage:
    """Open the storage of a database; see `open_storage`."""
    # ConfigError also says that the role or the policies do not hold users apart.
    connections = Connections(parse_database_url(url), durable=durability == "full")
    try:
        return PostgresStorage(
            connections, clock, read_only=read_only, max_staleness=max_staleness
        )
    except BaseException:
        connections.close()
        raise


class PostgresStorage:
    """Implements `Storage`. Thread-safe."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock | None = None,
        *,
        read_only: bool = False,
        max_staleness: float = 0.0,
    ) -> None:
        """Check the schema, and start the threads."""
        self._connections = connections
        self._read_only = read_only
        self._closed = False
        self.in_memory = False
        self.is_local = False
        self._secret = b""
        self._role = "vecall_reader" if read_only else "vecall_app"
        self._sees_all = True
        followed = claims.ServerClock()
        self._check_database(followed)
        expiry_clock: ExpiryClock = claims.ServerExpiryClock(followed)
        if clock is not None:
            expiry_clock = ExpiryClock(clock)
        self.expiry_clock = expiry_clock
        facts = self._database_facts()
        self.identity = bytes.fromhex(facts["uuid"])
        self._secret = facts["secret"].encode()
        expiry_clock.advance_to(ClockCheckpoint.parse_checkpoint(facts.get("clock")))
        self._save_clock()
        self._writers = Writers(connections, expiry_clock, self._secret)
        self._checker = claims.VersionChecker(connections, max_staleness)
        self.maintenance = PostgresMaintenance(
            self._begin_reading, self._begin_altering, self._connections.vacuum_tables
        )
        self.claims: claims.PostgresClaims | None = claims.PostgresClaims(
            self._claiming, self.submit
        )
        self.snapshots: PostgresSnapshots | None = PostgresSnapshots(
            self._begin_reading, self._claiming, self.submit
        )
        self._follower: claims.ClockFollower | None = None
        if isinstance(expiry_clock, claims.ServerExpiryClock):
            own = weakref.WeakMethod(self._save_clock)
            self._follower = claims.ClockFollower(
                partial(connections.transaction, self._role),
                followed,
                expiry_clock,
                lambda: _save_clock_sometimes(own),
            )

    @property
    def publish(self) -> Callable[[Change], None]:
        return self._writers.publish

    @publish.setter
    def publish(self, publish: Callable[[Change], None]) -> None:
        def noted(change: Change) -> None:
            if change.part and change.seq > change.seq_before:
                version = (change.part, change.seq, change.head)
                self._checker.note_version(change.app, change.user, version)
            elif change.forgotten:
                self._checker.note_version(change.app, change.user, None)
            publish(change)

        self._writers.publish = noted

    @property
    def closed_before_fork(self) -> bool:
        """A child never uses its parent's connections, and may open its own."""
        return True

    def version(self, app: str, user: str) -> Version | None:
        return self._checker.ask_version_here(app, user)

    def newest(self, app: str, user: str) -> Version | None | Future[Version | None]:
        ask = self._checker.ask if in_event_loop() else self._checker.ask_version_here
        return ask(app, user)

    @contextmanager
    def read(
        self, app: str | None = None, user: str | None = None
    ) -> Iterator[StorageReads]:
        with database_errors(), self._begin_reading(app, user) as transaction:
            limited = not self._sees_all and (app is None or user is None)
            reads = (SharedReads if limited else PostgresReads)(transaction)
            try:
                yield reads
            finally:
                reads._refuse_more_reads()

    def lookup_existing(self, asked: records.DraftLookup) -> ExistingMemories | None:
        now = self.expiry_clock.now()
        with database_errors():
            with self._begin_reading(asked.app, asked.user) as sent:
                part = asked.likely_part
                if part is None and (part := part_of(sent, *asked[:2])) is None:
                    return ExistingMemories()
                sent.send_ahead(add.reads_of_new_drafts(sent, asked, part))
            with suppress(NotSentError):  # more has to be asked
                if part == asked.likely_part:
                    part = part_of(sent, *asked[:2])
                if part is None:
                    return ExistingMemories()
                return add.existing_in_partition(sent, part, asked, now, asks_all=True)
            with self._begin_reading(asked.app, asked.user) as transaction:
                return add.lookup_existing(transaction, asked, now)

    def item_at(self, app: str, user: str, ns: str, key: str) -> ItemRow | None:
        with database_errors(), self._begin_reading(app, user) as transaction:
            return read_item_at(transaction, app, user, ns, key)[1]

    @contextmanager
    def _begin_reading(
        self, app: str | None = None, user: str | None = None, *, part: int = 0
    ) -> Iterator[PostgresTransaction]:
        """Begin to read a user, a partition, or else across users."""
        keeper = (app is None or user is None) and not part and self._sees_all
        role = KEEPER if keeper else self._role
        with self._connections.transaction(role, _ONE_STATE) as connection:
            transaction = PostgresTransaction(
                connection, self.expiry_clock, self._secret
            )
            if app is not None and user is not None:
                transaction.look_at_user(app, user)
            elif part:
                transaction.execute(
                    "SELECT set_config('vecall.part', ?, true)", (str(part),)
                )
            yield transaction
            transaction.is_ended = True
            connection.execute(b"ROLLBACK")  # ends it in the round trip of the pipeline

    @contextmanager
    def _claiming(self, seconds: float | None = None) -> Iterator[PostgresTransaction]:
        """Begin a transaction across users, and commit it."""
        with self._connections.transaction(KEEPER, seconds=seconds) as connection:
            yield PostgresTransaction(connection, self.expiry_clock, self._secret)
            connection.execute(b"COMMIT")

    @contextmanager
    def _begin_altering(self) -> Iterator[PostgresTransaction]:
        """Begin a transaction that writes across users while none writes."""
        if self._read_only:
            raise ReadOnlyError(_READ_ONLY)
        with database_errors(), self._connections.exclusive_transaction() as connection:
            yield PostgresTransaction(connection, self.expiry_clock, self._secret)
            connection.execute(b"COMMIT")

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Queue a job for a writer thread."""
        if self._read_only:
            refused: Future[Change] = Future()
            refused.set_exception(ReadOnlyError(_READ_ONLY))
            return refused
        return self._writers.submit(job, then)

    def adopt_model(self, model: EmbeddingModel) -> EmbeddingModel:
        with self._begin_altering() as transaction:
            return adopt_model(transaction, model)

    def begin_migration(self, model: EmbeddingModel) -> EmbeddingModel | None:
        with self._begin_altering() as transaction:
            return begin_model_migration(transaction, model)

    def end_writes(self) -> None:
        self._writers.close()

    def close(self) -> None:
        self._writers.close()
        if self._follower is not None:
            self._follower.close()
        with suppress(VecallError):
            self._save_clock(min(_CLOSING_S, self._connections.url.timeout))
        self._closed = True
        self._checker.close()
        self._connections.close()

    def abandon(self) -> Callable[[], None]:
        steps = self._writers.abandon() + self._checker.abandon()
        if self._follower is not None:
            steps += self._follower.abandon()
        steps += self._connections.abandon()

        def end() -> None:
            for step in steps:
                step()

        return end

    def _save_clock(self, seconds: float | None = None, *, least: float = 0.0) -> None:
        """Store the time by which memories expire, unless a later one is stored."""
        # With `least`, only if the stored time is older by so many seconds.
        if self._read_only or self._closed:
            return
        with database_errors(), self._claiming(seconds) as transaction:
            row = transaction.execute(
                "SELECT value FROM meta WHERE key = 'clock' FOR UPDATE"
            ).fetchone()
            known = None if row is None else ClockCheckpoint.parse_checkpoint(row[0])
            mark = self.expiry_clock.make_checkpoint()
            if known is None or known.now + least < mark.now:
                set_fact(transaction, "clock", str(mark))

    def _check_database(self, clock: claims.ServerClock) -> None:
        """Check the server, the schema and rights, and set a clock."""
        with database_errors(), self._connections.connect() as connection:
            schema.require_postgres_version(connection)
            name = self._connections.url.schema
            schema.require_role_member(connection, self._role)
            schema.require_schema(connection, name)
            schema.require_row_level_rights(connection, name, self._role)
            has_keeper = self._connections.url.keeper is not None
            self._sees_all = has_keeper or bool(schema.is_member(connection, KEEPER))
            clock.measure_server(claims.server_time_reader(connection))

    def _database_facts(self) -> dict[str, str]:
        with database_errors(), self._begin_reading() as transaction:
            facts = dict(transaction.execute("SELECT key, value FROM meta").fetchall())
        if not {"uuid", "secret"} <= facts.keys():
            msg = "path: the schema of the database is not complete; restore a backup"
            raise ConfigError(msg)
        return facts


def _save_clock_sometimes(save: Callable[[], Callable[..., None] | None]) -> None:
    """Save the clock of a storage that is still there, unless another server did."""
    saves = save()
    if saves is not None:
        saves(least=_SAVED_EVERY_S)


# Finds and forgets the names of a user in a database, for `vecall erase`.

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
    with claims.reading_all_users(parse_database_url(url)) as reading:
        return names_of_user(reading, user, app)


def traces_in_database(url: str, name: str, parts: Sequence[int] = ()) -> list[str]:
    """Return the places in the tables of the schema that have a name."""
    # Rows with one of the numbers of partitions `parts` are told, too.
    with claims.reading_all_users(parse_database_url(url)) as reading:
        return list(_find_places(reading.connection, name, parts))


def _find_places(opened: Connection, name: str, parts: Sequence[int]) -> Iterator[str]:
    columns = opened.execute(_COLUMNS).fetchall()
    for table, column, is_text in columns:
        if is_text and _has_name_in_column(opened, table, column, name):
            yield f"column {column} of table {table}"
        number = partition_number_in_column(table, column)
        if number and parts and _has_rows_of_parts(opened, table, number, parts):
            yield ROWS_REMAIN.format(table)


def _has_name_in_column(opened: Connection, table: str, column: str, name: str) -> bool:
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


def _has_rows_of_parts(
    opened: Connection, table: str, number: str, parts: Sequence[int]
) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE {} = ANY (%s))").format(
        sql.Identifier(table), sql.SQL(number)
    )
    found = opened.execute(query, (list(parts),)).fetchone()
    return found is not None and bool(found[0])
