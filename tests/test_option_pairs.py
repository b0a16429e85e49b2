"""Every pair of options runs through a memory's whole life.

Each combination of the table is opened, written, searched, read by the tools,
corrected, forgotten and opened again. A model says which texts are there after each
step. What a combination cannot do is refused with a typed error, and changes nothing.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from helpers.memories import ALICE
from helpers.pairs import Combination, all_pairs, pairs_of
from vecall import (
    ConfigError,
    ConsolidationPlan,
    EmbedderError,
    FunctionEmbedder,
    InMemoryMemoryService,
    Limits,
    LlmSummaryProvider,
    MemoryEntry,
    MemoryService,
    MessageCount,
    Ranking,
    ReadOnlyError,
    Scopes,
    SessionEnd,
    VecallError,
    VectorMemoryService,
    Write,
    redact,
    render,
)
from vecall.tools import ForgetMemory, LoadMemory, PreloadMemory
from vecall.write_gate import ALLOW, QUARANTINE

FACTORS = {
    "service": ("file", "memory", "words", "substring", "vector"),
    "embedder": ("none", "function", "async", "down"),
    "floor": ("none", "min_score", "min_confidence", "scored_confidence"),
    "trigger": ("none", "session_end", "message_count"),
    "summarizer": ("none", "llm"),
    "scopes": ("none", "both"),
    "hook": ("none", "redact", "quarantine"),
    "mode": ("normal", "read_only"),
    "durability": ("full", "process"),
    "ttl": ("none", "year"),
    "limits": ("none", "lru"),
    "consolidation": ("none", "plan"),
    "ranking": ("default", "rrf", "mmr"),
    "include": ("none", "both"),
    "filter": ("none", "fields"),
}
FILTERS = {"none": None, "fields": {"not_kind": "x", "metadata": {"x": {"$ne": 1}}}}


def refused(combination: Combination) -> bool:
    """Whether a combination cannot be opened."""
    has = combination.get
    matches = has("service") in ("words", "substring")
    embeds = has("embedder") != "none"
    return (
        (matches and (embeds or has("ranking") != "default"))
        or (has("service") == "vector" and not embeds)
        or (has("floor") == "min_score" and not embeds)
        # Neither embedder nor matching is calibrated.
        or (has("floor") == "min_confidence" and (embeds or matches))
    )


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


def test_the_table_holds_every_pair():
    held = set().union(*map(pairs_of, TABLE))
    for a, some in FACTORS.items():
        for b, others in FACTORS.items():
            if a < b:
                for x in some:
                    for y in others:
                        assert ((a, x), (b, y)) in held
    assert len(TABLE) < 90


class Words:
    """Vectors of hashed words: texts with common words are near each other."""

    def __init__(self) -> None:
        self.down = False

    def embed(self, texts: list[str]) -> list[np.ndarray]:
        if self.down:
            msg = "secret"
            raise ConnectionError(msg)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> np.ndarray:
        vector = np.full(64, 1e-3)
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,:").encode()) % 64] += 1
        return vector

    async def embed_async(self, texts: list[str]) -> list[np.ndarray]:
        await asyncio.sleep(0)
        return self.embed(texts)


def judge(write: Write) -> Any:
    return QUARANTINE if write.memory.text.startswith("held") else ALLOW


def hide(write: Write) -> Any:
    text = write.memory.text
    return redact(text.replace("555-1234", "[number]")) if "555" in text else ALLOW


OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("floor", "min_score"): {"min_score": 0.05},
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
    ("limits", "lru"): {"limits": Limits(max_user_memories=100, eviction="lru")},
    ("consolidation", "plan"): {"consolidation": ConsolidationPlan()},
    ("include", "both"): {"include": ("thoughts", "calls")},
    ("ranking", "rrf"): {"ranking": Ranking(fusion="rrf")},
    ("ranking", "mmr"): {"ranking": Ranking(diversity=0.3)},
}


@dataclass
class Run:
    """One combination on its way, and the texts that it should have."""

    combination: Combination
    path: Any
    words: Words = field(default_factory=Words)
    texts: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> str:
        return self.combination[name]

    @property
    def turns(self) -> set[str]:
        """The texts of the first session's turns; the last one made a call."""
        first, last = TURNS
        return {first, f"{last}\n{CALL_TEXT}" if self["include"] == "both" else last}

    def options(self, *, writes: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"durability": self["durability"]}
        for name, value in self.combination.items():
            made |= OPTIONS.get((name, value), {})
        if self["mode"] == "read_only" and not writes:
            made["read_only"] = True
        if not writes:
            made.pop("consolidation", None)
        return {**made, "sweep_interval": None}

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
        path = self.path if kind == "file" else None
        return MemoryService(path, embedder=self.embedder(), warn_raw=False, **options)


