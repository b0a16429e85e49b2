"""Operations on a vector store: add, search, delete.

Each operation is a coroutine. It waits on an event loop or blocks, as its caller does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from vecall.clock import ExpiryClock
from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders import Vectors
from vecall.errors import ClosedError, EmbedderError
from vecall.filters.labels import passes
from vecall.index.embedding import EmbeddingQueue, embedded_text
from vecall.ingest.aligned_ids import Written, aligned
from vecall.ingest.call_metadata import CallMetadata, GivenMetadata, call_metadata
from vecall.ingest.conversation import Parted, parted_by_rewind
from vecall.ingest.drafts import (
    SessionHead,
    entry_drafts,
    memory_ids,
    require_some,
    turns_of,
)
from vecall.ingest.passages import each_draft
from vecall.lexical.tokenizer import has_word
from vecall.limits import Limits
from vecall.ranking.calibration import Calibration, cosine_signals, places
from vecall.ranking.options import Ranking
from vecall.search.confidence import descending
from vecall.search.query_vector import checked_query_vector
from vecall.services.vector_store_results import checked_results
from vecall.services.vector_store_rows import (
    from_hit,
    is_expired,
    scope_of_filter,
    to_metadata,
)
from vecall.store import Draft, EmbeddingModel, passage_id
from vecall.types import AddedIds, Filter, FilterLike, MemoryEntry, SearchMemoryResponse
from vecall.validation import (
    check_filter,
    check_min_similarity,
    check_name,
    check_offset,
    check_query,
    check_top_k,
)
from vecall.vector_store import (
    VectorSearchResult,
    VectorStore,
    VectorStoreFilter,
    has_method,
    needed_method,
)

T = TypeVar("T")

_log = logging.getLogger("vecall")

_BY_VECTORS = Ranking()
_GAP = 5  # the next passages to look for, after each that was there
_READERS = 4  # threads that parse arguments


class VectorStoreMemory:
    """A vector store, an embedder, and the threads on which they run."""

    def __init__(
        self,
        store: VectorStore,
        embedding: EmbeddingQueue,
        expiry_clock: ExpiryClock,
        *,
        top_k: int,
        min_similarity: float | None,
        ttl: float | None,
        include: frozenset[str] = frozenset(),
    ) -> None:
        """Use a store. The options are valid."""
        self.limits = Limits()
        self.expiry_clock = expiry_clock
        self.closed = False
        self.store = store
        self._embedding = embedding
        self._weights = Calibration.shipped().of_cosine()
        self._top_k = check_top_k(top_k, self.limits)
        self._min_similarity = (
            None if min_similarity is None else check_min_similarity(min_similarity)
        )
        self._ttl = ttl
        self.include = include
        """The parts of a turn to store besides its text: "thoughts", "calls"."""
        self._thread = PluginExecutor("vecall-vector-store")
        self._reader = PluginExecutor("vecall-reader", _READERS)
        self.changed: Callable[[str, str, list[Draft]], None] = lambda *_: None
        """Called with the app, the user and the drafts after each write."""
        self._warned = False

    async def add_turns(
        self,
        app: str,
        user: str,
        events: list[Any],
        session_id: str | None,
        scope: CallMetadata,
    ) -> AddedIds:
        """Store turns, and delete those that a rewind among them removed."""
        scope = scope._replace(include=self.include)
        turns = await self.read(
            turns_of, events, session_id, scope, self.limits, in_slices
        )
        require_some(turns.given)
        self.check_ttl(turns.drafts)
        await self.take_back(app, user, turns.taken_back)
        ids = await self.add_drafts(app, user, turns.drafts)
        return aligned(turns.given, Written(ids, {}))

    async def add_entries(
        self,
        app: str,
        user: str,
        entries: list[Any],
        metadata: GivenMetadata,
    ) -> AddedIds:
        """Store explicit memories."""
        scope = call_metadata(metadata, app, user)
        given = await self.read(entry_drafts, in_slices(entries), scope, self.limits)
        ids = await self.add_drafts(app, user, each_draft(given))
        return aligned(given, Written(ids, {}))

    async def add_drafts(
        self, app: str, user: str, drafts: Sequence[Draft]
    ) -> list[str]:
        """Embed and store; return the ids. `close` waits for calls in progress.

        Raises:
            ConfigError: A draft has a `ttl`, and the store cannot delete.
            EmbedderError: The embedder failed; nothing was stored.
        """
        self.check_ttl(drafts)
        texts = [embedded_text(draft.author, draft.text) for draft in drafts]
        vectors = await self._embedding.embed_texts(app, user, texts)
        if None in vectors:
            msg = (
                "the embedder returned a zero vector, which a vector store cannot hold"
            )
            raise EmbedderError(msg)
        wall, now = self.expiry_clock.wall(), self.expiry_clock.now()

        async def store() -> None:
            for draft, vector in zip(drafts, vectors, strict=True):
                ttl = self._ttl if draft.ttl is None else draft.ttl
                embedding = np.frombuffer(vector or b"", "<f4")
                metadata = to_metadata(app, user, replace(draft, ttl=ttl), wall, now)
                await self.store.upsert(draft.id, embedding, metadata)

        try:
            await self.run(store)
        finally:  # after an error some drafts may be stored
            self.changed(app, user, list(drafts))
        return [draft.id for draft in drafts]

    def check_ttl(self, drafts: Sequence[Draft]) -> None:
        """Raise ConfigError for a `ttl` if the store cannot delete."""
        if any(draft.ttl is not None for draft in drafts):
            needed_method(self.store, "delete", "ttl")

    async def counted(self, head: SessionHead) -> tuple[list[object], list[str]]:
        """Return the valid events, and the ids of those that a rewind removed."""
        parted: Parted = await self.read(parted_by_rewind, head.events, in_slices)
        return parted.counted, memory_ids(parted.taken_back, head.id)

    async def take_back(self, app: str, user: str, ids: Sequence[str]) -> None:
        """Delete stored turns that a rewind removed."""
        if not ids:
            return
        if has_method(self.store, "delete"):
            await self.delete(app, user, ids)
        elif not self._warned:
            self._warned = True
            _log.warning(
                "the vector store has no method delete: turns that a rewind took back "
                "stay in it if they were stored before"
            )

    async def search(
        self,
        app: str,
        user: str,
        query: str,
        top_k: int | None,
        min_similarity: float | None,
        filter_: FilterLike | None,
        vector: object,
        offset: object = 0,
    ) -> SearchMemoryResponse:
        """Find the memories nearest to a query, or to its vector."""
        self.check(app, user)
        check_query(query)
        count = self._top_k if top_k is None else check_top_k(top_k, self.limits)
        floor = (
            self._min_similarity
            if min_similarity is None
            else check_min_similarity(min_similarity)
        )
        conditions = check_filter(filter_ or Filter(), self.limits, by_metadata=True)
        scope = scope_of_filter(app, user, conditions, self.store)
        embedder = self._embedding.embedder
        model = EmbeddingModel(embedder.model_id, embedder.dimensions)
        given = checked_query_vector(vector, model, _BY_VECTORS)
        left_out = check_offset(offset)
        found = await self.near(scope, query, count + left_out, given)
        near = [each for each in found if floor is None or (each.score or 0.0) >= floor]
        return SearchMemoryResponse(near[left_out:])

    async def near(
        self,
        scope: VectorStoreFilter,
        query: str,
        count: int,
        vector: Vectors | None = None,
    ) -> list[MemoryEntry]:
        """Return the memories nearest to a query, with their scores, best first."""
        app, user = str(scope.app_name), str(scope.user_id)
        query = to_valid_utf8(query[: self.limits.max_query_chars])
        if vector is None and not has_word(query):
            return []
        if vector is None:
            vector = self._embedding.known_query(app, user, query)
        if vector is None:
            vector = await self._embedding.embed_query(app, user, query)
        if not vector.any():
            return []  # a zero vector has no direction
        hits = await self.run(partial(self._search, vector, count, scope))
        now = self.expiry_clock.wall()
        best = hits[0].score if hits else 0.0
        scores = [hit.score for hit in hits]
        chances = [
            self._weights.probability(cosine_signals(score, best, place))
            for score, place in zip(scores, places(scores), strict=True)
        ]
        found = [
            from_hit(hit, now, confidence)
            for hit, confidence in zip(hits, descending(chances, scores), strict=True)
        ]
        where = scope.where  # which a store may know only in part
        if where is None:
            return found

        async def passing() -> list[MemoryEntry]:
            return [e for e in found if passes(e, e.custom_metadata, where)]

        # Long lists in the metadata would hold an event loop up.
        return await (passing() if where.metadata is None else self.run(passing))

    async def delete(
        self, app: str, user: str, ids: Sequence[str], who: str = "delete"
    ) -> int:
        """Delete memories of a user; return how many existed.

        A store cannot say how many passages a turn has. With the first one go the
        others, also if some of them were deleted by themselves before, up to four in
        a row.

        Args:
            app: The app.
            user: The user.
            ids: The ids of the memories.
            who: The calling method, for the error message.

        Raises:
            ConfigError: The store cannot delete.
        """
        delete = needed_method(self.store, "delete", who)
        self._embedding.forget_texts(app, user)

        async def each() -> int:
            there = 0
            for id_ in ids:
                is_gone = bool(await delete(id_, app_name=app, user_id=user))
                there += is_gone
                number, last = 1, 1 + _GAP if is_gone else 1
                while number < last:  # the other passages of the turn
                    number += 1
                    part = passage_id(id_, number)
                    if await delete(part, app_name=app, user_id=user):
                        there += 1
                        last = number + _GAP
            return there

        return await self.run(each)

    async def delete_all(
        self, app: str, user: str, session_id: str | None, who: str
    ) -> int:
        """Delete the memories of a session or a user; return the number deleted.

        Raises:
            ConfigError: The store lacks the method that the deletion needs.
        """
        delete_many = needed_method(self.store, "delete_many", who)
        self._embedding.forget_texts(app, user)
        if session_id is None:
            self._embedding.forget_user(app, user)
        scope = VectorStoreFilter(app_name=app, user_id=user, session_id=session_id)
        return int(await self.run(lambda: delete_many(scope)))

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Parse arguments off the event loop."""
        work = partial(function, *args)
        result: T = await Join(self._reader.run(work, concurrent=False))
        return result

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run calls of the store on its event loop."""
        result: T = await Join(self._thread.run(work, concurrent=True))
        return result

    def check(self, app_name: object, user_id: object) -> None:
        """Raise for a closed service, and for invalid names."""
        self.check_open()
        check_name(app_name, "app_name", self.limits)
        check_name(user_id, "user_id", self.limits)

    def check_open(self) -> None:
        """Raise ClosedError after `close`."""
        if self.closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError if the store or the embedder is the caller."""
        self._embedding.thread.refuse_nested()
        self._thread.refuse_nested()
        self._reader.refuse_nested()

    def close(self) -> None:
        """Finish the calls in progress and end the threads."""
        self._reader.close()
        self._embedding.close()
        self._thread.close()

    async def _search(
        self, vector: Any, top_k: int, scope: VectorStoreFilter
    ) -> list[VectorSearchResult]:
        """Search until `top_k` memories are found that have not expired.

        Expired memories are deleted. If the store cannot delete, the search is repeated
        with a larger limit.
        """
        wanted = top_k
        deleted: set[str] = set()  # some stores return deleted rows for a while
        while True:
            rows = await self.store.search(vector, wanted, scope)
            hits = checked_results(rows, scope)
            now, wall = self.expiry_clock.now(), self.expiry_clock.wall()
            found = [hit for hit in hits if not is_expired(hit, now, wall)]
            if len(found) == len(hits):
                return found[:top_k]
            if has_method(self.store, "delete"):
                delete = needed_method(self.store, "delete", "search_memory")
                names = {"app_name": scope.app_name, "user_id": scope.user_id}
                new = [hit.id for hit in hits if is_expired(hit, now, wall)]
                new = [id_ for id_ in new if id_ not in deleted]
                for id_ in new:
                    await delete(id_, **names)
                deleted.update(new)
                if new:
                    continue
            limit = self.limits.max_top_k
            if len(found) >= top_k or len(rows) < wanted or wanted >= limit:
                return found[:top_k]
            wanted = min(2 * wanted, limit)
