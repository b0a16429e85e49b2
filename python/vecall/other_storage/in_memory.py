"""The in-memory service: finds memories by matching text, without ranking."""

from __future__ import annotations

import heapq
import itertools
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Literal, Self, Unpack

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders import Embedder
from vecall.embedders.resolve import EmbedderLike
from vecall.errors import ConfigError
from vecall.filters.metadata import EVERY
from vecall.index.embedding import EmbeddingQueue
from vecall.lexical.tokenizer import has_word_or_emoji
from vecall.operations.options import checked_option_group
from vecall.operations.searches import SearchArguments
from vecall.operations.writes import Writes
from vecall.ranking.options import COSINE_ALONE, Ranking
from vecall.search import searcher
from vecall.search.search_index import SearchIndex
from vecall.service.items import ServiceKeywords
from vecall.service.memory_service import MemoryService
from vecall.store import EmbeddingModel, Row, Storage
from vecall.text import to_nfc
from vecall.types import SearchMemoryResponse
from vecall.validation import check_min_similarity, check_top_k

Matcher = Callable[[str], float]
"""A function from a text to the share of the query it matches, in [0, 1]."""

_WORD = re.compile(r"\w+")
_ONLY_MATCHES = "memories are found by matching text, without ranking or embedder"


def by_substring(query: str) -> Matcher:
    """Match texts that contain the whole query, ignoring case."""
    wanted = _casefolded_text(query)
    return lambda text: float(wanted in _casefolded_text(text))


def by_words(query: str) -> Matcher:
    """Match texts that contain some of the query's words, ignoring case."""
    # Words are matched whole. A word with letters beyond ASCII also matches inside a
    # longer word, because many languages write no spaces.
    wanted = set(_WORD.findall(_casefolded_text(query)))

    def share(text: str) -> float:
        folded = _casefolded_text(text)
        there = _searchable_words(folded)
        matched = [
            word
            for word in wanted
            if word in there or (not word.isascii() and word in folded)
        ]
        return len(matched) / max(len(wanted), 1)

    return share


def _casefolded_text(text: str) -> str:
    return to_nfc(text).casefold()


def _searchable_words(folded: str) -> set[str]:
    """Return the words; split mixed words into runs of Latin and other letters too."""
    found = set(_WORD.findall(folded))
    for word in [word for word in found if not word.isascii()]:
        found.update("".join(run) for _, run in itertools.groupby(word, _is_latin))
    return found


@lru_cache(maxsize=4_096)
def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")


class _MatchingRecall(searcher.Searcher):
    """Answers searches by scanning every text of the user, newest first."""

    def __init__(
        self,
        search_index: SearchIndex,
        storage: Storage,
        matching: Callable[[str], Matcher],
    ) -> None:
        super().__init__(
            search_index.engine,
            search_index.partitions,
            search_index.cache,
            None,
            search_index.scoring,
            storage.expiry_clock,
        )
        self._storage = storage
        self._matching = matching

    async def search(self, request: searcher.SearchRequest) -> SearchMemoryResponse:
        if not has_word_or_emoji(request.query):
            return SearchMemoryResponse()
        found = await Join(self._loader.submit_scan(request.key, self._best, request))
        now = self._expiry_clock.wall()
        memories = []
        floor = request.min_confidence
        rated = self._scoring.rate_matches(found)
        for rank, (score, row) in enumerate(found):
            place, relative, confidence = rated[rank]
            signals = None
            if request.explain:  # by the names of a ranked search
                signals = {
                    "query_coverage": score,
                    "relative": relative,
                    "rank": float(rank),
                    "place": place,
                    "factor": 1.0,
                    "vectors": 0.0,
                    "vector_scale": 1.0,
                }
            memory = searcher.entry_of_row(
                row, now, score, math.nan, confidence, signals
            )
            memory = self._scoring.rescore(memory, request.query)
            if floor is None or (memory.confidence or 0.0) >= floor:
                memories.append(memory)
        return SearchMemoryResponse(memories)

    async def candidates(self, request: searcher.SearchRequest) -> SearchMemoryResponse:
        """Return the matches; without any, the memories with some of the words."""
        found = await self.search(request)
        return found if found.memories else await super().search(request)

    def _best(self, request: searcher.SearchRequest) -> list[tuple[float, Row]]:
        matches = self._matching(to_valid_utf8(request.query))
        with self._storage.read(*request.key) as reads:
            now = self._expiry_clock.now()
            conditions = request.filter or EVERY
            rows = reads.listed(*request.key, "live", None, -1, now, conditions)
        found = [
            (score, row) for row in in_slices(rows) if (score := matches(row.text))
        ]
        return heapq.nsmallest(
            request.top_k, found, key=lambda hit: (-hit[0], -hit[1].time, hit[1].id)
        )


