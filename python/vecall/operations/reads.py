"""Reads memories by id, and records their use."""

from __future__ import annotations

from functools import partial

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.errors import NotFoundError
from vecall.operations.runtime import Runtime
from vecall.search.confidence import prior_of
from vecall.search.entries import entry_from_row
from vecall.store import ALWAYS, Change, MarkUsed, TouchMemories
from vecall.telemetry import observed
from vecall.timestamps import ttl_seconds
from vecall.types import MemoryEntry
from vecall.validation import check_name, check_turns, checked_bool


def _one(_: MemoryEntry) -> int:
    return 1


def found_count(entries: list[MemoryEntry | None]) -> int:
    """Return the number of memories that were found."""
    return sum(entry is not None for entry in entries)


class Reads:
    """Reads by id, and `mark_used`, of one open file."""

    def __init__(self, runtime: Runtime) -> None:
        """Use the runtime of an open file."""
        self._runtime = runtime
        self.telemetry = runtime.telemetry

    @observed("get", _one)
    async def get(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> MemoryEntry:
        """Return one memory by id."""
        key = self._runtime.key(app_name, user_id, scope, write=False)
        check_name(memory_id, "memory_id", self._runtime.limits)
        found: MemoryEntry = await Join(
            self._runtime.search_index.partitions.submit(
                self._get, *key, memory_id, scope
            )
        )
        return found

    def _get(self, app: str, user: str, memory_id: str, scope: str) -> MemoryEntry:
        storage = self._runtime.storage
        with storage.read(app, user) as reads:
            row = reads.find(
                app,
                user,
                memory_id,
                storage.expiry_clock.now(),
                self._runtime.rights,
            )
        if row is None:
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)
        return entry_from_row(row, prior_of(row), scope=scope)

    @observed("get_many", found_count)
    async def get_many(
        self,
        app_name: str,
        user_id: str,
        memory_ids: object,
        scope: str,
        include_expired: object = False,
    ) -> list[MemoryEntry | None]:
        """Return the memory of each id; None for an id without one."""
        key = self._runtime.key(app_name, user_id, scope, write=False)
        ids = self._checked_ids(memory_ids)
        expired = checked_bool(include_expired, "include_expired")
        if not ids:
            return []
        partitions = self._runtime.search_index.partitions
        read = partial(self._get_many, *key, ids, expired, scope)
        found: list[MemoryEntry | None] = await Join(
            partitions.submit_page(key, len(ids), read)
        )
        return found

    def _get_many(
        self, app: str, user: str, ids: list[str], expired: bool, scope: str
    ) -> list[MemoryEntry | None]:
        storage = self._runtime.storage
        with storage.read(app, user) as reads:
            now = ALWAYS if expired else storage.expiry_clock.now()
            rows = reads.find_many(
                app, user, list(dict.fromkeys(ids)), now, self._runtime.rights
            )
        known = {
            row.id: entry_from_row(row, prior_of(row), scope=scope)
            for row in in_slices(rows)
        }
        return [known.get(id_) for id_ in ids]

    def _checked_ids(self, memory_ids: object) -> list[str]:
        limits = self._runtime.limits
        ids = as_list(memory_ids, "memory_ids")
        return [check_name(id_, "memory_ids", limits) for id_ in ids]

    @observed("expand_session", len)
    async def expand_session(
        self,
        app_name: str,
        user_id: str,
        memory_id: str,
        turns_before: object,
        turns_after: object,
    ) -> list[MemoryEntry]:
        """Return a memory and the turns around it in its session."""
        key = self._runtime.key(app_name, user_id, write=False)
        limits = self._runtime.limits
        check_name(memory_id, "memory_id", limits)
        counts = (
            check_turns(turns_before, "turns_before", limits),
            check_turns(turns_after, "turns_after", limits),
        )
        found: list[MemoryEntry] = await Join(
            self._runtime.search_index.partitions.submit_page(
                key, sum(counts), self._expand, *key, memory_id, *counts
            )
        )
        return found

    def _expand(
        self, app: str, user: str, memory_id: str, before: int, after: int
    ) -> list[MemoryEntry]:
        now, rights = self._runtime.storage.expiry_clock.now(), self._runtime.rights
        with self._runtime.storage.read(app, user) as reads:
            row = reads.find(app, user, memory_id, now, rights)
            if row is None:
                msg = "memory_id: this user has no such memory"
                raise NotFoundError(msg)
            turns = reads.turns_around(row, before, after, now, rights)
        return [entry_from_row(turn, prior_of(turn)) for turn in in_slices(turns)]

    @observed("touch", int)
    async def touch(
        self, app_name: str, user_id: str, memory_ids: object, ttl: object, scope: str
    ) -> int:
        """Move the expiry of memories; return how many were found."""
        key = self._runtime.key(app_name, user_id, scope, write=True)
        ids = self._checked_ids(memory_ids)
        seconds = None if ttl is None else ttl_seconds(ttl)
        if not ids:
            return 0
        job = TouchMemories(*key, ids, seconds, self._runtime.rights)
        change: Change = await Join(self._runtime.storage.submit(job))
        return len(change.ids)

    @observed("mark_used", int)
    async def mark_used(self, app_name: str, user_id: str, memory_ids: object) -> int:
        """Count one use of each memory; return how many were found."""
        key = self._runtime.key(app_name, user_id, write=True)
        ids = self._checked_ids(memory_ids)
        if not ids:
            return 0
        job = MarkUsed(*key, ids, self._runtime.rights)
        change: Change = await Join(self._runtime.storage.submit(job))
        return len(change.marked)
