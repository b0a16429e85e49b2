"""Operations on a vector store: add, search, delete.

Each operation is a coroutine. It waits on an event loop or blocks, as its caller does.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Real
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from vecall.clock import ExpiryClock
from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders import Vectors
from vecall.errors import (
    ClosedError,
    EmbedderError,
    InvalidArgumentError,
    InvalidMemoryError,
    NotFoundError,
)
from vecall.filters.metadata import asks_times, passes
from vecall.index.embedding import EmbeddingQueue, embedded_text
from vecall.ingest.drafts import (
    Parted,
    SessionHead,
    Written,
    aligned,
    entry_drafts,
    memory_ids,
    parted_by_rewind,
    require_some,
    turns_of,
)
from vecall.ingest.fields import CallMetadata, GivenMetadata, call_metadata
from vecall.ingest.passages import each_draft
from vecall.lexical import content_words
from vecall.lexical.tokenizer import has_word
from vecall.limits import Limits
from vecall.operations.stored_memories import Match, chosen_ids, near_best
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import Ranking
from vecall.search.searcher import checked_query_vector, entry_from_row
from vecall.store import LASTS_S, Draft, EmbeddingModel, Row, passage_id
from vecall.types import (
    AddedIds,
    Filter,
    FilterLike,
    ForgetProposal,
    MemoryEntry,
    SearchMemoryResponse,
)
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
    applies_where,
    has_method,
    needed_method,
)

_FIELDS = (
    "author event kind source trust text content meta importance valid_until supersedes"
).split()
"""The fields of a draft in a row's metadata, besides those that filters use."""


def to_metadata(
    app: str, user: str, draft: Draft, wall: float, now: float
) -> dict[str, Any]:
    """Return a memory as strings and numbers; `now` is of the expiry clock."""
    found = {name: getattr(draft, name) for name in _FIELDS}
    found |= {"session_id": draft.session, "timestamp": draft.ts}
    found["expires_at"] = None if draft.ttl is None else now + draft.ttl
    given = {name: value for name, value in found.items() if value is not None}
    return {**given, "app_name": app, "user_id": user, "created_at": wall}


def from_hit(
    hit: VectorSearchResult, now: float, confidence: float | None
) -> MemoryEntry:
    """Return the memory of a row, with its scores."""
    known = hit.metadata
    values: dict[str, Any] = {name: known.get(name) for name in _FIELDS}
    row = Row(
        rid=0,
        id=hit.id,
        session=known.get("session_id"),
        pos=None,
        ts=known.get("timestamp"),
        created_at=known["created_at"],
        expires_at=known.get("expires_at"),
        **values,
    )
    return entry_from_row(row, now, hit.score, hit.score, confidence)


def is_expired(hit: VectorSearchResult, now: float, wall: float) -> bool:
    """Whether a row has expired, by the times of `to_metadata`."""
    expires_at, valid_until = map(hit.metadata.get, ("expires_at", "valid_until"))
    return (expires_at is not None and expires_at <= now) or (
        valid_until is not None and valid_until <= wall
    )


def scope_of_filter(
    app: str, user: str, condition: Filter, store: object
) -> VectorStoreFilter:
    """Return the filter of a store's search, for one user."""
    if condition.not_id is not None:
        msg = "filter.not_id: a vector store cannot leave out rows by their ids"
        raise InvalidArgumentError(msg)
    if asks_times(condition.metadata):
        msg = "filter.metadata: a vector store has no $timestamp and no $updated_at"
        raise InvalidArgumentError(msg)
    where = replace(condition, session_id=None, after=None, before=None)
    given = [f.name for f in fields(where) if getattr(where, f.name) is not None]
    if given and not applies_where(store):
        raise InvalidArgumentError(
            f"filter.{given[0]}: this vector store filters by session and time alone; "
            "one with applies_where = True also filters by labels and metadata"
        )
    return VectorStoreFilter(
        app_name=app,
        user_id=user,
        session_id=condition.session_id,
        after=condition.after,
        before=condition.before,
        where=where if given else None,
    )


_ROUNDING = 1e-3  # of a cosine that a store computes from few bits
_NO_ROWS = "what is not a memory: expected a list of VectorSearchResult"
_TIMES = ("created_at", "timestamp", "expires_at", "valid_until")


