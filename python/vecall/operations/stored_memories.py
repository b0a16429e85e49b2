"""The stored memories of an open file: read by id, list, correct, delete, forget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast, get_args

from vecall import errors, store, types, validation
from vecall.clock import to_seconds, ttl_seconds
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.filters.metadata import EVERY
from vecall.filters.rights import QUARANTINED, cap_trust_tier, check_trust_tier
from vecall.ingest.drafts import draft_of_entry
from vecall.ingest.fields import GivenMetadata, call_metadata
from vecall.limits import Limits
from vecall.operations.searches import ALONE
from vecall.operations.writes import (
    OperationGroup,
    WriteRequest,
    checked_version,
    give_callers_vectors,
)
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import SearchRequest, entry_of_row
from vecall.store import Change
from vecall.telemetry import observed

Key = tuple[str, str]

_NO_MEMORY = "memory_id: this user has no such memory"
_ATTEMPTS = 100  # of a correction that meets other changes of its memory

_CHANGEABLE = (
    "content author timestamp kind source custom_metadata importance valid_until"
).split()


def _check_changed_fields(changes: Mapping[str, Any]) -> None:
    """Check the names of the fields to change, and the types of some values."""
    if not changes or changes.keys() - set(_CHANGEABLE):
        msg = f"changes: expected some of {', '.join(_CHANGEABLE)}"
        raise errors.InvalidArgumentError(msg)
    for name in ("author", "kind", "source"):
        if not isinstance(changes.get(name), str | None):
            raise errors.InvalidTypeError(f"{name}: expected a string")
    if changes.get("content", "") is None:
        raise errors.InvalidTypeError("content: expected a text")


def count_found_entries(entries: list[types.MemoryEntry | None]) -> int:
    """Return the number of memories that were found."""
    return sum(entry is not None for entry in entries)


class StoredMemories(OperationGroup):
    """Reads, changes and deletes the stored memories of an open file."""

    def _key_of_memory(
        self, app: str, user: str, memory_id: str, scope: str, *, write: bool
    ) -> Key:
        """Return the key of the partition of a memory; check all names."""
        key = self.memory.key(app, user, scope, write=write)
        validation.check_name(memory_id, "memory_id", self.memory.limits)
        return key

    def _checked_memory_ids(self, memory_ids: object) -> list[str]:
        limits = self.memory.limits
        ids = as_list(memory_ids, "memory_ids")
        return [validation.check_name(id_, "memory_ids", limits) for id_ in ids]

    def _read_memory_row(
        self, reads: store.StorageReads, key: Key, memory_id: str, now: float
    ) -> store.Row:
        row = reads.find(*key, memory_id, now, self.memory.rights)
        if row is None:
            raise errors.NotFoundError(_NO_MEMORY)
        return row

    # By id.

    @observed("get", lambda _: 1)
    async def get(
        self, app: str, user: str, memory_id: str, scope: str
    ) -> types.MemoryEntry:
        """Return one memory by id."""
        key = self._key_of_memory(app, user, memory_id, scope, write=False)

        def read(reads: store.StorageReads, now: float) -> types.MemoryEntry:
            row = self._read_memory_row(reads, key, memory_id, now)
            return entry_of_row(row, scope=scope)

        return await self.memory.read_storage(key, read, short=True)

    @observed("get_many", count_found_entries)
    async def get_many(
        self, app: str, user: str, memory_ids: object, scope: str, include_expired: bool
    ) -> list[types.MemoryEntry | None]:
        """Return the memory of each id; None for an id without one."""
        memory = self.memory
        key = memory.key(app, user, scope, write=False)
        ids = self._checked_memory_ids(memory_ids)
        expired = validation.checked_bool(include_expired, "include_expired")
        if not ids:
            return []

        def read() -> list[types.MemoryEntry | None]:
            wanted = list(dict.fromkeys(ids))
            with memory.read_committed_state(key, expired=expired) as (reads, now):
                rows = reads.find_many(*key, wanted, now, memory.rights)
            known = {row.id: entry_of_row(row, scope=scope) for row in in_slices(rows)}
            return [known.get(id_) for id_ in ids]

        return await Join(memory.threads.run_page_read(key, len(ids), read))

    @observed("expand_session", len)
    async def expand_session(
        self, app: str, user: str, memory_id: str, before: object, after: object
    ) -> list[types.MemoryEntry]:
        """Return a memory and the turns around it in its session."""
        memory = self.memory
        key = self._key_of_memory(app, user, memory_id, "user", write=False)
        counts = (
            validation.check_turns(before, "turns_before", memory.limits),
            validation.check_turns(after, "turns_after", memory.limits),
        )

        def read() -> list[types.MemoryEntry]:
            with memory.read_committed_state(key) as (reads, now):
                row = self._read_memory_row(reads, key, memory_id, now)
                turns = reads.turns_around(row, *counts, now, memory.rights)
            return [entry_of_row(turn) for turn in in_slices(turns)]

        return await Join(memory.threads.run_page_read(key, sum(counts), read))

    @observed("touch", int)
    async def touch(
        self, app: str, user: str, memory_ids: object, ttl: object, scope: str
    ) -> int:
        """Move the expiry of memories; return how many were found."""
        key = self.memory.key(app, user, scope, write=True)
        ids = self._checked_memory_ids(memory_ids)
        seconds = None if ttl is None else ttl_seconds(ttl)
        if not ids:
            return 0
        job = store.TouchMemories(*key, ids, seconds, self.memory.rights)
        return len((await self._run_write_job(job)).ids)

    @observed("mark_used", int)
    async def mark_used(self, app: str, user: str, memory_ids: object) -> int:
        """Count one use of each memory; return how many were found."""
        key = self.memory.key(app, user, write=True)
        ids = self._checked_memory_ids(memory_ids)
        if not ids:
            return 0
        job = store.MarkUsed(*key, ids, self.memory.rights)
        return len((await self._run_write_job(job)).marked)

    @observed("history", len)
    async def revisions_of(
        self, app: str, user: str, memory_id: str, scope: str
    ) -> list[types.Revision]:
        """Return the current and the former versions of a memory."""
        memory = self.memory
        key = self._key_of_memory(app, user, memory_id, scope, write=False)

        def read() -> list[types.Revision]:
            with memory.read_committed_state(key) as (reads, now):
                found = reads.history(*key, memory_id, now, memory.rights)
            if not found:
                raise errors.NotFoundError(_NO_MEMORY)
            return [
                types.Revision(
                    entry_of_row(past.row),
                    cast("Any", past.state),
                    past.at,
                    past.why,
                    past.by,
                    past.row.uses or 0 if past.is_current else None,
                    past.row.expires_at if past.is_current else None,
                )
                for past in in_slices(found)
            ]

        return await Join(memory.threads.long(key, read))

    @observed("update")
    async def update_memory(
        self,
        app: str,
        user: str,
        memory_id: str,
        scope: str,
        changes: Mapping[str, Any],
        max_trust: str | None,
        vector: object,
        if_version: object,
        verbatim: object,
    ) -> types.MemoryEntry:
        """Change fields of one memory; return the memory after the change."""
        # Without `if_version`, it is repeated over what another call wrote meanwhile. A
        # later write may have changed the memory again before the call returns.
        memory = self.memory
        if max_trust is not None:
            check_trust_tier(max_trust, "max_trust")
        key = self._key_of_memory(app, user, memory_id, scope, write=True)
        memory.key(app, user, scope, write=False)  # the call returns it
        if vector is None or changes:
            _check_changed_fields(changes)
        version = checked_version(if_version)
        how = call_metadata(GivenMetadata(verbatim=verbatim))
        if "custom_metadata" not in changes:  # the stored keys have no meaning
            how = how._replace(verbatim=True)
        request = WriteRequest(
            corrects=True, scope=scope, requested_by=(app, user), if_version=version
        )

        async def write() -> store.Row:
            row = await memory.read_storage(
                key,
                lambda reads, now: self._read_memory_row(reads, key, memory_id, now),
                short=True,
            )
            # Superseded memories were archived at the first write; some may be live.
            unchanged = {
                "importance": row.importance,
                "supersedes": None,
                "trust": cap_trust_tier(row.trust, max_trust),
            }
            changed = replace(entry_of_row(row), **{**unchanged, **changes})
            draft = draft_of_entry(changed, how, memory.limits)
            search_index = memory.search_index
            if vector is not None:
                give_callers_vectors([draft], [vector], search_index.model)
            embedding = search_index.embedding
            is_new = (draft.author, draft.text) != (row.author, row.text)
            if vector is None and is_new and embedding and not embedding.can_embed:
                raise errors.InvalidArgumentError(
                    "vector: a new content or author needs a vector, given or "
                    "[0.0, ...]"
                )
            seen = row.updated_at if version is None else version
            written = await memory.write_drafts(
                key, [draft], request._replace(if_version=seen)
            )
            if written.edited is None:  # it was deleted meanwhile
                raise errors.NotFoundError(_NO_MEMORY)
            return written.edited

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                now = await write()
                break
            except errors.ConflictError:
                if version is not None or attempt == _ATTEMPTS:
                    raise
        return entry_of_row(now, scope=scope)

    @observed("archive")
    async def archive(self, app: str, user: str, memory_id: str, scope: str) -> None:
        """Archive a memory: it stays stored, but searches do not return it."""
        key = self._key_of_memory(app, user, memory_id, scope, write=True)
        job = store.ArchiveMemories(*key, [memory_id], rights=self.memory.rights)
        if not (await self._run_write_job(job)).removed:
            raise errors.NotFoundError(_NO_MEMORY)

    @observed("restore", len)
    async def restore(
        self,
        app: str,
        user: str,
        memory_id: str,
        scope: str,
        state: store.State = "archived",
        updated_at: float | None = None,
    ) -> list[str]:
        """Make a memory of the given state live; return the ids of live memories."""
        memory = self.memory
        key = self._key_of_memory(app, user, memory_id, scope, write=True)
        seen = None if updated_at is None else to_seconds(updated_at, "updated_at")
        if state == QUARANTINED:
            memory.rights.require_review()
        job = store.RestoreMemory(
            *key, memory_id, memory.quota, state, seen, rights=memory.rights
        )
        return list((await self._run_write_job(job)).ids)

    # Lists and figures.

    def _checked_conditions(self, state: str, filter_: object = None) -> types.Filter:
        if type(state) is not str or state not in get_args(store.State):
            msg = f"state: must be one of {', '.join(get_args(store.State))}"
            raise errors.InvalidArgumentError(msg)
        if state == QUARANTINED:
            self.memory.rights.require_review()
        if filter_ is None:
            return EVERY
        return validation.check_filter(filter_, self.memory.limits, by_metadata=True)

    @observed("list", len)
    async def list_memory_page(
        self,
        app: str,
        user: str,
        state: str,
        cursor: str | None,
        limit: int | None,
        scope: str,
        filter_: object,
        include_expired: bool,
    ) -> types.Page[types.MemoryEntry]:
        """Return a page of a user's memories in one state, in order of creation."""
        memory = self.memory
        key = memory.key(app, user, scope, write=False)
        conditions = self._checked_conditions(state, filter_)
        limit = validation.check_top_k(
            limit, memory.limits, "limit", validation.DEFAULT_PAGE
        )
        expired = validation.checked_bool(include_expired, "include_expired")
        if cursor is not None:
            validation.check_name(cursor, "cursor", memory.limits)

        def page() -> types.Page[types.MemoryEntry]:
            with memory.read_committed_state(key, expired=expired) as (reads, now):
                rows = reads.listed(
                    *key, state, cursor, limit + 1, now, conditions, memory.rights
                )
            entries = [entry_of_row(row, scope=scope) for row in in_slices(rows)]
            return types.Page.of(entries, limit, lambda entry: entry.id)

        if conditions.metadata is None:
            return await Join(memory.threads.run_page_read(key, limit, page))
        return await Join(memory.threads.long(key, page))  # reads row by row

    @observed("count")
    async def count(
        self,
        app: str,
        user: str,
        state: str,
        filter_: object,
        scope: str,
        include_expired: bool,
    ) -> int:
        """Return the number of a user's memories that pass a filter."""
        key = self.memory.key(app, user, scope, write=False)
        conditions = self._checked_conditions(state, filter_)
        rights = self.memory.rights
        return await self.memory.read_storage(
            key,
            lambda reads, now: reads.count_listed(*key, state, now, conditions, rights),
            expired=include_expired,
        )

    @observed("figures")
    async def memory_counts(
        self, app: str, user: str, state: str, scope: str, include_expired: bool
    ) -> types.MemoryFigures:
        """Return how many memories a user has, by day and by kind."""
        key = self.memory.key(app, user, scope, write=False)
        self._checked_conditions(state)
        rights = self.memory.rights
        return await self.memory.read_storage(
            key,
            lambda reads, now: reads.memory_figures(*key, state, now, rights),
            expired=include_expired,
        )

    @observed("list_sessions")
    async def list_sessions(
        self,
        app: str,
        user: str,
        prefix: object,
        after: object,
        limit: object,
        scope: str,
        include_expired: bool,
    ) -> types.Page[types.ListedSession]:
        """Return a page of a user's sessions that have memories."""
        key = self.memory.key(app, user, scope, write=False)
        rights = self.memory.rights
        return await self.memory.read_page_of_names(
            key,
            (prefix, after, limit),
            lambda reads, now, *page: reads.list_sessions(*key, *page, now, rights),
            lambda session: session.session_id,
            expired=include_expired,
        )

    # Deletion: by id, session, filter, user or app.

    @observed("delete", int)
    async def delete(
        self, app: str, user: str, memory_id: str | None, scope: str, if_version: object
    ) -> int:
        """Delete one memory permanently; return the number deleted, 0 or 1."""
        key = self.memory.key(app, user, scope, write=True)
        version = checked_version(if_version)
        if memory_id is None:
            return 0
        validation.check_name(memory_id, "memory_id", self.memory.limits)
        return len((await self._delete(key, [memory_id], version=version)).removed)

    @observed("delete_many", sum)
    async def delete_many(
        self, app: str, user: str, memory_ids: object, scope: str
    ) -> list[bool]:
        """Delete memories in one transaction; return whether each was there."""
        key = self.memory.key(app, user, scope, write=True)
        ids = self._checked_memory_ids(memory_ids)
        if not ids:
            return []
        gone = set((await self._delete(key, list(dict.fromkeys(ids)))).ids)
        return [id_ in gone for id_ in ids]

    @observed("delete_session", int)
    async def delete_session(self, app: str, user: str, session_id: str) -> int:
        """Delete the memories of a session; return the number deleted."""
        key = self.memory.key(app, user, write=True)
        validation.check_name(session_id, "session_id", self.memory.limits)
        return len((await self._delete(key, session=session_id)).removed)

    @observed("delete_where", int)
    async def delete_where(
        self, app: str, user: str, filter_: object, scope: str
    ) -> int:
        """Delete the memories that match a filter; return the number deleted."""
        key = self.memory.key(app, user, scope, write=True)
        conditions = validation.check_filter(
            filter_, self.memory.limits, by_metadata=True
        )
        if conditions == types.Filter():
            msg = "filter: must name at least one condition; delete_user deletes all"
            raise errors.InvalidArgumentError(msg)
        passed = None
        if conditions.metadata is not None:  # other writers do not wait for the scan
            passed = await self.memory.read_storage(
                key, lambda reads, _: reads.passing(*key, conditions)
            )
        change = await self._delete(
            key,
            session=conditions.session_id,
            filter=replace(conditions, session_id=None),
            passed=passed,
        )
        return len(change.removed)

    @observed("delete_user", int)
    async def delete_user(self, app: str, user: str, forget: bool, scope: str) -> int:
        """Delete all memories of a user, or every trace of one."""
        validation.checked_bool(forget, "forget")
        key = self.memory.key(app, user, scope, write=True)
        return len((await self._delete_user_partition(key, forget)).ids)

    async def _delete_user_partition(self, key: Key, forget: bool) -> Change:
        memory = self.memory
        job: store.WriteJob = store.DeleteMemories(*key, rights=memory.rights)
        if forget:
            memory.rights.require_all_tiers()  # traces of a hidden memory are traces
            job = store.ForgetUser(*key, rights=memory.rights)
        embedding = memory.search_index.embedding
        if embedding is not None:
            embedding.forget_user(*key)
        change = await self._run_write_job(job)
        memory.item_cache.drop(key)
        snapshots = memory.storage.snapshots
        if snapshots is not None and change.part:
            # A snapshot that stays is not used any more, and a purge removes it.
            with suppress(errors.VecallError):
                snapshots.remove_snapshot(change.part)
        return change

    @observed("delete_app", int)
    async def delete_app(self, app: str, confirm: bool, forget: bool) -> int:
        """Delete all memories of all users of an app, user by user."""
        self.memory.check_file_access()
        self.memory.key(app, "-", write=True)
        validation.checked_bool(forget, "forget")
        if confirm is not True:
            msg = "confirm: deleting the memories of all users needs confirm=True"
            raise errors.InvalidArgumentError(msg)

        def partitions(reads: store.StorageReads, _: float) -> list[Key]:
            users = [(app, user) for user in reads.users_of(app)]
            if forget:  # also those whose names a purge has hidden
                users += [(store.HIDDEN_APP, user) for user in reads.hidden_names(app)]
            return users

        count = 0
        for key in await self.memory.read_storage(None, partitions):
            count += len((await self._delete_user_partition(key, forget)).ids)
        return count

    async def _delete(
        self, key: Key, ids: Sequence[str] | None = None, **conditions: Any
    ) -> Change:
        """Delete memories; see `DeleteMemories` for the conditions."""
        rights = self.memory.rights
        return await self.memory.run_deletion(
            store.DeleteMemories(*key, ids, rights=rights, **conditions)
        )

    async def _run_write_job(self, job: store.WriteJob) -> Change:
        return await Join(self.memory.storage.submit(job))

    # Forgetting in two steps: propose memories, then confirm to delete them.

    @observed("propose_forget")
    async def propose_forget(
        self, app: str, user: str, query: str, top_k: int | None
    ) -> types.ForgetProposal:
        """Search for memories to forget, and store them as a proposal."""
        memory = self.memory
        key = memory.key(app, user, write=True)
        query = validation.check_query(query)[: memory.limits.max_query_chars]
        # The default floors of the service do not apply to proposals.
        request = SearchRequest(
            key,
            query,
            validation.check_top_k(top_k, memory.limits, default=5),
            ranking=ALONE,
            explain=True,
        )
        found = await memory.repeat_if_retired(
            lambda search_index: self._find_near_best(search_index, request)
        )
        expires_at = memory.storage.expiry_clock.now() + store.LASTS_S
        if not found:
            return types.ForgetProposal("", [], expires_at)
        job = store.ProposeForget(*key, {str(each.id): each.text for each in found})
        await self._run_write_job(job)
        return types.ForgetProposal(job.token, found, expires_at)

    async def _find_near_best(
        self, search_index: SearchIndex, request: SearchRequest
    ) -> list[types.MemoryEntry]:
        """Return the memories near the best match."""
        # If the embedder fails, the search uses words only.
        find = search_index.recall.candidates
        try:
            found = await self.memory.search_partition(search_index, request, find)
        except errors.EmbedderError:
            words = replace(request.ranking, fusion="words")
            request = request._replace(ranking=words)
            found = await self.memory.search_partition(search_index, request, find)
        parts = [memory.explanation or {} for memory in found.memories]
        near = find_near_best(
            [
                Match(part["query_coverage"], memory.similarity, part["vectors"])
                for memory, part in zip(found.memories, parts, strict=True)
            ]
        )
        return [
            replace(memory, explanation=None)
            for memory, is_near in zip(found.memories, near, strict=True)
            if is_near
        ]

    @observed("confirm_forget", int)
    async def confirm_forget(self, app: str, user: str, token: str, ids: object) -> int:
        """Delete some or all proposed memories; return the number deleted."""
        key = self.memory.key(app, user, write=True)
        validation.check_name(token, "token", self.memory.limits)
        chosen = chosen_proposal_ids(ids, self.memory.limits)
        return len((await self._delete(key, chosen, token=token)).removed)