class _MatchingMemory(Writes):
    """A memory whose searches match texts."""

    matching = staticmethod(by_substring)

    def _make_search_index(
        self, model: EmbeddingModel | None, embedding: EmbeddingQueue | None
    ) -> SearchIndex:
        search_index = super()._make_search_index(model, embedding)
        search_index.recall = _MatchingRecall(search_index, self.storage, self.matching)
        return search_index

    def check_embedder(self, embedder: Embedder) -> None:
        del embedder
        raise ConfigError(f"embedder: {_ONLY_MATCHES}")

    async def search(
        self, arguments: SearchArguments, all_candidates: bool = False
    ) -> SearchMemoryResponse:
        for name in ("ranking", "vector"):
            if getattr(arguments, name) is not None:
                raise ConfigError(f"{name}: {_ONLY_MATCHES}")
        return await super().search(arguments, all_candidates)


class _WordMatchingMemory(_MatchingMemory):
    matching = staticmethod(by_words)


class _InMemoryService(MemoryService):
    def with_top_k(self, top_k: int | None = None, *, k: int | None = None) -> Self:
        """Set the number of memories that a search returns; return this service.

        Args:
            top_k: The number, at least 1.
            k: Its former name.

        Raises:
            InvalidArgumentError: `top_k` is below 1.
        """
        self._memory.top_k = check_top_k(k if top_k is None else top_k, self.limits)
        return self


class InMemoryMemoryService(_InMemoryService):
    """Text matching in memory, for prototypes and tests; needs no set-up.

    Every search scans all texts of the user. Memories are lost when the process ends.
    Use `MemoryService` for ranking, scale and durability. A confidence is based on the
    share of the query's words in the memory and on the memory's rank only.

    Args:
        match: "substring" finds memories that contain the whole query, in any case, the
            newest first. "words" finds memories that share a word with the query, the
            ones with the most shared words first, then the newest.
        embedder: None; texts are matched, not embedded.
        top_k: The number of memories that a search returns.
        search: Search options; only `scorer` may be set.
        **options: Options of `MemoryService`.

    Raises:
        ConfigError: An option is invalid.
    """

    def __init__(
        self,
        match: Literal["substring", "words"] = "substring",
        *,
        embedder: None = None,
        top_k: int = 5,
        search: searcher.SearchOptions | None = None,
        **options: Unpack[ServiceKeywords],
    ) -> None:
        """Create an empty service."""
        given: object = match
        if not isinstance(given, str) or given not in ("substring", "words"):
            raise ConfigError('match: must be "substring" or "words"')
        unused: object = embedder
        if unused is not None:
            raise ConfigError(f"embedder: {_ONLY_MATCHES}")
        chosen = checked_option_group(search, searcher.SearchOptions, "search")
        for name in ("ranking", "calibration", "authors"):
            if getattr(chosen, name) is not None:
                raise ConfigError(f"search.{name}: {_ONLY_MATCHES}")
        is_words = match == "words"
        self._memory_type = _WordMatchingMemory if is_words else _MatchingMemory
        super().__init__(None, embedder=None, top_k=top_k, search=chosen, **options)


class VectorMemoryService(_InMemoryService):
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
        search: searcher.SearchOptions | None = None,
        **options: Unpack[ServiceKeywords],
    ) -> None:
        """Create an empty service."""
        if embedder is None:
            raise ConfigError("embedder: VectorMemoryService needs one")
        chosen = checked_option_group(search, searcher.SearchOptions, "search")
        if chosen.ranking is None:
            cosine = Ranking(fusion="vectors", weights=COSINE_ALONE)
            chosen = replace(chosen, ranking=cosine)
        super().__init__(None, embedder=embedder, top_k=top_k, search=chosen, **options)

    def with_min_score(self, score: float) -> VectorMemoryService:
        """Set the floor on the cosine, inclusive; return this service.

        Raises:
            InvalidArgumentError: `score` is NaN or outside [-1, 1].
        """
        self._memory.min_similarity = check_min_similarity(score)
        return self
