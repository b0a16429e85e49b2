"""Recovers, copies, purges and backs up a whole file, and resets its clock."""

from __future__ import annotations

import math
import os
import re
import secrets
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from vecall.clock import DAY_S, Clock, ExpiryClock
from vecall.errors import (
    BusyError,
    ConfigError,
    CorruptFileError,
    IncompatibleFileError,
    InvalidArgumentError,
    StorageError,
    StorageFullError,
    VecallError,
)
from vecall.store.file import filesystem, schema
from vecall.store.file.connections import (
    as_vecall_error,
    connect,
    connect_to_read,
    storage_errors,
)
from vecall.store.file.database import Database, begun, save_checkpoint
from vecall.store.names import copy_secret, partition_names
from vecall.store.queries.item_reads import items_by_number, state_of
from vecall.store.queries.listing import exported_memory
from vecall.store.queries.partition_reads import load_rows
from vecall.store.results import EmbeddingModel
from vecall.store.rows import names_checksum
from vecall.store.transaction import active_model, adopt, fact, select_in
from vecall.store.values import PIECES, checked_vectors
from vecall.store.writes.add import drop_digests
from vecall.store.writes.delete import hide_what_is_gone
from vecall.store.writes.history import count_purge, shorten_digests
from vecall.store.writes.imports import ImportLines
from vecall.store.writes.items import move_expiries
from vecall.store.writes.partition_writer import PartitionWriter, rewrite
from vecall.store.writes.sessions import move_last_consolidation
from vecall.system import (
    lock_byte,
    lock_folder,
    open_private,
    replace,
    sync_file,
    sync_folder,
)

_AT_ONCE = 500
_NAMELESS = "vecall-recovered"
_Line = tuple[str, dict[str, Any]]  # kind and values, as in an export


class Salvage(NamedTuple):
    """The result of a recovery."""

    saved: int  # the number of memories in the new file
    lost: int  # the number of known memories that cannot be read
    saved_items: int = 0  # the number of items in the new file
    lost_items: int = 0  # the number of known items that cannot be read


def recover(path: Path, target: Path) -> Salvage:
    """Copy every memory that can be read and passes its checksum to a new file.

    The damaged file does not change. Partitions with unreadable names go to the app
    "vecall-recovered", with one user for each partition.

    Raises:
        ConfigError: The new file exists already.
        CorruptFileError: The file has views or triggers, which must not run.
    """
    filesystem.require_new(target)
    with closing(connect_to_read(path)) as connection:
        with suppress(sqlite3.Error, ValueError):
            schema.require_plain_tables(connection)
        model = None
        with suppress(sqlite3.Error, ValueError, CorruptFileError):
            model = active_model(connection)
        _shadow_unreadable(connection)
        rows = _row_numbers(connection)
        names = _names(connection)
        deleted = _tombstone_lines(connection)
        database = Database(target, "full")
        try:
            with suppress(sqlite3.Error), database.write_transaction() as new:
                copy_secret(connection, new)
            copy = _Copy(connection, database, model)
            by_part: dict[int, list[int]] = defaultdict(list)
            for rid in rows:
                by_part[rid >> 32].append(rid)
            for part in sorted(by_part.keys() | deleted.keys()):
                app, user = names.get(part, (_NAMELESS, str(part)))
                copy.partition(app, user, by_part[part], deleted.get(part, []))
            items, known = _item_lines(connection)
            for part in sorted(items):
                app, user = names.get(part, (_NAMELESS, str(part)))
                copy.items(app, user, items[part])
        finally:
            database.close()
    return Salvage(
        copy.saved, len(rows) - copy.saved, copy.saved_items, known - copy.saved_items
    )


def _shadow_unreadable(connection: sqlite3.Connection) -> None:
    """Shadow unreadable tables of models and vectors by temporary ones.

    The file does not change. Vectors are useless without their model, but the texts of
    the memories can still be saved.
    """
    try:
        connection.execute("SELECT * FROM model").fetchall()
    except sqlite3.Error:
        connection.execute(
            "CREATE TEMP TABLE model (id, name, dim, fingerprint, state)"
        )
        with suppress(sqlite3.Error):
            connection.execute(
                "INSERT INTO temp.model (id, state) SELECT model, 'active' FROM mem "
                "WHERE model IS NOT NULL LIMIT 1"
            )
    try:
        connection.execute("SELECT rid, length(vec) FROM vec_next").fetchall()
    except sqlite3.Error:
        connection.execute("CREATE TEMP TABLE vec_next (rid, model, vec, crc)")


