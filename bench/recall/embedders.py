"""Embedders that the fit of confidence searches with."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from vecall.embedders import LocalEmbedder, QueryMap

DIMENSIONS = 256


class Trigrams:
    """An embedder that knows of a text which three letters follow each other."""

    model_id = "trigrams"
    dimensions = DIMENSIONS

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 (len(texts), dimensions): signed counts of hashed trigrams."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            padded = f" {text.lower()} "
            for i in range(len(padded) - 2):
                digest = blake2b(padded[i : i + 3].encode(), digest_size=4).digest()
                number = int.from_bytes(digest, "little")
                row[number % DIMENSIONS] += 1 if number >> 31 else -1
            row[0] += 0.1  # never all zeros
        return vectors


class Local(LocalEmbedder):
    """The local embedder. It embeds each text once in this process.

    Args:
        query_map: The map of queries; "shipped" is the one in the package.
        known: Whether it has its name, by which vecall knows the model.
    """

    _vectors: ClassVar[dict[tuple[bool, str], NDArray[np.float32]]] = {}

    def __init__(
        self, query_map: QueryMap | Literal["shipped"] | None, *, known: bool = True
    ) -> None:
        super().__init__(query_map=None)
        if query_map == "shipped":
            query_map = QueryMap.shipped(self.model_id)
        self._of_queries = query_map
        if not known:
            self.model_id = "another"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of memories, float32 (len(texts), 512)."""
        return self._remembered(texts, is_query=False)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mapped vectors of queries, float32 (len(texts), 512)."""
        vectors = self._remembered(texts, is_query=True)
        return vectors if self._of_queries is None else self._of_queries(vectors)

    def _remembered(
        self, texts: Sequence[str], *, is_query: bool
    ) -> NDArray[np.float32]:
        embed = super().embed_queries if is_query else super().embed
        new = [
            text
            for text in dict.fromkeys(texts)
            if (is_query, text) not in self._vectors
        ]
        if new:
            for text, vector in zip(new, embed(new), strict=True):
                self._vectors[is_query, text] = vector
        return np.array([self._vectors[is_query, text] for text in texts])
