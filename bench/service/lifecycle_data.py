"""Synthetic memories, an adjustable clock and tables for the lifecycle benchmarks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vecall import Clock, FunctionEmbedder, MemoryService, StorageOptions

APP = "bench"
DIM = 64
BATCH = 2_000
WORDS = [f"word{number}" for number in range(5_000)]


class Turned(Clock):
    """The machine's clock, and as many seconds ahead of it as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def wall(self) -> float:
        return super().wall() + self.ahead

    def passing(self) -> float:
        return super().passing() + self.ahead


def texts(count: int, seed: int) -> list[str]:
    """Texts of 15 words, some of which come often and most seldom."""
    drawn = np.random.default_rng(seed).zipf(1.3, (count, 15)) % len(WORDS)
    return [" ".join(WORDS[word] for word in line) for line in drawn.tolist()]


def vectors(told: list[str]) -> np.ndarray:
    """Random vectors, the same for the same text."""
    rows = []
    for text in told:
        seed = hashlib.blake2b(text.encode(), digest_size=8).digest()
        random = np.random.default_rng(int.from_bytes(seed, "big"))
        rows.append(random.standard_normal(DIM))
    return np.array(rows, np.float32)


def made_up_embedder() -> FunctionEmbedder:
    return FunctionEmbedder(vectors, dimensions=DIM, model_id="made up")


def opened(path: Path, **options: Any) -> MemoryService:
    """A service that does nothing in the background, unless its storage says so."""
    return MemoryService(
        path,
        **{
            "embedder": None,
            "storage": StorageOptions(maintenance_interval=None),
            **options,
        },
    )


def entries(told: Sequence[str], tag: str, **fields: object) -> list[dict[str, Any]]:
    return [
        {"id": f"{tag}{i}", "content": text, "timestamp": 1.7e9 + i, **fields}
        for i, text in enumerate(told)
    ]


def fill(
    memory: MemoryService, user: str, told: Sequence[object], **metadata: object
) -> None:
    """Add many memories."""
    for start in range(0, len(told), BATCH):
        memory.sync.add_memory(
            app_name=APP,
            user_id=user,
            memories=told[start : start + BATCH],
            custom_metadata=metadata or None,
        )


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells: object) -> None:
    """Begin a table."""
    print()
    row(*cells)
    print("|---" * len(cells) + "|", flush=True)


def median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))
