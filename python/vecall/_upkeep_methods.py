"""The methods of `MemoryService` beside adding and searching."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vecall.concurrency.event_loop import on_loop
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ConfigError
from vecall.operations.admin import Maintenance
from vecall.operations.transfer import ImportHow, LineSource, LineTarget
from vecall.scopes import Scope
from vecall.types import FilterLike, Imported, MemoryEntry


class MaintainedMemoryService:
    """Getting, deleting, copying, moving, counting."""

    _maintenance: Maintenance

    async def get_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> MemoryEntry:
        """Return one memory by its id.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await self._maintenance.get(
            on_loop(), app_name, user_id, memory_id, scope
        )

    async def mark_used(
        self, *, app_name: str, user_id: str, memory_ids: Sequence[str]
    ) -> int:
        """Count that memories were put to use, for example in an answer.

        Each counts one use more, and now as the time of its last use. A change of its
        text, or a session that is ingested again, keeps both.

        Args:
            app_name: The app.
            user_id: The user.
            memory_ids: Their ids, as a search gave them. One that comes twice counts
                once; what this user does not have, or no longer, is ignored.

        Returns:
            How many memories were marked.

        Raises:
            InvalidArgumentError: A bad name or id; nothing was marked.
            StorageFullError: The disk is full; nothing was marked.
        """
        return await self._maintenance.mark_used(
            on_loop(), app_name, user_id, memory_ids
        )

    async def expand_session(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        before: int = 2,
        after: int = 2,
    ) -> list[MemoryEntry]:
        """Return a memory with the turns told around it, in their order.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: A memory that a search returned.
            before: At most so many turns of its session before it.
            after: At most so many after it.

        Returns:
            The memory alone where it is not a turn of a session.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await self._maintenance.expand_session(
            on_loop(), app_name, user_id, memory_id, before, after
        )

    async def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
        scope: Scope = "user",
    ) -> None:
        """Delete one memory of this user for good.

        A later ingest of the same turn does not bring it back. An unknown id, or None,
        deletes nothing.
        """
        await self._maintenance.delete(on_loop(), app_name, user_id, memory_id, scope)

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str
    ) -> int:
        """Delete for good what was remembered of one session; return how many.

        A later ingest of the session does not bring these memories back.
        """
        return await self._maintenance.delete_session(
            on_loop(), app_name, user_id, session_id
        )

    async def delete_where(
        self, *, app_name: str, user_id: str, filter: FilterLike, scope: Scope = "user"
    ) -> int:
        """Delete for good the memories of this user that a filter lets through.

        Returns:
            How many.

        Raises:
            InvalidArgumentError: A bad filter, or one without a condition.
        """
        return await self._maintenance.delete_where(
            on_loop(), app_name, user_id, filter, scope
        )

    async def delete_user(
        self,
        *,
        app_name: str,
        user_id: str,
        forget: bool = False,
        scope: Scope = "user",
    ) -> int:
        """Delete all memories of a user; return how many.

        Args:
            app_name: The app.
            user_id: The user.
            forget: Also forget that there was such a user, and which memories were
                deleted. If their sessions are told again, they are remembered again.
            scope: Which memories: the user's own, or of a place beside them.
        """
        return await self._maintenance.delete_user(
            on_loop(), app_name, user_id, forget, scope
        )

    async def delete_app(
        self, *, app_name: str, confirm: bool = False, forget: bool = False
    ) -> int:
        """Delete all memories of all users of an app; return how many.

        Users go one by one, each in one transaction. If the process ends meanwhile,
        call it again.

        Args:
            app_name: The app.
            confirm: Must be True.
            forget: As in `delete_user`.
        """
        return await self._maintenance.delete_app(on_loop(), app_name, confirm, forget)

    async def purge(self) -> int:
        """Rewrite the file so that nothing deleted is left in it; return bytes freed.

        Also gives the disk back what deletions freed inside the file. Writers of all
        processes wait meanwhile, searches go on. Copies that you made are yours.

        Raises:
            BusyError: Somebody kept on reading an old state; purge again.
            StorageFullError: The disk has no room to rewrite the file.
        """
        return await self._maintenance.purge(on_loop())

    async def backup(self, path: str | Path) -> None:
        """Copy the file, consistently, while it is in use.

        Args:
            path: A file that does not exist yet; it appears when it is whole.

        Raises:
            ConfigError: There is a file of that name, or no such folder.
            StorageFullError: The disk has no room for it.
        """
        await self._maintenance.backup(on_loop(), path)

    async def export(
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
        return await self._maintenance.export(
            on_loop(), path, vectors, app_name, user_id, quarantined
        )

    async def import_(
        self,
        path: str | Path | LineSource,
        *,
        vectors: bool = True,
        restore: bool = False,
        app_name: str | None = None,
        user_id: str | None = None,
        gate: bool = False,
    ) -> Imported:
        """Read a file that `export` wrote; return how many memories were written.

        What is there already stays unless the export has a newer version; what was
        deleted here stays deleted.

        Args:
            path: The file, or a stream of bytes that has `readline`.
            vectors: Take its vectors; without them memories are embedded anew.
            restore: Bring back what was deleted here.
            app_name: Only this app's; an export of another one is refused. Give both
                names where the export comes from a user: an export can name anybody.
            user_id: Only this user's; needs `app_name`.
            gate: Ask `on_write` about every memory, former version and waiting turn.
                What it refuses is left out, and what it quarantines is quarantined;
                the count that is returned says how many. What was quarantined there
                stays so.

        Raises:
            ConfigError: `gate` is asked for, and the service has no `on_write`.
            WriteHookError: `on_write` failed; lines before are imported.
            InvalidArgumentError: A line that no export has, or of another app or user;
                those before it are imported.
            EmbeddingMismatchError: The vectors come from another model.
        """
        return await self._maintenance.import_(
            on_loop(), path, ImportHow(vectors, restore, app_name, user_id, gate)
        )

    async def reembed(self, embedder: EmbedderLike) -> int:
        """Move the file to another embedding model; return how many were embedded.

        Searches go on with the old vectors until all new ones are there, then this
        service uses the new embedder. Other processes must be restarted with it; until
        then they search by words what they load, and their adds are refused. After an
        interruption another call goes on where the first one stopped.

        Raises:
            EmbedderError: The embedder failed; call again to go on.
        """
        wait = on_loop()
        chosen = resolve(embedder)
        if chosen is None:
            msg = "embedder: expected the one to move to"
            raise ConfigError(msg)
        return await self._maintenance.reembed(wait, chosen)

    async def warm(self, *, app_name: str, user_id: str) -> None:
        """Load a user's memories, so that the first search need not wait."""
        await self._maintenance.warm(on_loop(), app_name, user_id)

    async def stats(self) -> dict[str, Any]:
        """Return counts over the whole file: users, sessions, memories, bytes."""
        return await self._maintenance.stats(on_loop())
