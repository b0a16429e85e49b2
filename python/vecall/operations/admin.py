"""Everything but adding and searching: getting, deleting, and care of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from vecall.concurrency.join import Join
from vecall.content import as_list
from vecall.embedders import Embedder
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ClosedError, ConfigError, InvalidArgumentError, NotFoundError
from vecall.operations import transfer as _transfer
from vecall.operations.import_review import ImportReviewer
from vecall.operations.reembed import Reembedding
from vecall.operations.runtime import Runtime
from vecall.search.confidence import prior_of
from vecall.search.entries import entry_from_row
from vecall.store import (
    HIDDEN_APP,
    Change,
    DeleteMemories,
    ForgetUser,
    MarkUsed,
    SnapshotFolder,
    WriteJob,
    backup,
    find,
    freeing_frames,
    hidden_in_app,
    purge,
    totals,
    turns_around,
    users_of,
)
from vecall.telemetry import observed
from vecall.timestamps import to_seconds
from vecall.types import Filter, Imported, MemoryEntry
from vecall.validation import check_filter, check_name, check_path, check_turns

T = TypeVar("T")


def _one(_: MemoryEntry) -> int:
    return 1


class Maintenance:
    """Operations on one open file, each a coroutine like those of `Memory`."""

    def __init__(self, opened: Runtime) -> None:
        """Take care of an open file."""
        self._opened = opened
        self.telemetry = opened.telemetry

    @observed("get", _one)
    async def get(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> MemoryEntry:
        """Return one memory."""
        key = self._opened.key(app_name, user_id, scope, write=False)
        check_name(memory_id, "memory_id", self._opened.limits)
        found: MemoryEntry = await Join(
            self._opened.search_index.partitions.submit(self._get, *key, memory_id)
        )
        return replace(found, scope=scope)

    def _get(self, app: str, user: str, memory_id: str) -> MemoryEntry:
        with self._opened.database.read_transaction() as connection:
            row = find(
                connection,
                app,
                user,
                memory_id,
                self._opened.database.expiry_clock.now(),
            )
        if row is None:
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)
        return entry_from_row(row, prior_of(row))

    @observed("expand_session", len)
    async def expand_session(
        self,
        app_name: str,
        user_id: str,
        memory_id: str,
        before: object,
        after: object,
    ) -> list[MemoryEntry]:
        """Return a memory with the turns around it."""
        key = self._opened.key(app_name, user_id, write=False)
        limits = self._opened.limits
        check_name(memory_id, "memory_id", limits)
        counts = (
            check_turns(before, "before", limits),
            check_turns(after, "after", limits),
        )
        found: list[MemoryEntry] = await Join(
            self._opened.search_index.partitions.submit(
                self._expand, *key, memory_id, *counts
            )
        )
        return found

    def _expand(
        self, app: str, user: str, memory_id: str, before: int, after: int
    ) -> list[MemoryEntry]:
        now = self._opened.database.expiry_clock.now()
        with self._opened.database.read_transaction() as connection:
            row = find(connection, app, user, memory_id, now)
            if row is None:
                msg = "memory_id: this user has no such memory"
                raise NotFoundError(msg)
            turns = turns_around(connection, row, before, after, now)
        return [entry_from_row(turn, prior_of(turn)) for turn in turns]

    @observed("mark_used", int)
    async def mark_used(self, app_name: str, user_id: str, memory_ids: object) -> int:
        """Count one use of each of some memories."""
        key = self._opened.key(app_name, user_id, write=True)
        ids = as_list(memory_ids, "memory_ids")
        for id_ in ids:
            check_name(id_, "memory_ids", self._opened.limits)
        if not ids:
            return 0
        return len((await self._write(MarkUsed(*key, ids))).marked)

    @observed("delete", int)
    async def delete(
        self,
        app_name: str,
        user_id: str,
        memory_id: str | None,
        scope: str,
    ) -> int:
        """Delete one memory for good; return how many there were."""
        key = self._opened.key(app_name, user_id, scope, write=True)
        if memory_id is None:
            return 0
        check_name(memory_id, "memory_id", self._opened.limits)
        job = DeleteMemories(*key, [memory_id])
        return len((await self._delete(job, *key)).removed)

    async def delete_proposed(
        self,
        key: tuple[str, str],
        token: str,
        ids: Sequence[str] | None,
    ) -> int:
        """Delete what was proposed to be forgotten; return how many there were."""
        job = DeleteMemories(*key, ids, token=token)
        return len((await self._delete(job, *key)).removed)

    @observed("delete_session", int)
    async def delete_session(self, app_name: str, user_id: str, session_id: str) -> int:
        """Delete what was remembered of a session."""
        self._opened.key(app_name, user_id, write=True)
        check_name(session_id, "session_id", self._opened.limits)
        job = DeleteMemories(app_name, user_id, session=session_id)
        return len((await self._delete(job, app_name, user_id)).removed)

    @observed("delete_where", int)
    async def delete_where(
        self, app_name: str, user_id: str, filter_: object, scope: str
    ) -> int:
        """Delete what a filter lets through."""
        key = self._opened.key(app_name, user_id, scope, write=True)
        asked = check_filter(filter_, self._opened.limits)
        if asked == Filter():
            msg = "filter: must name at least one condition; delete_user deletes all"
            raise InvalidArgumentError(msg)
        after, before = asked.after, asked.before
        job = DeleteMemories(
            *key,
            session=asked.session_id,
            labels=asked,
            after=None if after is None else to_seconds(after, "filter.after"),
            before=None if before is None else to_seconds(before, "filter.before"),
        )
        return len((await self._delete(job, *key)).removed)

    @observed("delete_user", int)
    async def delete_user(
        self, app_name: str, user_id: str, forget: bool, scope: str
    ) -> int:
        """Delete all memories of a user, or every trace of one."""
        key = self._opened.key(app_name, user_id, scope, write=True)
        return len((await self._delete_user(*key, forget)).removed)

    async def _delete_user(self, app: str, user: str, forget: bool) -> Change:
        job = ForgetUser(app, user) if forget else DeleteMemories(app, user)
        embedding = self._opened.search_index.embedding
        if embedding is not None:
            embedding.forget_user(app, user)
        change = await self._write(job)
        path = self._opened.database.path
        if path is not None and change.part:
            SnapshotFolder(path).remove(change.part)
        return change

    @observed("delete_app", int)
    async def delete_app(self, app_name: str, confirm: bool, forget: bool) -> int:
        """Delete all memories of all users of an app, user by user."""
        self._opened.key(app_name, "-", write=True)
        if confirm is not True:
            msg = "confirm: deleting the memories of all users needs confirm=True"
            raise InvalidArgumentError(msg)
        users: list[tuple[str, str]] = await Join(
            self._opened.search_index.partitions.submit_scan(
                self._users, app_name, forget
            )
        )
        count = 0
        for key in users:
            change = await self._delete_user(*key, forget)
            count += len(change.removed)
        return count

    def _users(self, app: str, hidden: bool) -> list[tuple[str, str]]:
        """The partitions of an app, with those whose names a purge has hidden."""
        with self._opened.database.read_transaction() as connection:
            users = [(app, user) for user in users_of(connection, app)]
            if hidden:
                users += [(HIDDEN_APP, user) for user in hidden_in_app(connection, app)]
        return users

    @observed("purge", int)
    async def purge(self) -> int:
        """Rewrite the file without what was deleted."""
        self._opened.check_open()
        self._opened.check_writable()
        freed: int = await Join(self._submit(purge, self._opened.database))
        return freed

    @observed("backup")
    async def backup(self, path: object) -> None:
        """Copy the file while it is in use."""
        self._opened.check_open()
        await Join(self._submit(backup, self._opened.database, _target(path)))

    @observed("export", int)
    async def export(
        self,
        path: object,
        vectors: bool,
        app_name: str | None,
        user_id: str | None,
        quarantined: bool = True,
    ) -> int:
        """Write memories to a file of JSON lines."""
        opened = self._opened
        opened.check_open()
        if user_id is not None and app_name is None:
            msg = "app_name: is needed where user_id is given"
            raise InvalidArgumentError(msg)
        opened.key(app_name or "-", user_id or "-", write=False)
        count: int = await Join(
            self._submit(
                _transfer.export,
                opened.database,
                path if takes_lines(path) else _target(path),
                vectors=vectors,
                app=app_name,
                user=user_id,
                quarantined=quarantined,
            )
        )
        return count

    @observed("import", int)
    async def import_(self, path: object, how: _transfer.ImportHow) -> Imported:
        """Read what `export` wrote."""
        opened = self._opened
        opened.check_open()
        opened.check_writable()
        if how.user is not None and how.app is None:
            msg = "app_name: is needed where user_id is given"
            raise InvalidArgumentError(msg)
        if how.app is not None:
            opened.key(how.app, how.user or "-", write=True)
        if how.gate and opened.gate.is_open:
            msg = "gate: this memory service has no on_write"
            raise ConfigError(msg)
        count: Imported = await Join(
            self._submit(
                _transfer.import_,
                opened.database,
                opened.writer.submit,
                path if has_lines(path) else _target(path),
                opened.limits,
                how,
                ImportReviewer(opened.gate) if how.gate else None,
            )
        )
        return count

    @observed("reembed", int)
    async def reembed(self, given: EmbedderLike) -> int:
        """Move the file to another embedding model."""
        embedder = resolve(given)
        if embedder is None:
            msg = "embedder: expected the one to move to"
            raise ConfigError(msg)
        self._opened.check_open()
        self._opened.check_writable()
        self._opened.check_embedder(embedder)
        count: int = await Join(self._submit(self._reembed, embedder))
        return count

    def _reembed(self, embedder: Embedder) -> int:
        opened = self._opened
        move = Reembedding(opened.database, opened.writer, embedder)
        switched = partial(opened.switch, embedder=embedder)
        count = move.run(
            switched, opened.search_index.partitions.moving, lambda: opened.closed
        )
        if not opened.closed:
            opened.backfill().wait()
        return count

    @observed("stats")
    async def stats(self) -> dict[str, Any]:
        """Return counts over the whole file."""
        opened = self._opened
        opened.check_open()
        search_index = opened.search_index
        scan = search_index.partitions.submit_scan(self._totals)
        counts: dict[str, Any] = await Join(scan)
        return {
            **counts,
            "loaded_users": len(search_index.engine),
            "loaded_bytes": sum(each.partitions.nbytes for each in opened.servings),
            "cached_text_bytes": sum(each.cache.nbytes for each in opened.servings),
            "model": opened.file_model,
            "operations": self.telemetry.counts(),
        }

    def _totals(self) -> dict[str, Any]:
        database = self._opened.database
        with database.read_transaction() as connection:
            counts: dict[str, Any] = dict(totals(connection))
        path = database.path
        snapshots = 0 if path is None else SnapshotFolder(path).nbytes()
        return {**counts, **database.sizes(), "snapshot_bytes": snapshots}

    @observed("warm")
    async def warm(self, app_name: str, user_id: str) -> None:
        """Load a user's memories ahead of the first search."""
        key = self._opened.key(app_name, user_id, write=False)
        while True:
            with self._opened.begin_use() as search_index:
                partitions = search_index.partitions
                target = partitions.target(key)
                if target is None or partitions.loaded(key, target) is not None:
                    return
                await Join(partitions.synchronize(key))
                if not partitions.retired:  # else the file moved to another model
                    return

    async def _delete(self, job: WriteJob, app: str, user: str) -> Change:
        """Delete, and forget what was embedded of this user's texts."""
        embedding = self._opened.search_index.embedding
        if embedding is not None:
            embedding.forget_texts(app, user)
        return await self._write(job)

    async def _write(self, job: WriteJob) -> Change:
        change: Change = await Join(self._opened.writer.submit(job))
        return change

    def _submit(self, work: Callable[..., T], *args: Any, **named: Any) -> Future[T]:
        self._opened.gate.refuse_nested()  # an import may wait for the hook there
        try:
            return self._opened.care.submit(freeing_frames(work), *args, **named)
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None


def takes_lines(target: object) -> TypeGuard[_transfer.LineTarget]:
    """Whether something is a stream to write to, and no name of a file."""
    return callable(getattr(target, "write", None))


def has_lines(source: object) -> TypeGuard[_transfer.LineSource]:
    """Whether something is a stream, and no name of a file."""
    return callable(getattr(source, "readline", None))


def _target(path: object) -> Path:
    target = check_path(path)
    if target is None:
        msg = "path: expected the name of a file"
        raise ConfigError(msg)
    return target
