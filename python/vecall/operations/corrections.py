"""Corrections of memories: update, history, listing, states, deletion, forgetting."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast, get_args

from vecall.clock import to_seconds
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.errors import (
    ConflictError,
    EmbedderError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    VecallError,
)
from vecall.filters.metadata import EVERY
from vecall.filters.rights import QUARANTINED, at_most, check_tier
from vecall.ingest.drafts import one_draft
from vecall.ingest.fields import CallMetadata, GivenMetadata, call_metadata
from vecall.limits import Limits
from vecall.operations.searches import ALONE, Match, near_best
from vecall.operations.writes import (
    WriteRequest,
    WritesAndSearches,
    checked_version,
    give_own_vectors,
)
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import SearchRequest, entry_from_row
from vecall.store import (
    ALWAYS,
    HIDDEN_APP,
    LASTS_S,
    ArchiveMemories,
    Change,
    DeleteMemories,
    ForgetUser,
    ProposeForget,
    RestoreMemory,
    Row,
    State,
    StorageReads,
    WriteJob,
)
from vecall.telemetry import observed
from vecall.types import (
    Filter,
    ForgetProposal,
    ListedSession,
    MemoryEntry,
    MemoryFigures,
    Page,
    Revision,
)
from vecall.validation import (
    DEFAULT_PAGE,
    check_filter,
    check_name,
    check_query,
    check_top_k,
    checked_bool,
)

Key = tuple[str, str]

_NO_MEMORY = "memory_id: this user has no such memory"
_ATTEMPTS = 100  # of a correction that meets other changes of its memory

_CHANGEABLE = (
    "content author timestamp kind source custom_metadata importance valid_until"
).split()


def _check_changes(changes: Mapping[str, Any]) -> None:
    """Check the names of the fields to change, and the types of some values."""
    if not changes or changes.keys() - set(_CHANGEABLE):
        msg = f"changes: expected some of {', '.join(_CHANGEABLE)}"
        raise InvalidArgumentError(msg)
    for name in ("author", "kind", "source"):
        if not isinstance(changes.get(name), str | None):
            raise InvalidTypeError(f"{name}: expected a string")
    if changes.get("content", "") is None:
        raise InvalidTypeError("content: expected a text")


class Corrections:
    """Reads, changes and deletes the stored memories of an open file."""

    def __init__(self, memory: WritesAndSearches) -> None:
        """Use the runtime of an open file."""
        self._memory = memory
        self.telemetry = memory.telemetry

    @observed("update")
    async def update(
        self,
        app_name: str,
        user_id: str,
        memory_id: str,
        scope: str,
        changes: Mapping[str, Any],
        max_trust: str | None = None,
        vector: object = None,
        if_version: object = None,
        verbatim: object = False,
    ) -> MemoryEntry:
        """Change fields of one memory; return the memory after the change."""
        if max_trust is not None:
            check_tier(max_trust, "max_trust")
        key = self._memory.key(app_name, user_id, scope, write=True)
        self._memory.key(app_name, user_id, scope, write=False)  # the call returns it
        check_name(memory_id, "memory_id", self._memory.limits)
        if vector is None or changes:
            _check_changes(changes)
        version = checked_version(if_version)
        how = call_metadata(GivenMetadata(verbatim=verbatim))
        if "custom_metadata" not in changes:  # the stored keys have no meaning
            how = how._replace(verbatim=True)
        request = WriteRequest(
            corrects=True,
            scope=scope,
            requested_by=(app_name, user_id),
            if_version=version,
        )
        write = partial(self._write_changed, key, memory_id, changes, max_trust, vector)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                now = await write(how, request)
                break
            except ConflictError:
                if version is not None or attempt == _ATTEMPTS:
                    raise
        return entry_from_row(now, scope=scope)

    async def _write_changed(
        self,
        key: Key,
        memory_id: str,
        changes: Mapping[str, Any],
        max_trust: str | None,
        vector: object,
        how: CallMetadata,
        request: WriteRequest,
    ) -> Row:
        """Write changed fields over the version that was read; return the memory then.

        A later write may have changed it already.
        """
        rights = self._memory.rights
        row = await self._memory.scanned(
            key, lambda reads, now: reads.find(*key, memory_id, now, rights), short=True
        )
        if row is None:
            raise NotFoundError(_NO_MEMORY)
        # Superseded memories were archived at the first write; some may be live again.
        unchanged = {
            "importance": row.importance,
            "supersedes": None,
            "trust": at_most(row.trust, max_trust),
        }
        changed = replace(entry_from_row(row), **{**unchanged, **changes})
        draft = one_draft(changed, how, self._memory.limits)
        search_index = self._memory.search_index
        if vector is not None:
            give_own_vectors([draft], [vector], search_index.model)
        embedding = search_index.embedding
        is_new = (draft.author, draft.text) != (row.author, row.text)
        if vector is None and is_new and embedding and not embedding.can_embed:
            msg = "vector: a new content or author needs a vector, given or [0.0, ...]"
            raise InvalidArgumentError(msg)
        if request.if_version is None:
            request = request._replace(if_version=row.updated_at)
        written = await self._memory.added(*key, [draft], request)
        if written.edited is None:  # it was deleted meanwhile
            raise NotFoundError(_NO_MEMORY)
        return written.edited

    @observed("history", len)
    async def history(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> list[Revision]:
        """Return the current and the former versions of a memory."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        check_name(memory_id, "memory_id", self._memory.limits)
        partitions = self._memory.search_index.partitions
        return await Join(partitions.submit_scan(key, self._past, *key, memory_id))

    def _past(self, app: str, user: str, memory_id: str) -> list[Revision]:
        storage = self._memory.storage
        with storage.read(app, user) as reads:
            now = storage.expiry_clock.now()
            found = reads.history(app, user, memory_id, now, self._memory.rights)
        if not found:
            raise NotFoundError(_NO_MEMORY)
        return [
            Revision(
                entry_from_row(past.row),
                cast("Any", past.state),
                past.at,
                past.why,
                past.by,
                past.row.uses or 0 if past.is_current else None,
                past.row.expires_at if past.is_current else None,
            )
            for past in in_slices(found)
        ]

    @observed("list", len)
    async def listed(
        self,
        app_name: str,
        user_id: str,
        state: str,
        cursor: str | None,
        limit: int | None,
        scope: str,
        filter_: object = None,
        include_expired: object = False,
    ) -> Page[MemoryEntry]:
        """Return a page of a user's memories in one state, in order of creation."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        conditions = self._conditions(state, filter_)
        limit = check_top_k(limit, self._memory.limits, "limit", DEFAULT_PAGE)
        expired = checked_bool(include_expired, "include_expired")
        if cursor is not None:
            check_name(cursor, "cursor", self._memory.limits)
        storage, rights = self._memory.storage, self._memory.rights

        def page() -> Page[MemoryEntry]:
            with storage.read(*key) as reads:
                now = ALWAYS if expired else storage.expiry_clock.now()
                rows = reads.listed(
                    *key, state, cursor, limit + 1, now, conditions, rights
                )
            entries = [entry_from_row(row, scope=scope) for row in in_slices(rows)]
            return Page.of(entries, limit, lambda entry: entry.id)

        partitions = self._memory.search_index.partitions
        if conditions.metadata is None:
            return await Join(partitions.submit_page(key, limit, page))
        return await Join(partitions.submit_scan(key, page))  # reads row by row

    def _conditions(self, state: str, filter_: object) -> Filter:
        """Return the checked conditions of a listing."""
        if type(state) is not str or state not in get_args(State):
            msg = f"state: must be one of {', '.join(get_args(State))}"
            raise InvalidArgumentError(msg)
        if state == QUARANTINED:
            self._memory.rights.require_review()
        if filter_ is None:
            return EVERY
        return check_filter(filter_, self._memory.limits, by_metadata=True)

    @observed("count")
    async def count(
        self,
        app_name: str,
        user_id: str,
        state: str,
        filter_: object,
        scope: str,
        include_expired: object = False,
    ) -> int:
        """Return the number of a user's memories that pass a filter."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        conditions = self._conditions(state, filter_)
        rights = self._memory.rights
        return await self._memory.scanned(
            key,
            lambda reads, now: reads.count_listed(*key, state, now, conditions, rights),
            expired=checked_bool(include_expired, "include_expired"),
        )

    @observed("figures")
    async def figures(
        self,
        app_name: str,
        user_id: str,
        state: str,
        scope: str,
        include_expired: object,
    ) -> MemoryFigures:
        """Return how many memories a user has, by day and by kind."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        self._conditions(state, None)
        rights = self._memory.rights
        return await self._memory.scanned(
            key,
            lambda reads, now: reads.memory_figures(*key, state, now, rights),
            expired=checked_bool(include_expired, "include_expired"),
        )

    @observed("list_sessions")
    async def sessions(
        self,
        app_name: str,
        user_id: str,
        prefix: object,
        after: object,
        limit: object,
        scope: str,
        include_expired: object,
    ) -> Page[ListedSession]:
        """Return a page of a user's sessions that have memories."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        rights = self._memory.rights
        return await self._memory.page_of(
            key,
            (prefix, after, limit),
            lambda reads, now, *page: reads.list_sessions(*key, *page, now, rights),
            lambda session: session.session_id,
            expired=include_expired,
        )

    @observed("archive")
    async def archive(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> None:
        """Archive a memory: it stays stored, but searches do not return it."""
        key = self._memory.key(app_name, user_id, scope, write=True)
        check_name(memory_id, "memory_id", self._memory.limits)
        job = ArchiveMemories(*key, [memory_id], rights=self._memory.rights)
        if not (await self._write(job)).removed:
            raise NotFoundError(_NO_MEMORY)

    @observed("restore", len)
    async def restore(
        self,
        app_name: str,
        user_id: str,
        memory_id: str,
        scope: str,
        state: State = "archived",
        updated_at: float | None = None,
    ) -> list[str]:
        """Make a memory of the given state live; return the ids of live memories."""
        memory = self._memory
        key = memory.key(app_name, user_id, scope, write=True)
        check_name(memory_id, "memory_id", memory.limits)
        seen = None if updated_at is None else to_seconds(updated_at, "updated_at")
        if state == QUARANTINED:
            memory.rights.require_review()
        job = RestoreMemory(
            *key, memory_id, memory.quota, state, seen, rights=memory.rights
        )
        return list((await self._write(job)).ids)

    # Deletion: by id, session, filter, user or app.

    @observed("delete", int)
    async def delete(
        self,
        app_name: str,
        user_id: str,
        memory_id: str | None,
        scope: str,
        if_version: object = None,
    ) -> int:
        """Delete one memory permanently; return the number deleted, 0 or 1."""
        key = self._memory.key(app_name, user_id, scope, write=True)
        version = checked_version(if_version)
        if memory_id is None:
            return 0
        check_name(memory_id, "memory_id", self._memory.limits)
        job = DeleteMemories(
            *key, [memory_id], version=version, rights=self._memory.rights
        )
        return len((await self._delete(job, *key)).removed)

    @observed("delete_many", sum)
    async def delete_many(
        self, app_name: str, user_id: str, memory_ids: object, scope: str
    ) -> list[bool]:
        """Delete memories in one transaction; return whether each was there."""
        key = self._memory.key(app_name, user_id, scope, write=True)
        limits = self._memory.limits
        given = as_list(memory_ids, "memory_ids")
        ids = [check_name(id_, "memory_ids", limits) for id_ in given]
        if not ids:
            return []
        wanted = list(dict.fromkeys(ids))
        job = DeleteMemories(*key, wanted, rights=self._memory.rights)
        gone = set((await self._delete(job, *key)).ids)
        return [id_ in gone for id_ in ids]

    @observed("delete_session", int)
    async def delete_session(self, app_name: str, user_id: str, session_id: str) -> int:
        """Delete the memories of a session; return the number deleted."""
        self._memory.key(app_name, user_id, write=True)
        check_name(session_id, "session_id", self._memory.limits)
        rights = self._memory.rights
        job = DeleteMemories(app_name, user_id, session=session_id, rights=rights)
        return len((await self._delete(job, app_name, user_id)).removed)

    @observed("delete_where", int)
    async def delete_where(
        self, app_name: str, user_id: str, filter_: object, scope: str
    ) -> int:
        """Delete the memories that match a filter; return the number deleted."""
        key = self._memory.key(app_name, user_id, scope, write=True)
        conditions = check_filter(filter_, self._memory.limits, by_metadata=True)
        if conditions == Filter():
            msg = "filter: must name at least one condition; delete_user deletes all"
            raise InvalidArgumentError(msg)
        session = conditions.session_id
        rest = replace(conditions, session_id=None)
        passed = None
        if conditions.metadata is not None:  # other writers do not wait for the scan
            passed = await self._memory.scanned(
                key, lambda reads, _: reads.passing(*key, conditions)
            )
        rights = self._memory.rights
        job = DeleteMemories(
            *key, session=session, filter=rest, passed=passed, rights=rights
        )
        return len((await self._delete(job, *key)).removed)

    @observed("delete_user", int)
    async def delete_user(
        self, app_name: str, user_id: str, forget: bool, scope: str
    ) -> int:
        """Delete all memories of a user, or every trace of one."""
        checked_bool(forget, "forget")
        key = self._memory.key(app_name, user_id, scope, write=True)
        return len((await self._delete_user(*key, forget)).ids)

    async def _delete_user(self, app: str, user: str, forget: bool) -> Change:
        rights = self._memory.rights
        if forget:
            rights.require_all_tiers()  # the traces of a hidden memory are traces
            job: WriteJob = ForgetUser(app, user, rights=rights)
        else:
            job = DeleteMemories(app, user, rights=rights)
        embedding = self._memory.search_index.embedding
        if embedding is not None:
            embedding.forget_user(app, user)
        change = await self._write(job)
        self._memory.item_cache.drop((app, user))
        snapshots = self._memory.storage.snapshots
        if snapshots is not None and change.part:
            # A snapshot that stays is not used any more, and a purge removes it.
            with suppress(VecallError):
                snapshots.remove(change.part)
        return change

    @observed("delete_app", int)
    async def delete_app(self, app_name: str, confirm: bool, forget: bool) -> int:
        """Delete all memories of all users of an app, user by user."""
        self._memory.check_whole()
        self._memory.key(app_name, "-", write=True)
        checked_bool(forget, "forget")
        if confirm is not True:
            msg = "confirm: deleting the memories of all users needs confirm=True"
            raise InvalidArgumentError(msg)

        def partitions(reads: StorageReads, _: float) -> list[Key]:
            users = [(app_name, user) for user in reads.users_of(app_name)]
            if forget:  # also those whose names a purge has hidden
                users += [(HIDDEN_APP, user) for user in reads.hidden_names(app_name)]
            return users

        count = 0
        for key in await self._memory.scanned(None, partitions):
            change = await self._delete_user(*key, forget)
            count += len(change.ids)
        return count

    async def _delete(self, job: WriteJob, app: str, user: str) -> Change:
        """Run a deletion, and drop the cached embeddings of the user's texts."""
        embedding = self._memory.search_index.embedding
        if embedding is not None:
            embedding.forget_texts(app, user)
        return await self._write(job)

    async def _write(self, job: WriteJob) -> Change:
        return await Join(self._memory.storage.submit(job))

    # Forgetting in two steps: propose memories, then confirm to delete them.

    @observed("propose_forget")
    async def propose(
        self, app_name: str, user_id: str, query: str, top_k: int | None
    ) -> ForgetProposal:
        """Search for memories to forget, and store them as a proposal."""
        memory = self._memory
        key = memory.key(app_name, user_id, write=True)
        query = check_query(query)[: memory.limits.max_query_chars]
        # The default floors of the service do not apply to proposals.
        request = SearchRequest(
            key,
            query,
            check_top_k(top_k, memory.limits, default=5),
            ranking=ALONE,
            explain=True,
        )
        found = await memory.served(
            lambda search_index: self._matching(search_index, request)
        )
        expires_at = memory.storage.expiry_clock.now() + LASTS_S
        if not found:
            return ForgetProposal("", [], expires_at)
        job = ProposeForget(*key, {str(memory.id): memory.text for memory in found})
        await Join(memory.storage.submit(job))
        return ForgetProposal(job.token, found, expires_at)

    async def _matching(
        self, search_index: SearchIndex, request: SearchRequest
    ) -> list[MemoryEntry]:
        """Return the memories near the best match.

        If the embedder fails, the search uses words only.
        """
        find = search_index.recall.candidates
        try:
            found = await self._memory.search_one(search_index, request, find)
        except EmbedderError:
            words = replace(request.ranking, fusion="words")
            by_words = request._replace(ranking=words)
            found = await self._memory.search_one(search_index, by_words, find)
        matches = [_match_of_memory(memory) for memory in found.memories]
        near = near_best(matches)
        return [
            replace(memory, explanation=None)
            for memory, is_near in zip(found.memories, near, strict=True)
            if is_near
        ]

    @observed("confirm_forget", int)
    async def confirm(
        self, app_name: str, user_id: str, token: str, ids: object
    ) -> int:
        """Delete some or all proposed memories; return the number deleted."""
        key = self._memory.key(app_name, user_id, write=True)
        check_name(token, "token", self._memory.limits)
        chosen = chosen_ids(ids, self._memory.limits)
        job = DeleteMemories(*key, chosen, token=token, rights=self._memory.rights)
        return len((await self._delete(job, *key)).removed)


def chosen_ids(ids: object, limits: Limits) -> list[str] | None:
    """Return the ids that a caller chose from a proposal; None selects all."""
    if ids is None:
        return None
    chosen = [check_name(id_, "ids", limits) for id_ in as_list(ids, "ids")]
    if not chosen:
        msg = "ids: expected at least one id; omit ids to delete all proposed memories"
        raise InvalidArgumentError(msg)
    return list(dict.fromkeys(chosen))


def _match_of_memory(memory: MemoryEntry) -> Match:
    explanation = memory.explanation or {}
    coverage = explanation["query_coverage"]
    return Match(coverage, memory.similarity, explanation["vectors"])
