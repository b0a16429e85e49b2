"""The blocking twin of MemoryService, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall._blocking_life import SyncLivingMemoryService
from vecall.concurrency.join import blocking, drive
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ConfigError
from vecall.ingest.drafts import events_of
from vecall.operations.admin import Maintenance
from vecall.operations.corrections import Life
from vecall.operations.sessions import Observing
from vecall.operations.transfer import ImportHow, LineSource, LineTarget
from vecall.operations.write_options import How, fact_how
from vecall.operations.writes import Asked, Memory
from vecall.ranking.options import Ranking
from vecall.scopes import Scope
from vecall.types import (
    AddedIds,
    Content,
    Event,
    FilterLike,
    Imported,
    MemoryEntry,
    SearchMemoryResponse,
    Session,
)


class SyncMemoryService(SyncLivingMemoryService):
    """The methods of `MemoryService` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(
        self,
        memory: Memory,
        maintenance: Maintenance,
        observing: Observing,
        life: Life,
    ) -> None:
        """Share a service's memory."""
        self._memory = memory
        self._maintenance = maintenance
        self._observing = observing
        self._life = life

    def add_session_to_memory(
        self,
        session: Session | Mapping[str, Any] | object,
        *,
        restore: bool = False,
        replace: bool = False,
        idempotency_key: str | None = None,
    ) -> AddedIds:
        """Remember the turns of a session."""
        how = How(restore, idempotency_key)
        return drive(
            self._observing.add_session(blocking, session, how, replace=replace)
        )

    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any] | object] | None = None,
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
        idempotency_key: str | None = None,
        messages: Sequence[Mapping[str, Any] | object] | None = None,
    ) -> AddedIds:
        """Remember some turns."""
        return drive(
            self._memory.add_events(
                blocking,
                app_name,
                user_id,
                events_of(events, messages),
                session_id,
                custom_metadata,
                How(restore, idempotency_key),
            )
        )

    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry | Content | object],
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool | None = None,
        idempotency_key: str | None = None,
        scope: Scope = "user",
    ) -> AddedIds:
        """Remember what was learned or decided."""
        return drive(
            self._memory.add_entries(
                blocking,
                app_name,
                user_id,
                memories,
                custom_metadata,
                fact_how(restore, idempotency_key, scope),
            )
        )

    def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        min_confidence: float | None = None,
        filter: FilterLike | None = None,
        ranking: Ranking | None = None,
        explain: bool = False,
        scopes: Sequence[Scope] | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query."""
        asked = Asked(
            app_name,
            user_id,
            query,
            top_k,
            min_score,
            min_confidence,
            filter,
            ranking,
            explain,
            scopes,
            vector,
        )
        return drive(self._memory.search(blocking, asked))

    def get_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> MemoryEntry:
        """Return one memory by its id."""
        return drive(
            self._maintenance.get(blocking, app_name, user_id, memory_id, scope)
        )

    def mark_used(
        self, *, app_name: str, user_id: str, memory_ids: Sequence[str]
    ) -> int:
        """Count that memories were put to use; return how many."""
        return drive(
            self._maintenance.mark_used(blocking, app_name, user_id, memory_ids)
        )

    def expand_session(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        before: int = 2,
        after: int = 2,
    ) -> list[MemoryEntry]:
        """Return a memory with the turns told around it, in their order."""
        return drive(
            self._maintenance.expand_session(
                blocking, app_name, user_id, memory_id, before, after
            )
        )

    def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
        scope: Scope = "user",
    ) -> None:
        """Delete one memory of this user for good."""
        drive(self._maintenance.delete(blocking, app_name, user_id, memory_id, scope))

    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> int:
        """Delete for good what was remembered of one session; return how many."""
        return drive(
            self._maintenance.delete_session(blocking, app_name, user_id, session_id)
        )

    def delete_where(
        self, *, app_name: str, user_id: str, filter: FilterLike, scope: Scope = "user"
    ) -> int:
        """Delete for good the memories of this user that a filter lets through."""
        return drive(
            self._maintenance.delete_where(blocking, app_name, user_id, filter, scope)
        )

    def delete_user(
        self,
        *,
        app_name: str,
        user_id: str,
        forget: bool = False,
        scope: Scope = "user",
    ) -> int:
        """Delete all memories of a user; return how many."""
        return drive(
            self._maintenance.delete_user(blocking, app_name, user_id, forget, scope)
        )

    def delete_app(
        self, *, app_name: str, confirm: bool = False, forget: bool = False
    ) -> int:
        """Delete all memories of all users of an app; return how many."""
        return drive(self._maintenance.delete_app(blocking, app_name, confirm, forget))

    def purge(self) -> int:
        """Rewrite the file without what was deleted; return the bytes freed."""
        return drive(self._maintenance.purge(blocking))

    def backup(self, path: str | Path) -> None:
        """Copy the file, consistently, while it is in use."""
        drive(self._maintenance.backup(blocking, path))

    def export(
        self,
        path: str | Path | LineTarget,
        *,
        vectors: bool = True,
        app_name: str | None = None,
        user_id: str | None = None,
        quarantined: bool = True,
    ) -> int:
        """Write memories to a new file of JSON lines; return how many."""
        return drive(
            self._maintenance.export(
                blocking, path, vectors, app_name, user_id, quarantined
            )
        )

    def import_(
        self,
        path: str | Path | LineSource,
        *,
        vectors: bool = True,
        restore: bool = False,
        app_name: str | None = None,
        user_id: str | None = None,
        gate: bool = False,
    ) -> Imported:
        """Read a file that `export` wrote; return how many memories were written."""
        return drive(
            self._maintenance.import_(
                blocking, path, ImportHow(vectors, restore, app_name, user_id, gate)
            )
        )

    def reembed(self, embedder: EmbedderLike) -> int:
        """Move the file to another embedding model; return how many were embedded."""
        chosen = resolve(embedder)
        if chosen is None:
            msg = "embedder: expected the one to move to"
            raise ConfigError(msg)
        return drive(self._maintenance.reembed(blocking, chosen))

    def warm(self, *, app_name: str, user_id: str) -> None:
        """Load a user's memories ahead of the first search."""
        drive(self._maintenance.warm(blocking, app_name, user_id))

    def stats(self) -> dict[str, Any]:
        """Return counts over the whole file."""
        return drive(self._maintenance.stats(blocking))
