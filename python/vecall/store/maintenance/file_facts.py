"""Facts about a file, read without opening a service."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from vecall.store.erased_names import HIDDEN_APP, hidden_of_user, hidden_user
from vecall.store.file import schema
from vecall.store.file.connections import connect_to_read, file_bytes
from vecall.store.file.database import Database
from vecall.store.file.filesystem import require_plain
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.file.sqlite_errors import storage_errors
from vecall.store.models import active_model
from vecall.store.reads.partition_reads import totals
from vecall.store.writes.delete import ForgetUser


def file_facts(path: Path) -> dict[str, Any]:
    """Return counts over a whole file, of this or an older schema; change nothing.

    Raises:
        ConfigError: The path is not a regular file.
        IncompatibleFileError: The file is another program's, or has a newer schema.
        CorruptFileError: The file is damaged.
        StorageError: The file cannot be read.
    """
    require_plain(path)
    with storage_errors(), closing(connect_to_read(path)) as connection:
        version = schema.check_origin(connection)
        counts: dict[str, Any] = {}
        model = None
        if version:
            counts.update(
                totals(
                    connection,
                    waiting=version >= _WITH_WAITING,
                    items=version >= _WITH_ITEMS,
                )
            )
            model = active_model(connection)
    return {
        "schema": version,
        **counts,
        "file_bytes": file_bytes(path),
        "wal_bytes": file_bytes(path.with_name(path.name + "-wal")),
        "snapshot_bytes": SnapshotFolder(path).nbytes(),
        "model": None if model is None else model.name,
    }


def apps_of(path: Path, user: str) -> list[str]:
    """Return the apps in which a user has a partition; change nothing.

    Raises:
        VecallError: As `file_facts`.
    """
    require_plain(path)
    with storage_errors(), closing(connect_to_read(path)) as connection:
        if not schema.check_origin(connection):
            return []
        query = "SELECT app FROM part WHERE user = ? AND app <> ? ORDER BY app"
        return [app for (app,) in connection.execute(query, (user, HIDDEN_APP))]


def hidden_names(path: Path, user: str, app: str | None) -> list[str]:
    """Return the digests that replaced a user's names in a purge; change nothing.

    Args:
        path: The file.
        user: The user.
        app: Only digests of this app; None: of all apps.

    Raises:
        VecallError: As `file_facts`.
    """
    require_plain(path)
    with storage_errors(), closing(connect_to_read(path)) as connection:
        if not schema.check_origin(connection):
            return []
        names = hidden_of_user(connection, user)
        only = None if app is None else hidden_user(connection, app, user)
        return [name for name in names if only in (None, name)]


def forget_hidden(path: Path, names: Sequence[str]) -> None:
    """Delete all data of users whose names a purge has replaced by digests.

    Args:
        path: The file.
        names: The digests from `hidden_names`.
    """
    database = Database(path, "full")
    try:
        with database.write_transaction() as connection:
            for name in names:
                ForgetUser(HIDDEN_APP, name).run(connection)
    finally:
        database.close()


_WITH_WAITING = 3  # the first schema with buffered turns
_WITH_ITEMS = 4  # the first schema with items
