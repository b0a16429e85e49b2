"""Embedders: the protocol, local models, remote APIs, and plain functions.

Every class but `FunctionEmbedder` is imported when it is first accessed, so that
`import vecall` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vecall.embedders.base import (
    AsymmetricEmbedder,
    CallerVectors,
    Embedder,
    EmbeddingProvider,
    FunctionEmbedder,
    Vectors,
    as_provider,
    checked_vectors,
    from_provider,
)
from vecall.embedders.resolve import AUTO, automatic, has_local, resolve, why_words_only

if TYPE_CHECKING:
    from vecall.embedders.cached import CachedEmbedder
    from vecall.embedders.hosted import GeminiEmbedder, OpenAIEmbedder, OpenAiEmbedder
    from vecall.embedders.local import (
        FastEmbedEmbedder,
        LocalEmbedder,
        SentenceTransformerEmbedder,
    )
    from vecall.embedders.query_map import MappedEmbedder, QueryMap

__all__ = [
    "AUTO",
    "AsymmetricEmbedder",
    "CachedEmbedder",
    "CallerVectors",
    "Embedder",
    "EmbeddingProvider",
    "FastEmbedEmbedder",
    "FunctionEmbedder",
    "GeminiEmbedder",
    "LocalEmbedder",
    "MappedEmbedder",
    "OpenAIEmbedder",
    "OpenAiEmbedder",
    "QueryMap",
    "SentenceTransformerEmbedder",
    "Vectors",
    "as_provider",
    "automatic",
    "checked_vectors",
    "from_provider",
    "has_local",
    "resolve",
    "why_words_only",
]

_LAZY = {
    "CachedEmbedder": "cached",
    "FastEmbedEmbedder": "local",
    "GeminiEmbedder": "hosted",
    "LocalEmbedder": "local",
    "MappedEmbedder": "query_map",
    "OpenAIEmbedder": "hosted",
    "OpenAiEmbedder": "hosted",
    "QueryMap": "query_map",
    "SentenceTransformerEmbedder": "local",
}


def __getattr__(name: str) -> Any:
    """Import a lazy name when it is first accessed."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    """Return the names of this package, imported or not."""
    return sorted(set(globals()) | set(__all__))
