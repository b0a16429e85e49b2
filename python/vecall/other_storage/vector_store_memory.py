"""Operations of a service over a vector store: add, search, forget, observe sessions.

Each operation is a coroutine. It waits on an event loop or blocks, as its caller does.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from numbers import Real
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from vecall import errors, types, validation
from vecall.clock import ExpiryClock
from vecall.concurrency.executor import InterruptibleFuture, PluginExecutor
from vecall.concurrency.join import Join, run_sync
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list, list_of_one_or_more, to_valid_utf8
from vecall.embedders import Vectors
from vecall.filters.metadata import asks_times, passes
from vecall.index.embedding import EmbeddingQueue, text_to_embed
from vecall.ingest.drafts import (
    Parted,
    Written,
    align_ids_with_items,
    drafts_of_turns,
    entry_drafts,
    events_or_messages,
    memory_ids_of,
    parse_session_head,
    require_some_draft,
    split_by_rewind,
)
from vecall.ingest.fields import CallMetadata, GivenMetadata, call_metadata
from vecall.ingest.passages import each_draft
from vecall.lexical import content_words
from vecall.lexical.tokenizer import has_word_or_emoji
from vecall.limits import Compaction, Limits, Trigger
from vecall.operations.searches import SearchArguments
from vecall.operations.session_triggers import (
    SummarizerCalls,
    first_compaction,
    turns_summarized_before,
)
from vecall.operations.stored_memories import Match, chosen_proposal_ids, find_near_best
from vecall.other_storage.in_ram import (
    ForgetProposals,
    Proposal,
    SessionBuffer,
    SessionContent,
    event_as_buffered,
    session_content,
)
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import Ranking
from vecall.search.searcher import checked_query_vector, entry_of_row
from vecall.store import (
    LASTS_S,
    BufferedTurn,
    Draft,
    DueSession,
    EmbeddingModel,
    Row,
    passage_id,
)
from vecall.summaries import SummaryProvider
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


def row_metadata(
    app: str, user: str, draft: Draft, wall: float, now: float
) -> dict[str, Any]:
    """Return a memory as strings and numbers; `now` is of the expiry clock."""
    found = {name: getattr(draft, name) for name in _FIELDS}
    found |= {"session_id": draft.session, "timestamp": draft.ts}
    found["expires_at"] = None if draft.ttl is None else now + draft.ttl
    given = {name: value for name, value in found.items() if value is not None}
    return {**given, "app_name": app, "user_id": user, "created_at": wall}


def memory_of_hit(
    hit: VectorSearchResult, now: float, confidence: float | None
) -> types.MemoryEntry:
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
    return entry_of_row(row, now, hit.score, hit.score, confidence)


def is_expired_hit(hit: VectorSearchResult, now: float, wall: float) -> bool:
    """Whether a row has expired, by the times of `row_metadata`."""
    times = hit.metadata.get("expires_at"), hit.metadata.get("valid_until")
    ends = zip(times, (now, wall), strict=True)
    return any(end is not None and end <= time for end, time in ends)


def scope_of_filter(
    app: str, user: str, condition: types.Filter, store: object
) -> VectorStoreFilter:
    """Return the filter of a store's search, for one user."""
    if condition.not_id is not None:
        msg = "filter.not_id: a vector store cannot leave out rows by their ids"
        raise errors.InvalidArgumentError(msg)
    if asks_times(condition.metadata):
        msg = "filter.metadata: a vector store has no $timestamp and no $updated_at"
        raise errors.InvalidArgumentError(msg)
    where = replace(condition, session_id=None, after=None, before=None)
    given = [f.name for f in fields(where) if getattr(where, f.name) is not None]
    if given and not applies_where(store):
        raise errors.InvalidArgumentError(
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
_TIMES = ("created_at", "timestamp", "expires_at", "valid_until")


def checked_store_results(
    given: object, scope: VectorStoreFilter
) -> list[VectorSearchResult]:
    """Return the rows that a store found for one user: each id once, best first."""
    # A cosine that rounding put beyond [-1, 1] is limited to it. Rows of equal score
    # stay in the store's order.
    what = "what is not a memory: expected a list of VectorSearchResult"
    if not isinstance(given, list | tuple):
        _refuse_store_result(what)
    found: dict[str, VectorSearchResult] = {}
    for hit in given:
        if not isinstance(hit, VectorSearchResult):
            _refuse_store_result(what)
        checked = _checked_hit(hit, scope)
        known = found.get(checked.id)
        if known is None or known.score < checked.score:
            found[checked.id] = checked
    return sorted(found.values(), key=lambda hit: -hit.score)


def _checked_hit(
    hit: VectorSearchResult, scope: VectorStoreFilter
) -> VectorSearchResult:
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
        if metadata.get(time) is not None and not _is_finite_score(metadata[time]):
            _refuse_store_result(
                f"a row that is not a memory: {time} is not a finite number"
            )
    if not _is_finite_score(score) or not abs(cast("float", score)) <= 1.0 + _ROUNDING:
        _refuse_store_result("a row whose score is not a cosine in [-1, 1]")
    cosine = min(max(float(cast("float", score)), -1.0), 1.0)
    return hit if cosine is score else replace(hit, score=cosine)


def _is_finite_score(value: object) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        return is_number and math.isfinite(cast("float", value))
    except OverflowError:  # an integer beyond all floats
        return False


def _refuse_store_result(what: str) -> NoReturn:
    raise errors.InvalidMemoryError(f"the vector store returned {what}")


T = TypeVar("T")

_log = logging.getLogger("vecall")

_GAP = 5  # the next passages to look for, after each that was there
_READERS = 4  # threads that parse arguments
_SAMPLE = 50  # nearest memories, to estimate the user's usual similarity
_MAX_CONCURRENT_SESSIONS = 8  # sessions whose memories are made in parallel


class _AbandonedError(Exception):
    """The caller that began a run was interrupted; a waiting caller begins another."""


class VectorStoreMemory:
    """A vector store, an embedder, observed sessions, and the threads of all.

    A session has at most one run that makes memories of it. Cancelling a caller that
    waits for a run does not stop the run.
    """

    def __init__(
        self,
        store: VectorStore,
        embedding: EmbeddingQueue,
        expiry_clock: ExpiryClock,
        *,
        top_k: int,
        min_similarity: float | None,
        ttl: float | None,
        include: frozenset[str],
        trigger: Trigger | None,
        summarizer: SummaryProvider | None,
    ) -> None:
        """Use a store. The options are valid."""
        # `include` has the parts of a turn to store besides its text: "thoughts",
        # "calls". The summarizer makes the memories of a session; without one, each
        # turn becomes a memory.
        self.limits = Limits()
        self.closed = False
        self.store = store
        self.trigger = trigger
        self.summarizer = summarizer
        self.on_buffered: Callable[[], None] = lambda: None
        """Called after new turns were buffered; a session may now be due sooner."""
        self._embedding = embedding
        self._expiry_clock = expiry_clock
        self._law = Calibration.shipped().of_cosine().engine_law()
        self._top_k = validation.check_top_k(top_k, self.limits)
        self._min_similarity = min_similarity
        self._ttl = ttl
        self._include = include
        self._thread = PluginExecutor("vecall-vector-store")
        self._reader = PluginExecutor("vecall-reader", _READERS)
        self._summarizing = SummarizerCalls()
        self._maker = PluginExecutor("vecall-session-maker", _MAX_CONCURRENT_SESSIONS)
        self._warned = False
        self._waiting = SessionBuffer()
        self._proposals = ForgetProposals()
        self._lock = threading.Lock()  # of the runs
        self._runs: dict[DueSession, Future[list[str]]] = {}

    async def add_session(self, session: object) -> types.AddedIds:
        """Store the summaries of a session, or its turns without a summarizer."""
        if self.summarizer is not None or isinstance(self.trigger, Compaction):
            return types.AddedIds(await self.end_session(session, None, None, None))
        head = parse_session_head(session, self.limits)
        self._check_owner(head.app, head.user)
        scope = CallMetadata({}, app=head.app, user=head.user)
        return await self._add_turns(head.events, head.id, scope)

    async def add_events(
        self,
        app: str,
        user: str,
        events: object,
        session_id: str | None,
        metadata: GivenMetadata,
        messages: object,
    ) -> types.AddedIds:
        """Store turns."""
        self._check_owner(app, user)
        if session_id is not None:
            validation.check_name(session_id, "session_id", self.limits)
        scope = call_metadata(metadata, app, user)
        turns: list[Any] = as_list(events_or_messages(events, messages), "events")
        return await self._add_turns(turns, session_id, scope)

    async def _add_turns(
        self, events: list[Any], session_id: str | None, scope: CallMetadata
    ) -> types.AddedIds:
        """Store turns, and delete those that a rewind among them removed."""
        app, user = str(scope.app), str(scope.user)
        scope = scope._replace(include=self._include)
        turns = await self._parse_args(
            drafts_of_turns, events, session_id, scope, self.limits, in_slices
        )
        require_some_draft(turns.given)
        self._check_row_ttl(turns.drafts)
        await self._delete_rewound(app, user, turns.taken_back)
        ids = await self._add_drafts(app, user, turns.drafts)
        return align_ids_with_items(turns.given, Written(ids, {}))

    async def add_entries(
        self, app: str, user: str, memories: object, metadata: GivenMetadata
    ) -> types.AddedIds:
        """Store explicit memories."""
        self._check_owner(app, user)
        entries = in_slices(list_of_one_or_more(memories, "memories"))
        scope = call_metadata(metadata, app, user)
        given = await self._parse_args(entry_drafts, entries, scope, self.limits)
        ids = await self._add_drafts(app, user, each_draft(given))
        return align_ids_with_items(given, Written(ids, {}))

    async def _add_drafts(
        self, app: str, user: str, drafts: Sequence[Draft]
    ) -> list[str]:
        """Embed and store; return the ids. `close` waits for calls in progress."""
        self._check_row_ttl(drafts)
        texts = [text_to_embed(draft.author, draft.text) for draft in drafts]
        vectors = await self._embedding.embed_texts(app, user, texts)
        if None in vectors:
            msg = (
                "the embedder returned a zero vector, which a vector store cannot hold"
            )
            raise errors.EmbedderError(msg)
        wall, now = self._expiry_clock.wall_and_expiry_times()

        async def store() -> None:
            for draft, vector in zip(drafts, vectors, strict=True):
                ttl = self._ttl if draft.ttl is None else draft.ttl
                embedding = np.frombuffer(vector or b"", "<f4")
                metadata = row_metadata(app, user, replace(draft, ttl=ttl), wall, now)
                await self.store.upsert(draft.id, embedding, metadata)

        try:
            await self._run_on_store(store)
        finally:  # after an error some drafts may be stored
            self._proposals.drop_outdated((app, user), drafts)
        return [draft.id for draft in drafts]

    def _check_row_ttl(self, drafts: Sequence[Draft]) -> None:
        """Raise ConfigError for a `ttl` if the store cannot delete."""
        if any(draft.ttl is not None for draft in drafts):
            needed_method(self.store, "delete", "ttl")

    async def _delete_rewound(self, app: str, user: str, ids: Sequence[str]) -> None:
        """Delete stored turns that a rewind removed."""
        if not ids:
            return
        if has_method(self.store, "delete"):
            await self._delete_stored_rows(app, user, ids, "delete")
        elif not self._warned:
            self._warned = True
            _log.warning(
                "the vector store has no method delete: turns that a rewind took back "
                "stay in it if they were stored before"
            )

    async def search(self, arguments: SearchArguments) -> types.SearchMemoryResponse:
        """Find the memories nearest to a query, or to its vector."""
        app, user, vector = arguments.app_name, arguments.user_id, arguments.vector
        self._check_owner(app, user)
        validation.check_query(arguments.query)
        top_k, floor = arguments.top_k, self._min_similarity
        count = (
            self._top_k if top_k is None else validation.check_top_k(top_k, self.limits)
        )
        if arguments.min_similarity is not None:
            floor = validation.check_min_similarity(arguments.min_similarity)
        given = arguments.filter or types.Filter()
        conditions = validation.check_filter(given, self.limits, by_metadata=True)
        scope = scope_of_filter(app, user, conditions, self.store)
        embedder = self._embedding.embedder
        model = EmbeddingModel(embedder.model_id, embedder.dimensions)
        if vector is not None:
            vector = checked_query_vector(vector, model, Ranking())
        left_out = validation.check_offset(arguments.offset)
        found = await self._nearest(scope, arguments.query, count + left_out, vector)
        near = [each for each in found if floor is None or (each.score or 0.0) >= floor]
        return types.SearchMemoryResponse(near[left_out:])

    async def _nearest(
        self,
        scope: VectorStoreFilter,
        query: str,
        count: int,
        vector: Vectors | None = None,
    ) -> list[types.MemoryEntry]:
        """Return the memories nearest to a query, with their scores, best first."""
        app, user = str(scope.app_name), str(scope.user_id)
        query = to_valid_utf8(query[: self.limits.max_query_chars])
        if vector is None and not has_word_or_emoji(query):
            return []
        if vector is None:
            vector = self._embedding.cached_query_vector(app, user, query)
        if vector is None:
            vector = await self._embedding.embed_query(app, user, query)
        if not vector.any():
            return []  # a zero vector has no direction
        hits = await self._run_on_store(partial(self._live_hits, vector, count, scope))
        now = self._expiry_clock.wall()
        best = hits[0].score if hits else 0.0
        scores = [(hit.score, 0.0, 0.0, 1.0, math.nan, 0) for hit in hits]
        rated = self._law.rate(scores, best, 0.0)
        found = [
            memory_of_hit(hit, now, confidence)
            for hit, (*_, confidence) in zip(hits, rated, strict=True)
        ]
        where = scope.where  # which a store may know only in part
        if where is None:
            return found

        async def passing() -> list[types.MemoryEntry]:
            return [e for e in found if passes(e, e.custom_metadata, where)]

        # Long lists in the metadata would hold an event loop up.
        return await (
            passing() if where.metadata is None else self._run_on_store(passing)
        )

    async def _live_hits(
        self, vector: Vectors, top_k: int, scope: VectorStoreFilter
    ) -> list[VectorSearchResult]:
        """Search until `top_k` memories are found that have not expired."""
        # Expired memories are deleted. If the store cannot delete, the search is
        # repeated with a larger limit.
        wanted = top_k
        deleted: set[str] = set()  # some stores return deleted rows for a while
        while True:
            rows = await self.store.search(vector, wanted, scope)
            hits = checked_store_results(rows, scope)
            wall, now = self._expiry_clock.wall_and_expiry_times()
            expired = {hit.id for hit in hits if is_expired_hit(hit, now, wall)}
            found = [hit for hit in hits if hit.id not in expired]
            if not expired:
                return found[:top_k]
            new = expired - deleted
            if new and has_method(self.store, "delete"):
                delete = needed_method(self.store, "delete", "search_memory")
                for id_ in new:
                    await delete(id_, app_name=scope.app_name, user_id=scope.user_id)
                deleted |= new
                continue
            limit = self.limits.max_top_k
            if len(found) >= top_k or len(rows) < wanted or wanted >= limit:
                return found[:top_k]
            wanted = min(2 * wanted, limit)

    async def delete(self, app: str, user: str, memory_id: str | None) -> None:
        """Delete one memory, and the buffered turn of the same id."""
        self._check_owner(app, user)
        if memory_id is None:
            return
        id_ = validation.check_name(memory_id, "memory_id", self.limits)
        await self._delete_stored_rows(app, user, [id_], "delete_memory")
        self._waiting.drop_turns(app, user, {id_})

    async def _delete_stored_rows(
        self, app: str, user: str, ids: Sequence[str], who: str
    ) -> int:
        """Delete memories of a user; return how many existed."""
        # A store cannot say how many passages a turn has. With the first one go the
        # others, also if some of them were deleted by themselves before, up to four in
        # a row.
        delete = needed_method(self.store, "delete", who)
        self._embedding.forget_texts(app, user)

        async def delete_each() -> int:
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

        return await self._run_on_store(delete_each)

    async def delete_all(self, app: str, user: str, session_id: str | None) -> int:
        """Delete a session or all of a user, with buffered turns; return how many."""
        self._check_owner(app, user)
        who = "delete_user" if session_id is None else "delete_session"
        if session_id is not None:
            validation.check_name(session_id, "session_id", self.limits)
        delete_many = needed_method(self.store, "delete_many", who)
        self._embedding.forget_texts(app, user)
        if session_id is None:
            self._embedding.forget_user(app, user)
        scope = VectorStoreFilter(app_name=app, user_id=user, session_id=session_id)
        count = int(await self._run_on_store(lambda: delete_many(scope)))
        return count + self._waiting.drop_turns(app, user, None, session_id)

    async def propose_forget(
        self, app: str, user: str, query: str, top_k: int
    ) -> types.ForgetProposal:
        """Search for the memories to forget, and store them as a proposal."""
        self._check_owner(app, user)
        needed_method(self.store, "delete", "propose_forget")
        validation.check_query(query)
        count = validation.check_top_k(top_k, self.limits)
        scope = VectorStoreFilter(app_name=app, user_id=user)
        found = await self._nearest(scope, query, max(count, _SAMPLE))
        near = find_near_best(match_store_memories(query, found))
        meant = [each for each, is_near in zip(found, near, strict=True) if is_near]
        del meant[count:]
        now = self._expiry_clock.now()
        token = ""
        if meant:
            shown = {str(each.id): each.text for each in meant}
            proposal = Proposal((app, user), shown, now + LASTS_S)
            token = self._proposals.add_forget_proposal(proposal, now)
        return types.ForgetProposal(token, meant, now + LASTS_S)

    async def confirm_forget(self, app: str, user: str, token: str, ids: object) -> int:
        """Delete some or all proposed memories; return the number deleted."""
        self._check_owner(app, user)
        validation.check_name(token, "token", self.limits)
        chosen = chosen_proposal_ids(ids, self.limits)
        now = self._expiry_clock.now()
        proposal = self._proposals.take_forget_proposal((app, user), token, chosen, now)
        meant = list(proposal.shown) if chosen is None else chosen
        try:
            count = await self._delete_stored_rows(app, user, meant, "confirm_forget")
        except BaseException:
            # Some memories may be deleted; the same token deletes the rest.
            self._proposals.put_back_forget_proposal(token, proposal)
            raise
        self._waiting.drop_turns(app, user, set(meant))
        return count

    async def observe_session(self, session: object) -> list[str]:
        """Buffer the new turns of a session; return the ids of memories made now."""
        due = await self._buffer_turns(session, self.trigger)
        self.on_buffered()
        if isinstance(self.trigger, Compaction):
            return await self._make_memories(due, compactions_only=True)
        return []

    async def end_session(
        self,
        session: object,
        app_name: str | None,
        user_id: str | None,
        session_id: str | None,
    ) -> list[str]:
        """Make memories of all buffered turns of a session; return their ids."""
        if session is not None:
            due = await self._buffer_turns(session, None)
        else:
            owner = self._check_owner(app_name, user_id)
            id_ = validation.check_name(session_id, "session_id", self.limits)
            due = DueSession(*owner, id_)
        return await self._make_memories(due, compactions_only=False)

    async def run_due(self) -> int:
        """Make memories of the sessions that are due; return the number of sessions."""
        self._check_open()
        done = 0
        for due in self._waiting.due_sessions(self._expiry_clock.now()):
            try:
                await self._make_memories(due, compactions_only=False)
                done += 1
            except errors.ClosedError:
                raise
            except Exception as error:
                _log.warning(
                    "no memories could be made of a session: %s; tried again later",
                    type(error).__name__,
                )
                self._waiting.postpone_session(due, self._expiry_clock.now())
        return done

    def next_run(self) -> float | None:
        """Run due sessions, blocking; return the seconds until the next, or None."""
        run_sync(self.run_due())
        due = self._waiting.next_due()
        return None if due is None else due - self._expiry_clock.now()

    async def _buffer_turns(
        self, session: object, due_by: Trigger | None
    ) -> DueSession:
        """Buffer the new turns of a session. Most calls have none."""
        head = parse_session_head(session, self.limits)
        app, user = head.app, head.user
        self._check_owner(app, user)
        due = DueSession(app, user, head.id)
        parted: Parted = await self._parse_args(split_by_rewind, head.events, in_slices)
        taken_back = memory_ids_of(parted.taken_back, head.id)
        content: SessionContent = await self._parse_args(
            session_content, parted.counted, head, self.limits, self._include
        )
        known = self._waiting.known_turn_ids(due, content)
        new = {
            id_: each
            for id_, each in content.items()
            if id_ not in known and getattr(each, "passage_of", None) not in known
        }
        self._check_row_ttl([each for each in new.values() if isinstance(each, Draft)])
        late = set()
        if isinstance(self.trigger, Compaction):
            late = turns_summarized_before(content, known)
        turns = {
            id_: None if id_ in late else event_as_buffered(each)
            for id_, each in new.items()
        }
        self._waiting.drop_turns(app, user, set(taken_back), due.session)
        gone = [f"\0{id_}" for id_ in taken_back]  # ids of turns contain no NUL
        new_gone = set(gone) - self._waiting.known_turn_ids(due, gone)
        await self._delete_rewound(app, user, [g[1:] for g in new_gone])
        turns |= dict.fromkeys(new_gone)
        self._waiting.buffer_turns(due, turns, self._expiry_clock.now(), due_by)
        return due

    async def _make_memories(
        self, due: DueSession, *, compactions_only: bool
    ) -> list[str]:
        """Make memories of a session, after the run in progress."""
        self._check_open()
        self.refuse_nested_call()
        mine: Future[list[str]] = InterruptibleFuture()
        # Mark it as running, so that a cancelled caller cannot cancel it.
        mine.set_running_or_notify_cancel()
        try:
            while True:
                with self._lock:
                    other = self._runs.setdefault(due, mine)
                if other is mine:
                    break
                # The caller of the other run gets its error; this run tries again.
                with suppress(Exception):
                    await Join(other)
            run = partial(self._flush_session_here, due, mine, compactions_only)
            self._maker.run(run, concurrent=False)
        except BaseException as error:
            self._end_session_run(due, mine)
            reason = error if isinstance(error, Exception) else _AbandonedError()
            with suppress(InvalidStateError):  # the run has finished
                mine.set_exception(reason)
            raise
        made: list[str] = await Join(mine)
        return made

    def _flush_session_here(
        self, due: DueSession, promise: Future[list[str]], compactions_only: bool
    ) -> None:
        """Make memories of a session on this thread, and resolve a promise."""
        if promise.done():
            return  # its caller was interrupted
        try:
            ids = run_sync(self._flush_turns(due, compactions_only))
            resolve = partial(promise.set_result, ids)
        except BaseException as error:
            resolve = partial(promise.set_exception, error)
        self._end_session_run(due, promise)
        with suppress(InvalidStateError):
            resolve()

    def _end_session_run(self, due: DueSession, promise: Future[list[str]]) -> None:
        with self._lock:
            if self._runs.get(due) is promise:
                del self._runs[due]

    async def _flush_turns(self, due: DueSession, compactions_only: bool) -> list[str]:
        made: list[str] = []
        if isinstance(self.trigger, Compaction):
            waiting = self._waiting
            while found := first_compaction(waiting.buffered_turns(due), due.session):
                made += await self._remember_drafts(due, *found)
        if compactions_only:
            return made
        while turns := self._waiting.buffered_turns(due):
            drafts = await self._summarizing.drafts(self.summarizer, due, turns)
            made += await self._remember_drafts(due, drafts, turns)
        return made

    async def _remember_drafts(
        self, due: DueSession, drafts: list[Draft], turns: Sequence[BufferedTurn]
    ) -> list[str]:
        """Store drafts made of turns, unless one of the turns was deleted meanwhile."""
        ids = [turn.id for turn in turns]
        waiting = {turn.id for turn in self._waiting.buffered_turns(due)}
        if not waiting.issuperset(ids):
            return []
        written = await self._add_drafts(due.app, due.user, drafts)
        if self._waiting.remove_done_turns(due, ids):
            return written
        await self._delete_rewound(due.app, due.user, written)
        return []

    async def _parse_args(self, function: Callable[..., T], *args: Any) -> T:
        """Parse arguments off the event loop."""
        work = partial(function, *args)
        result: T = await Join(self._reader.run(work, concurrent=False))
        return result

    async def _run_on_store(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run calls of the store on its event loop."""
        result: T = await Join(self._thread.run(work, concurrent=True))
        return result

    def _check_owner(self, app_name: object, user_id: object) -> tuple[str, str]:
        """Return checked names; raise for a closed service, and for invalid names."""
        self._check_open()
        app = validation.check_name(app_name, "app_name", self.limits)
        return app, validation.check_name(user_id, "user_id", self.limits)

    def _check_open(self) -> None:
        """Raise ClosedError after `close`."""
        if self.closed:
            raise errors.ClosedError("the memory service is closed")

    def refuse_nested_call(self) -> None:
        """Raise ReentrantCallError if a run, the store or a provider is the caller."""
        self._maker.refuse_nested_call()
        self._summarizing.thread.refuse_nested_call()
        self._embedding.thread.refuse_nested_call()
        self._thread.refuse_nested_call()
        self._reader.refuse_nested_call()

    def close(self, *, quiet: bool) -> None:
        """Finish the calls in progress and end the threads; discard buffered turns."""
        self._maker.close()
        self._summarizing.thread.close()
        left = self._waiting.count_turns()
        if left and not quiet:
            _log.warning(
                "%d observed turns waited in memory and are not remembered; "
                "end_session remembers them before the service is closed",
                left,
            )
        self._reader.close()
        self._embedding.close()
        self._thread.close()


def match_store_memories(query: str, found: Sequence[types.MemoryEntry]) -> list[Match]:
    """Return how well memories match a query, by words and by cosine.

    The user's usual similarity is the lowest cosine of the memories found. It is capped
    at half of the best cosine, because all memories of a user may be similar.
    """
    query_words = set(content_words(query))
    cosines = [each.similarity or 0.0 for each in found]
    usual = min([*cosines, max(cosines, default=0.0) / 2])
    return [
        Match(
            len(query_words & set(content_words(each.text))) / max(len(query_words), 1),
            cosine,
            max(cosine - usual, 0.0),
        )
        for each, cosine in zip(found, cosines, strict=True)
    ]
