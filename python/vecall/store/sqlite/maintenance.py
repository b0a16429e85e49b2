"""Maintenance of a whole SQLite file."""

from __future__ import annotations

from pathlib import Path

from vecall.store.file.database import Database
from vecall.store.file.filesystem import require_unrelated
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.maintenance.backup_and_purge import backup, purge


class SqliteMaintenance:
    """Implements `Maintenance`."""

    def __init__(self, database: Database) -> None:
        """Maintain the file of an open database."""
        self._database = database

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the file, its WAL and its snapshots, in bytes."""
        path = self._database.path
        snapshots = 0 if path is None else SnapshotFolder(path).nbytes()
        return {**self._database.sizes(), "snapshot_bytes": snapshots}

    def has_room(self, size: int) -> bool:
        """Whether the disk has room for `size` more bytes of memories."""
        return self._database.has_room(size)

    def purge(self) -> int:
        """Rewrite the file without deleted data."""
        return purge(self._database)

    def backup(self, target: Path) -> None:
        """Copy one state of the file while it is in use."""
        backup(self._database, target)

    def require_unrelated(self, path: Path) -> None:
        """Check that a file, such as one to import, is not one of the database's."""
        require_unrelated(path, self._database.path)
