"""Opens, copies and examines the storage of a path: a file, or a database's URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vecall.clock import Clock
from vecall.errors import ConfigError, StorageError
from vecall.store.file.database import MIN_FREE_BYTES, Durability, kind_of_database
from vecall.store.maintenance.doctor import Finding, names_in_file, traces_in_file
from vecall.store.names import HIDDEN_APP, UserNames
from vecall.store.rows import PartitionCopy, PartitionNames, shift_copied_times
from vecall.store.sqlite import SqliteStorage
from vecall.store.storage import Storage
from vecall.store.writes.delete import ForgetUser
from vecall.store.writes.transfers import AdoptIdentity, CopyPartition


def open_storage(
    path: Path | str | None,
    durability: Durability,  # what an acknowledged write survives
    *,
    read_only: bool = False,
    min_free_bytes: int = MIN_FREE_BYTES,  # below which writes are refused
    allow_network_filesystem: bool = False,  # also open files on one
    clock: Clock | None = None,
    max_staleness: float = 0.0,
) -> Storage:
    """Open or create the storage of a path; None is a storage in memory."""
    # A text is the URL of a database. It ignores `min_free_bytes`; a search may miss
    # writes of its other servers for `max_staleness` seconds. `read_only` also opens
    # files that cannot be written. ConfigError: the folder does not exist, or the path
    # is a folder or a symbolic link; the database refuses access, or has no schema of
    # vecall. StorageError: the file cannot be opened or written; the database cannot be
    # reached. IncompatibleFileError: the file is another program's, or has a newer
    # schema. CorruptFileError: it is damaged. NetworkFilesystemError: it is on a
    # network file system. ImportError: the packages for databases are missing.
    if isinstance(path, str):
        with needing_psycopg():
            from vecall.store.postgres.storage import open_postgres
        return open_postgres(
            path,
            durability,
            read_only=read_only,
            clock=clock,
            max_staleness=max_staleness,
        )
    if max_staleness:
        msg = "storage.max_staleness: is for a database; a file is always current"
        raise ConfigError(msg)
    database = kind_of_database(path, read_only=read_only)(
        path,
        durability,
        min_free_bytes=min_free_bytes,
        allow_network_filesystem=allow_network_filesystem,
        clock=clock,
    )
    try:
        return SqliteStorage(database)
    except BaseException:
        database.close()
        raise


# Tools for the URL of a database: create its schema, migrate it, examine it.


@contextmanager
def needing_psycopg() -> Iterator[None]:
    """Say which packages are missing, if this block cannot import them."""
    try:
        yield
    except ImportError as error:
        msg = "a database needs psycopg: pip install 'vecall[postgres]'"
        raise ImportError(msg) from error


def initialize_database(url: str, *, login: str | None = None) -> None:
    """Create vecall's roles and schema, unless they exist, and migrate the schema."""
    # The URL is that of an administrator, who may create roles. The role `login`, with
    # which servers log in, must exist. ConfigError: the URL is malformed, the server is
    # older than 15, or the role has too few rights.
    with needing_psycopg():
        from vecall.store.postgres.schema import initialize_schema
        from vecall.store.postgres.url import parse_database_url
    initialize_schema(parse_database_url(url), login=login)


def migrate_database(url: str) -> tuple[int, int]:
    """Migrate the schema; return its number before and now."""
    # The role of the URL may become `vecall_owner`. The errors are those of
    # `initialize_database`.
    with needing_psycopg():
        from vecall.store.postgres.schema import NEWEST, migrate_schema
        from vecall.store.postgres.url import parse_database_url
    return migrate_schema(parse_database_url(url)), NEWEST


def examine_database(url: str) -> list[Finding]:
    """Check a database with the URL that servers use; change nothing."""
    with needing_psycopg():
        from vecall.store.postgres.doctor import examine_url
        from vecall.store.postgres.url import parse_database_url
    return examine_url(parse_database_url(url))


def url_without_secrets(url: str) -> str:
    """Return a URL without user, password and options."""
    with needing_psycopg():
        from vecall.store.postgres.url import parse_database_url
    return str(parse_database_url(url))


