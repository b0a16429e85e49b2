"""Backs up, restores and purges a whole file."""

# ruff: noqa: D102 -- the protocol documents the methods

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from vecall import errors, system
from vecall.store.file import filesystem, schema
from vecall.store.file.connections import (
    as_vecall_error,
    connect_to_file,
    connect_to_read,
    storage_errors,
)
from vecall.store.file.database import Database, begun
from vecall.store.transaction import Transaction, read_fact
from vecall.store.writes.add import drop_call_digests
from vecall.store.writes.delete import hide_deleted_names
from vecall.store.writes.history import note_purge, shorten_digests

_PATIENCE_S = 10.0  # timeout for readers that prevent the WAL's truncation
_PAUSE_S = 0.02
_MAX_LOGGED = 16  # changes of a partition that a purge keeps; older readers reload it


@dataclass(repr=False, eq=False)
class SqliteMaintenance:
    """Implements `Maintenance` of the file of an open database."""

    _database: Database

    def sizes(self) -> dict[str, int]:
        path = self._database.path
        snapshots = 0 if path is None else filesystem.SnapshotFolder(path).nbytes()
        return {**self._database.sizes(), "snapshot_bytes": snapshots}

    def has_room(self, size: int) -> bool:
        return self._database.has_room(size)

    def purge(self) -> int:
        """Rewrite the file without any trace of deleted data."""
        # Writers of all processes wait until it ends. Searches continue. After a
        # BusyError, deleted data may still be in the WAL: a reader held an old state.
        database = self._database
        before = sum(self.sizes().values())
        with database.exclusive_connection() as connection:
            if database.path is not None:
                _require_disk_room(database.path.parent, 2 * _live_bytes(connection))
            with begun(connection, database.expiry_clock):
                purge_deleted_rows(connection, database.expiry_clock.wall())
            connection.execute("VACUUM")
            if database.path is not None:
                filesystem.SnapshotFolder(database.path).clear_snapshots()
                _empty_change_log(connection)
        return before - sum(self.sizes().values())

    def backup(self, target: Path) -> None:
        with storage_errors, self._database.reader_connection() as source:
            copy_file_state(source, target)

    def require_unrelated(self, path: Path) -> None:
        filesystem.require_unrelated_file(path, self._database.path)


def purge_deleted_rows(connection: Transaction, now: float) -> None:
    """Erase what the tables of a storage still have of deleted data."""
    note_purge(connection)
    connection.execute(
        "DELETE FROM chg WHERE seq <= "
        "(SELECT seq FROM part WHERE part.id = chg.part) - ?",
        (_MAX_LOGGED,),
    )
    drop_call_digests(connection)
    shorten_digests(connection)
    hide_deleted_names(connection, now)


