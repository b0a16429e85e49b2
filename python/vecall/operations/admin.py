"""Operations on the whole file: purge, backup, export, import, re-embedding, stats."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from vecall.concurrency.executor import freeing_frames
from vecall.concurrency.join import Join
from vecall.embedders import Embedder, why_words_only
from vecall.embedders.base import can_embed
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import (
    BusyError,
    ClosedError,
    ConfigError,
    ConflictError,
    InvalidArgumentError,
    VecallError,
)
from vecall.index.embedding import EmbeddingQueue, embedded_text, model_of
from vecall.operations.consolidation import Consolidator
from vecall.operations.import_export import (
    ImportOptions,
    ImportReviewer,
    LineSource,
    LineTarget,
    export,
    import_,
)
from vecall.operations.runtime import Runtime
from vecall.operations.session_triggers import SessionObserver
from vecall.store import (
    Change,
    EmbeddingModel,
    MoveVectors,
    PutNextVectors,
    RowWithVector,
    Storage,
    StorageReads,
    Sweep,
    SwitchModels,
)
from vecall.telemetry import observed
from vecall.types import AppSummary, Imported, Page, UserSummary
from vecall.validation import check_path, checked_bool

Key = tuple[str, str]

_SWEEP_BATCH = 1_000
_CLAIMED_USERS = 50
_LEASE_S = 120.0  # of the process that removes the expired data of users


# Migrates an open file to another embedding model; resumable.

_BATCH = 64
_PAUSE_S = 0.1

Moving = Callable[[Callable[[], bool]], AbstractContextManager[None]]
"""`Loader.moving` of the search index with the old model."""


@dataclass
class Reembedding:
    """A migration of a file to another embedding model; `run` performs it.

    `switched` is called after the new model has become the file's model. When
    `stopping` is true it stops early; another migration resumes it. The backfill
    handles rows without a vector, and vectors that are not yet copied to their rows.
    """

    storage: Storage
    embedder: Embedder
    switched: Callable[[EmbeddingModel], None]
    stopping: Callable[[], bool]

    def run(self, moving: Moving) -> int:
        """Embed all memories, make the model the file's; return how many were embedded.

        `moving` makes concurrent loads check whether the switch was committed. Between
        that commit and `switched`, a load finds no vectors of the old model.
        """
        candidate = model_of(self.embedder)
        self._finish_last()
        model = self.storage.begin_migration(candidate)
        if model is None:  # no model before, or the same one: nothing to embed
            with self.storage.read() as reads:
                model = reads.active_model()
            assert model is not None
            self.switched(model)
            return 0
        count = 0
        embedding = EmbeddingQueue(self.embedder)
        try:
            with moving(partial(self._moved, model)):
                while not self.stopping():
                    count += self._prepare(embedding, model)
                    if self._switch(model):
                        break
        finally:
            embedding.close()
        return count

    def _moved(self, model: EmbeddingModel) -> bool:
        """Return whether the file has the new model; if so, switch to it."""
        # Another process may have finished the migration.
        return self._has(model) and self._switch(model)

    def _has(self, model: EmbeddingModel) -> bool:
        with self.storage.read() as reads:
            return _is_active(reads, model)

    def _switch(self, model: EmbeddingModel) -> bool:
        job = SwitchModels(model)

        def then(_: Change) -> None:
            # Runs on the writer's thread. A write that fails because the model has
            # changed finds the new model here, and is repeated.
            if job.done:
                self.switched(model)

        self.storage.submit(job, then).result()
        return job.done

    def _finish_last(self) -> None:
        """Move the remaining vectors of an earlier migration that crashed.

        Only a crash leaves such vectors: a migration begins when all are moved.
        """
        while True:
            with self.storage.read() as reads:
                if not reads.unmoved_vectors():
                    return
            self.storage.submit(MoveVectors()).result()

    def _prepare(self, embedding: EmbeddingQueue, model: EmbeddingModel) -> int:
        count = 0
        # None: all is done, or another process has finished the migration.
        while not self.stopping() and (work := self._next(model)) is not None:
            rows, cursor, claimed = work
            try:
                vectors: list[bytes | None] = []
                if rows:
                    vectors = embedding.embed_now(
                        [embedded_text(row.author, row.text) for row, *_ in rows]
                    )
                if rows or cursor is not None:
                    job = PutNextVectors(model.id, rows, vectors, cursor)
                    self.storage.submit(job).result()
            finally:
                self._release(claimed)
            count += len(rows)
        return count

    def _next(
        self, model: EmbeddingModel
    ) -> tuple[list[RowWithVector], int | None, list[int]] | None:
        """Return rows to embed, the new cursor, and the numbers of claimed rows."""
        with self.storage.read() as reads:
            if _is_active(reads, model):
                return None
            reads.require_migrating(model.id)
            if self.storage.claims is None:
                rows, cursor = reads.to_be_embedded(_BATCH)
                return (rows, cursor, []) if rows or cursor is not None else None
        try:
            claimed = self.storage.claims.rows_to_embed(model.id, _BATCH, _LEASE_S)
        except ConflictError:
            if self._has(model):
                return None
            raise
        if claimed.is_last:
            return None
        if not claimed.rids:
            time.sleep(_PAUSE_S)  # other processes embed the last rows
        return claimed.rows, None, claimed.rids

    def _release(self, claimed: list[int]) -> None:
        """Let other processes claim those of the rows that are not done."""
        if claimed and self.storage.claims is not None:
            with suppress(VecallError):  # the claim ends with its lease
                self.storage.claims.release_rows(claimed)


def _is_active(reads: StorageReads, model: EmbeddingModel) -> bool:
    active = reads.active_model()
    return active is not None and active.id == model.id


T = TypeVar("T")


class Admin:
    """The administrative methods of one open file, and its periodic work."""

    def __init__(
        self, runtime: Runtime, sessions: SessionObserver, consolidator: Consolidator
    ) -> None:
        """Use the runtime of an open file."""
        self._runtime = runtime
        self.telemetry = runtime.telemetry
        self._sessions = sessions
        self._consolidator = consolidator

    @property
    def place(self) -> str:
        """Where the memories are, in words."""
        return self._runtime.place

    # Background work: due sessions, expired memories, consolidation.

    @observed("run_due", int)
    async def run_due(self) -> int:
        """Run all work that is due; return the number of deleted memories."""
        self._runtime.check_whole()
        self._runtime.check_writable()
        await self._sessions.run_due()
        cleared = await self.sweep()
        await self._consolidator.run_plan()
        return cleared

    async def next_run(self) -> float | None:
        """Run due work; return the seconds until the next session is due, or None."""
        await self.run_due()
        return await self._runtime.read_storage(None, _pause, short=True)

    async def sweep(self) -> int:
        """Delete expired memories; return the number deleted."""
        cleared = 0
        scan = self._runtime.search_index.partitions.submit_scan
        claims = self._runtime.storage.claims
        if claims is None:
            for app, user in await self._runtime.read_storage(
                None, lambda reads, now: reads.due_users(now)
            ):
                cleared += await self._swept(app, user)
            return cleared
        while claimed := await Join(scan(None, claims.users, _CLAIMED_USERS, _LEASE_S)):
            done = []
            for each in claimed:
                with suppress(BusyError):  # a locked user stays claimed
                    cleared += await self._swept(each.app, each.user)
                    done.append(each)
            await Join(scan(None, claims.release_users, done))
        return cleared

    async def _swept(self, app: str, user: str) -> int:
        """Delete a user's expired memories; return the number deleted."""
        cleared = 0
        while True:
            job = Sweep(app, user, _SWEEP_BATCH)
            change: Change = await Join(self._runtime.storage.submit(job))
            cleared += len(change.removed)
            if len(change.removed) < _SWEEP_BATCH:
                return cleared

    # Work on the whole file.

    @observed("purge", int)
    async def purge(self) -> int:
        """Rewrite the file without the deleted data; return the freed bytes."""
        self._runtime.check_whole()
        self._runtime.check_writable()
        return await Join(self._submit(self._runtime.storage.maintenance.purge))

    @observed("backup")
    async def backup(self, path: object) -> None:
        """Copy the file while it is in use."""
        self._runtime.check_whole()
        backup = self._runtime.storage.maintenance.backup
        await Join(self._submit(backup, _target(path)))

    @observed("export", int)
    async def export_jsonl(
        self,
        path: object,
        vectors: bool,
        app_name: str | None,
        user_id: str | None,
        quarantined: bool = True,
    ) -> int:
        """Export memories as JSON lines; return the number of memories."""
        runtime = self._runtime
        runtime.check_open()
        checked_bool(vectors, "vectors")
        checked_bool(quarantined, "quarantined")
        runtime.rights.require_all_tiers()
        if user_id is None:
            runtime.rights.require_review()
        if user_id is not None and app_name is None:
            raise InvalidArgumentError("app_name: is needed where user_id is given")
        names = ["-" if name is None else name for name in (app_name, user_id)]
        runtime.key(*names, write=False)
        return await Join(
            self._submit(
                export,
                runtime.storage,
                path if takes_lines(path) else _target(path),
                vectors=vectors,
                app=app_name,
                user=user_id,
                quarantined=quarantined and runtime.rights.review,
            )
        )

    @observed("import", int)
    async def import_jsonl(self, path: object, how: ImportOptions) -> Imported:
        """Import the output of `export_jsonl`."""
        runtime = self._runtime
        runtime.check_whole()
        runtime.check_writable()
        for name in ("vectors", "restore", "gate"):
            checked_bool(getattr(how, name), name)
        if how.user is not None and how.app is None:
            raise InvalidArgumentError("app_name: is needed where user_id is given")
        if how.app is not None:
            user = "-" if how.user is None else how.user
            runtime.key(how.app, user, write=True)
        if how.gate and runtime.gate.is_open:
            raise ConfigError("gate: this memory service has no on_write")
        return await Join(
            self._submit(
                import_,
                runtime.storage,
                path if has_lines(path) else _target(path),
                runtime.limits,
                runtime.quota,
                how,
                ImportReviewer(runtime.gate) if how.gate else None,
            )
        )

    @observed("reembed", int)
    async def reembed(self, new_embedder: EmbedderLike) -> int:
        """Migrate the file to another embedding model."""
        embedder = resolve(new_embedder)
        if embedder is None:
            raise ConfigError("embedder: expected the one to move to")
        if not can_embed(embedder):
            raise ConfigError("embedder: must compute vectors, unlike CallerVectors")
        self._runtime.check_whole()
        self._runtime.check_writable()
        self._runtime.check_embedder(embedder)
        return await Join(self._submit(self._reembed, embedder))

    def _reembed(self, embedder: Embedder) -> int:
        runtime = self._runtime
        switched = partial(runtime.switch, embedder=embedder)
        storage, moving = runtime.storage, runtime.search_index.partitions.moving
        move = Reembedding(storage, embedder, switched, lambda: runtime.closed)
        count = move.run(moving)
        if not runtime.closed:  # what was stored without a model
            filling = runtime.backfill()
            filling.wait()
            count += filling.filled
        return count

    @observed("stats")
    async def stats(self) -> dict[str, Any]:
        """Return counts over the whole file."""
        runtime = self._runtime
        runtime.check_whole()
        search_index = runtime.search_index
        scan = search_index.partitions.submit_scan(None, self._totals)
        counts: dict[str, Any] = await Join(scan)
        return {
            **counts,
            "loaded_users": len(search_index.engine),
            "loaded_bytes": sum(index.partitions.nbytes for index in runtime.servings),
            "loaded_item_bytes": runtime.item_cache.nbytes,
            "cached_text_bytes": sum(index.cache.nbytes for index in runtime.servings),
            "model": runtime.file_model,
            "words_only": self._words_only(),
            "operations": self.telemetry.counts(),
        }

    def _words_only(self) -> str | None:
        """Return why text is searched by words alone; None if by vectors too."""
        runtime = self._runtime
        embedding = runtime.search_index.embedding
        if embedding is not None and embedding.can_embed:
            return None
        why = None
        if runtime.is_automatic:
            why = why_words_only(runtime.file_model, read_only=runtime.read_only)
        return why or "the service has no embedder"

    def _totals(self) -> dict[str, Any]:
        storage = self._runtime.storage
        with storage.read() as reads:
            counts = reads.totals()
        return {**counts, **storage.maintenance.sizes()}

    @observed("list_apps")
    async def list_apps(
        self, prefix: object, after: object, limit: object
    ) -> Page[AppSummary]:
        """Return a page of the apps that have memories."""
        runtime = self._runtime
        runtime.check_open()
        return await runtime.page_of_names(
            None,
            (prefix, after, limit),
            lambda reads, _, *page: reads.list_apps(*page, runtime.rights),
            lambda app: app.app_name,
        )

    @observed("list_users")
    async def list_users(
        self, app_name: str, prefix: object, after: object, limit: object
    ) -> Page[UserSummary]:
        """Return a page of the users of an app who have memories."""
        runtime = self._runtime
        runtime.key(app_name, "-", write=False)
        return await runtime.page_of_names(
            None,
            (prefix, after, limit),
            lambda reads, _, *page: reads.list_users(app_name, *page, runtime.rights),
            lambda user: user.user_id,
        )

    @observed("warm")
    async def warm(self, app_name: str, user_id: str) -> None:
        """Load a user's memories before the first search."""
        key = self._runtime.key(app_name, user_id, write=False)
        while True:
            with self._runtime.begin_use() as search_index:
                partitions = search_index.partitions
                target = partitions.target(key)
                if isinstance(target, Future):
                    target = partitions.current(key, await Join(target))
                if target is None or partitions.loaded(key, target) is not None:
                    return
                await Join(partitions.synchronize(key))
                if not partitions.retired:  # retired: the file has another model now
                    return

    def _submit(self, work: Callable[..., T], *args: Any, **named: Any) -> Future[T]:
        self._runtime.gate.refuse_nested()  # a running import may wait for the hook
        try:
            return self._runtime.care.submit(freeing_frames(work), *args, **named)
        except RuntimeError:
            raise ClosedError("the memory service is closed") from None


def takes_lines(target: object) -> TypeGuard[LineTarget]:
    """Return whether a target is a stream to write to, not the path of a file."""
    return callable(getattr(target, "write", None))


def has_lines(source: object) -> TypeGuard[LineSource]:
    """Return whether a source is a stream to read from, not the path of a file."""
    return callable(getattr(source, "readline", None))


def _target(path: object) -> Path:
    target = check_path(path)
    if target is None:
        raise ConfigError("path: expected the name of a file")
    return target


def _pause(reads: StorageReads, now: float) -> float | None:
    due = reads.next_due()
    return None if due is None else due - now