# Copies a storage to another one, user by user.

_AT_ONCE = 500  # names read in one transaction
_SAME_TIME_S = 1.0  # of the two clocks; they are read one after the other


@dataclass(slots=True, repr=False, eq=False)
class CopyReport:
    """What `copy_storage` did."""

    users: int = 0  # users whose rows were copied, or would be in a dry run
    memories: int = 0  # their live memories
    items: int = 0  # their items
    bytes: int = 0  # the size of their rows
    unchanged: int = 0  # users whose rows were in the target already
    different: int = 0  # users who have other rows in the target; nothing was changed
    # Users without memories whose names a purge hid, and who were not copied because
    # the target has another secret.
    hidden: int = 0
    # Users whose rows in the source changed while it was copied. The rows of one moment
    # are in the target.
    changed: int = 0
    copied: dict[int, PartitionNames] = field(default_factory=dict, repr=False)

    @property
    def is_complete(self) -> bool:
        """Whether the target has the rows that the source had at the end."""
        return not (self.different or self.hidden or self.changed)


def copy_storage(
    source: Path | str,  # a file or the URL of a database; opened read-only
    target: Path | str,  # a file, created if need be, or the URL of a database
    *,
    app: str | None = None,  # copy only this app
    user: str | None = None,  # copy only this user
    replace: bool = False,  # copy users again who have other rows in the target
    dry_run: bool = False,  # write nothing
    progress: Callable[[CopyReport], None] = lambda _: None,  # called after each user
) -> CopyReport:
    """Copy all users of a storage, each in one transaction, and verify each."""
    # A user's rows are read in one state and written in one transaction, then read back
    # and compared. A copy that was interrupted continues when it is called again: users
    # whose rows are equal are left alone. Services may use both storages meanwhile. It
    # takes memory for three times the rows of the largest user. ConfigError: the source
    # does not exist, both are the same storage, or the source is moving to another
    # embedding model. EmbeddingMismatchError: the target has vectors of another model.
    # CorruptFileError: a row of the source fails its checks. StorageError: what was
    # read back differs.
    with closing(open_storage(source, "full", read_only=True)) as origin:
        with origin.read() as reads:
            facts = reads.identity_facts()
            model = reads.active_model()
            if reads.is_changing_model():
                raise ConfigError(
                    "the source is moving to another embedding model; finish it with "
                    "`vecall reembed` first"
                )
        copier = _Copier(origin, app, user, replace, dry_run, progress)
        if dry_run and isinstance(target, Path) and not target.exists():
            return copier.copy_all_users()
        destination = open_storage(target, "full", read_only=dry_run)
        try:
            if destination.identity == origin.identity and _same_place(source, target):
                raise ConfigError("the source and the target are the same storage")
            if not dry_run:
                adopting = AdoptIdentity(facts)
                destination.submit(adopting).result()
                if adopting.is_adopted:  # the identity is read at opening
                    destination.close()
                    destination = open_storage(target, "full")
                if model is not None:
                    destination.adopt_model(model)
            with destination.read() as reads:
                known = reads.active_model()
                secret = reads.identity_facts().get("secret")
            copier.model = None if known is None else known.id
            copier.same_secret = secret == facts.get("secret")
            copier.target = destination
            return copier.copy_all_users()
        finally:
            destination.close()


def _same_place(source: Path | str, target: Path | str) -> bool:
    if isinstance(source, Path) and isinstance(target, Path):
        return target.exists() and source.samefile(target)
    return source == target


