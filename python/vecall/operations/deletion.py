"""Deletion of memories: by id, session, filter, user or app."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from vecall.concurrency.join import Join
from vecall.content import as_list
from vecall.errors import InvalidArgumentError, VecallError
from vecall.operations.runtime import Runtime
from vecall.operations.write_request import checked_version
from vecall.store import (
    HIDDEN_APP,
    Change,
    DeleteMemories,
    ForgetUser,
    WriteJob,
)
from vecall.telemetry import observed
from vecall.types import Filter
from vecall.validation import check_filter, check_name, checked_bool


class Deletion:
    """The `delete_*` methods of one open file."""

    def __init__(self, runtime: Runtime) -> None:
        """Use the runtime of an open file."""
        self._runtime = runtime
        self.telemetry = runtime.telemetry

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
        key = self._runtime.key(app_name, user_id, scope, write=True)
        version = checked_version(if_version)
        if memory_id is None:
            return 0
        check_name(memory_id, "memory_id", self._runtime.limits)
        job = DeleteMemories(
            *key, [memory_id], version=version, rights=self._runtime.rights
        )
        return len((await self._delete(job, *key)).removed)

    @observed("delete_many", sum)
    async def delete_many(
        self, app_name: str, user_id: str, memory_ids: object, scope: str
    ) -> list[bool]:
        """Delete memories in one transaction; return whether each was there."""
        key = self._runtime.key(app_name, user_id, scope, write=True)
        limits = self._runtime.limits
        given = as_list(memory_ids, "memory_ids")
        ids = [check_name(id_, "memory_ids", limits) for id_ in given]
        if not ids:
            return []
        wanted = list(dict.fromkeys(ids))
        job = DeleteMemories(*key, wanted, rights=self._runtime.rights)
        gone = set((await self._delete(job, *key)).ids)
        return [id_ in gone for id_ in ids]

    async def delete_proposed(
        self,
        key: tuple[str, str],
        token: str,
        ids: Sequence[str] | None,
    ) -> int:
        """Delete memories of a forget proposal; return the number deleted."""
        job = DeleteMemories(*key, ids, token=token, rights=self._runtime.rights)
        return len((await self._delete(job, *key)).removed)

    @observed("delete_session", int)
    async def delete_session(self, app_name: str, user_id: str, session_id: str) -> int:
        """Delete the memories of a session; return the number deleted."""
        self._runtime.key(app_name, user_id, write=True)
        check_name(session_id, "session_id", self._runtime.limits)
        rights = self._runtime.rights
        job = DeleteMemories(app_name, user_id, session=session_id, rights=rights)
        return len((await self._delete(job, app_name, user_id)).removed)

    @observed("delete_where", int)
    async def delete_where(
        self, app_name: str, user_id: str, filter_: object, scope: str
    ) -> int:
        """Delete the memories that match a filter; return the number deleted."""
        key = self._runtime.key(app_name, user_id, scope, write=True)
        conditions = check_filter(filter_, self._runtime.limits, by_metadata=True)
        if conditions == Filter():
            msg = "filter: must name at least one condition; delete_user deletes all"
            raise InvalidArgumentError(msg)
        session = conditions.session_id
        rest = replace(conditions, session_id=None)
        passed = None
        if conditions.metadata is not None:  # other writers do not wait for the scan
            scan = self._runtime.search_index.partitions.submit_scan
            passed = await Join(scan(key, self._passing, key, conditions))
        rights = self._runtime.rights
        job = DeleteMemories(
            *key, session=session, filter=rest, passed=passed, rights=rights
        )
        return len((await self._delete(job, *key)).removed)

    def _passing(
        self, key: tuple[str, str], conditions: Filter
    ) -> dict[str, float | None]:
        with self._runtime.storage.read(*key) as reads:
            return reads.passing(*key, conditions)

    @observed("delete_user", int)
    async def delete_user(
        self, app_name: str, user_id: str, forget: bool, scope: str
    ) -> int:
        """Delete all memories of a user, or every trace of one."""
        checked_bool(forget, "forget")
        key = self._runtime.key(app_name, user_id, scope, write=True)
        return len((await self._delete_user(*key, forget)).ids)

    async def _delete_user(self, app: str, user: str, forget: bool) -> Change:
        rights = self._runtime.rights
        if forget:
            rights.require_all_tiers()  # the traces of a hidden memory are traces
            job: WriteJob = ForgetUser(app, user, rights=rights)
        else:
            job = DeleteMemories(app, user, rights=rights)
        embedding = self._runtime.search_index.embedding
        if embedding is not None:
            embedding.forget_user(app, user)
        change = await self._write(job)
        self._runtime.item_cache.drop((app, user))
        snapshots = self._runtime.storage.snapshots
        if snapshots is not None and change.part:
            # A snapshot that stays is not used any more, and a purge removes it.
            with suppress(VecallError):
                snapshots.remove(change.part)
        return change

    @observed("delete_app", int)
    async def delete_app(self, app_name: str, confirm: bool, forget: bool) -> int:
        """Delete all memories of all users of an app, user by user."""
        self._runtime.check_whole()
        self._runtime.key(app_name, "-", write=True)
        checked_bool(forget, "forget")
        if confirm is not True:
            msg = "confirm: deleting the memories of all users needs confirm=True"
            raise InvalidArgumentError(msg)
        users: list[tuple[str, str]] = await Join(
            self._runtime.search_index.partitions.submit_scan(
                None, self._users, app_name, forget
            )
        )
        count = 0
        for key in users:
            change = await self._delete_user(*key, forget)
            count += len(change.ids)
        return count

    def _users(self, app: str, hidden: bool) -> list[tuple[str, str]]:
        """Return the partitions of an app.

        `hidden` adds the partitions whose names a purge has hidden.
        """
        with self._runtime.storage.read() as reads:
            users = [(app, user) for user in reads.users_of(app)]
            if hidden:
                users += [(HIDDEN_APP, user) for user in reads.hidden_in_app(app)]
        return users

    async def _delete(self, job: WriteJob, app: str, user: str) -> Change:
        """Run a deletion, and drop the cached embeddings of the user's texts."""
        embedding = self._runtime.search_index.embedding
        if embedding is not None:
            embedding.forget_texts(app, user)
        return await self._write(job)

    async def _write(self, job: WriteJob) -> Change:
        change: Change = await Join(self._runtime.storage.submit(job))
        return change
