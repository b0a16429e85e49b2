"""The table of options whose pairs are tried, and services made of its rows."""

from __future__ import annotations

import asyncio
import json
import zlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
from vecall import (
    ConsolidationPlan,
    FunctionEmbedder,
    InMemoryMemoryService,
    LlmSummaryProvider,
    MemoryConfig,
    MemoryService,
    MessageCount,
    PendingWrite,
    Quota,
    Ranking,
    Scopes,
    SessionEnd,
    VectorMemoryService,
    redact,
)
from vecall.hooks import ALLOW, QUARANTINE
from vecall.vector_store import InMemoryVectorStore

from helpers.options import grouped
from helpers.pairwise import Combination, all_pairs

DURABLE = ("file", "database")
"""Services that another one can open after them."""
SERVICES = (*DURABLE, "memory", "words", "substring", "vector", "stored")
FACTORS = {
    "service": SERVICES,
    "staleness": ("none", "seconds"),
    "embedder": ("none", "function", "async", "down"),
    "floor": ("none", "min_similarity", "min_confidence", "scored_confidence"),
    "trigger": ("none", "session_end", "message_count"),
    "summarizer": ("none", "llm"),
    "scopes": ("none", "both"),
    "hook": ("none", "redact", "quarantine"),
    "mode": ("normal", "read_only"),
    "durability": ("full", "process"),
    "ttl": ("none", "year"),
    "quota": ("none", "lru"),
    "cache": ("large", "none"),
    "history": ("none", "year"),
    "maintenance": ("none", "hour"),
    "consolidation": ("none", "plan"),
    "ranking": ("default", "rrf", "mmr", "authors", "rewriter"),
    "authors": ("none", "two"),
    "include": ("none", "both"),
    "filter": ("none", "fields", "floor", "left_out", "prefix"),
    "import": ("copy", "gate"),
    "vectors": ("embedder", "given"),
    "metadata": ("convention", "verbatim"),
}
FILTERS = {
    "none": None,
    "fields": {
        "not_kind": "x",
        "metadata": {
            "x": {"$ne": 1},
            "$or": [{"x": {"$exists": False}}, {"x.y": {"$nin": [1]}}],
            "$not": {"z.z": {"$gt": 1}},
        },
    },
    "floor": {"min_trust": "unknown"},
    "left_out": {"not_session_id": ["other", "none"]},
    "prefix": {"kind_prefix": ["fac", "episode", "summ"]},
}


def refused(combination: Combination) -> bool:
    """Whether a combination cannot be opened."""
    has = combination.get
    if has("staleness") == "seconds" and has("service") != "database":
        return True
    matches = has("service") in ("words", "substring")
    embeds = has("embedder") != "none"
    if has("service") == "stored" and (not embeds or not_for_stores(combination)):
        return True
    return (
        (matches and (embeds or has("ranking") != "default"))
        or favours_in_vain(combination)
        or (has("service") == "vector" and not embeds)
        or (has("floor") == "min_similarity" and not embeds)
    )


def favours_in_vain(combination: Combination) -> bool:
    """Whether authors are given where nothing favours them, or where others are."""
    by_cosine = combination["service"] == "vector"
    ranking = combination["ranking"]
    return combination["authors"] == "two" and (
        combination["service"] in ("words", "substring")
        or ranking == "authors"
        or (by_cosine and ranking == "default")
    )


def not_for_stores(combination: Combination) -> set[str]:
    """What a service over a vector store does not have."""
    plain = {
        "floor": ("none", "min_similarity"),
        **dict.fromkeys(NOT_FOR_STORES, ("none",)),
    }
    plain |= {"cache": ("large",)}
    plain |= {"mode": ("normal",), "durability": ("full",), "ranking": ("default",)}
    return {name for name, values in plain.items() if combination[name] not in values}


NOT_FOR_STORES = ("scopes", "hook", "quota", "consolidation", "authors", "history")
TABLE = all_pairs(FACTORS, lambda made: not refused(made))

TEA = "Alice likes green tea"
CAR = "Bob drives a red car"
HELD = "held plan of the blue whale"
PHONE = "Call 555-1234 about the parrot"
HIDDEN = "Call [number] about the parrot"
TURNS = ("We saw a yellow lighthouse", "It was far away")
CALL = {"function_call": {"name": "look", "args": {}}}
CALL_TEXT = "(call) look {}"
WAITED = "The orange balloon flew"
SUMMARY = "They saw a lighthouse and a balloon"