def _row_numbers(connection: sqlite3.Connection) -> list[int]:
    """All row numbers that can be read from the table or one of its indexes."""
    found: set[int] = set()
    for query in (
        "SELECT rid FROM mem NOT INDEXED ORDER BY rid {}",
        "SELECT rid FROM mem INDEXED BY sqlite_autoindex_mem_1 ORDER BY part {}, id {}",
        "SELECT rid FROM mem INDEXED BY mem_session "
        "ORDER BY part {}, session {}, pos {}",
    ):
        rows = _walked(connection, query)
        found.update(rid for (rid,) in rows if isinstance(rid, int))
    return sorted(found)


def _walked(connection: sqlite3.Connection, query: str, *values: str) -> Iterator[Any]:
    """Yield the rows of a query in order, then from the end.

    A walk ends at a damaged page, so each B-tree is walked from both ends.
    """
    for direction in ("", "DESC"):
        with suppress(sqlite3.Error):
            yield from connection.execute(query.replace("{}", direction), values)


def _names(connection: sqlite3.Connection) -> dict[int, tuple[str, str]]:
    names: dict[int, tuple[str, str]] = {}
    query = "SELECT id, app, user, crc FROM part NOT INDEXED ORDER BY id {}"
    for part, app, user, crc in _walked(connection, query):
        named = isinstance(app, str) and isinstance(user, str)
        if named and crc == names_checksum(part, app, user):
            names[part] = (app, user)
    return names


def _tombstone_lines(connection: sqlite3.Connection) -> dict[int, list[_Line]]:
    found: dict[int, list[_Line]] = defaultdict(list)
    with suppress(sqlite3.Error, ValueError):
        for part, id_, at in connection.execute(
            "SELECT part, id, at FROM tomb WHERE typeof(part) = 'integer' "
            "AND typeof(id) = 'text' AND typeof(at) = 'real'"
        ):
            if math.isfinite(at):
                found[part].append(("tomb", {"id": id_, "at": at}))
    return found


def _item_lines(connection: sqlite3.Connection) -> tuple[dict[int, list[_Line]], int]:
    """The items that can be read, by partition, and the number of known items."""
    query = "SELECT rid FROM item NOT INDEXED WHERE ns IS NOT ? ORDER BY rid {}"
    rids = {rid for (rid,) in _walked(connection, query, PIECES)}
    found: dict[int, list[_Line]] = defaultdict(list)
    for rid in sorted(rids):
        with suppress(sqlite3.Error, VecallError, ValueError, TypeError):
            for row in items_by_number(connection, rid >> 32, [rid]):
                values: dict[str, Any] = row._asdict()
                vecs = values.pop("vecs")
                with suppress(sqlite3.Error, VecallError):
                    state = state_of(connection, rid >> 32)
                    values["vecs"] = checked_vectors(rid, vecs, state.dim)
                    values |= {"dim": state.dim, "embedder": state.embedder}
                found[rid >> 32].append(("item", values))
    return found, len(rids)


class _Copy:
    def __init__(
        self,
        source: sqlite3.Connection,
        database: Database,
        model: EmbeddingModel | None,
    ) -> None:
        self._source = source
        self._database = database
        self._number: dict[int, int] = {}
        self.saved = 0
        self.saved_items = 0
        if model is not None:
            with database.write_transaction() as connection:
                self._number[model.id] = adopt(connection, model).id

    def partition(
        self, app: str, user: str, rids: Sequence[int], deleted: Sequence[_Line]
    ) -> None:
        lines = [*deleted, *self._readable_rows(rids)]
        for start in range(0, len(lines), _AT_ONCE):
            some = lines[start : start + _AT_ONCE]
            model = next(iter(self._number.values()), None)
            try:
                self._write(app, user, some, model)
            except (BusyError, StorageError, StorageFullError):
                raise
            except VecallError:  # a value that vecall does not write
                for line in some:
                    with suppress(CorruptFileError, InvalidArgumentError):
                        self._write(app, user, [line], model)

    def _write(
        self, app: str, user: str, lines: Sequence[_Line], model: int | None
    ) -> None:
        job = ImportLines(app, user, 0.0, lines, model, restore=False)
        with self._database.write_transaction() as connection:
            written = len(job.run(connection).ids)
        self.saved += written

    def items(self, app: str, user: str, lines: Sequence[_Line]) -> None:
        for line in lines:
            with suppress(CorruptFileError, InvalidArgumentError):
                self._write(app, user, [line], None)
                self.saved_items += 1

    def _readable_rows(self, rids: Sequence[int]) -> Iterator[_Line]:
        for rid in rids:
            with suppress(sqlite3.Error, VecallError, ValueError, TypeError):
                for stored in load_rows(self._source, [rid], any_state=True):
                    values = exported_memory(self._source, stored)
                    if stored.vec is not None and stored.model in self._number:
                        values["vec"] = stored.vec
                    yield "mem", values