@pytest.mark.parametrize(
    "combination",
    [made for made in TABLE if refused(made)],
    ids=lambda made: "-".join(made.values()),
)
def test_what_cannot_go_together_is_refused_when_it_is_opened(combination, tmp_path):
    with pytest.raises(ConfigError):
        Run(combination, tmp_path / "m.db").open(writes=True)


@pytest.mark.parametrize(
    "combination",
    [made for made in TABLE if not refused(made)],
    ids=lambda made: "-".join(made.values()),
)
def test_a_combination_lives_a_whole_life(combination, tmp_path):
    run = Run(combination, tmp_path / "m.db")
    if run["mode"] == "read_only":
        if run["service"] == "file":
            with run.open(writes=True) as service:
                tell(run, service)
        with run.open(writes=False) as service:
            run.words.down = run["embedder"] == "down"
            ask(run, service)
            refuse(run, service)
            ask(run, service)
        return
    with run.open(writes=True) as service:
        tell(run, service)
        ask(run, service)
        correct(run, service)
        run.words.down = run["embedder"] == "down"
        ask(run, service)
        forget(run, service)
        ask(run, service)
    if run["service"] == "file":
        run.words.down = False
        with run.open(writes=True) as service:
            run.words.down = run["embedder"] == "down"
            ask(run, service)


def texts_of(service: MemoryService) -> set[str]:
    return {entry.text for entry in service.sync.list_memories(**ALICE)}


def tell(run: Run, service: MemoryService) -> None:
    """Facts, a session, turns that wait for a trigger."""
    sync = service.sync
    facts = [MemoryEntry(text, author="user") for text in (TEA, CAR, HELD, PHONE)]
    sync.add_memory(**ALICE, memories=facts)
    sync.add_session_to_memory(
        {**NAMES, "id": "s", "events": [event(0, TURNS[0]), event(1, TURNS[1], CALL)]}
    )
    waiting = {**NAMES, "id": "t", "events": [event(9, WAITED)]}
    observed = sync.observe_session(waiting)
    assert observed == [] or run["trigger"] == "none"
    sync.end_session(waiting)
    sync.run_due()
    summed = run["summarizer"] == "llm"
    run.texts = {TEA, CAR, *((SUMMARY,) if summed else (*run.turns, WAITED))}
    run.texts.add(HIDDEN if run["hook"] == "redact" else PHONE)
    if run["hook"] != "quarantine":
        run.texts.add(HELD)
    assert texts_of(service) == run.texts
    if run["scopes"] == "both":
        sync.add_memory(**ALICE, memories=["shared violet umbrella"], scope="shared")
    else:
        with pytest.raises(VecallError, match="scope"):
            sync.add_memory(**ALICE, memories=["x"], scope="shared")


NAMES = {"app_name": ALICE["app_name"], "user_id": ALICE["user_id"]}


def event(number: int, text: str, *more: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "author": "user",
        "timestamp": 1e9 + number,
        "content": {"parts": [{"text": text}, *more]},
    }


def found(run: Run, service: MemoryService, query: str) -> list[MemoryEntry]:
    """A search that falls back to nothing where the embedder is down."""
    try:
        only = {**ALICE, "filter": FILTERS[run["filter"]]}
        return service.sync.search_memory(**only, query=query).memories
    except EmbedderError:
        if run.words.down:
            return []
        raise


def ask(run: Run, service: MemoryService) -> None:
    """Each fact is found by its words, by a search and by the tools."""
    assert texts_of(service) == run.texts
    ask_by_vector(run, service)
    for text in sorted(run.texts & {TEA, CAR, HELD, "Alice prefers black tea"}):
        query = " ".join(text.split()[-2:])
        memories = found(run, service, query)
        own = {entry.text for entry in memories if entry.scope == "user"}
        assert own <= run.texts
        if not run.words.down:
            assert memories[0].text == text
            assert text in render(memories, "secure")
        who = (service, *ALICE.values())
        only = FILTERS[run["filter"]]
        loaded = asyncio.run(LoadMemory(*who, filter=only)(query=query))
        if run.words.down and run["service"] == "vector":
            continue  # nothing but vectors to search by
        assert text in [entry["text"] for entry in loaded["memories"]]
        assert text in asyncio.run(PreloadMemory(*who, filter=only).block(query))
    if not run.words.down and run["scopes"] == "both" and run.texts:
        # The first of each place comes before the second of any.
        first = found(run, service, "violet umbrella")[:3]
        shared = [entry.text for entry in first if entry.scope == "shared"]
        assert shared == ["shared violet umbrella"]


