"""Operations on the whole file: purge, backup, export, import, re-embedding, stats."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from vecall import errors, store
from vecall.concurrency.executor import freeing_error_frames
from vecall.concurrency.join import Join
from vecall.embedders import Embedder, why_words_only
from vecall.embedders.base import can_embed
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.index.embedding import (
    EmbeddingQueue,
    model_of_embedder,
    move_migrated_vectors,
    text_to_embed,
)
from vecall.operations.consolidation import Consolidator
from vecall.operations.import_export import (
    ImportOptions,
    ImportReviewer,
    export_lines,
    import_lines,
)
from vecall.operations.runtime import Runtime
from vecall.operations.session_triggers import SessionObserver
from vecall.operations.writes import OperationGroup, Writes
from vecall.store import EmbeddingModel
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


class Reembedding:
    """A migration of an open file to another embedding model; resumable.

    It stops early when the service is closed. The backfill handles rows without a
    vector, and vectors that are not yet copied to their rows.
    """

    def __init__(self, runtime: Runtime, embedder: Embedder) -> None:
        """Create the migration; `run_reembedding` performs it."""
        self._runtime = runtime
        self._storage = runtime.storage
        self._embedder = embedder

    def run_reembedding(self) -> int:
        """Embed all memories, make the model the file's; return how many were embedded.

        Concurrent loads check whether the switch was committed. Between that commit
        and the switch of the runtime, a load finds no vectors of the old model.
        """
        candidate = model_of_embedder(self._embedder)
        # Only a crash leaves such vectors: a migration begins when all are moved.
        move_migrated_vectors(self._storage)
        model = self._storage.begin_migration(candidate)
        if model is None:  # no model before, or the same one: nothing to embed
            with self._storage.read() as reads:
                model = reads.active_model()
            assert model is not None
            self._runtime.switch_model(model, self._embedder)
            return 0
        count = 0
        embedding = EmbeddingQueue(self._embedder)
        moving = self._runtime.search_index.partitions.prevent_searches
        try:
            with moving(partial(self._switch_if_moved, model)):
                while not self._runtime.closed:
                    count += self._reembed_rows(embedding, model)
                    if self._switch_model(model):
                        break
        finally:
            embedding.close()
        return count

    def _switch_if_moved(self, model: EmbeddingModel) -> bool:
        """Return whether the file has the new model; if so, switch to it."""
        # Another process may have finished the migration.
        return self._has_model(model) and self._switch_model(model)

    def _has_model(self, model: EmbeddingModel) -> bool:
        with self._storage.read() as reads:
            return _is_active_model(reads, model)

    def _switch_model(self, model: EmbeddingModel) -> bool:
        job = store.SwitchModels(model)

        def then(_: store.Change) -> None:
            # Runs on the writer's thread. A write that fails because the model has
            # changed finds the new model here, and is repeated.
            if job.done:
                self._runtime.switch_model(model, self._embedder)

        self._storage.submit(job, then).result()
        return job.done

    def _reembed_rows(self, embedding: EmbeddingQueue, model: EmbeddingModel) -> int:
        count = 0
        # None: all is done, or another process has finished the migration.
        while not self._runtime.closed and (work := self._next_rows(model)) is not None:
            rows, cursor, claimed = work
            try:
                vectors: list[bytes | None] = []
                if rows:
                    vectors = embedding.embed_now(
                        [text_to_embed(row.author, row.text) for row, *_ in rows]
                    )
                if rows or cursor is not None:
                    job = store.PutNextVectors(model.id, rows, vectors, cursor)
                    self._storage.submit(job).result()
            finally:
                self._release_rows(claimed)
            count += len(rows)
        return count

    def _next_rows(
        self, model: EmbeddingModel
    ) -> tuple[list[store.RowWithVector], int | None, list[int]] | None:
        """Return rows to embed, the new cursor, and the numbers of claimed rows."""
        with self._storage.read() as reads:
            if _is_active_model(reads, model):
                return None
            reads.require_migrating(model.id)
            if self._storage.claims is None:
                rows, cursor = reads.to_be_embedded(_BATCH)
                return (rows, cursor, []) if rows or cursor is not None else None
        try:
            claimed = self._storage.claims.rows_to_embed(model.id, _BATCH, _LEASE_S)
        except errors.ConflictError:
            if self._has_model(model):
                return None
            raise
        if claimed.is_last:
            return None
        if not claimed.rids:
            time.sleep(_PAUSE_S)  # other processes embed the last rows
        return claimed.rows, None, claimed.rids

    def _release_rows(self, claimed: list[int]) -> None:
        """Let other processes claim those of the rows that are not done."""
        if claimed and self._storage.claims is not None:
            with suppress(errors.VecallError):  # the claim ends with its lease
                self._storage.claims.release_rows(claimed)


def _is_active_model(reads: store.StorageReads, model: EmbeddingModel) -> bool:
    active = reads.active_model()
    return active is not None and active.id == model.id


T = TypeVar("T")


class Admin(OperationGroup):
    """The administrative methods of one open file, and its periodic work."""

    def __init__(
        self, memory: Writes, sessions: SessionObserver, consolidator: Consolidator
    ) -> None:
        """Use an open file, and what its periodic work needs."""
        super().__init__(memory)
        self._sessions = sessions
        self._consolidator = consolidator

    # Background work: due sessions, expired memories, consolidation.

    @observed("run_due", int)
    async def run_due(self) -> int:
        """Run all work that is due; return the number of deleted memories."""
        self.memory.check_file_access(write=True)
        await self._sessions.run_due()
        cleared = await self.sweep()
        await self._consolidator.run_consolidation_plan()
        return cleared

    async def next_run(self) -> float | None:
        """Run due work; return the seconds until the next session is due, or None."""
        await self.run_due()
        return await self.memory.read_storage(None, _seconds_until_due, short=True)

    async def sweep(self) -> int:
        """Delete expired memories; return the number deleted."""
        cleared = 0
        scan = self.memory.threads.long
        claims = self.memory.storage.claims
        if claims is None:
            for app, user in await self.memory.read_storage(
                None, lambda reads, now: reads.due_users(now)
            ):
                cleared += await self._sweep_user(app, user)
            return cleared
        while claimed := await Join(scan(None, claims.users, _CLAIMED_USERS, _LEASE_S)):
            done = []
            for each in claimed:
                with suppress(errors.BusyError):  # a locked user stays claimed
                    cleared += await self._sweep_user(each.app, each.user)
                    done.append(each)
            await Join(scan(None, claims.release_users, done))
        return cleared

    async def _sweep_user(self, app: str, user: str) -> int:
        """Delete a user's expired memories; return the number deleted."""
        cleared = 0
        while True:
            job = store.Sweep(app, user, _SWEEP_BATCH)
            removed = (await Join(self.memory.storage.submit(job))).removed
            cleared += len(removed)
            if len(removed) < _SWEEP_BATCH:
                return cleared

    # Work on the whole file.

    @observed("purge", int)
    async def purge(self) -> int:
        """Rewrite the file without the deleted data; return the freed bytes."""
        self.memory.check_file_access(write=True)
        return await Join(self._submit(self.memory.storage.maintenance.purge))

    @observed("backup")
    async def backup(self, path: object) -> None:
        """Copy the file while it is in use."""
        self.memory.check_file_access()
        backup = self.memory.storage.maintenance.backup
        await Join(self._submit(backup, _checked_export_path(path)))

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
        runtime = self.memory
        runtime.check_open()
        checked_bool(vectors, "vectors")
        checked_bool(quarantined, "quarantined")
        runtime.rights.require_all_tiers()
        if user_id is None:
            runtime.rights.require_review()
        self._check_owner(app_name, user_id, write=False)
        return await Join(
            self._submit(
                export_lines,
                runtime.storage,
                _export_path_or_stream(path, "write"),
                vectors=vectors,
                app=app_name,
                user=user_id,
                quarantined=quarantined and runtime.rights.review,
            )
        )

    @observed("import", int)
    async def import_jsonl(self, path: object, how: ImportOptions) -> Imported:
        """Import the output of `export_jsonl`."""
        runtime = self.memory
        runtime.check_file_access(write=True)
        for name in ("vectors", "restore", "gate"):
            checked_bool(getattr(how, name), name)
        self._check_owner(how.app, how.user, write=True)
        if how.gate and runtime.gate.is_open:
            raise errors.ConfigError("gate: this memory service has no on_write")
        return await Join(
            self._submit(
                import_lines,
                runtime,
                _export_path_or_stream(path, "readline"),
                how,
                ImportReviewer(runtime.gate) if how.gate else None,
            )
        )

    def _check_owner(
        self, app_name: str | None, user_id: str | None, *, write: bool
    ) -> None:
        """Check the names to which an export or import is confined, if any."""
        if user_id is not None and app_name is None:
            raise errors.InvalidArgumentError(
                "app_name: is needed where user_id is given"
            )
        names = ["-" if name is None else name for name in (app_name, user_id)]
        self.memory.key(*names, write=write)

    @observed("reembed", int)
    async def reembed(self, new_embedder: EmbedderLike) -> int:
        """Migrate the file to another embedding model."""
        embedder = resolve(new_embedder)
        if embedder is None:
            raise errors.ConfigError("embedder: expected the one to move to")
        if not can_embed(embedder):
            raise errors.ConfigError(
                "embedder: must compute vectors, unlike CallerVectors"
            )
        self.memory.check_file_access(write=True)
        self.memory.check_embedder(embedder)
        return await Join(self._submit(self._migrate_and_fill, embedder))

    def _migrate_and_fill(self, embedder: Embedder) -> int:
        runtime = self.memory
        count = Reembedding(runtime, embedder).run_reembedding()
        if not runtime.closed:  # what was stored without a model
            filling = runtime.restart_backfill()
            filling.wait_for_backfill()
            count += filling.filled
        return count

    @observed("stats")
    async def stats(self) -> dict[str, Any]:
        """Return counts over the whole file."""
        runtime = self.memory
        runtime.check_file_access()

        def read() -> dict[str, Any]:
            with runtime.read_committed_state(None) as (reads, _):
                counts = reads.totals()
            return {**counts, **runtime.storage.maintenance.sizes()}

        return {
            **await Join(runtime.threads.long(None, read)),
            "loaded_users": len(runtime.search_index.engine),
            "loaded_bytes": sum(index.partitions.nbytes for index in runtime.servings),
            "loaded_item_bytes": runtime.item_cache.nbytes,
            "cached_text_bytes": sum(index.cache.nbytes for index in runtime.servings),
            "model": runtime.file_model,
            "words_only": self._why_words_only(),
            "operations": self.telemetry.operation_counts(),
        }

    def _why_words_only(self) -> str | None:
        """Return why text is searched by words alone; None if by vectors too."""
        runtime = self.memory
        embedding = runtime.search_index.embedding
        if embedding is not None and embedding.can_embed:
            return None
        why = None
        if runtime.is_automatic:
            why = why_words_only(runtime.file_model, read_only=runtime.read_only)
        return why or "the service has no embedder"

    @observed("list_apps")
    async def list_apps(
        self, prefix: object, after: object, limit: object
    ) -> Page[AppSummary]:
        """Return a page of the apps that have memories."""
        runtime = self.memory
        runtime.check_open()
        return await runtime.read_page_of_names(
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
        runtime = self.memory
        runtime.key(app_name, "-", write=False)
        return await runtime.read_page_of_names(
            None,
            (prefix, after, limit),
            lambda reads, _, *page: reads.list_users(app_name, *page, runtime.rights),
            lambda user: user.user_id,
        )

    @observed("warm")
    async def warm(self, app_name: str, user_id: str) -> None:
        """Load a user's memories before the first search."""
        key = self.memory.key(app_name, user_id, write=False)
        while True:
            with self.memory.use_search_index() as search_index:
                partitions = search_index.partitions
                target = partitions.target(key)
                if isinstance(target, Future):
                    target = partitions.current(key, await Join(target))
                if target is None or partitions.loaded(key, target) is not None:
                    return
                await Join(partitions.synchronize_partition(key))
                if not partitions.retired:  # retired: the file has another model now
                    return

    def _submit(self, work: Callable[..., T], *args: Any, **named: Any) -> Future[T]:
        self.memory.gate.thread.refuse_nested_call()  # an import may wait for the hook
        try:
            return self.memory.care.submit(freeing_error_frames(work), *args, **named)
        except RuntimeError:
            raise errors.ClosedError("the memory service is closed") from None


def _export_path_or_stream(path: Any, method: str) -> Any:
    """Return an object that has a method as it is, and else the path of a file."""
    return path if callable(getattr(path, method, None)) else _checked_export_path(path)


def _checked_export_path(path: object) -> Path:
    checked = check_path(path)
    if checked is None:
        raise errors.ConfigError("path: expected the name of a file")
    return checked


def _seconds_until_due(reads: store.StorageReads, now: float) -> float | None:
    due = reads.next_due()
    return None if due is None else due - now