# Copies and compacts a whole file with SQLite's backup and VACUUM.


_PATIENCE_S = 10.0  # timeout for readers that prevent the WAL's truncation
_PAUSE_S = 0.02
_MAX_LOGGED = 16  # changes of a partition that a purge keeps; older readers reload it


def backup(database: Database, target: Path) -> None:
    """Copy one consistent state of the file while it is in use, with a new UUID."""
    with storage_errors, database.reader_connection() as source:
        copy_state(source, target)


def copy_state(source: sqlite3.Connection, target: Path) -> None:
    """Copy one state of a file to a new one, which appears when it is complete.

    ConfigError: the target exists, or its folder does not. StorageFullError: the disk
    has no room for the copy.
    """
    filesystem.require_new(target)
    query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    _require_room(target.parent, source.execute(query).fetchone()[0])
    passing = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    filesystem.create_private(passing)
    try:
        with storage_errors, closing(connect(passing)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            uuid = secrets.token_hex(16)
            copy.execute("UPDATE meta SET value = ? WHERE key = 'uuid'", (uuid,))
            query = "SELECT name FROM pragma_table_info('part')"
            columns = copy.execute(query).fetchall()  # to the end: else it stays open
            if ("snap",) in columns:  # not in files of the first schema
                copy.execute("UPDATE part SET snap = NULL")
        sync_file(passing)
        replace(passing, target)
    except BaseException:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                passing.with_name(passing.name + suffix).unlink()
        raise
    sync_folder(target.parent)


def purge(database: Database) -> int:
    """Rewrite the file without any trace of deleted data; return the bytes freed.

    Writers of all processes wait until it ends. Searches continue. After a BusyError,
    deleted data may still be in the WAL: a reader held an old state.
    """
    before = sum(database.sizes().values())
    with database.exclusive() as connection:
        if database.path is not None:
            _require_room(database.path.parent, 2 * _live_bytes(connection))
        with begun(connection, database.expiry_clock):
            count_purge(connection)
            connection.execute(
                "DELETE FROM chg WHERE seq <= "
                "(SELECT seq FROM part WHERE part.id = chg.part) - ?",
                (_MAX_LOGGED,),
            )
            drop_digests(connection)
            shorten_digests(connection)
            hide_what_is_gone(connection, database.expiry_clock.wall())
        connection.execute("VACUUM")
        if database.path is not None:
            folder = filesystem.SnapshotFolder(database.path)
            before += folder.nbytes()
            folder.clear()
            _empty_log(connection)
    return before - sum(database.sizes().values())


def _live_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = connection.execute(
        "SELECT page_count, freelist_count, page_size FROM pragma_page_count, "
        "pragma_freelist_count, pragma_page_size"
    ).fetchone()
    return int((pages - free) * size)


def _empty_log(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return
        if time.monotonic() > deadline:
            raise BusyError("other readers held an old state of the file; purge again")
        time.sleep(_PAUSE_S)


def _require_room(folder: Path, size: int) -> None:
    if filesystem.free_bytes(folder) < size:
        msg = f"the disk has no room for {size} bytes more; nothing was written"
        raise StorageFullError(msg)


# Resets a file's expiry clock to the wall clock.
#
# The expiry clock never goes back by itself. If the wall clock was years ahead when the
# file was opened, the expiry clock stays years ahead, and searches do not find memories
# with an earlier `valid_until`. A reset shifts all times that depend on the expiry
# clock, so each TTL keeps its remaining seconds. A `valid_until` is a date and does not
# change.


_TIMES = (("hist", "expires_at"), ("trig", "due_at"), ("idem", "at"))


def reset_clock(path: Path, clock: Clock | None = None) -> list[str]:
    """Set a file's expiry clock to the wall clock.

    No other process may use the file during the reset: it would continue with the old
    time.

    Args:
        path: The file.
        clock: The source of the time; default: the machine's clock.

    Returns:
        The actions taken; empty if the clocks differed by less than a second.

    Raises:
        CorruptFileError: What has a TTL fails its checksum; nothing changed.
        BusyError: Timeout on the file lock; nothing changed.
    """
    database = Database(path, "full", clock=clock)
    try:
        with database.write_transaction() as connection:
            expiry_clock = ExpiryClock.of(connection)
            ahead = expiry_clock.reset()
            if abs(ahead) < 1.0:
                return []
            count = _move(connection, -ahead)
            save_checkpoint(connection, expiry_clock)
    finally:
        database.close()
    where = "back" if ahead > 0 else "forward"
    days = abs(ahead) / DAY_S
    return [f"the clock was set {where} by {days:.1f} days; {count} ttls moved with it"]


def _move(connection: sqlite3.Connection, seconds: float) -> int:
    """Shift every time of the expiry clock; return how many rows have a TTL."""
    for table, column in _TIMES:
        connection.execute(
            f"UPDATE {table} SET {column} = {column} + ? WHERE {column} IS NOT NULL",
            (seconds,),
        )
    move_last_consolidation(connection, seconds)
    query = "SELECT rid FROM mem WHERE expires_at IS NOT NULL ORDER BY rid"
    rids = [rid for (rid,) in connection.execute(query)]
    for part, some in groupby(rids, lambda rid: rid >> 32):
        names = partition_names(connection, part)
        if names is None:
            continue
        partition = PartitionWriter(connection, *names, create=False)
        mine = list(some)
        for at in range(0, len(mine), _AT_ONCE):
            _move_rows(partition, mine[at : at + _AT_ONCE], seconds)
        partition.finish()
    return len(rids) + move_expiries(connection, seconds)


def _move_rows(partition: PartitionWriter, rids: list[int], seconds: float) -> None:
    query = "SELECT rid, state FROM mem WHERE rid IN"
    states = dict(select_in(partition.connection, query, [], rids))
    for stored in load_rows(partition.connection, rids, any_state=True):
        row, state = stored.row, states[stored.row.rid]
        assert row.expires_at is not None
        row = row._replace(expires_at=row.expires_at + seconds)
        rewrite(partition, stored, row, was=state, state=state)


# Keeps the newest backups of a file, and puts a backup in the place of a file.


_PASSING = ".new"
_LOGS = ("-wal", "-shm", "-journal")
_BESIDE = (*_LOGS, ".lock", ".reserve")
_SHARED_BYTE = 0x4000_0002  # SQLite locks it as long as a log of the file is open


def keep_backups(
    path: Path,
    folder: Path,
    keep: int,
    copy: Callable[[Path], object],
    check: Callable[[Path], None],
) -> tuple[Path, int]:
    """Back up a file under a name with the time, and delete older backups of it.

    A backup is named `<file>-<8 digits of the file's id>-<time>.db` once it is whole.
    Only files with such a name and this id are deleted, and only after that.

    Args:
        path: The file.
        folder: The folder of the backups. One backup at a time is made in it.
        keep: How many backups are kept, the new one included; at least 1.
        copy: Copies the file to a path.
        check: Raises a `VecallError` unless a copy is whole.

    Returns:
        The backup, and the number of deleted ones.

    Raises:
        ConfigError: `keep` is less than 1.
        VecallError: Of `copy` or `check`; the older backups are kept.
    """
    if keep < 1:
        raise ConfigError("keep: must be at least 1")
    stem = f"{path.stem}-{_short_id(path)}-"
    made = re.compile(re.escape(stem) + r"\d{8}T\d{6}\.\d{6}Z\.db")
    unfinished = re.compile(rf"{made.pattern}\.new(\.[0-9a-f]{{8}}\.part)?[-.a-z]*")
    with lock_folder(folder):
        for name in os.listdir(folder):  # noqa: PTH208 - a Path for each costs more
            if unfinished.fullmatch(name):
                _remove(folder / name)  # left by a killed backup
        target = folder / f"{stem}{_moment()}.db"
        passing = folder / (target.name + _PASSING)
        with _temporary(passing):
            copy(passing)
            check(passing)
            replace(passing, target)
        sync_folder(folder)
        others = filter(made.fullmatch, os.listdir(folder))  # noqa: PTH208
        older = sorted(set(others) - {target.name}, reverse=True)[keep - 1 :]
        return target, sum(_remove(folder / name) for name in older)


def _moment() -> str:
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def _short_id(path: Path) -> str:
    filesystem.require_plain(path)
    with storage_errors, closing(connect_to_read(path)) as connection:
        _require_memories(connection)
        return str(fact(connection, "uuid"))[:8]


def _require_memories(connection: sqlite3.Connection) -> None:
    if not schema.check_origin(connection):
        raise IncompatibleFileError("path: the file is empty; it has no memories")


@contextmanager
def _temporary(path: Path) -> Iterator[None]:
    """Remove a file after the block, unless it has another name, and its companions."""
    try:
        yield
    finally:
        _remove(path)


def _remove(path: Path) -> bool:
    for suffix in _BESIDE:
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink()
    try:
        path.unlink()
    except OSError:
        return False
    return True


def restore_backup(
    backup: Path, target: Path, check: Callable[[Path], None], *, replacing: bool
) -> Path | None:
    """Put a copy of a backup in the place of a file, in one step.

    The copy has a new id. Whoever opens the file finds the old or the new one.

    Args:
        backup: The backup. It does not change, and may be in use.
        target: The file. No process may have it open.
        check: Raises a `VecallError` unless a copy is whole.
        replacing: Whether the file may exist. It is kept beside the new one.

    Returns:
        Where the file before is kept; None if there was none.

    Raises:
        ConfigError: There is no such backup; or the file exists, and is not to be
            replaced; or both are the same.
        BusyError: A process has the file open.
        VecallError: Of `check`; nothing changed.
    """
    if not backup.exists():
        raise ConfigError("backup: there is no such file")
    target = filesystem.with_resolved_folder(target)
    if target.exists():
        if backup.samefile(target):
            raise ConfigError("target: is the backup itself")
        if not replacing:
            raise ConfigError("target: exists; with --replace it is kept aside")
        _drop_second_names(target)
        filesystem.require_plain(target)
    else:
        filesystem.require_new(target)
    passing = target.with_name(f"{target.name}.{os.getpid()}{_PASSING}")
    with _temporary(passing):
        with storage_errors, closing(connect_to_read(backup)) as connection:
            _require_memories(connection)
            copy_state(connection, passing)
        check(passing)
        return _put(passing, target)


def _put(passing: Path, target: Path) -> Path | None:
    """Give a file another's name; return where the other one is kept."""
    if not target.exists():
        filesystem.require_new(target)
        replace(passing, target)
        sync_folder(target.parent)
        return None
    aside = target.with_name(f"{target.name}.before-{_moment()}")
    with _unused(target):
        try:
            # A second name first, so that the path has a file at every moment. A log
            # is there only if the file is damaged. It must not meet the new one.
            os.link(target, aside)
            for suffix in _LOGS:
                log = target.with_name(target.name + suffix)
                if log.exists():
                    replace(log, aside.with_name(aside.name + suffix))
            replace(passing, target)
        except OSError as error:
            msg = f"target: cannot be replaced: {error.strerror}"
            raise StorageError(msg) from error
    filesystem.SnapshotFolder(target).clear()
    sync_folder(target.parent)
    return aside


@contextmanager
def _unused(path: Path) -> Iterator[None]:
    """Write the log of a file into it, and keep others from opening it in the block."""
    if filesystem.is_locked_here(path):
        raise BusyError(_IN_USE)
    with _locked(path) as file:
        head = os.read(file, 20)
    if head.startswith(b"SQLite format 3\0") and head.endswith(b"\2\2"):
        try:
            with closing(connect(path)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            if isinstance(as_vecall_error(error), BusyError):
                raise BusyError(_IN_USE) from error
    with _locked(path):
        yield


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Lock a file against SQLite; closing it drops all locks of this process on it."""
    file = open_private(path, os.O_RDWR)
    try:
        if not lock_byte(file, _SHARED_BYTE):
            raise BusyError(_IN_USE)
        yield file
    finally:
        os.close(file)


def _drop_second_names(target: Path) -> None:
    """Remove the second name of a file that a killed restore has given it."""
    for other in target.parent.iterdir():
        if other.name.startswith(f"{target.name}.before-"):
            with suppress(VecallError, OSError):
                if other.samefile(target):
                    other.unlink()


_IN_USE = "target: is in use; stop what has it open first"
