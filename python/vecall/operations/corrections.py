"""Corrections of memories: update, history, listing, archive and restore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, cast, get_args

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.errors import (
    ConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
)
from vecall.filters.labels import EVERY
from vecall.filters.rights import QUARANTINED
from vecall.filters.trust import at_most, check_tier
from vecall.ingest.call_metadata import CallMetadata, GivenMetadata, call_metadata
from vecall.ingest.drafts import one_draft
from vecall.operations.own_vectors import give_own_vectors
from vecall.operations.write_request import WriteRequest, checked_version
from vecall.operations.writes_and_searches import WritesAndSearches
from vecall.search.confidence import prior_of
from vecall.search.entries import entry_from_row
from vecall.store import (
    ALWAYS,
    ArchiveMemories,
    Change,
    RestoreMemory,
    Row,
    State,
)
from vecall.telemetry import observed
from vecall.timestamps import to_seconds
from vecall.types import Filter, MemoryEntry, Page, Revision
from vecall.validation import check_filter, check_name, check_top_k, checked_bool

Key = tuple[str, str]

_ATTEMPTS = 100  # of a correction that meets other changes of its memory

_CHANGEABLE = (
    "content author timestamp kind source custom_metadata importance valid_until"
).split()


def _check_changes(changes: Mapping[str, Any]) -> None:
    """Check the names of the fields to change, and the types of some values.

    Raises:
        InvalidArgumentError: No field, or a field that cannot be changed.
        InvalidTypeError: The author, the kind or the source is not a string, or the
            content is None.
    """
    if not changes or changes.keys() - set(_CHANGEABLE):
        msg = f"changes: expected some of {', '.join(_CHANGEABLE)}"
        raise InvalidArgumentError(msg)
    for name in ("author", "kind", "source"):
        if not isinstance(changes.get(name), str | None):
            msg = f"{name}: expected a string"
            raise InvalidTypeError(msg)
    if changes.get("content", "") is None:
        msg = "content: expected a text"
        raise InvalidTypeError(msg)


class Corrections:
    """Updates, history and states of the memories of an open file."""

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
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                now = await self._write_changed(
                    key,
                    scope,
                    memory_id,
                    changes,
                    max_trust,
                    vector,
                    version,
                    how,
                    (app_name, user_id),
                )
                break
            except ConflictError:
                if version is not None or attempt == _ATTEMPTS:
                    raise
        return entry_from_row(now, prior_of(now), scope=scope)

    async def _write_changed(
        self,
        key: Key,
        scope: str,
        memory_id: str,
        changes: Mapping[str, Any],
        max_trust: str | None,
        vector: object,
        version: float | None,
        how: CallMetadata,
        requested_by: Key,
    ) -> Row:
        """Write a memory with changed fields over the version that was read.

        Returns:
            The memory as this write leaves it. A later one may have changed it already.

        Raises:
            ConflictError: The memory was changed since then.
        """
        partitions = self._memory.search_index.partitions
        row: Row = await Join(partitions.submit(self._row, *key, memory_id))
        # Superseded memories were archived at the first write; some may be live again.
        unchanged = {
            "importance": row.importance,
            "supersedes": None,
            "trust": at_most(row.trust, max_trust),
        }
        changed = replace(
            entry_from_row(row, prior_of(row)), **{**unchanged, **changes}
        )
        draft = one_draft(changed, how, self._memory.limits)
        search_index = self._memory.search_index
        own = None if vector is None else [vector]
        give_own_vectors([draft], own, search_index.model)
        embedding = search_index.embedding
        is_new = (draft.author, draft.text) != (row.author, row.text)
        if vector is None and is_new and embedding and not embedding.can_embed:
            msg = "vector: a new content or author needs a vector, given or [0.0, ...]"
            raise InvalidArgumentError(msg)
        request = WriteRequest(
            corrects=True,
            scope=scope,
            requested_by=requested_by,
            if_version=row.updated_at if version is None else version,
        )
        written = await self._memory.added(*key, [draft], request)
        if written.edited is None:  # it was deleted meanwhile
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)
        return written.edited

    def _row(self, app: str, user: str, memory_id: str) -> Row:
        storage = self._memory.storage
        with storage.read(app, user) as reads:
            row = reads.find(
                app,
                user,
                memory_id,
                storage.expiry_clock.now(),
                self._memory.rights,
            )
        if row is None:
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)
        return row

    @observed("history", len)
    async def history(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> list[Revision]:
        """Return the current and the former versions of a memory."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        check_name(memory_id, "memory_id", self._memory.limits)
        partitions = self._memory.search_index.partitions
        found: list[Revision] = await Join(
            partitions.submit_scan(key, self._past, *key, memory_id)
        )
        return found

    def _past(self, app: str, user: str, memory_id: str) -> list[Revision]:
        storage = self._memory.storage
        with storage.read(app, user) as reads:
            now = storage.expiry_clock.now()
            found = reads.history(app, user, memory_id, now, self._memory.rights)
        if not found:
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)
        return [
            Revision(
                entry_from_row(past.row, prior_of(past.row)),
                cast("Any", past.state),
                past.at,
                past.why,
                past.by,
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
        limit: int,
        scope: str,
        filter_: object = None,
        include_expired: object = False,
    ) -> Page[MemoryEntry]:
        """Return a page of a user's memories in one state, in order of creation."""
        key = self._memory.key(app_name, user_id, scope, write=False)
        conditions = self._conditions(state, filter_)
        limit = check_top_k(limit, self._memory.limits, "limit")
        expired = checked_bool(include_expired, "include_expired")
        if cursor is not None:
            check_name(cursor, "cursor", self._memory.limits)
        found: Page[MemoryEntry] = await Join(
            self._submit_for(key, limit, conditions)(
                self._listed, key, state, cursor, limit, scope, conditions, expired
            )
        )
        return found

    def _submit_for(
        self, key: Key, limit: int, conditions: Filter
    ) -> Callable[..., Future[Any]]:
        """Return how to read: metadata are read row by row, which may take long."""
        partitions = self._memory.search_index.partitions
        if conditions.metadata is None:
            return partial(partitions.submit_page, key, limit)
        return partial(partitions.submit_scan, key)

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
        expired = checked_bool(include_expired, "include_expired")
        partitions = self._memory.search_index.partitions
        count: int = await Join(
            partitions.submit_scan(key, self._count, key, state, conditions, expired)
        )
        return count

    def _count(self, key: Key, state: str, conditions: Filter, expired: bool) -> int:
        storage = self._memory.storage
        with storage.read(*key) as reads:
            now = ALWAYS if expired else storage.expiry_clock.now()
            return reads.count_listed(*key, state, now, conditions, self._memory.rights)

    def _listed(
        self,
        key: Key,
        state: str,
        cursor: str | None,
        limit: int,
        scope: str,
        conditions: Filter,
        expired: bool,
    ) -> Page[MemoryEntry]:
        storage = self._memory.storage
        with storage.read(*key) as reads:
            now = ALWAYS if expired else storage.expiry_clock.now()
            rows = reads.listed(
                *key, state, cursor, limit + 1, now, conditions, self._memory.rights
            )
        entries = [
            entry_from_row(row, prior_of(row), scope=scope) for row in in_slices(rows)
        ]
        return Page.of(entries, limit, lambda entry: entry.id)

    @observed("archive")
    async def archive(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> None:
        """Archive a memory: it stays stored, but searches do not return it."""
        key = self._memory.key(app_name, user_id, scope, write=True)
        check_name(memory_id, "memory_id", self._memory.limits)
        change: Change = await Join(
            self._memory.storage.submit(
                ArchiveMemories(*key, [memory_id], rights=self._memory.rights)
            )
        )
        if not change.removed:
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)

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
        change: Change = await Join(memory.storage.submit(job))
        return list(change.ids)