@dataclass(slots=True, repr=False, eq=False)
class _Copier:
    """Copies the users of one storage."""

    source: Storage
    app: str | None
    user: str | None
    replace: bool
    dry_run: bool
    progress: Callable[[CopyReport], None]
    target: Storage | None = None  # None: in a dry run, as there is none yet
    model: int | None = None  # of the target
    same_secret: bool = True
    report: CopyReport = field(default_factory=CopyReport)

    def copy_all_users(self) -> CopyReport:
        """Copy, then count the users that changed meanwhile."""
        for names in self._users_to_copy():
            self._copy_user(names)
            self.progress(self.report)
        if not self.dry_run:
            current = {names.part: names for names in self._users_to_copy()}
            copied = self.report.copied
            self.report.changed = sum(
                copied[part] != names
                for part, names in current.items()
                if part in copied
            ) + len(copied.keys() - current.keys())
        return self.report

    def _users_to_copy(self) -> Iterator[PartitionNames]:
        after = 0
        while True:
            with self.source.read() as reads:
                batch = reads.partitions_after(after, _AT_ONCE)
            if not batch:
                return
            after = batch[-1].part
            for names in batch:
                if self.app in (None, names.app) and self.user in (None, names.user):
                    yield names

    def _copy_user(self, names: PartitionNames) -> None:
        if names.app == HIDDEN_APP and not self.same_secret:
            self.report.hidden += 1
            return
        copied = _rows_to_compare(self.source, names)
        if copied is None:
            return  # deleted meanwhile
        written = None
        if self.target is not None:
            with self.target.read() as reads:
                version = reads.version(names.app, names.user)
                if version is not None:
                    there = names._replace(part=version[0])
                    now = self.target.expiry_clock.now()
                    written = reads.partition_copy(there, now)
        if written is not None and written.digest == copied.digest:
            self.report.unchanged += 1
            self.report.copied[names.part] = copied.names
            return
        if written is not None and any(written.tables.values()) and not self.replace:
            self.report.different += 1
            return
        if not self.dry_run:
            assert self.target is not None
            if not self._write_and_verify(self.target, copied):
                self.report.different += 1
                return
            self.report.copied[names.part] = copied.names
        self.report.users += 1
        self.report.memories += copied.names.live
        self.report.items += copied.items
        self.report.bytes += copied.nbytes

    def _write_and_verify(self, target: Storage, copied: PartitionCopy) -> bool:
        """Write and verify; False if the target has rows of the user meanwhile."""
        shift = target.expiry_clock.now() - copied.expiry_now
        moved = shift_copied_times(copied, shift)
        own = (copied.names.app, copied.names.user)
        job = CopyPartition(*own, moved, self.model, self.replace, copied.nbytes)
        target.submit(job).result()
        if not job.is_written:
            return False
        written = _rows_to_compare(target, copied.names._replace(part=job.part))
        if written is None or written.names.seq != copied.names.seq:
            return True  # a service of the target has changed the user since
        if (
            written.digest != copied.digest
            or moved.latest_difference(written) > _SAME_TIME_S
        ):
            msg = "the rows of a user in the target are not those that were written"
            raise StorageError(msg)
        return True


def _rows_to_compare(storage: Storage, names: PartitionNames) -> PartitionCopy | None:
    with storage.read() as reads:
        return reads.partition_copy(names, storage.expiry_clock.now())


# Finds and forgets the names of a user, for `vecall erase`.
#
# The place is a file, or as a text the URL of a PostgreSQL database.


def partitions_of_user(place: Path | str, user: str, app: str | None) -> UserNames:
    """Return the partitions of a user; change nothing."""
    # `hidden` has only the digests of `app`; None: of all apps.
    if isinstance(place, Path):
        return names_in_file(place, user, app)
    with needing_psycopg():
        from vecall.store.postgres.storage import names_in_database
    return names_in_database(place, user, app)


def forget_hidden_users(place: Path | str, names: Sequence[str]) -> None:
    """Delete all data of users whose names a purge has replaced by digests."""
    with closing(open_storage(place, "full")) as storage:
        for name in names:
            storage.submit(ForgetUser(HIDDEN_APP, name)).result()


def name_traces(
    place: Path | str, name: str, parts: Sequence[int] = ()
) -> list[tuple[Path | str, str]]:
    """Return the places that have a name: the file or the database, and where in it."""
    # Rows with one of the numbers of partitions `parts` are told, too.
    if isinstance(place, Path):
        return [*traces_in_file(place, name, parts)]
    with needing_psycopg():
        from vecall.store.postgres.storage import traces_in_database
    shown = url_without_secrets(place)
    return [(shown, each) for each in traces_in_database(place, name, parts)]