def ask_by_vector(run: Run, service: MemoryService) -> None:
    """A vector of the caller's own finds with the embedder down; else it is refused."""
    vector = run.words._vector(f"user: {CAR}")
    ask = {"query": "", "vector": vector}
    empty = run["mode"] == "read_only" and run["service"] != "file"  # and no model
    if run["embedder"] == "none" or empty:
        with pytest.raises(ConfigError, match="vector: "):
            service.sync.search_memory(**ALICE, **ask)
        return
    memories = service.sync.search_memory(**ALICE, **ask).memories
    if CAR in run.texts:
        assert memories[0].text == CAR


def refuse(run: Run, service: MemoryService) -> None:
    """A service that only reads changes nothing."""
    sync = service.sync
    session = {**NAMES, "id": "u", "events": [event(1, "x")]}
    for write in (
        lambda: sync.add_memory(**ALICE, memories=["x"]),
        lambda: sync.add_session_to_memory(session),
        lambda: sync.observe_session(session),
        lambda: sync.end_session(session),
        lambda: sync.update_memory(**ALICE, memory_id="x", content="y"),
        lambda: sync.delete_memory(**ALICE, memory_id="x"),
        lambda: sync.delete_user(**ALICE),
        lambda: sync.propose_forget(**ALICE, query="tea"),
        lambda: sync.consolidate(**ALICE),
        sync.run_due,
        sync.purge,
    ):
        with pytest.raises(ReadOnlyError):
            write()


def correct(run: Run, service: MemoryService) -> None:
    """Corrected, archived, restored, used, consolidated."""
    sync = service.sync
    ids = {entry.text: entry.id for entry in sync.list_memories(**ALICE)}
    sync.update_memory(**ALICE, memory_id=ids[TEA], content="Alice prefers black tea")
    past = sync.memory_history(**ALICE, memory_id=ids[TEA])
    assert [revision.memory.text for revision in past][-1] == "Alice prefers black tea"
    run.texts = {*run.texts - {TEA}, "Alice prefers black tea"}
    sync.archive_memory(**ALICE, memory_id=ids[CAR])
    assert texts_of(service) == run.texts - {CAR}
    sync.restore_memory(**ALICE, memory_id=ids[CAR])
    assert sync.mark_used(**ALICE, memory_ids=[ids[CAR]]) == 1
    sync.add_memory(**ALICE, memories=[MemoryEntry(CAR.upper() + "!", author="user")])
    assert sync.consolidate(**ALICE, dry_run=True).merged == 1
    assert sync.consolidate(**ALICE).merged == 1
    run.texts = {*run.texts - {CAR}, CAR.upper() + "!"}
    assert texts_of(service) == run.texts


def forget(run: Run, service: MemoryService) -> None:
    """Only what was meant is forgotten; then a session, then everything."""
    sync = service.sync
    tool = ForgetMemory(service, *ALICE.values())
    proposal = asyncio.run(tool(query="the red car"))
    if run.words.down and run["service"] == "vector" and "token" not in proposal:
        (car,) = (e.id for e in sync.list_memories(**ALICE) if "RED" in e.text)
        sync.delete_memory(**ALICE, memory_id=car)
    else:
        assert [entry["text"] for entry in proposal["memories"]] == [CAR.upper() + "!"]
        chosen = [entry["id"] for entry in proposal["memories"]]
        done = asyncio.run(tool(token=proposal["token"], ids=chosen))
        assert done["count"] == 2  # with the one that was merged into it
    run.texts -= {CAR.upper() + "!"}
    assert texts_of(service) == run.texts
    sync.delete_session(**ALICE, session_id="s")
    if run["summarizer"] == "none":
        run.texts -= run.turns
    else:  # the other session has a summary of the same words
        assert SUMMARY in run.texts
    assert texts_of(service) == run.texts