def copy_file_state(source: sqlite3.Connection, target: Path) -> None:
    """Copy one state of a file to a new one, which appears when it is complete."""
    # ConfigError: the target exists, or its folder does not. StorageFullError: the disk
    # has no room for the copy.
    filesystem.require_new_file(target)
    query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    _require_disk_room(target.parent, source.execute(query).fetchone()[0])
    passing = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    filesystem.create_private_file(passing)
    try:
        with storage_errors, closing(connect_to_file(passing)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            uuid = secrets.token_hex(16)
            copy.execute("UPDATE meta SET value = ? WHERE key = 'uuid'", (uuid,))
            query = "SELECT name FROM pragma_table_info('part')"
            columns = copy.execute(query).fetchall()  # to the end: else it stays open
            if ("snap",) in columns:  # not in files of the first schema
                copy.execute("UPDATE part SET snap = NULL")
        system.sync_file(passing)
        system.replace_file(passing, target)
    except BaseException:
        _remove_file_and_companions(passing)
        raise
    system.sync_folder(target.parent)


def _live_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = connection.execute(
        "SELECT page_count, freelist_count, page_size FROM pragma_page_count, "
        "pragma_freelist_count, pragma_page_size"
    ).fetchone()
    return int((pages - free) * size)


def _empty_change_log(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return
        if time.monotonic() > deadline:
            raise errors.BusyError(
                "other readers held an old state of the file; purge again"
            )
        time.sleep(_PAUSE_S)


def _require_disk_room(folder: Path, size: int) -> None:
    if filesystem.free_disk_bytes(folder) < size:
        msg = f"the disk has no room for {size} bytes more; nothing was written"
        raise errors.StorageFullError(msg)


# Keeps the newest backups of a file, and puts a backup in the place of a file.

_PASSING = ".new"
_LOGS = ("-wal", "-shm", "-journal")
_BESIDE = (*_LOGS, ".lock", ".reserve")
_SHARED_BYTE = 0x4000_0002  # SQLite locks it as long as a log of the file is open


def keep_backups(
    path: Path,
    folder: Path,  # one backup at a time is made in it
    keep: int,  # how many are kept, the new one included; at least 1
    copy: Callable[[Path], object],  # copies the file to a path
    check: Callable[[Path], None],  # raises a `VecallError` unless a copy is whole
) -> tuple[Path, int]:
    """Back up a file under a name with the time, and delete older backups of it."""
    # A backup is named `<file>-<8 digits of the file's id>-<time>.db` once it is whole.
    # Only files with such a name and this id are deleted, and only after that. Returned
    # are the backup, and the number of deleted ones.
    if keep < 1:
        raise errors.ConfigError("keep: must be at least 1")
    filesystem.require_plain_file(path)
    with storage_errors, closing(connect_to_read(path)) as connection:
        _require_vecall_file(connection)
        stem = f"{path.stem}-{str(read_fact(connection, 'uuid'))[:8]}-"
    made = re.compile(re.escape(stem) + r"\d{8}T\d{6}\.\d{6}Z\.db")
    unfinished = re.compile(rf"{made.pattern}\.new(\.[0-9a-f]{{8}}\.part)?[-.a-z]*")
    with system.lock_folder(folder):
        for name in os.listdir(folder):  # noqa: PTH208 - a Path for each costs more
            if unfinished.fullmatch(name):
                _remove_file_and_companions(folder / name)  # left by a killed backup
        target = folder / f"{stem}{_backup_timestamp()}.db"
        passing = folder / (target.name + _PASSING)
        try:
            copy(passing)
            check(passing)
            system.replace_file(passing, target)
        finally:
            _remove_file_and_companions(passing)
        system.sync_folder(folder)
        others = filter(made.fullmatch, os.listdir(folder))  # noqa: PTH208
        older = sorted(set(others) - {target.name}, reverse=True)[keep - 1 :]
        return target, sum(_remove_file_and_companions(folder / name) for name in older)


def _backup_timestamp() -> str:
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def _require_vecall_file(connection: sqlite3.Connection) -> None:
    if not schema.check_file_origin(connection):
        raise errors.IncompatibleFileError(
            "path: the file is empty; it has no memories"
        )


def _remove_file_and_companions(path: Path) -> bool:
    """Remove a file, if there is one, and its companions."""
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
    """Put a copy of a backup in the place of a file, in one step."""
    # Returned is where the file before is kept; None if there was none. The copy has a
    # new id. Whoever opens the file finds the old or the new one; no process may have
    # it open (BusyError). `check` raises a `VecallError` unless a copy is whole.
    # ConfigError: there is no such backup; or the file exists, and is not to be
    # replaced; or both are the same. After an error nothing has changed.
    if not backup.exists():
        raise errors.ConfigError("backup: there is no such file")
    target = filesystem.with_resolved_folder(target)
    if target.exists():
        if backup.samefile(target):
            raise errors.ConfigError("target: is the backup itself")
        if not replacing:
            raise errors.ConfigError("target: exists; with --replace it is kept aside")
        _drop_second_names(target)
        filesystem.require_plain_file(target)
    else:
        filesystem.require_new_file(target)
    passing = target.with_name(f"{target.name}.{os.getpid()}{_PASSING}")
    try:
        with storage_errors, closing(connect_to_read(backup)) as connection:
            _require_vecall_file(connection)
            copy_file_state(connection, passing)
        check(passing)
        return _exchange_files(passing, target)
    finally:
        _remove_file_and_companions(passing)


def _exchange_files(passing: Path, target: Path) -> Path | None:
    """Give a file another's name; return where the other one is kept."""
    if not target.exists():
        filesystem.require_new_file(target)
        system.replace_file(passing, target)
        system.sync_folder(target.parent)
        return None
    aside = target.with_name(f"{target.name}.before-{_backup_timestamp()}")
    with _keep_file_closed(target):
        try:
            # A second name first, so that the path has a file at every moment. A log
            # is there only if the file is damaged. It must not meet the new one.
            os.link(target, aside)
            for suffix in _LOGS:
                log = target.with_name(target.name + suffix)
                if log.exists():
                    system.replace_file(log, aside.with_name(aside.name + suffix))
            system.replace_file(passing, target)
        except OSError as error:
            msg = f"target: cannot be replaced: {error.strerror}"
            raise errors.StorageError(msg) from error
    filesystem.SnapshotFolder(target).clear_snapshots()
    system.sync_folder(target.parent)
    return aside


@contextmanager
def _keep_file_closed(path: Path) -> Iterator[None]:
    """Write the log of a file into it, and keep others from opening it in the block."""
    if filesystem.is_file_open_here(path):
        raise errors.BusyError(_IN_USE)
    with _sqlite_lock(path) as file:
        head = os.read(file, 20)
    if head.startswith(b"SQLite format 3\0") and head.endswith(b"\2\2"):
        try:
            with closing(connect_to_file(path)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            if isinstance(as_vecall_error(error), errors.BusyError):
                raise errors.BusyError(_IN_USE) from error
    with _sqlite_lock(path):
        yield


@contextmanager
def _sqlite_lock(path: Path) -> Iterator[int]:
    """Lock a file against SQLite; closing it drops all locks of this process on it."""
    file = system.open_private(path, os.O_RDWR)
    try:
        if not system.lock_byte(file, _SHARED_BYTE):
            raise errors.BusyError(_IN_USE)
        yield file
    finally:
        os.close(file)


def _drop_second_names(target: Path) -> None:
    """Remove the second name of a file that a killed restore has given it."""
    for other in target.parent.iterdir():
        if other.name.startswith(f"{target.name}.before-"):
            with suppress(errors.VecallError, OSError):
                if other.samefile(target):
                    other.unlink()


_IN_USE = "target: is in use; stop what has it open first"
