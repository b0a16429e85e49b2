"""Embedders that write down what they are asked, and sessions for them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from vecall import MemoryService

from helpers.memories import ALICE


class Recorder:
    """A deterministic embedder that writes down what it is asked."""

    def __init__(self, dimensions: int = 7, model_id: str = "recorder") -> None:
        self.dimensions = dimensions
        self.model_id = model_id
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        digest = blake2b(text.encode(), digest_size=8).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "little"))
        return rng.standard_normal(self.dimensions)


class Fixed:
    """An embedder that knows its texts' vectors by heart."""

    model_id = "fixed"

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = vectors
        self.dimensions = len(next(iter(vectors.values())))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]


def session(*texts: str, id_: str = "s") -> dict[str, Any]:
    events = [
        {"id": f"e{i}", "author": "user", "text": text} for i, text in enumerate(texts)
    ]
    return {**ALICE, "id": id_, "events": events}


def found(service: MemoryService, query: str, **options: Any) -> list[str]:
    answer = service.sync.search_memory(**ALICE, query=query, **options)
    return [memory.text for memory in answer.memories]


def embedded(service: MemoryService) -> int:
    return int(service.sync.admin.stats()["embedded"])
