"""MemoryAdmin: operations on the whole file; `sync` is its blocking twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vecall.concurrency.join import run_async
from vecall.embedders.resolve import EmbedderLike
from vecall.operations.admin import Admin
from vecall.operations.import_export import ImportOptions, LineSource, LineTarget
from vecall.operations.stored_memories import StoredMemories
from vecall.service._admin_sync import SyncMemoryAdmin
from vecall.types import AppSummary, Imported, Page, UserSummary


class MemoryAdmin:
    """Operations on the whole file of a service: `MemoryService.admin`.

    Every method has a blocking twin of the same name on `sync`.
    """

    _admin: Admin
    _stored: StoredMemories

    def __init__(self, admin: Admin, stored: StoredMemories) -> None:
        """Share the parts of a service."""
        self._admin = admin
        self._stored = stored
        self._sync = SyncMemoryAdmin(admin, stored)

    def __repr__(self) -> str:
        """Return where they are."""
        return f"<{type(self).__name__} {self._admin.memory.place}>"

    @property
    def sync(self) -> SyncMemoryAdmin:
        """The same methods for callers without an event loop."""
        return self._sync

    async def backup(self, path: str | Path) -> None:
        """Copy a consistent state of the file while it is in use.

        Args:
            path: A file that does not exist yet; it appears when it is complete.

        Raises:
            ConfigError: The file exists, or its folder does not.
            StorageFullError: The disk has no room for the copy.
        """
        await run_async(self._admin.backup(path))

    async def export_jsonl(
        self,
        path: str | Path | LineTarget,
        *,
        vectors: bool = True,
        app_name: str | None = None,
        user_id: str | None = None,
        quarantined: bool = True,
    ) -> int:
        """Write memories to a new file of JSON lines; return their number.

        Args:
            path: A file that does not exist yet, or a text stream with `write`. Text
                written to a stream is ASCII.
            vectors: Include vectors, as base64 of float32.
            app_name: Only this app.
            user_id: Only this user.
            quarantined: Include quarantined memories, versions and buffered turns.

        Raises:
            ConfigError: The file exists.
        """
        return await run_async(
            self._admin.export_jsonl(path, vectors, app_name, user_id, quarantined)
        )

    async def import_jsonl(
        self,
        path: str | Path | LineSource,
        *,
        vectors: bool = True,
        restore: bool = False,
        app_name: str | None = None,
        user_id: str | None = None,
        gate: bool = False,
    ) -> Imported:
        """Import a file of `export_jsonl`; return the number of memories written.

        A stored memory is replaced only by a newer version. Memories that were deleted
        here stay deleted.

        Args:
            path: The file, or a stream of bytes with `readline`.
            vectors: Use the file's vectors; otherwise memories are embedded again.
            restore: Also import memories that were deleted here.
            app_name: Refuse memories of other apps. Pass both names if the export comes
                from a user: an export can name any app and user.
            user_id: Refuse memories of other users; needs `app_name`.
            gate: Call `on_write` with every memory, former version and buffered turn.
                Those it rejects are omitted, those it quarantines are quarantined. The
                result counts both. Memories that were quarantined in the export stay
                quarantined.

        Raises:
            ConfigError: `gate` is true, but the service has no `on_write`.
            WriteHookError: `on_write` failed; earlier lines are imported.
            InvalidArgumentError: An invalid line, or one of another app or user;
                earlier lines are imported.
            EmbeddingMismatchError: The vectors come from another model.
        """
        return await run_async(
            self._admin.import_jsonl(
                path, ImportOptions(vectors, restore, app_name, user_id, gate)
            )
        )

    async def purge(self) -> int:
        """Erase deleted data from the file; return the number of bytes freed.

        Rewrites the file, and returns unused space to the disk. Writers of all
        processes wait meanwhile; searches continue. Backups and exports are not purged.

        Raises:
            BusyError: A reader held an old snapshot of the file; purge again.
            StorageFullError: The disk has no room to rewrite the file.
        """
        return await run_async(self._admin.purge())

    async def reembed(self, embedder: EmbedderLike) -> int:
        """Move the file to another embedding model; return how many were embedded.

        Searches use the old vectors until all new ones are stored. Then this service
        uses the new embedder. Other processes must be restarted with it. Until then
        they search newly loaded memories by words, and their adds are refused. After an
        interruption, another call continues.

        Args:
            embedder: The embedder to move to.

        Raises:
            EmbedderError: The embedder failed; call again to continue.
        """
        return await run_async(self._admin.reembed(embedder))

    async def stats(self) -> dict[str, Any]:
        """Return counts over the whole file: users, sessions, memories, bytes."""
        return await run_async(self._admin.stats())

    async def list_apps(
        self, *, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Page[AppSummary]:
        """Return the apps that have memories, with counts, in order of their names.

        Users whose names a purge has hidden are not counted, nor found by a prefix.

        Args:
            prefix: Only apps whose names begin with this text.
            after: Only apps after this one: the `next` of the previous page.
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that.

        Returns:
            A list with the attribute `next`, which is None at the end.

        Raises:
            InvalidArgumentError: An invalid name or limit.
        """
        return await run_async(self._admin.list_apps(prefix, after, limit))

    async def list_users(
        self,
        *,
        app_name: str,
        prefix: str = "",
        after: str | None = None,
        limit: int | None = None,
    ) -> Page[UserSummary]:
        """Return the users of an app who have memories, in order of their names.

        The order is that of Unicode code points. Memories that have expired count until
        the maintenance deletes them.

        Args:
            app_name: The app.
            prefix: Only users whose names begin with this text.
            after: Only users after this one: the `next` of the previous page.
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that.

        Returns:
            A list with the attribute `next`, which is None at the end.

        Raises:
            InvalidArgumentError: An invalid name or limit.
        """
        return await run_async(self._admin.list_users(app_name, prefix, after, limit))

    async def warm(self, *, app_name: str, user_id: str) -> None:
        """Load a user's memories, so that the first search does not wait."""
        await run_async(self._admin.warm(app_name, user_id))

    async def run_due(self) -> int:
        """Run the background maintenance now.

        It makes memories of sessions that are due and deletes expired memories.

        Returns:
            The number of deleted memories.
        """
        return await run_async(self._admin.run_due())

    async def delete_app(
        self, *, app_name: str, confirm: bool = False, forget: bool = False
    ) -> int:
        """Delete all memories of all users of an app; return their number.

        Each user is deleted in a transaction of its own. If the process ends meanwhile,
        call it again.

        Args:
            app_name: The app.
            confirm: Must be True.
            forget: As in `MemoryService.delete_user`.
        """
        return await run_async(self._stored.delete_app(app_name, confirm, forget))
