"""Generated from MemoryAdmin by .ci/generate_sync; do not edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vecall.concurrency.join import run_sync
from vecall.embedders.resolve import EmbedderLike
from vecall.operations.admin import Admin
from vecall.operations.deletion import Deletion
from vecall.operations.export_jsonl import LineTarget
from vecall.operations.housekeeping import Housekeeping
from vecall.operations.import_jsonl import ImportOptions, LineSource
from vecall.types import Imported


class SyncMemoryAdmin:
    """The methods of `MemoryAdmin` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(
        self,
        admin: Admin,
        deletion: Deletion,
        housekeeping: Housekeeping,
    ) -> None:
        """Share the parts of a service."""
        self._admin = admin
        self._deletion = deletion
        self._housekeeping = housekeeping

    def backup(self, path: str | Path) -> None:
        """Copy the file, consistently, while it is in use.

        Args:
            path: A file that does not exist yet; it appears when it is whole.

        Raises:
            ConfigError: There is a file of that name, or no such folder.
            StorageFullError: The disk has no room for it.
        """
        run_sync(self._admin.backup(path))

    def export_jsonl(
        self,
        path: str | Path | LineTarget,
        *,
        vectors: bool = True,
        app_name: str | None = None,
        user_id: str | None = None,
        quarantined: bool = True,
    ) -> int:
        """Write memories to a new file of JSON lines; return how many.

        Args:
            path: A file that does not exist yet, or a stream of text that has `write`;
                what goes to a stream is ASCII.
            vectors: Whether vectors go with them, as base64 of float32.
            app_name: Only this app's.
            user_id: Only this user's.
            quarantined: Whether memories, versions and waiting turns that are
                quarantined go with them.

        Raises:
            ConfigError: There is a file of that name.
        """
        return run_sync(
            self._admin.export_jsonl(path, vectors, app_name, user_id, quarantined)
        )

    def import_jsonl(
        self,
        path: str | Path | LineSource,
        *,
        vectors: bool = True,
        restore: bool = False,
        app_name: str | None = None,
        user_id: str | None = None,
        gate: bool = False,
    ) -> Imported:
        """Read a file that `export_jsonl` wrote; return how many memories were written.

        What is there already stays unless the export has a newer version; what was
        deleted here stays deleted.

        Args:
            path: The file, or a stream of bytes that has `readline`.
            vectors: Take its vectors; without them memories are embedded again.
            restore: Bring back what was deleted here.
            app_name: Only this app's; an export of another one is refused. Give both
                names where the export comes from a user: an export can name anybody.
            user_id: Only this user's; needs `app_name`.
            gate: Ask `on_write` about every memory, former version and waiting turn.
                What it refuses is left out, and what it quarantines is quarantined;
                the count that is returned says how many. What was quarantined there
                stays so.

        Raises:
            ConfigError: `gate` is true, and the service has no `on_write`.
            WriteHookError: `on_write` failed; lines before are imported.
            InvalidArgumentError: A line that no export has, or of another app or user;
                those before it are imported.
            EmbeddingMismatchError: The vectors come from another model.
        """
        return run_sync(
            self._admin.import_jsonl(
                path, ImportOptions(vectors, restore, app_name, user_id, gate)
            )
        )

    def purge(self) -> int:
        """Rewrite the file so that nothing deleted is left in it; return bytes freed.

        Also gives the disk back what deletions freed inside the file. Writers of all
        processes wait meanwhile, searches go on. Copies that you made are yours.

        Raises:
            BusyError: A reader held an old snapshot of the file; purge again.
            StorageFullError: The disk has no room to rewrite the file.
        """
        return run_sync(self._admin.purge())

    def reembed(self, embedder: EmbedderLike) -> int:
        """Move the file to another embedding model; return how many were embedded.

        Searches go on with the old vectors until all new ones are there, then this
        service uses the new embedder. Other processes must be restarted with it; until
        then they search by words what they load, and their adds are refused. After an
        interruption another call goes on where the first one stopped.

        Raises:
            EmbedderError: The embedder failed; call again to go on.
        """
        return run_sync(self._admin.reembed(embedder))

    def stats(self) -> dict[str, Any]:
        """Return counts over the whole file: users, sessions, memories, bytes."""
        return run_sync(self._admin.stats())

    def warm(self, *, app_name: str, user_id: str) -> None:
        """Load a user's memories, so that the first search need not wait."""
        run_sync(self._admin.warm(app_name, user_id))

    def run_due(self) -> int:
        """Do now what else a thread does in the background.

        Make memories of sessions that are due, delete what has expired.

        Returns:
            How many memories were cleared away.
        """
        return run_sync(self._housekeeping.run_due())

    def delete_app(
        self, *, app_name: str, confirm: bool = False, forget: bool = False
    ) -> int:
        """Delete all memories of all users of an app; return how many.

        Users go one by one, each in one transaction. If the process ends meanwhile,
        call it again.

        Args:
            app_name: The app.
            confirm: Must be True.
            forget: As in `MemoryService.delete_user`.
        """
        return run_sync(self._deletion.delete_app(app_name, confirm, forget))
