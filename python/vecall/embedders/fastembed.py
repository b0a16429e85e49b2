"""Local ONNX models, run by the package fastembed.

Needs the extra `vecall[fastembed]`. The package downloads a model's weights at the
first use.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from vecall.embedders.base import Vectors, checked_vectors
from vecall.errors import ConfigError, EmbedderError
from vecall.reprs import model_repr


class FastEmbedEmbedder:
    """fastembed's `TextEmbedding` behind the `Embedder` protocol. Thread-safe.

    Args:
        model: A name of `TextEmbedding.list_supported_models()`, or a `TextEmbedding`.
        model_id: The model's name in the file; by default "fastembed:" and the name.
        batch_size: Number of texts in one run of the model.
        options: Passed to `TextEmbedding`: `cache_dir`, `threads`, `providers`, ...

    Raises:
        ImportError: The extra `vecall[fastembed]` is not installed.
        ConfigError: fastembed does not support the model, or a model object has no
            name and `model_id` is None.
        EmbedderError: The model could not be loaded.
    """

    __repr__ = model_repr

    def __init__(
        self,
        model: Any = "BAAI/bge-small-en-v1.5",
        *,
        model_id: str | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        """Load the model; download its weights if they are not cached."""
        self._model = _loaded(model, options) if isinstance(model, str) else model
        name = model if isinstance(model, str) else getattr(model, "model_name", None)
        if model_id is None and not isinstance(name, str):
            msg = "model_id: expected with a model that does not know its own name"
            raise ConfigError(msg)
        self.model_id = model_id or f"fastembed:{name}"
        self.dimensions = int(self._model.embedding_size)
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions), for memories."""
        return self._embed(self._model.passage_embed, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions), for queries."""
        return self._embed(self._model.query_embed, texts)

    def _embed(self, method: Any, texts: Sequence[str]) -> Vectors:
        with self._lock:
            rows = list(method(list(texts), batch_size=self._batch_size))
        return checked_vectors(rows, len(texts), self.dimensions)


def _loaded(name: str, options: dict[str, Any]) -> Any:
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        msg = (
            "FastEmbedEmbedder needs the package fastembed: "
            'pip install "vecall[fastembed]"'
        )
        raise ImportError(msg) from error
    known = {model["model"].lower() for model in TextEmbedding.list_supported_models()}
    if name.lower() not in known:
        msg = (
            "model: expected a name of fastembed.TextEmbedding.list_supported_models()"
        )
        raise ConfigError(msg)
    try:
        return TextEmbedding(name, **options)
    except Exception as error:
        msg = f"fastembed could not load the model: {type(error).__name__}"
        raise EmbedderError(msg) from error