METADATA = {"ttl": 10**9, "z": 2, "metadata": {"y": 1}, "wait_for_completion": True}
STORED_METADATA = {"convention": '{"y": 1, "z": 2}', "verbatim": json.dumps(METADATA)}


class Words:
    """Vectors of hashed words: texts with common words are near each other."""

    def __init__(self) -> None:
        self.down = False

    def embed(self, texts: list[str]) -> list[np.ndarray]:
        if self.down:
            msg = "secret"
            raise RuntimeError(msg)  # which is not tried again
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> np.ndarray:
        vector = np.full(64, 1e-3)
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,:").encode()) % 64] += 1
        return vector

    async def embed_async(self, texts: list[str]) -> list[np.ndarray]:
        await asyncio.sleep(0)
        return self.embed(texts)


def judge(write: PendingWrite) -> Any:
    return QUARANTINE if write.memory.text.startswith("held") else ALLOW


def hide(write: PendingWrite) -> Any:
    text = write.memory.text
    return redact(text.replace("555-1234", "[number]")) if "555" in text else ALLOW


OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("staleness", "seconds"): {"max_staleness": 5.0},
    ("floor", "min_similarity"): {"min_similarity": 0.05},
    ("floor", "min_confidence"): {"min_confidence": 0.01},
    ("floor", "scored_confidence"): {
        "min_confidence": 0.01,
        "scorer": lambda *_: (0.9, 0.5),
    },
    ("trigger", "session_end"): {"trigger": SessionEnd()},
    ("trigger", "message_count"): {"trigger": MessageCount(10)},
    ("summarizer", "llm"): {"summarizer": LlmSummaryProvider(lambda _: SUMMARY)},
    ("scopes", "both"): {
        "scopes": Scopes(read=("shared", "app"), write=("shared", "app"))
    },
    ("hook", "redact"): {"on_write": hide},
    ("hook", "quarantine"): {"on_write": judge},
    ("ttl", "year"): {"ttl": 365 * 86_400.0},
    ("quota", "lru"): {"quota": Quota(memories=100, eviction="lru")},
    ("cache", "none"): {"cache_bytes": 0},
    ("history", "year"): {"history_ttl": timedelta(days=365)},
    ("maintenance", "hour"): {"maintenance_interval": 3600.0},
    ("consolidation", "plan"): {"consolidation": ConsolidationPlan()},
    ("include", "both"): {"include": ("thoughts", "calls")},
    ("ranking", "rrf"): {"ranking": Ranking(fusion="rrf")},
    ("ranking", "mmr"): {"ranking": Ranking(diversity=0.3)},
    ("ranking", "authors"): {"ranking": Ranking(authors=("agent", "user"))},
    ("authors", "two"): {"authors": ("agent", "user")},
    ("ranking", "rewriter"): {"ranking": Ranking(rewriter=lambda query: f" {query}")},
}


@dataclass
class Run:
    """One combination on its way, and the texts that it should have."""

    combination: Combination
    path: Any
    words: Words = field(default_factory=Words)
    store: Any = field(default_factory=InMemoryVectorStore)
    texts: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> str:
        return self.combination[name]

    @property
    def turns(self) -> set[str]:
        """The texts of the first session's turns; the last one made a call."""
        first, last = TURNS
        return {first, f"{last}\n{CALL_TEXT}" if self["include"] == "both" else last}

    def options(self, *, writes: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"maintenance_interval": None}
        made["durability"] = self["durability"]
        if self["service"] == "stored" and self["durability"] == "full":
            made.pop("durability")
        for name, value in self.combination.items():
            made |= OPTIONS.get((name, value), {})
        if self["mode"] == "read_only" and not writes:
            made["read_only"] = True
        if not writes:
            made.pop("consolidation", None)
        return grouped(**made)

    def embedder(self) -> FunctionEmbedder | None:
        if self["embedder"] == "none":
            return None
        is_async = self["embedder"] == "async"
        function = self.words.embed_async if is_async else self.words.embed
        return FunctionEmbedder(function, model_id="words", dimensions=64)

    def open(self, *, writes: bool) -> MemoryService:
        options = self.options(writes=writes)
        kind = self["service"]
        if kind in ("words", "substring"):
            return InMemoryMemoryService(kind, embedder=self.embedder(), **options)
        if kind == "vector":
            return VectorMemoryService(self.embedder(), **options)
        if kind == "stored":
            trigger = options.pop("trigger", None)
            summarizer = options.pop("summarizer", None)
            config = MemoryConfig(trigger, summarizer, self.embedder(), self.store)
            return config.build(**options)
        path = self.path if kind in DURABLE else None
        return MemoryService(path, embedder=self.embedder(), **options)
