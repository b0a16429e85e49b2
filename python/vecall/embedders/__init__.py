"""Embedders: the protocol, the local one, any function as one."""

from __future__ import annotations

from vecall.embedders.base import Embedder, Vectors, checked_vectors
from vecall.embedders.function import FunctionEmbedder
from vecall.embedders.resolve import resolve

__all__ = [
    "Embedder",
    "FunctionEmbedder",
    "Vectors",
    "checked_vectors",
    "resolve",
]
