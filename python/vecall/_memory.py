"""Adding and searching, written once.

Every operation is a coroutine that waits for other threads only through a `wait` that
its caller hands in. `MemoryService` hands in one that waits on the running event loop,
its blocking twin one that blocks; the operations hold nothing of any loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec

from vecall._duck import as_list
from vecall._embedding import Wait, embedded_text
from vecall._ingest import Scope, entry_drafts, event_drafts, scope_of, session_head
from vecall._opened import NO_FLOOR, NOT_CALIBRATED, Opened
from vecall._recall import Request
from vecall._serving import Serving
from vecall.config import (
    check_filter,
    check_min_score,
    check_name,
    check_query,
    check_top_k,
)
from vecall.errors import (
    ClosedError,
    ConfigError,
    EmbeddingMismatchError,
    InvalidTypeError,
)
from vecall.ranking import Ranking
from vecall.slices import in_slices
from vecall.store import AddMemories, Change, Draft, known_hashes
from vecall.types import Filter, SearchMemoryResponse, check_share

P = ParamSpec("P")

_READ_AT_ONCE = 32  # turns: under a millisecond of the caller's event loop


class How(NamedTuple):
    """How memories are added.

    Attributes:
        restore: Bring back memories that were deleted.
        key: The caller's idempotency key.
        instead_of: Delete other turns of this session.
    """

    restore: bool = False
    key: str | None = None
    instead_of: str | None = None


class Asked(NamedTuple):
    """A search as the caller asks it; None is the service's default."""

    app_name: str
    user_id: str
    query: str
    top_k: int | None = None
    min_score: float | None = None
    min_confidence: float | None = None
    filter: Filter | None = None
    ranking: object = None
    explain: bool = False


class Memory(Opened):
    """What goes into one file, and what is recalled from it."""

    async def add_session(
        self, wait: Wait, session: object, how: How, *, replace: bool
    ) -> list[str]:
        """Remember the turns of a session."""
        self.check_open()
        head = session_head(session, self.limits)
        scope = Scope({}, None)
        drafts = await self._draft(
            wait, event_drafts, head.events, head.id, scope, self.limits
        )
        if replace:
            how = how._replace(instead_of=head.id)
        return await self._add(wait, head.app, head.user, drafts, how)

    async def add_events(
        self,
        wait: Wait,
        app_name: str,
        user_id: str,
        events: object,
        session_id: str | None,
        custom_metadata: object,
        how: How,
    ) -> list[str]:
        """Remember some turns."""
        self.check_open()
        self.check_names(app_name, user_id)
        if session_id is not None:
            check_name(session_id, "session_id", self.limits)
        scope = scope_of(custom_metadata)
        told = as_list(events, "events")
        drafts = await self._draft(
            wait, event_drafts, told, session_id, scope, self.limits
        )
        return await self._add(wait, app_name, user_id, drafts, how)

    async def add_entries(
        self,
        wait: Wait,
        app_name: str,
        user_id: str,
        memories: object,
        custom_metadata: object,
        how: How,
    ) -> list[str]:
        """Remember explicit entries."""
        self.check_open()
        self.check_names(app_name, user_id)
        scope = scope_of(custom_metadata)
        told = as_list(memories, "memories")
        drafts = await self._draft(wait, entry_drafts, told, scope, self.limits)
        return await self._add(wait, app_name, user_id, drafts, how)

    async def _draft(
        self,
        wait: Wait,
        work: Callable[Concatenate[Iterable[Any], P], list[Draft]],
        told: list[Any],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[Draft]:
        """Read what was handed in: a little at once, much on another thread.

        The caller's list was copied, so it may grow meanwhile; its items must not
        change until the call returns.
        """
        if len(told) <= _READ_AT_ONCE:
            return work(told, *args, **kwargs)
        try:
            future = self.reader.submit(work, in_slices(told), *args, **kwargs)
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None
        drafts: list[Draft] = await wait(future)
        return drafts

    async def _add(
        self, wait: Wait, app: str, user: str, drafts: list[Draft], how: How
    ) -> list[str]:
        if how.key is not None:
            check_name(how.key, "idempotency_key", self.limits)
        if not drafts and how.instead_of is None:
            return []
        while True:
            serving = self.serving
            try:
                return await self._write(wait, serving, app, user, drafts, how)
            except EmbeddingMismatchError:
                if serving is self.serving:
                    raise
                # This service moved the file to another model meanwhile: once more.
                for draft in drafts:
                    draft.vec = None

    async def _write(
        self,
        wait: Wait,
        serving: Serving,
        app: str,
        user: str,
        drafts: list[Draft],
        how: How,
    ) -> list[str]:
        model = None
        if serving.embedding is not None and serving.model is not None:
            await self._embed(wait, serving, app, user, drafts, how.restore)
            model = serving.model.id
        job = AddMemories(
            app, user, drafts, model, how.restore, how.instead_of, how.key
        )
        change: Change = await wait(self.writer.submit(job))
        return list(change.ids)

    async def _embed(
        self,
        wait: Wait,
        serving: Serving,
        app: str,
        user: str,
        drafts: Sequence[Draft],
        restore: bool,
    ) -> None:
        """Give vectors to those drafts whose text the file has no vector for."""
        assert serving.embedding is not None
        ids = [draft.id for draft in drafts]
        known = await wait(serving.loader.submit(self._known, app, user, ids))
        fresh = []
        for draft in drafts:
            if draft.id in known and known[draft.id] is None and not restore:
                continue  # deleted; it will not be written
            if known.get(draft.id) != (draft.hash, draft.author):
                fresh.append(draft)
        texts = [embedded_text(draft.author, draft.text) for draft in fresh]
        vectors = await serving.embedding.embed_texts(wait, app, user, texts)
        for draft, vec in zip(fresh, vectors, strict=True):
            draft.vec = vec

    def _known(
        self, app: str, user: str, ids: Sequence[str]
    ) -> dict[str, tuple[bytes, str | None] | None]:
        with self.database.snapshot() as connection:
            return known_hashes(connection, app, user, ids)

    async def search(self, wait: Wait, asked: Asked) -> SearchMemoryResponse:
        """Find the best memories for a query."""
        self.check_open()
        self.check_names(asked.app_name, asked.user_id)
        check_query(asked.query)
        serving = self.serving
        min_score, min_confidence = asked.min_score, asked.min_confidence
        if min_score is None:
            min_score = self.min_score
        elif serving.embedding is None:
            raise ConfigError(NO_FLOOR)
        else:
            check_min_score(min_score)
        if min_confidence is None:
            min_confidence = self.min_confidence
        else:
            min_confidence = check_share(min_confidence, "min_confidence")
        ranking = self.ranking if asked.ranking is None else asked.ranking
        if not isinstance(ranking, Ranking):
            msg = "ranking: expected a vecall.Ranking"
            raise InvalidTypeError(msg)
        if min_confidence is not None and not serving.scoring.can_tell(ranking):
            raise ConfigError(NOT_CALIBRATED)
        top_k, limits = asked.top_k, self.limits
        request = Request(
            (asked.app_name, asked.user_id),
            asked.query[: limits.max_query_chars],
            self.top_k if top_k is None else check_top_k(top_k, limits),
            min_score,
            min_confidence,
            None if asked.filter is None else check_filter(asked.filter, limits),
            ranking,
            bool(asked.explain),
        )
        return await serving.recall.search(wait, request)
