"""Sessions that grow turn by turn, a model that summarizes them, and stored turns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vecall import LlmSummaryProvider, MemoryService

from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.sessions import session, turns

EVERY = 600_000  # ms of inactivity, so ten minutes
LEASE_S = 600.0


class Llm:
    """Stands for a model: sums up the words it is shown, or fails as often as told.

    Attributes:
        asked: The conversations that it was shown, without the instructions.
        failures: How many calls fail from now on.
        meanwhile: Is called in every call, before the answer.
    """

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[str] = []
        self.failures = failures
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        self.meanwhile()
        if self.failures > 0:
            self.failures -= 1
            msg = "the model is away"
            raise RuntimeError(msg)
        words = [word for word in prompt.split() if word.startswith("word")]
        told = {
            "summary": f"sum of {' '.join(words)}",
            "topics": ["lodging"],
            "keyFacts": ["The parrot is called Coco."],
        }
        return json.dumps(told)

    @property
    def provider(self) -> LlmSummaryProvider:
        return LlmSummaryProvider(self, prompt="{events}")


class Fainting(Recorder):
    """An embedder that fails as often as told."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if self.failures > 0:
            self.failures -= 1
            msg = "the embedder is away"
            raise RuntimeError(msg)
        return super().embed(texts)


def talk(*numbers: int, id_: str = "s") -> dict[str, Any]:
    """A session of some numbered turns; turn 3 says "turn word3" at second 3."""
    return session(*turns(*numbers), id_=id_)


def compaction(text: str, start: float, end: float) -> dict[str, Any]:
    """A compaction event as google-adk writes it into JSON."""
    told = {
        "startTimestamp": start,
        "endTimestamp": end,
        "compactedContent": {"role": "model", "parts": [{"text": text}]},
    }
    return {"author": "user", "timestamp": end + 0.5, "actions": {"compaction": told}}


def grow(service: MemoryService, last: int, *, first: int = 1) -> None:
    """Observe a session after each of its turns."""
    for number in range(first, last + 1):
        service.sync.observe_session(talk(*range(1, number + 1)))


def memories(service: MemoryService, state: Any = "live") -> list[str]:
    """The first lines of all memories, in the order of their making."""
    found = service.sync.list_memories(**ALICE, state=state, limit=1000)
    return [entry.text.partition("\n")[0] for entry in found]


def said(*numbers: int) -> list[str]:
    return [f"turn word{number}" for number in numbers]


def summed(*numbers: int) -> str:
    return "sum of " + " ".join(f"word{number}" for number in numbers)


def rows(path: Path, query: str) -> list[Any]:
    """What the file itself says."""
    connection = sqlite3.connect(path)
    try:
        found = connection.execute(query).fetchall()
    finally:
        connection.close()
    return [row[0] if len(row) == 1 else row for row in found]


def kept(path: Path) -> list[str]:
    """The events that wait in a file."""
    return rows(path, "SELECT event FROM told WHERE event IS NOT NULL ORDER BY pos")


def due(path: Path) -> list[float]:
    """When the file's sessions are due."""
    return rows(path, "SELECT due_at FROM trig ORDER BY due_at")
