"""Memory services with one way of searching, under the names that the field knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vecall.embedders.resolve import EmbedderLike
from vecall.errors import ConfigError
from vecall.operations.options import checked_group
from vecall.ranking.options import COSINE_ALONE, Ranking
from vecall.search.options import SearchOptions
from vecall.service.memory_service import MemoryService
from vecall.validation import check_min_similarity, check_top_k

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from vecall.service.keywords import ServiceKeywords


class VectorMemoryService(MemoryService):
    """Embedding retrieval in memory: each entry embedded once, at ingest.

    Ranks by cosine similarity alone. Nothing outlives the process; `MemoryService` with
    a path is durable, and also searches by words.

    Args:
        embedder: What embeds; see `MemoryService`.
        top_k: Memories in an answer.
        search: As of `MemoryService`; a ranking takes the place of the cosine alone.
        **options: As of `MemoryService`.

    Raises:
        ConfigError: No embedder, or an option that cannot be used.
    """

    _warns_of_raw_turns = False  # the name of the class says what is embedded

    def __init__(
        self,
        embedder: EmbedderLike,
        *,
        top_k: int = 5,
        search: SearchOptions | None = None,
        **options: Unpack[ServiceKeywords],
    ) -> None:
        """Start without memories."""
        if embedder is None:
            msg = "embedder: VectorMemoryService needs one"
            raise ConfigError(msg)
        chosen = checked_group(search, SearchOptions, "search")
        if chosen.ranking is None:
            cosine = Ranking(fusion="vectors", weights=COSINE_ALONE)
            chosen = replace(chosen, ranking=cosine)
        super().__init__(None, embedder=embedder, top_k=top_k, search=chosen, **options)

    def with_top_k(self, k: int) -> VectorMemoryService:
        """Return this service, which returns at most `k` memories from now on.

        Raises:
            InvalidArgumentError: Below 1.
        """
        self._memory.top_k = check_top_k(k, self.limits)
        return self

    def with_min_score(self, score: float) -> VectorMemoryService:
        """Return this service, which has a floor on the cosine from now on, inclusive.

        Raises:
            InvalidArgumentError: NaN or outside [-1, 1].
        """
        self._memory.min_similarity = check_min_similarity(score)
        return self