def checked_results(
    given: object, scope: VectorStoreFilter
) -> list[VectorSearchResult]:
    """Return the rows that a store found for one user: each id once, best first.

    A cosine that rounding put beyond [-1, 1] is limited to it. Rows of equal score stay
    in the store's order.
    """
    if not isinstance(given, list | tuple):
        _refuse_store_result(_NO_ROWS)
    found: dict[str, VectorSearchResult] = {}
    for hit in given:
        checked = _checked_hit(hit, scope)
        known = found.get(checked.id)
        if known is None or known.score < checked.score:
            found[checked.id] = checked
    return sorted(found.values(), key=lambda hit: -hit.score)


def _checked_hit(hit: object, scope: VectorStoreFilter) -> VectorSearchResult:
    if not isinstance(hit, VectorSearchResult):
        _refuse_store_result(_NO_ROWS)
    name, metadata, score = cast(
        "tuple[object, ...]", (hit.id, hit.metadata, hit.score)
    )
    if not isinstance(name, str) or not name or not isinstance(metadata, dict):
        _refuse_store_result("a row that is not a memory: expected an id and metadata")
    owner = metadata.get("app_name"), metadata.get("user_id")
    if owner != (scope.app_name, scope.user_id):
        _refuse_store_result("a row whose metadata has another user's or app's name")
    if not isinstance(metadata.get("text"), str) or "created_at" not in metadata:
        _refuse_store_result(
            "a row that is not a memory: expected a text and a time in metadata"
        )
    for time in _TIMES:
        if metadata.get(time) is not None and not _is_finite(metadata[time]):
            _refuse_store_result(
                f"a row that is not a memory: {time} is not a finite number"
            )
    if not _is_finite(score) or not abs(cast("float", score)) <= 1.0 + _ROUNDING:
        _refuse_store_result("a row whose score is not a cosine in [-1, 1]")
    cosine = min(max(float(cast("float", score)), -1.0), 1.0)
    return hit if cosine is score else replace(hit, score=cosine)


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _refuse_store_result(what: str) -> NoReturn:
    raise InvalidMemoryError(f"the vector store returned {what}")


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
        self._law = Calibration.shipped().of_cosine().law()
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
        self, app: str, user: str, entries: list[Any], metadata: GivenMetadata
    ) -> AddedIds:
        """Store explicit memories."""
        scope = call_metadata(metadata, app, user)
        given = await self.read(entry_drafts, in_slices(entries), scope, self.limits)
        ids = await self.add_drafts(app, user, each_draft(given))
        return aligned(given, Written(ids, {}))

    async def add_drafts(
        self, app: str, user: str, drafts: Sequence[Draft]
    ) -> list[str]:
        """Embed and store; return the ids. `close` waits for calls in progress."""
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
        if vector is not None:
            vector = checked_query_vector(vector, model, _BY_VECTORS)
        left_out = check_offset(offset)
        found = await self.near(scope, query, count + left_out, vector)
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
        scores = [(hit.score, 0.0, 0.0, 1.0, math.nan, 0) for hit in hits]
        rated = self._law.rate(scores, best, 0.0)
        found = [
            from_hit(hit, now, confidence)
            for hit, (*_, confidence) in zip(hits, rated, strict=True)
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
        """Delete the memories of a session or a user; return the number deleted."""
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
            raise ClosedError("the memory service is closed")

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


# Forgetting in two steps over a vector store: propose, then confirm.
#
# Proposals are in RAM. Their number is limited.

_SAMPLE = 50  # nearest memories, to estimate the user's usual similarity
_MAX_USER_PROPOSALS = 20
_MAX_PROPOSALS = 1_000


@dataclass(frozen=True, slots=True)
class _Proposal:
    owner: tuple[str, str]
    shown: dict[str, str]  # texts by id
    expires_at: float


class VectorStoreForgetting:
    """The proposals of one service. Thread-safe."""

    def __init__(self, memory: VectorStoreMemory) -> None:
        """Create an object without proposals."""
        self._memory = memory
        self._lock = threading.Lock()
        self._proposals: OrderedDict[str, _Proposal] = OrderedDict()

    async def propose(
        self, app_name: str, user_id: str, query: str, top_k: int
    ) -> ForgetProposal:
        """Search for the memories to forget, and store them as a proposal."""
        memory = self._memory
        memory.check(app_name, user_id)
        needed_method(memory.store, "delete", "propose_forget")
        check_query(query)
        count = check_top_k(top_k, memory.limits)
        scope = VectorStoreFilter(app_name=app_name, user_id=user_id)
        found = await memory.near(scope, query, max(count, _SAMPLE))
        near = near_best(matches(query, found))
        meant = [each for each, is_near in zip(found, near, strict=True) if is_near]
        del meant[count:]
        expires_at = memory.expiry_clock.now() + LASTS_S
        if not meant:
            return ForgetProposal("", [], expires_at)
        shown = {str(each.id): each.text for each in meant}
        token = secrets.token_urlsafe(9)
        with self._lock:
            self._proposals[token] = _Proposal((app_name, user_id), shown, expires_at)
            self._drop_old()
        return ForgetProposal(token, meant, expires_at)

    async def confirm(
        self, app_name: str, user_id: str, token: str, ids: object
    ) -> tuple[int, list[str]]:
        """Delete some or all proposed memories; return the count and the ids."""
        memory = self._memory
        memory.check(app_name, user_id)
        check_name(token, "token", memory.limits)
        chosen = chosen_ids(ids, memory.limits)
        proposal = self._take((app_name, user_id), token, chosen)
        meant = list(proposal.shown) if chosen is None else chosen
        try:
            count = await memory.delete(app_name, user_id, meant, "confirm_forget")
        except BaseException:
            # Some memories may be deleted; the same token deletes the rest.
            with self._lock:
                self._proposals[token] = proposal
                self._proposals.move_to_end(token, last=False)
            raise
        return count, meant

    def changed(self, app: str, user: str, drafts: Sequence[Draft]) -> None:
        """Invalidate proposals of memories whose text has changed."""
        texts = {draft.id: draft.text for draft in drafts}
        with self._lock:
            for token, proposal in list(self._proposals.items()):
                shown = proposal.shown
                if proposal.owner == (app, user) and any(
                    texts.get(id_, text) != text for id_, text in shown.items()
                ):
                    del self._proposals[token]

    def _take(
        self, owner: tuple[str, str], token: str, chosen: Sequence[str] | None
    ) -> _Proposal:
        now = self._memory.expiry_clock.now()
        with self._lock:
            proposal = self._proposals.get(token)
            is_own = proposal is not None and proposal.owner == owner
            if proposal is None or not is_own or proposal.expires_at <= now:
                msg = "token: confirms nothing, or no longer; propose it again"
                raise NotFoundError(msg)
            if chosen is not None and not proposal.shown.keys() >= set(chosen):
                msg = "ids: expected ids of the memories that were proposed"
                raise InvalidArgumentError(msg)
            return self._proposals.pop(token)

    def _drop_old(self) -> None:
        now = self._memory.expiry_clock.now()
        _, newest = next(reversed(self._proposals.items()))
        for token, each in list(self._proposals.items()):
            if each.expires_at <= now:
                del self._proposals[token]
        known = self._proposals.items()
        own = [token for token, each in known if each.owner == newest.owner]
        for token in own[:-_MAX_USER_PROPOSALS]:
            del self._proposals[token]
        while len(self._proposals) > _MAX_PROPOSALS:
            self._proposals.popitem(last=False)


def matches(query: str, found: Sequence[MemoryEntry]) -> list[Match]:
    """Return how well memories match a query, by words and by cosine.

    The user's usual similarity is the lowest cosine of the memories found. It is capped
    at half of the best cosine, because all memories of a user may be similar.
    """
    if not found:
        return []
    query_words = set(content_words(query))
    cosines = [each.similarity or 0.0 for each in found]
    usual = min(*cosines, max(cosines) / 2)
    return [
        Match(
            len(query_words & set(content_words(each.text))) / max(len(query_words), 1),
            cosine,
            max(cosine - usual, 0.0),
        )
        for each, cosine in zip(found, cosines, strict=True)
    ]
