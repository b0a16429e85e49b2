"""Operations on the whole file: purge, backup, export, import, re-embedding, stats."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from vecall.concurrency.freed_frames import freeing_frames
from vecall.concurrency.join import Join
from vecall.embedders import Embedder, why_words_only
from vecall.embedders.caller import can_embed
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ClosedError, ConfigError, InvalidArgumentError
from vecall.operations.export_jsonl import LineTarget, export
from vecall.operations.import_jsonl import ImportOptions, LineSource, import_
from vecall.operations.import_review import ImportReviewer
from vecall.operations.reembed import Reembedding
from vecall.operations.runtime import Runtime
from vecall.owner_summaries import AppSummary, UserSummary
from vecall.telemetry import observed
from vecall.types import Imported, Page
from vecall.validation import check_name, check_path, check_top_k, checked_bool

T = TypeVar("T")


class Admin:
    """The administrative methods of one open file."""

    def __init__(self, runtime: Runtime) -> None:
        """Use the runtime of an open file."""
        self._runtime = runtime
        self.telemetry = runtime.telemetry

    @property
    def place(self) -> str:
        """Where the memories are, in words."""
        return self._runtime.place

    @observed("purge", int)
    async def purge(self) -> int:
        """Rewrite the file without the deleted data; return the freed bytes."""
        self._runtime.check_whole()
        self._runtime.check_writable()
        freed: int = await Join(self._submit(self._runtime.storage.maintenance.purge))
        return freed

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
            msg = "app_name: is needed where user_id is given"
            raise InvalidArgumentError(msg)
        names = ["-" if name is None else name for name in (app_name, user_id)]
        runtime.key(*names, write=False)
        count: int = await Join(
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
        return count

    @observed("import", int)
    async def import_jsonl(self, path: object, how: ImportOptions) -> Imported:
        """Import the output of `export_jsonl`."""
        runtime = self._runtime
        runtime.check_whole()
        runtime.check_writable()
        for name in ("vectors", "restore", "gate"):
            checked_bool(getattr(how, name), name)
        if how.user is not None and how.app is None:
            msg = "app_name: is needed where user_id is given"
            raise InvalidArgumentError(msg)
        if how.app is not None:
            user = "-" if how.user is None else how.user
            runtime.key(how.app, user, write=True)
        if how.gate and runtime.gate.is_open:
            msg = "gate: this memory service has no on_write"
            raise ConfigError(msg)
        count: Imported = await Join(
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
        return count

    @observed("reembed", int)
    async def reembed(self, new_embedder: EmbedderLike) -> int:
        """Migrate the file to another embedding model."""
        embedder = resolve(new_embedder)
        if embedder is None:
            msg = "embedder: expected the one to move to"
            raise ConfigError(msg)
        if not can_embed(embedder):
            msg = "embedder: must compute vectors, unlike CallerVectors"
            raise ConfigError(msg)
        self._runtime.check_whole()
        self._runtime.check_writable()
        self._runtime.check_embedder(embedder)
        count: int = await Join(self._submit(self._reembed, embedder))
        return count

    def _reembed(self, embedder: Embedder) -> int:
        runtime = self._runtime
        move = Reembedding(runtime.storage, embedder)
        switched = partial(runtime.switch, embedder=embedder)
        count = move.run(
            switched, runtime.search_index.partitions.moving, lambda: runtime.closed
        )
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
    async def list_apps(self, after: object, limit: object) -> Page[AppSummary]:
        """Return a page of the apps that have memories."""
        runtime = self._runtime
        runtime.check_whole()
        count = check_top_k(limit, runtime.limits, "limit")
        begin = "" if after is None else check_name(after, "after", runtime.limits)

        def page() -> Page[AppSummary]:
            with runtime.storage.read() as reads:
                apps = reads.list_apps(begin, count + 1)
            return Page.of(apps, count, lambda app: app.app_name)

        found: Page[AppSummary] = await Join(
            runtime.search_index.partitions.submit_scan(None, page)
        )
        return found

    @observed("list_users")
    async def list_users(
        self, app_name: str, prefix: object, after: object, limit: object
    ) -> Page[UserSummary]:
        """Return a page of the users of an app who have memories."""
        runtime = self._runtime
        runtime.check_whole()
        runtime.key(app_name, "-", write=False)
        count = check_top_k(limit, runtime.limits, "limit")
        begin = "" if after is None else check_name(after, "after", runtime.limits)
        first = ""
        if type(prefix) is not str or prefix:
            first = check_name(prefix, "prefix", runtime.limits)

        def page() -> Page[UserSummary]:
            with runtime.storage.read() as reads:
                users = reads.list_users(app_name, first, begin, count + 1)
            return Page.of(users, count, lambda user: user.user_id)

        found: Page[UserSummary] = await Join(
            runtime.search_index.partitions.submit_scan(None, page)
        )
        return found

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
            msg = "the memory service is closed"
            raise ClosedError(msg) from None


def takes_lines(target: object) -> TypeGuard[LineTarget]:
    """Return whether a target is a stream to write to, not the path of a file."""
    return callable(getattr(target, "write", None))


def has_lines(source: object) -> TypeGuard[LineSource]:
    """Return whether a source is a stream to read from, not the path of a file."""
    return callable(getattr(source, "readline", None))


def _target(path: object) -> Path:
    target = check_path(path)
    if target is None:
        msg = "path: expected the name of a file"
        raise ConfigError(msg)
    return target
