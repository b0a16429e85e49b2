"""Writes, for the asynchronous and the blocking service.

Every operation is a coroutine that waits for other threads only through `Join`.
`MemoryService` waits on the running event loop; its blocking twin blocks. The
operations hold no state of an event loop.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

import numpy as np

from vecall import errors, store
from vecall.clock import to_seconds
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list, list_of_one_or_more
from vecall.filters.rights import Rights
from vecall.index.embedding import EmbeddingQueue, text_to_embed
from vecall.ingest.drafts import (
    GivenTurns,
    Written,
    align_ids_with_items,
    count_stored_ids,
    drafts_of_turns,
    entry_drafts,
    memory_ids_of,
    parse_session_head,
    require_some_draft,
    split_by_rewind,
)
from vecall.ingest.fields import CallMetadata, GivenMetadata, call_metadata
from vecall.ingest.passages import SUMMARY, each_draft
from vecall.lexical.statements import OFFERED, text_likeness
from vecall.limits import Limits
from vecall.operations.searches import ALONE, ALONE_BY_WORDS, Searches
from vecall.scalars import exact
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import SearchRequest, checked_vector, entry_of_row
from vecall.store import Draft
from vecall.telemetry import observed
from vecall.types import AddedIds, LeftOutReason, SimilarMemory
from vecall.validation import check_name, checked_bool

# What a new statement may replace. Nothing is changed here: who decides names what a
# memory `supersedes`.

Key = tuple[str, str]

MOST_COMPARED = 100
"""Most memories of a call that are compared with the stored ones."""

_SHOWN = 3
_CANDIDATES = 20  # turns of chats may be among them


def give_superseded(drafts: Sequence[Draft], ids: object, limits: Limits) -> None:
    """Set which memories the only memory of a call replaces."""
    value = exact(ids)
    named = [value] if isinstance(value, str) else as_list(value, "supersedes")
    older = [check_name(id_, "supersedes", limits) for id_ in named]
    if not older:
        return
    if len({draft.passage_of or draft.id for draft in drafts}) != 1:
        msg = "supersedes: expected a call with one memory, which replaces others"
        raise errors.InvalidArgumentError(msg)
    first = drafts[0]
    if first.id in older:
        raise errors.InvalidArgumentError(
            "supersedes: must be the id of another memory"
        )
    own = () if first.supersedes is None else (first.supersedes,)
    first.supersedes, *others = dict.fromkeys((*own, *older))
    first.also_supersedes = tuple(others)


async def find_similar_statements(
    memory: Searches, key: Key, scope: str, written: Sequence[Draft], new: set[str]
) -> tuple[SimilarMemory, ...]:
    """Return the stored statements that a new one may replace, the likeliest first."""
    # The vector is that of the write. Without one, words are compared.
    draft = written[0]
    known: dict[str, float | None] = {}

    async def find(search_index: SearchIndex) -> None:
        model, vector = search_index.model, None
        if draft.vec is not None and model is not None:
            vector = np.frombuffer(draft.vec, "<f4")
            vector = vector if len(vector) == model.dim else None
        request = SearchRequest(
            key,
            draft.text[: memory.limits.max_query_chars],
            _CANDIDATES + len(new),
            ranking=ALONE_BY_WORDS if vector is None else ALONE,
            vector=vector,
            by_period=False,
        )
        found = await memory.search_partition(search_index, request)
        is_known = search_index.scoring.known_model
        for each in found.memories:
            known[str(each.id)] = each.similarity if is_known else None

    await memory.repeat_if_retired(find)
    for id_ in new:
        known.pop(id_, None)
    if not known:
        return ()

    def compare() -> tuple[SimilarMemory, ...]:
        with memory.read_committed_state(key) as (reads, now):
            rows = reads.find_many(*key, list(known), now, memory.rights)
        found = []
        for row in in_slices(list(filter(is_statement, rows))):
            like = text_likeness(draft.text, row.text, known[row.id])
            if like.score >= OFFERED:
                found.append((like.score, row.time, row, like.says))
        found.sort(key=lambda each: each[:2], reverse=True)
        return tuple(
            SimilarMemory(entry_of_row(row, scope=scope), score, says)
            for score, _, row, says in found[:_SHOWN]
        )

    return await Join(memory.threads.long(key, compare))


def is_statement(row: store.Row) -> bool:
    """Whether a memory can be replaced: a turn was said, and a summary is remade."""
    return row.pos is None and row.kind != SUMMARY


# The options of a write: of the caller, and of internal operations.


class WriteRequest(NamedTuple):
    """The options of a write."""

    restore: bool = False  # restore deleted turns
    idempotency_key: str | None = None  # the caller's
    replace_session: str | None = None  # delete the other turns of this session
    scope: str = "user"  # the scope to write to
    requested_by: tuple[str, str] | None = None  # app and user as the caller named them
    corrects: bool = False  # the drafts correct memories that must exist
    reviewed: bool = False  # the write hook has already seen the drafts
    # A session, and its buffered turns that the drafts replace.
    consumed_turns: tuple[str, Sequence[str]] | None = None
    # Live memories that the drafts summarize, with the hashes of their texts.
    folds: Mapping[str, bytes] = MappingProxyType({})
    restore_facts: bool = False  # store deleted facts again
    if_absent: bool = False  # refuse the call if one of the memories exists
    if_version: float | None = None  # refuse it if the memory has another version


def make_fact_request(
    restore: bool | None, key: str | None, scope: str, if_absent: object = False
) -> WriteRequest:
    """Return a request for explicit memories; `restore=False` skips deleted ones."""
    restore = None if restore is None else checked_bool(restore, "restore")
    if_absent = checked_bool(if_absent, "if_absent")
    return WriteRequest(
        bool(restore),
        key,
        scope=scope,
        restore_facts=restore is not False,
        if_absent=if_absent,
    )


def checked_version(version: object) -> float | None:
    """Return the version of a memory that a caller has seen; None stays None."""
    return None if version is None else to_seconds(cast("Any", version), "if_version")


# Sets the vectors of drafts before they are written.

_AT_ONCE = 1_024  # texts per batch: blocks the event loop for less than 1 ms


def _unembedded(
    known: store.ExistingMemories, drafts: Sequence[Draft], restore: bool, again: bool
) -> dict[str, list[Draft]]:
    """Set the vectors that the file has; return the other drafts by text."""
    # The function hashes every text, so it runs off the event loop.
    new: dict[str, list[Draft]] = {}
    for draft in in_slices(drafts):
        if draft.has_own_vector:
            continue
        if not known.needs_vector(draft, restore=restore, again=again):
            continue
        draft.vec = None
        if known.vectors:
            draft.vec = known.vectors.get((draft.hash, draft.author))
        if draft.vec is None:
            text = text_to_embed(draft.author, draft.text)
            new.setdefault(text, []).append(draft)
    return new


# Gives drafts the vectors that the caller computed.


def give_callers_vectors(
    given: Sequence[object], vectors: object, model: store.EmbeddingModel | None
) -> None:
    """Set the vectors of drafts. A zero vector is stored as none."""
    # The vector of a text with several passages is that of the first one. `vectors` has
    # one for each item of the call, float (n, dimensions), or None.
    if model is None:
        msg = "vectors: needs an embedder, or vecall.embedders.CallerVectors"
        raise errors.ConfigError(msg)
    if isinstance(vectors, np.ndarray) and not vectors.ndim:
        vectors = None
    if not isinstance(vectors, list | tuple | np.ndarray):
        msg = "vectors: expected a list of vectors, or an array (n, dimensions)"
        raise errors.InvalidTypeError(msg)
    if len(vectors) != len(given):
        msg = f"vectors: expected {len(given)}, one for each memory; None for none"
        raise errors.InvalidArgumentError(msg)
    checked = [
        None if each is None else checked_vector(each, model, f"vectors[{number}]")
        for number, each in enumerate(vectors)
    ]
    for item, each, vector in zip(given, vectors, checked, strict=True):
        if each is None or vector is None:
            continue
        for place, draft in enumerate(each_draft([item])):
            if place == 0 and vector.any():
                draft.vec = vector.astype("<f4").tobytes()
            draft.has_own_vector = True


class Writes(Searches):
    """Adds memories to one open file, and searches the file."""

    @observed("add_session", count_stored_ids)
    async def add_session(
        self, session: object, request: WriteRequest, *, replace: bool
    ) -> AddedIds:
        """Store the turns of a session."""
        self.check_open()
        checked_bool(replace, "replace")
        head = parse_session_head(session, self.limits)
        key = self.key(head.app, head.user, write=True)
        scope = CallMetadata({}, app=head.app, user=head.user)
        if replace:
            request = request._replace(replace_session=head.id)
        return await self._add_turns(key, head.events, head.id, scope, request)

    @observed("add_events", count_stored_ids)
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
        request = request._replace(requested_by=(app_name, user_id))
        return await self._add_turns(key, raw, session_id, scope, request)

    async def _add_turns(
        self,
        key: Key,
        raw: list[Any],
        session_id: str | None,
        scope: CallMetadata,
        request: WriteRequest,
    ) -> AddedIds:
        turns = await self.parse_turns(raw, session_id, scope)
        require_some_draft(turns.given)
        await self._delete_rewound(key, turns.taken_back)
        written = await self.write_drafts(key, turns.drafts, request)
        return await self._align_written_ids(turns.given, written)

    @observed("add_entries", count_stored_ids)
    async def add_entries(
        self,
        app_name: str,
        user_id: str,
        memories: object,
        metadata: GivenMetadata,
        request: WriteRequest,
        vectors: object = None,
        supersedes: object = None,
        similar: object = False,
    ) -> AddedIds:
        """Store explicit memories; show which ones they may replace."""
        key = self.key(app_name, user_id, request.scope, write=True)
        if similar is not False and checked_bool(similar, "similar"):
            self.key(app_name, user_id, request.scope, write=False)
        scope = call_metadata(metadata, app_name, user_id)
        raw = list_of_one_or_more(memories, "memories")
        given = await self.parse_items(entry_drafts, raw, scope, self.limits)
        if vectors is not None:
            give_callers_vectors(given, vectors, self.search_index.model)
        request = request._replace(requested_by=(app_name, user_id))
        drafts = each_draft(given)
        if supersedes is not None:
            give_superseded(drafts, supersedes, self.limits)
        if similar and len(given) > MOST_COMPARED:
            msg = f"similar: expected at most {MOST_COMPARED} memories in the call"
            raise errors.InvalidArgumentError(msg)
        written = await self.write_drafts(key, drafts, request)
        added = await self._align_written_ids(given, written)
        if similar:
            new = {draft.id for draft in drafts}
            added.similar = tuple(
                [
                    ()
                    if id_ is None
                    else await find_similar_statements(
                        self, key, request.scope, each_draft([item]), new
                    )
                    for item, id_ in zip(given, added, strict=True)
                ]
            )
        return added

    async def drop_rewound(
        self, key: Key, events: list[Any], session_id: str
    ) -> list[Any]:
        """Return the valid events; delete those that a rewind removed."""
        parted = await self.parse_items(split_by_rewind, events)
        await self._delete_rewound(key, memory_ids_of(parted.taken_back, session_id))
        return parted.counted

    async def _delete_rewound(self, key: Key, ids: Sequence[str]) -> None:
        """Delete stored turns that a rewind of the session removed."""
        if ids:
            await self.run_deletion(store.DeleteMemories(*key, ids, rights=self.rights))

    async def run_deletion(self, job: store.DeleteMemories) -> store.Change:
        """Delete memories, and drop the cached embeddings of the user's texts."""
        embedding = self.search_index.embedding
        if embedding is not None:
            embedding.forget_texts(job.app, job.user)
        return await Join(self.storage.submit(job))

    async def parse_turns(
        self, raw_turns: list[Any], session_id: str | None, scope: CallMetadata
    ) -> GivenTurns:
        """Return the drafts of turns."""
        scope = scope._replace(include=self.include)
        return await self.parse_items(
            drafts_of_turns, raw_turns, session_id, scope, self.limits
        )

    async def write_drafts(
        self, key: Key, drafts: list[Draft], request: WriteRequest
    ) -> Written:
        """Review, embed and write drafts; return what was written."""
        checked_bool(request.restore, "restore")
        if request.idempotency_key is not None:
            check_name(request.idempotency_key, "idempotency_key", self.limits)
        refused: dict[str, LeftOutReason] = {}
        if not (request.reviewed or self.gate.is_open):
            proposed = drafts
            drafts = await self.gate.review_drafts(
                request.requested_by or key,
                drafts,
                request.scope,
                explicit=request.consumed_turns is None and not request.folds,
            )
            if drafts is not proposed:
                passed = {draft.id for draft in drafts}
                refused = {
                    draft.id: "rejected" for draft in proposed if draft.id not in passed
                }
        consumes = request.replace_session is not None or request.consumed_turns
        if not drafts and not consumes:
            return Written([], refused)
        while True:
            with self.use_search_index() as search_index:
                try:
                    written = await self._embed_and_write(
                        search_index, key, drafts, request
                    )
                    break
                except errors.EmbeddingMismatchError:
                    if search_index is self.search_index or any(
                        draft.has_own_vector for draft in drafts
                    ):
                        raise
            # The model of the file changed during the write: embed again.
            for draft in drafts:
                draft.vec = None
        if not refused:
            return written
        return written._replace(left_out={**refused, **written.left_out})

    async def _embed_and_write(
        self,
        search_index: SearchIndex,
        key: Key,
        drafts: list[Draft],
        request: WriteRequest,
        *,
        trusting: bool = True,
    ) -> Written:
        """Embed and write."""
        # With `trusting`, a call whose idempotency key was used embeds nothing. Its key
        # may have expired when the transaction runs. Then the write is repeated without
        # `trusting`.
        loaded = search_index.partitions.version_of(key)
        embedding, model = search_index.embedding, search_index.model
        job = store.AddMemories(
            *key,
            drafts,
            None if embedding is None or model is None else model.id,
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
            False,
            request.if_absent,
            request.if_version,
            None if loaded is None else loaded[0],
            self.rights,
        )
        if embedding is not None and model is not None and embedding.can_embed:
            await self._give_vectors(embedding, job, trusting)
        try:
            change = await Join(self.storage.submit(job))
        except store.ForgottenKeyError:
            return await self._embed_and_write(
                search_index, key, drafts, request, trusting=False
            )
        return Written(list(change.ids), {**job.left_out}, job.edited, job.folded)

    async def _give_vectors(
        self, embedding: EmbeddingQueue, job: store.AddMemories, trusting: bool
    ) -> None:
        """Set `vec` of each draft that a job stores with a new text or author."""
        # The vector comes from the file if the file has one for the same text and
        # author. Otherwise the embedder computes it. Nothing is embedded for a job
        # whose key was used before.

        def find_unknown() -> dict[str, list[Draft]]:
            assert job.model is not None
            ids = [draft.id for draft in job.drafts]
            texts = [(draft.hash, draft.author) for draft in in_slices(job.drafts)]
            key = job.key if trusting else None
            known = self.storage.lookup_existing(
                store.DraftLookup(
                    job.app, job.user, ids, texts, job.model, key, job.likely_part
                )
            )
            if known is None:
                job.answered = True
                return {}
            job.likely_part = known.part
            # A restored turn may have another text than its correction in the file.
            return _unembedded(known, job.drafts, job.restore or job.edit, job.again)

        new = await Join(self.threads.short(find_unknown))
        texts = list(new)
        for start in range(0, len(texts), _AT_ONCE):
            batch = texts[start : start + _AT_ONCE]
            vectors = await embedding.embed_texts(job.app, job.user, batch)
            for text, vec in zip(batch, vectors, strict=True):
                for draft in new[text]:
                    draft.vec = vec

    def restricted_to_rights(self, rights: Rights) -> RestrictedRuntime:
        """Return the file for callers with fewer rights."""
        return _restricted_class_of(type(self))(self, rights)

    async def _align_written_ids(self, items: list[Any], written: Written) -> AddedIds:
        try:
            return await self.parse_items(align_ids_with_items, items, written)
        except (
            errors.ClosedError
        ):  # the memories are stored, but the service was closed
            return align_ids_with_items(items, written)


