"""A PostgreSQL database as a storage."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Literal

from vecall.clock import Clock, ClockCheckpoint, ExpiryClock
from vecall.concurrency.join import in_event_loop
from vecall.errors import (
    ConfigError,
    EmbeddingMismatchError,
    ReadOnlyError,
    VecallError,
)
from vecall.store.erased_names import part_of
from vecall.store.item_records import ItemRow
from vecall.store.models import active_model, adopt, require_same
from vecall.store.postgres.claims import PostgresClaims
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.errors import database_errors
from vecall.store.postgres.maintenance import PostgresMaintenance
from vecall.store.postgres.reads import PostgresReads, SharedReads
from vecall.store.postgres.rights import (
    may_become_keeper,
    require_member,
    require_rights,
)
from vecall.store.postgres.schema import require_schema, require_server
from vecall.store.postgres.server_clock import (
    ClockFollower,
    ServerClock,
    ServerExpiryClock,
    time_of,
)
from vecall.store.postgres.snapshots import PostgresSnapshots
from vecall.store.postgres.transaction import NotSentError, PostgresTransaction
from vecall.store.postgres.url import parse_url
from vecall.store.postgres.versions import VersionChecker
from vecall.store.postgres.writers import Writers
from vecall.store.protocol.reads import StorageReads
from vecall.store.protocol.storage import Storage
from vecall.store.reads import item_reads
from vecall.store.results import (
    DraftLookup,
    EmbeddingModel,
    ExistingMemories,
    Version,
)
from vecall.store.rows import Change
from vecall.store.write_job import WriteJob
from vecall.store.writes import existing
from vecall.store.writes.model_migration import begin_migration

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
    """Open the storage of a database.

    Args:
        url: "postgresql://…"; see `parse_url`.
        durability: "full": a commit waits for the disk of the server. "process": the
            last commits may be lost when the server crashes.
        read_only: Refuse writes.
        clock: The source of the time; default: the machine's clock.
        max_staleness: A search may miss writes of other servers for so many seconds.

    Raises:
        ConfigError: The URL is malformed, the database refuses access, it has no
            schema of vecall, or an older one, or its role or its policies do not hold
            users apart.
        IncompatibleFileError: The schema is newer than this version of vecall.
        StorageError: The database cannot be reached.
    """
    connections = Connections(parse_url(url), durable=durability == "full")
    try:
        return PostgresStorage(
            connections,
            clock,
            read_only=read_only,
            max_staleness=max_staleness,
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
        followed = ServerClock()
        self._check(followed)
        expiry_clock: ExpiryClock = ServerExpiryClock(followed)
        if clock is not None:
            expiry_clock = ExpiryClock(clock)
        self.expiry_clock = expiry_clock
        facts = self._facts()
        self.identity = bytes.fromhex(facts["uuid"])
        self._secret = facts["secret"].encode()
        expiry_clock.advance_to(ClockCheckpoint.parse(facts.get("clock")))
        self._save_clock()
        self._writers = Writers(connections, expiry_clock, self._secret)
        self._checker = VersionChecker(connections, max_staleness)
        self.maintenance = PostgresMaintenance(
            self._reading, self._altering, self._connections.vacuum
        )
        self.claims: PostgresClaims | None = PostgresClaims(self._claiming, self.submit)
        self.snapshots: PostgresSnapshots | None = PostgresSnapshots(
            connections, self._reading, self.submit
        )
        self._follower: ClockFollower | None = None
        if isinstance(expiry_clock, ServerExpiryClock):
            own = weakref.WeakMethod(self._save_clock)
            self._follower = ClockFollower(
                partial(connections.transaction, keeper=False, role=self._role),
                followed,
                expiry_clock,
                lambda: _save_sometimes(own),
            )

    @property
    def publish(self) -> Callable[[Change], None]:
        """Applies a committed change to the engine."""
        return self._writers.publish

    @publish.setter
    def publish(self, publish: Callable[[Change], None]) -> None:
        def noted(change: Change) -> None:
            if change.part and change.seq > change.seq_before:
                version = (change.part, change.seq, change.head)
                self._checker.note(change.app, change.user, version)
            elif change.forgotten:
                self._checker.note(change.app, change.user, None)
            publish(change)

        self._writers.publish = noted

    @property
    def closed_before_fork(self) -> bool:
        """A child never uses its parent's connections, and may open its own."""
        return True

    def version(self, app: str, user: str) -> Version | None:
        """Return the version of a partition, as of now."""
        return self._checker.ask_here(app, user)

    def version_future(self, app: str, user: str) -> Future[Version | None] | None:
        """Return a future of the version, if the calling thread has an event loop."""
        return self._checker.ask(app, user) if in_event_loop() else None

    @contextmanager
    def read(
        self, app: str | None = None, user: str | None = None
    ) -> Iterator[StorageReads]:
        """Read one committed state, of one user or across users."""
        with database_errors(), self._reading(app, user) as transaction:
            limited = not self._sees_all and (app is None or user is None)
            reads = (SharedReads if limited else PostgresReads)(transaction)
            try:
                yield reads
            finally:
                reads.end()

    def lookup_existing(self, asked: DraftLookup) -> ExistingMemories | None:
        """Return what is on record about drafts; None if the key was used."""
        now = self.expiry_clock.now()
        with database_errors():
            with self._reading(asked.app, asked.user) as sent:
                part = asked.likely_part
                if part is None and (part := part_of(sent, *asked[:2])) is None:
                    return ExistingMemories()
                sent.send_ahead(existing.first_reads(sent, asked, part))
            with suppress(NotSentError):  # more has to be asked
                if part == asked.likely_part:
                    part = part_of(sent, *asked[:2])
                if part is None:
                    return ExistingMemories()
                return existing.existing_in(sent, part, asked, now, asks_all=True)
            with self._reading(asked.app, asked.user) as transaction:
                return existing.lookup_existing(transaction, asked, now)

    def item_at(self, app: str, user: str, ns: str, key: str) -> ItemRow | None:
        """Return an item, without vectors."""
        with database_errors(), self._reading(app, user) as transaction:
            return item_reads.item_at(transaction, app, user, ns, key)[1]

    @contextmanager
    def _reading(
        self, app: str | None = None, user: str | None = None, *, part: int = 0
    ) -> Iterator[PostgresTransaction]:
        """Begin to read a user, a partition, or else across users."""
        keeper = (app is None or user is None) and not part and self._sees_all
        role = "vecall_keeper" if keeper else self._role
        with self._connections.transaction(
            keeper=keeper, role=role, how=_ONE_STATE
        ) as connection:
            transaction = PostgresTransaction(
                connection, self.expiry_clock, self._secret
            )
            if app is not None and user is not None:
                transaction.look(app, user)
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
        with self._connections.transaction(
            keeper=True, role="vecall_keeper", seconds=seconds
        ) as connection:
            yield PostgresTransaction(connection, self.expiry_clock, self._secret)
            connection.execute(b"COMMIT")

    @contextmanager
    def _altering(self) -> Iterator[PostgresTransaction]:
        """Begin a transaction that writes across users while none writes."""
        if self._read_only:
            raise ReadOnlyError(_READ_ONLY)
        with database_errors(), self._connections.alone() as connection:
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
        """Make `model` the model of the database, if it has none."""
        with self._altering() as transaction:
            return adopt(transaction, model)

    def begin_migration(self, model: EmbeddingModel) -> EmbeddingModel | None:
        """Begin or resume a migration; None if `model` is the active model."""
        with self._altering() as transaction:
            stored = active_model(transaction)
            if stored is None:
                adopt(transaction, model)
                return None
            try:
                require_same(stored, model)
            except EmbeddingMismatchError:
                return begin_migration(transaction, model)
            return None

    def end_writes(self) -> None:
        """Finish all submitted jobs and end the writer threads."""
        self._writers.close()

    def close(self) -> None:
        """End the writes and close all connections."""
        self._writers.close()
        if self._follower is not None:
            self._follower.close()
        with suppress(VecallError):
            self._save_clock(min(_CLOSING_S, self._connections.url.timeout))
        self._closed = True
        self._checker.close()
        self._connections.close()

    def abandon(self) -> Callable[[], None]:
        """Return a finalizer that ends the threads, not waiting."""
        ends = [self._writers.abandon(), self._checker.abandon()]
        if self._follower is not None:
            ends.append(self._follower.abandon())
        ends.append(self._connections.abandon())

        def end() -> None:
            for each in ends:
                each()

        return end

    def _save_clock(self, seconds: float | None = None, *, least: float = 0.0) -> None:
        """Store the time by which memories expire, unless a later one is stored.

        Args:
            seconds: How long to wait for the database in total.
            least: Only if the stored time is older by so many seconds.
        """
        if self._read_only or self._closed:
            return
        with database_errors(), self._claiming(seconds) as transaction:
            row = transaction.execute(
                "SELECT value FROM meta WHERE key = 'clock' FOR UPDATE"
            ).fetchone()
            known = None if row is None else ClockCheckpoint.parse(row[0])
            mark = self.expiry_clock.mark()
            if known is None or known.now + least < mark.now:
                transaction.execute(
                    "INSERT INTO meta (key, value) VALUES ('clock', ?) "
                    "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (str(mark),),
                )

    def _check(self, clock: ServerClock) -> None:
        """Check the server, the schema and rights, and set a clock."""
        with database_errors(), self._connections.connect() as connection:
            require_server(connection)
            schema = self._connections.url.schema
            require_member(connection, self._role)
            require_schema(connection, schema)
            require_rights(connection, schema, self._role)
            has_keeper = self._connections.url.keeper is not None
            self._sees_all = has_keeper or may_become_keeper(connection)
            clock.measure(time_of(connection))

    def _facts(self) -> dict[str, str]:
        with database_errors(), self._reading() as transaction:
            facts = dict(transaction.execute("SELECT key, value FROM meta").fetchall())
        if not {"uuid", "secret"} <= facts.keys():
            msg = "path: the schema of the database is not complete; restore a backup"
            raise ConfigError(msg)
        return facts


def _save_sometimes(save: Callable[[], Callable[..., None] | None]) -> None:
    """Save the clock of a storage that is still there, unless another server did."""
    saves = save()
    if saves is not None:
        saves(least=_SAVED_EVERY_S)
