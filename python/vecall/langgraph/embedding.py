"""The embedding function of a store: what `index["embed"]` may be."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from langgraph.store.base import ensure_embeddings, get_text_at_path, tokenize_path

from vecall.embedders import LocalEmbedder
from vecall.errors import ConfigError, EmbedderError

_KNOWN = {"dims", "embed", "fields", "text_fields", "distance_type"}
_DISTANCES = ("cosine", "inner_product", "l2")
_NORM_ERROR = 1e-3  # of a vector of length 1, also in half precision


class _Local:
    """vecall's offline model with the methods of LangChain's Embeddings."""

    def __init__(self) -> None:
        self._model = LocalEmbedder()
        self.name = f"local {self._model.dimensions}"

    def embed_documents(self, texts: list[str]) -> Any:
        return self._model.embed(texts)

    def embed_query(self, text: str) -> Any:
        return self._model.embed_queries([text])[0]

    async def aembed_documents(self, texts: list[str]) -> Any:
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> Any:
        return await asyncio.to_thread(self.embed_query, text)


class StoreEmbedding:
    """Embeds the texts of values and queries, as an IndexConfig says."""

    def __init__(self, index: dict[str, Any]) -> None:
        """Check a configuration; the embedding function is not called.

        Raises:
            ConfigError: The configuration is unusable.
        """
        unknown = set(index) - _KNOWN
        if unknown:
            msg = f"index: expected keys of {sorted(_KNOWN)}"
            raise ConfigError(msg)
        self._distance = index.get("distance_type", "cosine")
        if self._distance not in _DISTANCES:
            msg = f'index: expected "distance_type" to be one of {_DISTANCES}'
            raise ConfigError(msg)
        embed = index.get("embed")
        if embed is None:
            msg = 'index: needs "embed"'
            raise ConfigError(msg)
        self.embeddings: Any
        self.name: str | None = embed if isinstance(embed, str) else None
        if embed == "local":
            self.embeddings = _Local()
        else:
            self.embeddings = ensure_embeddings(embed)
        self._dims = index.get("dims")
        fields = index.get("fields") or index.get("text_fields") or ["$"]
        if isinstance(fields, str):
            fields = [fields]
        if not all(isinstance(field, str) for field in fields):
            msg = 'index: expected "fields" to be a list of paths'
            raise ConfigError(msg)
        self._paths = [_tokens(field) for field in fields]

    def texts_of(self, value: Any, index: Any) -> list[str]:
        """Return the texts of a value that get a vector each."""
        if index is False:
            return []
        paths = self._paths if index is None else [_tokens(path) for path in index]
        return [
            text for path in paths for text in get_text_at_path(value, path) if text
        ]

    def checked(self, found: Any, count: int) -> list[Any]:
        """Return the embedding function's vectors; None for one that is zero.

        Raises:
            EmbedderError: Another number of vectors, or of another length; or a norm
                that is not 1, where the distance needs it.
        """
        matrix = np.asarray(found, np.float32)
        dims = self._dims or (matrix.shape[-1] if matrix.ndim == 2 else 0)
        if matrix.shape != (count, dims) or not np.isfinite(matrix).all():
            msg = f"embed: expected finite vectors of shape ({count}, {dims})"
            raise EmbedderError(msg)
        if self._distance != "cosine":
            norms = np.linalg.norm(matrix, axis=1)
            # Only over vectors of norm 1 does the cosine determine the other distances.
            if np.any((norms != 0) & (np.abs(norms - 1) > _NORM_ERROR)):
                msg = f"embed: the distance {self._distance} needs vectors of norm 1"
                raise EmbedderError(msg)
        return [row if row.any() else None for row in matrix]

    def score(self, cosine: float | None) -> float | None:
        """Return the score of a cosine between vectors of norm 1; larger is nearer."""
        if cosine is None or self._distance != "l2":
            return cosine
        return -math.sqrt(max(0.0, 2.0 - 2.0 * cosine))


def _tokens(path: str) -> Any:
    return path if path == "$" else tokenize_path(path)


def distinct(texts: Sequence[str]) -> list[str]:
    """Return each text once, in order."""
    return list(dict.fromkeys(texts))