class OperationGroup:
    """Operations on one open file, under the rights of its callers."""

    def __init__(self, memory: Writes) -> None:
        """Use an open file."""
        self.memory = memory
        self.telemetry = memory.telemetry

    def with_rights(self, memory: Writes) -> Self:
        """Return the same operations for callers with fewer rights."""
        group = copy.copy(self)
        group.memory = memory
        return group


# An open file as callers with fewer rights see it.


def _restricted_class_of(kind: type[Writes]) -> type[RestrictedRuntime]:
    """Return the class that restricts a class and keeps what that class overrides."""
    if issubclass(kind, RestrictedRuntime):
        return kind
    if kind is Writes:
        return RestrictedRuntime
    return type(f"Restricted{kind.__name__}", (RestrictedRuntime, kind), {})


class RestrictedRuntime(Writes):
    """The operations of an open file, under rights.

    All state is that of the open file, also after a fork or a change of its model.
    """

    def __init__(self, whole: Writes, rights: Rights) -> None:
        """Restrict an open file."""
        self._whole = whole
        self.rights = whole.rights.with_limits_of(rights)
        self.read_only = whole.read_only or self.rights.read_only

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the open file."""
        return getattr(self._whole, name)

    def check_open(self) -> None:
        """Raise ClosedError after `close`; in a forked child, reopen the file."""
        self._whole.check_open()

    def check_writable(self) -> None:
        """Raise ReadOnlyError if the rights or the service are read-only."""
        if self.rights.read_only:
            raise errors.ReadOnlyError("this memory may only be read")
        self._whole.check_writable()

    def close(self) -> None:
        """Close the open file."""
        self._whole.close()
