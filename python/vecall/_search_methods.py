"""The search of `MemoryService`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.event_loop import on_loop
from vecall.operations.writes import Asked, Memory
from vecall.ranking.options import Ranking
from vecall.scopes import Scope
from vecall.types import FilterLike, SearchMemoryResponse


class SearchingMemoryService:
    """Finding memories."""

    _memory: Memory

    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        min_confidence: float | None = None,
        filter: FilterLike | None = None,
        ranking: Ranking | None = None,
        explain: bool = False,
        scopes: Sequence[Scope] | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query.

        Args:
            app_name: The app; results never cross it.
            user_id: The user; results never cross it.
            query: Any text; one without a word finds nothing and costs nothing, unless
                there is a vector.
            top_k: At most this many, instead of the service's default.
            min_score: Floor on the cosine similarity in [-1, 1], inclusive. The
                service's floor does not apply where the ranking goes by words alone.
            min_confidence: Floor on the confidence in [0, 1], inclusive: where nothing
                seems relevant enough, nothing is returned.
            filter: Which memories may be returned: a `Filter`, or a mapping with its
                fields.
            ranking: How to rank, instead of the service's way.
            explain: Whether each memory says what its score is made of.
            scopes: Where to look beside the user's own memories; without it, wherever
                the service's `scopes` allow reading.
            vector: The query's vector by the file's model, shape (dimensions,), finite
                and not zero; the embedder is not called then. With query="" the search
                goes by the vector alone.

        Returns:
            The memories, best first; an unknown user has none.

        Raises:
            InvalidArgumentError: top_k < 1, a bad name, filter or vector.
            DimensionError: The vector has another length than the file's vectors.
            ConfigError: min_score or vector without an embedder or in a search by
                words alone.
            EmbedderError: The embedder failed.
            RewriterError: The ranking's rewriter failed.
            RerankerError: The ranking's reranker failed.
            ScopeError: A scope that the service may not read.
            ClosedError: The service was closed.
        """
        asked = Asked(
            app_name,
            user_id,
            query,
            top_k,
            min_score,
            min_confidence,
            filter,
            ranking,
            explain,
            scopes,
            vector,
        )
        return await self._memory.search(on_loop(), asked)
