"""The search itself: query to terms and vector, one engine call, hits to entries."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vecall._core import Engine
from vecall._duck import clean
from vecall._embedding import Embedding, Wait
from vecall._engine_rows import Key, name_key
from vecall._loader import Loader
from vecall._row_cache import RowCache
from vecall.embedders import Vectors
from vecall.errors import BusyError
from vecall.lexical import query_terms
from vecall.lexical.tokenizer import has_word
from vecall.store import Row
from vecall.timestamps import to_micros, to_seconds
from vecall.types import Filter, MemoryEntry, SearchMemoryResponse

_DEFAULT_IMPORTANCE = 0.5

_TRIES = 1_000

Hit = tuple[int, Row | None, float, float]
"""Row number, the row if it is in memory, score, cosine."""


@dataclass(frozen=True, slots=True)
class Request:
    """A search whose arguments are checked."""

    key: Key
    query: str
    top_k: int
    min_score: float | None = None
    filter: Filter | None = None


class Recall:
    """Answers searches. On the caller's thread while all it needs is in memory."""

    def __init__(
        self,
        engine: Engine,
        loader: Loader,
        cache: RowCache,
        embedding: Embedding | None,
    ) -> None:
        """Use an engine that the loader keeps in step with the file."""
        self._engine = engine
        self._loader = loader
        self._cache = cache
        self._embedding = embedding

    async def search(self, wait: Wait, request: Request) -> SearchMemoryResponse:
        """Return the best memories.

        Args:
            wait: How to wait for another thread, where that is needed: the partition is
                not loaded, the query has no cached vector, or a text is not in memory.
            request: What is asked.
        """
        if not has_word(request.query):
            return SearchMemoryResponse()
        vector = None
        if self._embedding is not None:
            query = clean(request.query)
            vector = self._embedding.known_query(*request.key, query)
            if vector is None:
                vector = await self._embedding.embed_query(wait, *request.key, query)
        hits = await self._hits(wait, request, vector)
        missing = [rid for rid, row, *_ in hits if row is None]
        fetched: dict[int, Row] = {}
        if missing:
            rows = await wait(self._loader.submit(self._loader.rows, missing))
            fetched = {row.rid: row for row in rows}
        return _response(hits, fetched, request)

    async def _hits(
        self, wait: Wait, request: Request, vector: Vectors | None
    ) -> list[Hit]:
        """Ask the engine once it has all that the file had when the search began."""
        loader, key = self._loader, request.key
        target = loader.target(key)
        loaded = loader.loaded(key, target)
        if loaded is not None:
            hits = self._ask_engine(request, vector)
            if loader.loaded(key, target) is loaded:
                return hits
        with loader.pinned(key):
            for _ in range(_TRIES):
                if target is None:
                    return []
                await wait(loader.catch_up(key, target))
                loaded = loader.loaded(key, target)
                if loaded is not None:
                    hits = self._ask_engine(request, vector)
                    if loader.loaded(key, target) is loaded:
                        return hits
                elif (now := loader.target(key)) is None or now[0] != target[0]:
                    target = now  # the user was forgotten meanwhile
        msg = "a user's memories changed faster than they could be read"
        raise BusyError(msg)

    def _ask_engine(self, request: Request, vector: Vectors | None) -> list[Hit]:
        asked = request.filter
        options: dict[str, Any] = {}
        if asked is not None:
            if asked.session_id is not None:
                options["session"] = name_key(asked.session_id)
            if asked.author is not None:
                options["author"] = name_key(asked.author)
            if asked.kind is not None:
                options["kind"] = name_key(asked.kind)
            if asked.after is not None:
                options["after"] = to_micros(to_seconds(asked.after, "filter.after"))
            if asked.before is not None:
                options["before"] = to_micros(to_seconds(asked.before, "filter.before"))
        if request.min_score is not None:
            options["min_similarity"] = request.min_score
        ids, scores, similarities, _ = self._engine.recall(
            request.key,
            vector,
            query_terms(request.query),
            request.top_k,
            now=to_micros(time.time()),
            **options,
        )
        rids = ids.tolist()
        rows = self._cache.get(rids)
        return list(
            zip(rids, rows, scores.tolist(), similarities.tolist(), strict=True)
        )


def _response(
    hits: Sequence[Hit],
    fetched: dict[int, Row],
    request: Request,
) -> SearchMemoryResponse:
    found = []
    for rid, cached, score, similarity in hits:
        row = fetched.get(rid) if cached is None else cached
        if row is None:
            continue  # deleted since the engine was asked
        found.append((row, score, similarity))
    # The engine orders ties by row and returns all that tie with the last one; here the
    # smaller id wins, so that the answer does not depend on who was stored first.
    found.sort(key=lambda hit: (-hit[1], -hit[0].time, hit[0].id))
    return SearchMemoryResponse(
        [to_entry(*hit) for hit in found[: request.top_k]],
    )


def to_entry(
    row: Row, score: float | None = None, similarity: float = math.nan
) -> MemoryEntry:
    """Return a stored row as an entry of its own, which the caller may keep."""
    importance = row.importance
    return MemoryEntry(
        row.text if row.content is None else json.loads(row.content),
        id=row.id,
        author=row.author,
        timestamp=row.ts,
        session_id=row.session,
        event_id=row.event,
        kind=row.kind,
        source=row.source,
        trust=row.trust,
        custom_metadata={} if row.meta is None else json.loads(row.meta),
        importance=_DEFAULT_IMPORTANCE if importance is None else importance,
        score=score,
        similarity=None if math.isnan(similarity) else similarity,
    )
