"""MemoryService: the front door, on an event loop or blocking."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from vecall._blocking import SyncMemoryService
from vecall._memory import Memory
from vecall.config import Limits
from vecall.contract import BaseMemoryService
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.store import Durability
from vecall.types import (
    Content,
    Event,
    Filter,
    MemoryEntry,
    SearchMemoryResponse,
    Session,
)

T = TypeVar("T")

DEFAULT_MEMORY_BUDGET = 256 * 1024 * 1024


def _on_loop(future: Future[T]) -> Awaitable[T]:
    return asyncio.wrap_future(future)


class MemoryService(BaseMemoryService):
    """Long-term memory: durable in one file, searched in memory, one wall a user.

    Safe to share between threads and event loops. Every method has a blocking twin of
    the same name on `sync`.

    Args:
        path: The SQLite file that is the whole state, made if it is not there. Without
            one, or with ":memory:", nothing outlives the process.
        embedder: None searches by words alone; "local" uses the offline model of the
            extra vecall[local]; or any `Embedder` or function from texts to vectors.
            The first embedder given to a file becomes the file's.
        top_k: Memories in an answer, unless a search says otherwise.
        min_score: Floor on the cosine similarity in [-1, 1], inclusive; needs an
            embedder.
        durability: "full" syncs every write, so that it survives a power cut; "process"
            syncs at checkpoints, so that a write survives the end of the process but a
            power cut may take back the newest.
        memory_budget: Bytes for texts kept in memory.
        limits: How large requests may be.
        warn_raw: Warn that turns are embedded as they are, not as summaries.

    Raises:
        ConfigError: An argument that cannot be used, or a folder that does not exist.
        EmbeddingMismatchError: The file's vectors come from another model.
        IncompatibleFileError: Another program's file, or one of a newer vecall.
        CorruptFileError: The file is damaged.
        StorageError: The file cannot be opened or written.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedder: EmbedderLike = None,
        top_k: int = 5,
        min_score: float | None = None,
        durability: Durability = "full",
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        limits: Limits | None = None,
        warn_raw: bool = True,
    ) -> None:
        """Open the file, or make it."""
        chosen = resolve(embedder)
        if chosen is not None and warn_raw:
            warnings.warn(
                "turns are embedded as they are, without a summary; that is a fine "
                "choice, and warn_raw=False says that you made it",
                UserWarning,
                stacklevel=2,
            )
        self._memory = Memory(
            path,
            embedder=chosen,
            top_k=top_k,
            min_score=min_score,
            durability=durability,
            memory_budget=memory_budget,
            limits=limits or Limits(),
        )
        self.sync = SyncMemoryService(self._memory)

    @property
    def limits(self) -> Limits:
        """How large requests may be."""
        return self._memory.limits

    async def add_session_to_memory(
        self,
        session: Session | Mapping[str, Any] | object,
        *,
        restore: bool = False,
        replace: bool = False,
    ) -> list[str]:
        """Remember the turns of a session.

        An upsert: turns that are known already cost nothing, changed ones are replaced,
        and turns that are absent stay remembered. Turns without text are skipped.

        Args:
            session: A `Session`, a google-adk session, or a dict with app_name,
                user_id, id and events, in snake_case or camelCase.
            restore: Bring back turns that were deleted.
            replace: Also delete remembered turns of this session that are absent.

        Returns:
            The ids of the memories, in the order of the turns.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await self._memory.add_session(
            _on_loop, session, restore=restore, replace=replace
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any] | object],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
    ) -> list[str]:
        """Remember some turns, such as those that are new since the last call.

        Args:
            app_name: The app.
            user_id: The user.
            events: Turns in order, as in `add_session_to_memory`.
            session_id: Their session, if it is known.
            custom_metadata: JSON values stored with each; "ttl" (seconds, a timedelta
                or "3600s") makes them expire.
            restore: Bring back turns that were deleted.

        Returns:
            The ids of the memories, in the order of the turns.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await self._memory.add_events(
            _on_loop,
            app_name,
            user_id,
            events,
            session_id,
            custom_metadata,
            restore=restore,
        )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry | Content | object],
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
    ) -> list[str]:
        """Remember what was learned or decided, as strings or entries.

        Args:
            app_name: The app.
            user_id: The user.
            memories: Texts, or `MemoryEntry` objects or dicts that say more.
            custom_metadata: As in `add_events_to_memory`.
            restore: Bring back memories that were deleted.

        Returns:
            The ids of the memories, in order.

        Raises:
            InvalidArgumentError: A blank text or a bad field; nothing was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await self._memory.add_entries(
            _on_loop, app_name, user_id, memories, custom_metadata, restore=restore
        )

    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        min_confidence: float | None = None,
        filter: Filter | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query.

        Args:
            app_name: The app; results never cross it.
            user_id: The user; results never cross it.
            query: Any text; one without a word finds nothing and costs nothing.
            top_k: At most this many, instead of the service's default.
            min_score: Floor on the cosine similarity in [-1, 1], inclusive.
            min_confidence: Floor on the confidence; refused until one is calibrated.
            filter: Only memories of one session or time range.

        Returns:
            The memories, best first; an unknown user has none.

        Raises:
            InvalidArgumentError: top_k < 1, a bad name or filter.
            ConfigError: min_score without an embedder, or min_confidence.
            EmbedderError: The embedder failed.
            ClosedError: The service was closed.
        """
        return await self._memory.search(
            _on_loop, app_name, user_id, query, top_k, min_score, min_confidence, filter
        )

    async def get_memory(
        self, *, app_name: str, user_id: str, memory_id: str
    ) -> MemoryEntry:
        """Return one memory by its id.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await self._memory.get(_on_loop, app_name, user_id, memory_id)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user for good.

        A later ingest of the same turn does not bring it back. An unknown id, or None,
        deletes nothing.
        """
        await self._memory.delete(_on_loop, app_name, user_id, memory_id)

    async def warm(self, *, app_name: str, user_id: str) -> None:
        """Load a user's memories, so that the first search need not wait."""
        await self._memory.warm(_on_loop, app_name, user_id)

    async def stats(self) -> dict[str, Any]:
        """Return counts over the whole file: users, sessions, memories, bytes."""
        return await self._memory.stats(_on_loop)

    def close(self) -> None:
        """Finish pending writes and close the file. A second call does nothing."""
        self._memory.close()

    def __enter__(self) -> MemoryService:
        """Return the service; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    async def __aenter__(self) -> MemoryService:
        """Return the service; leaving the block closes it."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file, on another thread: it waits for what is being written."""
        await asyncio.to_thread(self.close)
