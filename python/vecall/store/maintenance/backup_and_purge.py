"""Copies and compacts a whole file with SQLite's backup and VACUUM."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from vecall.errors import BusyError, StorageFullError
from vecall.store.file.clock_state import begun
from vecall.store.file.connections import connect
from vecall.store.file.database import Database
from vecall.store.file.filesystem import (
    create_private,
    free_bytes,
    require_new,
    sync_folder,
)
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.file.sqlite_errors import storage_errors
from vecall.store.writes.idempotency import drop_digests
from vecall.store.writes.purge_digests import hide_what_is_gone
from vecall.store.writes.record_snapshot import count_purge
from vecall.store.writes.row_diff import shorten_digests

_PATIENCE_S = 10.0  # timeout for readers that prevent the WAL's truncation
_PAUSE_S = 0.02
_MAX_LOGGED = 16  # changes of a partition that a purge keeps; older readers reload it


def backup(database: Database, target: Path) -> None:
    """Copy one consistent state of the file while it is in use.

    The copy gets a new UUID.

    Raises:
        ConfigError: The target exists already, or its folder does not exist.
        StorageFullError: The disk has no room for the copy.
    """
    require_new(target)
    _require_room(target.parent, sum(database.sizes().values()))
    passing = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    create_private(passing)
    try:
        with (
            storage_errors(),
            database.reader_connection() as source,
            closing(connect(passing)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            uuid = secrets.token_hex(16)
            copy.execute("UPDATE meta SET value = ? WHERE key = 'uuid'", (uuid,))
            copy.execute("UPDATE part SET snap = NULL")
        handle = os.open(passing, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        passing.rename(target)
    except BaseException:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                passing.with_name(passing.name + suffix).unlink()
        raise
    sync_folder(target.parent)


def purge(database: Database) -> int:
    """Rewrite the file without any trace of deleted data; return the bytes freed.

    Writers of all processes wait until it ends. Searches continue.

    Raises:
        BusyError: A reader held an old state. Deleted data may still be in the WAL:
            purge again.
        StorageFullError: The disk has no room to rewrite the file; nothing changed.
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
            folder = SnapshotFolder(database.path)
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
            msg = "other readers held an old state of the file; purge again"
            raise BusyError(msg)
        time.sleep(_PAUSE_S)


def _require_room(folder: Path, size: int) -> None:
    if free_bytes(folder) < size:
        msg = f"the disk has no room for {size} bytes more; nothing was written"
        raise StorageFullError(msg)
