"""Haystack: a document store and its retrievers. Needs vecall[haystack]."""

from __future__ import annotations

try:
    import haystack  # noqa: F401
except ImportError as error:
    msg = 'vecall.haystack needs haystack-ai: pip install "vecall[haystack]"'
    raise ImportError(msg) from error

from vecall.haystack.document_store import VecallDocumentStore
from vecall.haystack.retriever import VecallBM25Retriever, VecallEmbeddingRetriever

__all__ = ["VecallBM25Retriever", "VecallDocumentStore", "VecallEmbeddingRetriever"]
