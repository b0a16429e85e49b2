"""Writes, for the asynchronous and the blocking service.

Every operation is a coroutine that waits for other threads only through `Join`.
`MemoryService` waits on the running event loop; its blocking twin blocks. The
operations hold no state of an event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vecall.concurrency.join import Join
from vecall.content import as_list, one_or_more
from vecall.errors import (
    ClosedError,
    EmbeddingMismatchError,
)
from vecall.ingest.aligned_ids import Written, aligned, stored_count
from vecall.ingest.call_metadata import CallMetadata, GivenMetadata, call_metadata
from vecall.ingest.conversation import parted_by_rewind
from vecall.ingest.drafts import (
    Given,
    GivenTurns,
    SessionHead,
    entry_drafts,
    memory_ids,
    require_some,
    session_head,
    turns_of,
)
from vecall.ingest.passages import each_draft
from vecall.operations.draft_vectors import Looked, give_vectors
from vecall.operations.own_vectors import give_own_vectors
from vecall.operations.runtime import Runtime
from vecall.operations.write_request import WriteRequest
from vecall.search.search_index import SearchIndex
from vecall.store import (
    AddMemories,
    Change,
    DeleteMemories,
    Draft,
    ForgottenKeyError,
)
from vecall.telemetry import observed
from vecall.types import (
    AddedIds,
    LeftOutReason,
)
from vecall.validation import check_name, checked_bool


class Writes(Runtime):
    """Adds memories to one open file."""

    @observed("add_session", stored_count)
    async def add_session(
        self, session: object, request: WriteRequest, *, replace: bool
    ) -> AddedIds:
        """Store the turns of a session."""
        self.check_open()
        checked_bool(replace, "replace")
        head = session_head(session, self.limits)
        key = self.key(head.app, head.user, write=True)
        scope = CallMetadata({}, app=head.app, user=head.user)
        valid_turns, taken_back = turns = await self._turns(head.events, head.id, scope)
        require_some(valid_turns)
        await self.take_back(key, taken_back)
        if replace:
            request = request._replace(replace_session=head.id)
        written = await self.added(*key, turns.drafts, request)
        return await self._aligned(valid_turns, written)

    @observed("add_events", stored_count)
    async def add_events(
        self,
        app_name: str,
        user_id: str,
        events: object,
        session_id: str | None,
        metadata: GivenMetadata,
        request: WriteRequest,
    ) -> AddedIds:
        """Store turns."""
        key = self.key(app_name, user_id, request.scope, write=True)
        if session_id is not None:
            check_name(session_id, "session_id", self.limits)
        scope = call_metadata(metadata, app_name, user_id)
        raw = as_list(events, "events")
        valid_turns, taken_back = turns = await self._turns(raw, session_id, scope)
        require_some(valid_turns)
        await self.take_back(key, taken_back)
        request = request._replace(requested_by=(app_name, user_id))
        written = await self.added(*key, turns.drafts, request)
        return await self._aligned(valid_turns, written)

    @observed("add_entries", stored_count)
    async def add_entries(
        self,
        app_name: str,
        user_id: str,
        memories: object,
        metadata: GivenMetadata,
        request: WriteRequest,
        vectors: object = None,
    ) -> AddedIds:
        """Store explicit memories."""
        key = self.key(app_name, user_id, request.scope, write=True)
        scope = call_metadata(metadata, app_name, user_id)
        raw = one_or_more(memories, "memories")
        given = await self.read_through(entry_drafts, raw, scope, self.limits)
        give_own_vectors(given, vectors, self.search_index.model)
        request = request._replace(requested_by=(app_name, user_id))
        written = await self.added(*key, each_draft(given), request)
        return await self._aligned(given, written)

    async def read_turns(self, raw_turns: list[Any], head: SessionHead) -> list[Given]:
        """Return the drafts of turns; the caller has removed rewound turns."""
        scope = CallMetadata({}, app=head.app, user=head.user)
        return (await self._turns(raw_turns, head.id, scope)).given

    async def counted(
        self, key: tuple[str, str], events: list[Any], session_id: str
    ) -> list[Any]:
        """Return the valid events; delete those that a rewind removed."""
        parted = await self.read_through(parted_by_rewind, events)
        await self.take_back(key, memory_ids(parted.taken_back, session_id))
        return parted.counted

    async def take_back(self, key: tuple[str, str], ids: Sequence[str]) -> None:
        """Delete stored turns that a rewind of the session removed."""
        if not ids:
            return
        embedding = self.search_index.embedding
        if embedding is not None:
            embedding.forget_texts(*key)
        await Join(self.storage.submit(DeleteMemories(*key, ids, rights=self.rights)))

    async def _turns(
        self, raw_turns: list[Any], session_id: str | None, scope: CallMetadata
    ) -> GivenTurns:
        scope = scope._replace(include=self.include)
        return await self.read_through(
            turns_of, raw_turns, session_id, scope, self.limits
        )

    async def add_drafts(
        self, app: str, user: str, drafts: list[Draft], request: WriteRequest
    ) -> list[str]:
        """Review, embed and write drafts; return the ids of the stored memories."""
        return (await self.added(app, user, drafts, request)).ids

    async def added(
        self, app: str, user: str, drafts: list[Draft], request: WriteRequest
    ) -> Written:
        """Review, embed and write drafts; return what was written."""
        checked_bool(request.restore, "restore")
        if request.idempotency_key is not None:
            check_name(request.idempotency_key, "idempotency_key", self.limits)
        refused: dict[str, LeftOutReason] = {}
        if not request.reviewed:
            proposed = drafts
            drafts = await self.gate.review(
                *(request.requested_by or (app, user)),
                drafts,
                scope=request.scope,
                explicit=request.consumed_turns is None and not request.folds,
            )
            if drafts is not proposed:
                passed = {draft.id for draft in drafts}
                refused = {
                    draft.id: "rejected" for draft in proposed if draft.id not in passed
                }
        if (
            not drafts
            and request.replace_session is None
            and request.consumed_turns is None
        ):
            return Written([], refused)
        while True:
            with self.begin_use() as search_index:
                try:
                    written = await self._write(
                        search_index, app, user, drafts, request
                    )
                    if not refused:
                        return written
                    return written._replace(left_out={**refused, **written.left_out})
                except EmbeddingMismatchError:
                    if search_index is self.search_index or any(
                        draft.has_own_vector for draft in drafts
                    ):
                        raise
            # The model of the file changed during the write: embed again.
            for draft in drafts:
                draft.vec = None

    async def _write(
        self,
        search_index: SearchIndex,
        app: str,
        user: str,
        drafts: list[Draft],
        request: WriteRequest,
        *,
        trusting: bool = True,
    ) -> Written:
        """Embed and write.

        With `trusting`, a call whose idempotency key was used embeds nothing. Its key
        may have expired when the transaction runs. Then the write is repeated without
        `trusting`.
        """
        loaded = search_index.partitions.version_of((app, user))
        looked = Looked(False, None if loaded is None else loaded[0])
        model = None
        embedding = search_index.embedding
        if embedding is not None and search_index.model is not None:
            model = search_index.model.id
        if embedding is not None and model is not None and embedding.can_embed:
            # A restored turn may have another text than its correction in the file.
            embed_all = request.restore or request.corrects
            looked = await give_vectors(
                search_index,
                self.storage,
                app,
                user,
                drafts,
                embed_all,
                request.restore_facts,
                request.idempotency_key if trusting else None,
            )
        job = AddMemories(
            app,
            user,
            drafts,
            model,
            request.restore,
            request.replace_session,
            request.idempotency_key,
            self.ttl,
            self.history_ttl,
            self.quota,
            request.corrects,
            request.consumed_turns,
            request.folds,
            request.restore_facts,
            looked.is_repeat,
            request.if_absent,
            request.if_version,
            looked.part,
            self.rights,
        )
        try:
            change: Change = await Join(self.storage.submit(job))
        except ForgottenKeyError:
            return await self._write(
                search_index, app, user, drafts, request, trusting=False
            )
        return Written(list(change.ids), {**job.left_out}, job.edited, job.folded)

    async def _aligned(self, items: list[Any], written: Written) -> AddedIds:
        try:
            return await self.read_through(aligned, items, written)
        except ClosedError:  # the memories are stored, but the service was closed
            return aligned(items, written)
