"""Care of a whole SQLite file."""

from __future__ import annotations

from pathlib import Path

from vecall.store.file.database import Database
from vecall.store.file.filesystem import require_unrelated
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.maintenance.backup_and_purge import backup, purge


class SqliteMaintenance:
    """Implements `Maintenance`."""

    def __init__(self, database: Database) -> None:
        """Take care of a file."""
        self._database = database

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the file, its log and its snapshots."""
        path = self._database.path
        snapshots = 0 if path is None else SnapshotFolder(path).nbytes()
        return {**self._database.sizes(), "snapshot_bytes": snapshots}

    def has_room(self, size: int) -> bool:
        """Whether the disk has room for `size` more bytes of memories."""
        return self._database.has_room(size)

    def purge(self) -> int:
        """Rewrite the file without a trace of what was deleted."""
        return purge(self._database)

    def backup(self, target: Path) -> None:
        """Copy one state of the file while it is in use."""
        backup(self._database, target)

    def require_unrelated(self, path: Path) -> None:
        """Check that a file to read from is none of the database's own."""
        require_unrelated(path, self._database.path)
