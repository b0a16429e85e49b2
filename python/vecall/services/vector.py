"""Memory services that search by vectors only, under their usual names."""

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
    """Embedding retrieval in memory; each memory is embedded once, at ingest.

    Ranks by cosine similarity only. Memories are lost when the process ends. Use
    `MemoryService` with a path for durability and searches by words.

    Args:
        embedder: The embedder; see `MemoryService`.
        top_k: The default number of memories that a search returns.
        search: Search options, as in `MemoryService`. A `ranking` replaces the ranking
            by cosine.
        **options: Options of `MemoryService`.

    Raises:
        ConfigError: No embedder, or an invalid option.
    """

    _warns_of_raw_turns = False  # the name of the class implies it

    def __init__(
        self,
        embedder: EmbedderLike,
        *,
        top_k: int = 5,
        search: SearchOptions | None = None,
        **options: Unpack[ServiceKeywords],
    ) -> None:
        """Create an empty service."""
        if embedder is None:
            msg = "embedder: VectorMemoryService needs one"
            raise ConfigError(msg)
        chosen = checked_group(search, SearchOptions, "search")
        if chosen.ranking is None:
            cosine = Ranking(fusion="vectors", weights=COSINE_ALONE)
            chosen = replace(chosen, ranking=cosine)
        super().__init__(None, embedder=embedder, top_k=top_k, search=chosen, **options)

    def with_top_k(
        self, top_k: int | None = None, *, k: int | None = None
    ) -> VectorMemoryService:
        """Set the number of memories that a search returns; return this service.

        Args:
            top_k: The number, at least 1.
            k: Its former name.

        Raises:
            InvalidArgumentError: `top_k` is below 1.
        """
        self._memory.top_k = check_top_k(k if top_k is None else top_k, self.limits)
        return self

    def with_min_score(self, score: float) -> VectorMemoryService:
        """Set the floor on the cosine, inclusive; return this service.

        Raises:
            InvalidArgumentError: `score` is NaN or outside [-1, 1].
        """
        self._memory.min_similarity = check_min_similarity(score)
        return self
