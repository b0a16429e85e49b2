"""Operations on a vector store, its buffered turns and its forget proposals."""

from __future__ import annotations

from typing import Any

from vecall.content import as_list, one_or_more
from vecall.ingest.call_metadata import GivenMetadata, call_metadata
from vecall.ingest.drafts import events_of
from vecall.services.vector_store_forgetting import VectorStoreForgetting
from vecall.services.vector_store_memory import VectorStoreMemory
from vecall.services.vector_store_sessions import VectorStoreSessions
from vecall.types import AddedIds
from vecall.validation import check_name


class VectorStoreOperations:
    """Checks arguments, and keeps store, buffered turns and proposals consistent."""

    def __init__(
        self, memory: VectorStoreMemory, sessions: VectorStoreSessions
    ) -> None:
        """Use a store and its observed sessions."""
        self.memory = memory
        self.sessions = sessions
        self.forgetting = VectorStoreForgetting(memory)
        memory.changed = self.forgetting.changed

    async def add_events(
        self,
        app_name: str,
        user_id: str,
        events: object,
        session_id: str | None,
        metadata: GivenMetadata,
        messages: object,
    ) -> AddedIds:
        """Store turns."""
        memory = self.memory
        memory.check(app_name, user_id)
        if session_id is not None:
            check_name(session_id, "session_id", memory.limits)
        scope = call_metadata(metadata, app_name, user_id)
        turns: list[Any] = as_list(events_of(events, messages), "events")
        return await memory.add_turns(app_name, user_id, turns, session_id, scope)

    async def add_entries(
        self,
        app_name: str,
        user_id: str,
        memories: object,
        metadata: GivenMetadata,
    ) -> AddedIds:
        """Store explicit memories."""
        self.memory.check(app_name, user_id)
        entries = one_or_more(memories, "memories")
        return await self.memory.add_entries(app_name, user_id, entries, metadata)

    async def delete(self, app_name: str, user_id: str, memory_id: str | None) -> None:
        """Delete one memory, and the buffered turn of the same id."""
        memory = self.memory
        memory.check(app_name, user_id)
        if memory_id is None:
            return
        id_ = check_name(memory_id, "memory_id", memory.limits)
        await memory.delete(app_name, user_id, [id_], "delete_memory")
        self.sessions.waiting.drop(app_name, user_id, {id_})

    async def delete_all(
        self, app_name: str, user_id: str, session_id: str | None
    ) -> int:
        """Delete a session or all of a user, including buffered turns."""
        memory = self.memory
        memory.check(app_name, user_id)
        who = "delete_user" if session_id is None else "delete_session"
        if session_id is not None:
            check_name(session_id, "session_id", memory.limits)
        count = await memory.delete_all(app_name, user_id, session_id, who)
        dropped = self.sessions.waiting.drop(app_name, user_id, None, session_id)
        return count + dropped

    async def confirm_forget(
        self, app_name: str, user_id: str, token: str, ids: object
    ) -> int:
        """Delete some or all proposed memories; return the number deleted."""
        count, gone = await self.forgetting.confirm(app_name, user_id, token, ids)
        self.sessions.waiting.drop(app_name, user_id, set(gone))
        return count
