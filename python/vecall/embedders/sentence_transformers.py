"""Local PyTorch models, run by the package sentence-transformers.

Needs the extra `vecall[sentence-transformers]`. The package downloads a model's weights
at the first use.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from vecall.embedders.base import Vectors, checked_vectors
from vecall.errors import ConfigError, EmbedderError
from vecall.reprs import model_repr


class SentenceTransformerEmbedder:
    """A `SentenceTransformer` behind the `Embedder` protocol. Thread-safe.

    If a model has separate prompts for queries and documents, each method uses its own
    prompt. With versions of the package that have no `encode_query`, both methods use
    `encode`.

    Args:
        model: A name on the Hugging Face Hub, a path, or a `SentenceTransformer`.
        model_id: The model's name in the file; by default "sentence-transformers:" and
            the name. Required with a model object, which has no name.
        device: "cpu", "cuda" or "mps"; by default the package chooses.
        batch_size: Number of texts in one run of the model.
        options: Passed to `SentenceTransformer`: `cache_folder`, `truncate_dim`, ...

    Raises:
        ImportError: The extra `vecall[sentence-transformers]` is not installed.
        ConfigError: A model object without `model_id`, or a model that does not state
            its dimensions.
        EmbedderError: The model could not be loaded.
    """

    __repr__ = model_repr

    def __init__(
        self,
        model: Any = "all-MiniLM-L6-v2",
        *,
        model_id: str | None = None,
        device: str | None = None,
        batch_size: int = 32,
        **options: Any,
    ) -> None:
        """Load the model; download its weights if they are not cached."""
        if isinstance(model, str):
            self._model = _loaded(model, device, options)
            self.model_id = model_id or f"sentence-transformers:{model}"
        elif model_id is None:
            msg = "model_id: expected with a model object"
            raise ConfigError(msg)
        else:
            self._model = model
            self.model_id = model_id
        # The first name is the newer one.
        names = ("get_embedding_dimension", "get_sentence_embedding_dimension")
        measure = next(
            getattr(self._model, n) for n in names if hasattr(self._model, n)
        )
        dimensions = measure()
        if type(dimensions) is not int:
            msg = "model: it does not say the dimensions of its vectors"
            raise ConfigError(msg)
        self.dimensions = dimensions
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for memories."""
        return self._embed("encode_document", texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for queries."""
        return self._embed("encode_query", texts)

    def _embed(self, name: str, texts: Sequence[str]) -> Vectors:
        encode = getattr(self._model, name, None) or self._model.encode
        with self._lock:
            vectors = encode(
                list(texts),
                batch_size=self._batch_size,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return checked_vectors(vectors, len(texts), self.dimensions)


def _loaded(name: str, device: str | None, options: dict[str, Any]) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        msg = (
            "SentenceTransformerEmbedder needs the package sentence-transformers: "
            'pip install "vecall[sentence-transformers]"'
        )
        raise ImportError(msg) from error
    try:
        return SentenceTransformer(name, device=device, **options)
    except Exception as error:
        msg = f"sentence-transformers could not load the model: {type(error).__name__}"
        raise EmbedderError(msg) from error