def chosen_proposal_ids(ids: object, limits: Limits) -> list[str] | None:
    """Return the ids that a caller chose from a proposal; None selects all."""
    if ids is None:
        return None
    chosen = [validation.check_name(id_, "ids", limits) for id_ in as_list(ids, "ids")]
    if not chosen:
        msg = "ids: expected at least one id; omit ids to delete all proposed memories"
        raise errors.InvalidArgumentError(msg)
    return list(dict.fromkeys(chosen))


# Selects the search results that are nearly as relevant as the best one.
#
# A search returns `top_k` memories even if the last ones are hardly relevant. A
# proposal to delete memories contains only those near the best match.

SHARE_OF_WORDS = 0.8
"""Least query coverage of a selected memory, as a share of the best coverage."""

WHOLE_BY_WORDS = 0.8
"""If the best query coverage is at least this, only words decide."""

HALF_BY_WORDS = 0.5
"""If the best query coverage is below this, cosines decide if memories have any."""

SHARE_OF_NEARNESS = 0.85
"""Least nearness of a selected memory, as a share of the best nearness."""

LEAST_COSINE = 0.3
"""Texts with a lower cosine are unrelated, for the models in common use."""


class Match(NamedTuple):
    """How well a memory matches a query."""

    # The share of the query's words that the memory contains, in [0, 1]. Rare words
    # weigh more if word frequencies are known.
    covered: float = 0.0
    cosine: float | None = None  # in [-1, 1]; None without vectors
    # How far the cosine exceeds the usual one of this user's memories, at least 0.
    nearness: float = 0.0  # comparable only within one search result


def find_near_best(matches: Sequence[Match]) -> list[bool]:
    """Return for each match whether it is near the best one."""
    # If the best memory covers the query, only words decide. Otherwise the cosine
    # counts too. If word coverage is low and every cosine is low, no match is near.
    covered = max((match.covered for match in matches), default=0.0)
    nearest = max((match.nearness for match in matches if _is_alike(match)), default=0)
    by_words = [
        match.covered > 0.0 and match.covered >= SHARE_OF_WORDS * covered
        for match in matches
    ]
    if covered >= WHOLE_BY_WORDS or nearest <= 0.0:
        has_vectors = any(match.cosine is not None for match in matches)
        if has_vectors and covered < HALF_BY_WORDS:
            return [False] * len(matches)
        return by_words
    by_cosine = [
        _is_alike(match) and match.nearness >= SHARE_OF_NEARNESS * nearest
        for match in matches
    ]
    if covered < HALF_BY_WORDS:
        return by_cosine
    return [any(either) for either in zip(by_words, by_cosine, strict=True)]


def _is_alike(match: Match) -> bool:
    return match.cosine is not None and match.cosine >= LEAST_COSINE
