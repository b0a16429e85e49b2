"""Facts about a file, read without opening a service."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from vecall.store.erased_names import HIDDEN_APP, UserNames, names_of_user
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


def names_in_file(path: Path, user: str, app: str | None) -> UserNames:
    """Return the partitions of a user; change nothing.

    Args:
        path: The file.
        user: The user.
        app: As in `names_of_user`.

    Raises:
        VecallError: As `file_facts`.
    """
    require_plain(path)
    with storage_errors(), closing(connect_to_read(path)) as connection:
        if not schema.check_origin(connection):
            return UserNames([], [], [])
        return names_of_user(connection, user, app)


def forget_hidden_in_file(path: Path, names: Sequence[str]) -> None:
    """Delete all data of users whose names a purge has replaced by digests.

    Args:
        path: The file.
        names: The digests.
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
