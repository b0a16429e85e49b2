"""Every pair of options runs through a memory's whole life.

Each combination of the table is opened, written, searched, read by the tools,
corrected, forgotten and opened again. A model says which texts are there after each
step. What a combination cannot do is refused with a typed error, and changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.memories import ALICE
from helpers.option_table import (
    CALL,
    CAR,
    DURABLE,
    FACTORS,
    FILTERS,
    HELD,
    HIDDEN,
    METADATA,
    PHONE,
    STORED_METADATA,
    SUMMARY,
    TABLE,
    TEA,
    TURNS,
    WAITED,
    Run,
    refused,
)
from helpers.pairwise import pairs_of
from helpers.postgres_server import MISSING, Schema, is_available
from helpers.vector_stores.servers import ON_SERVERS, SERVERS
from vecall import (
    ConfigError,
    ConflictError,
    EmbedderError,
    MemoryEntry,
    MemoryService,
    ReadOnlyError,
    VecallError,
    render,
)
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.tools import ForgetMemory, LoadMemory, PreloadMemory


def test_the_table_holds_every_pair():
    held = set().union(*map(pairs_of, TABLE))
    for a, some in FACTORS.items():
        for b, others in FACTORS.items():
            if a < b:
                for x in some:
                    for y in others:
                        assert ((a, x), (b, y)) in held
    assert len(TABLE) < 110


@pytest.mark.parametrize(
    "combination",
    [made for made in TABLE if refused(made)],
    ids=lambda made: "-".join(made.values()),
)
def test_what_cannot_go_together_is_refused_when_it_is_opened(combination, place):
    with pytest.raises(ConfigError):
        Run(combination, place).open(writes=True)


LIVES = [made for made in TABLE if not refused(made)]


@pytest.mark.parametrize("combination", LIVES, ids=lambda made: "-".join(made.values()))
def test_a_combination_lives_a_whole_life(combination, place, tmp_path):
    live(Run(combination, place), tmp_path)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize(
    "combination",
    [made for made in LIVES if made["service"] == "stored"],
    ids=lambda made: "-".join(made.values()),
)
def test_a_combination_lives_over_a_store_on_a_server(combination, kind, tmp_path):
    with closing(ON_SERVERS[kind]()) as store:
        live(Run(combination, None, store=store), tmp_path)


@pytest.fixture
def place(combination: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    """What a service of a combination opens: a file, or a schema of its own."""
    if combination["service"] != "database":
        yield tmp_path / "m.db"
        return
    if not is_available():
        pytest.skip(MISSING)
    schema = Schema()
    yield schema.url
    schema.drop()


def live(run: Run, folder: Path) -> None:
    """Open, write, search, correct, forget and open again."""
    if run["mode"] == "read_only":
        if run["service"] in DURABLE:
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
        move(run, service, folder)
        correct(run, service)
        run.words.down = run["embedder"] == "down"
        ask(run, service)
        forget(run, service)
        ask(run, service)
    if run["service"] in (*DURABLE, "stored"):
        run.words.down = False
        with run.open(writes=True) as service:
            run.words.down = run["embedder"] == "down"
            ask(run, service)


def listed(service: MemoryService) -> list[MemoryEntry]:
    """All memories of Alice; a vector store is asked for all by a vector."""
    if isinstance(service, VectorStoreMemoryService):
        ask = {
            "query": "",
            "vector": np.ones(64),
            "top_k": 1000,
            "min_similarity": -1.0,
        }
        return service.sync.search_memory(**ALICE, **ask).memories
    return service.sync.list_memories(**ALICE)


def texts_of(service: MemoryService) -> set[str]:
    return {entry.text for entry in listed(service)}


def tell(run: Run, service: MemoryService) -> None:
    """Facts, a session, turns that wait for a trigger."""
    sync = service.sync
    facts = [
        MemoryEntry(text, author="user", kind="fact")
        for text in (TEA, CAR, HELD, PHONE)
    ]
    more: dict[str, Any] = {"custom_metadata": METADATA}
    more["verbatim"] = run["metadata"] == "verbatim"
    if run["vectors"] == "given" and run["service"] != "stored":
        texts = [f"user: {text}" for text in (TEA, CAR, HELD, PHONE)]
        more["vectors"] = [run.words._vector(text) for text in texts]
    if run["embedder"] == "none" and "vectors" in more:
        with pytest.raises(ConfigError, match="vectors"):
            sync.add_memory(**ALICE, memories=facts, **more)
        more.pop("vectors")
    sync.add_memory(**ALICE, memories=facts, **more)
    sync.add_session_to_memory(
        {**NAMES, "id": "s", "events": [event(0, TURNS[0]), event(1, TURNS[1], CALL)]}
    )
    waiting = {**NAMES, "id": "t", "events": [event(9, WAITED)]}
    observed = sync.observe_session(waiting)
    assert observed == [] or run["trigger"] == "none"
    sync.end_session(waiting)
    sync.admin.run_due()
    summed = run["summarizer"] == "llm"
    run.texts = {TEA, CAR, *((SUMMARY,) if summed else (*run.turns, WAITED))}
    run.texts.add(HIDDEN if run["hook"] == "redact" else PHONE)
    if run["hook"] != "quarantine":
        run.texts.add(HELD)
    assert texts_of(service) == run.texts
    if run["scopes"] == "both":
        sync.add_memory(**ALICE, memories=[UMBRELLA], scope="shared")
    elif run["service"] != "stored":  # which has no scopes at all
        with pytest.raises(VecallError, match="scope"):
            sync.add_memory(**ALICE, memories=["x"], scope="shared")


NAMES = {"app_name": ALICE["app_name"], "user_id": ALICE["user_id"]}

UMBRELLA = MemoryEntry("shared violet umbrella", kind="fact")


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
    wanted = STORED_METADATA[run["metadata"]]
    for entry in listed(service):
        if entry.text in (TEA, CAR, HELD, PHONE, HIDDEN):
            assert json.dumps(entry.custom_metadata) == wanted
    if run["service"] != "stored":
        only = {**ALICE, "filter": FILTERS[run["filter"]]}
        passing = [entry.text for entry in service.sync.list_memories(**only)]
        assert set(passing) == run.texts
        assert service.sync.count_memories(**only) == len(passing)
    ask_by_vector(run, service)
    asked = sorted(run.texts & {TEA, CAR, HELD, "Alice prefers black tea"})
    for text in asked:
        query = " ".join(text.split()[-2:])
        memories = found(run, service, query)
        own = {entry.text for entry in memories if entry.scope == "user"}
        assert own <= run.texts
        if not run.words.down:
            assert memories[0].text == text
            assert text in render(memories, "secure")
        if text != asked[0]:
            continue  # the tools search as the service does
        who = (service, *ALICE.values())
        only = FILTERS[run["filter"]]
        try:
            loaded = asyncio.run(LoadMemory(*who, filter=only)(query=query))
        except EmbedderError:
            if run.words.down and run["service"] == "stored":
                continue  # nor can it search by words
            raise
        if run.words.down and run["service"] in ("vector", "stored"):
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
    empty = run["mode"] == "read_only" and run["service"] not in DURABLE  # no model
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
        sync.admin.run_due,
        sync.admin.purge,
    ):
        with pytest.raises(ReadOnlyError):
            write()


def move(run: Run, service: MemoryService, folder: Path) -> None:
    """An export gives another service of the same options the same memories.

    That of a database is moved to a file.
    """
    if run["service"] not in (*DURABLE, "memory"):
        return
    file, moved = folder / "export", folder / "moved.db"
    there = dict(run.combination)
    if there["service"] == "database":
        there |= {"service": "file", "staleness": "none"}
    service.sync.admin.export_jsonl(file)
    gate = run["import"] == "gate"
    with Run(there, moved, run.words).open(writes=True) as other:
        if gate and run["hook"] == "none":
            with pytest.raises(ConfigError, match="gate"):
                other.sync.admin.import_jsonl(file, gate=gate)
        else:
            count = other.sync.admin.import_jsonl(file, gate=gate)
            assert (count.rejected, count.quarantined) == (0, 0)
            assert texts_of(other) == run.texts


def correct(run: Run, service: MemoryService) -> None:
    """Corrected, archived, restored, used, consolidated."""
    sync = service.sync
    ids = {entry.text: entry.id for entry in listed(service)}
    if run["service"] == "stored":  # told again under its id
        for old, new in ((TEA, "Alice prefers black tea"), (CAR, CAR.upper() + "!")):
            entry = MemoryEntry(new, id=ids[old], author="user", kind="fact")
            assert sync.add_memory(**ALICE, memories=[entry]) == [ids[old]]
            run.texts = {*run.texts - {old}, new}
        assert texts_of(service) == run.texts
        return
    tea = {**ALICE, "memory_id": ids[TEA], "content": "Alice prefers black tea"}
    version = sync.get_memory(**ALICE, memory_id=ids[TEA]).version
    with pytest.raises(ConflictError):
        sync.update_memory(**tea, if_version=version - 1)
    sync.update_memory(**tea, if_version=version)
    with pytest.raises(ConflictError):
        sync.delete_memory(**ALICE, memory_id=ids[TEA], if_version=version)
    past = sync.memory_history(**ALICE, memory_id=ids[TEA])
    assert [revision.memory.text for revision in past][-1] == "Alice prefers black tea"
    run.texts = {*run.texts - {TEA}, "Alice prefers black tea"}
    sync.archive_memory(**ALICE, memory_id=ids[CAR])
    assert texts_of(service) == run.texts - {CAR}
    sync.restore_memory(**ALICE, memory_id=ids[CAR])
    assert sync.mark_used(**ALICE, memory_ids=[ids[CAR]]) == 1
    again = MemoryEntry(CAR.upper() + "!", author="user", kind="fact")
    sync.add_memory(**ALICE, memories=[again])
    assert sync.consolidate(**ALICE, dry_run=True).merged == 1
    assert sync.consolidate(**ALICE).merged == 1
    run.texts = {*run.texts - {CAR}, CAR.upper() + "!"}
    assert texts_of(service) == run.texts


def forget(run: Run, service: MemoryService) -> None:
    """Only what was meant is forgotten; then a session, then everything."""
    sync = service.sync
    tool = ForgetMemory(service, *ALICE.values())
    try:
        proposal = asyncio.run(tool(query="the red car"))
    except EmbedderError:
        assert run.words.down
        assert run["service"] == "stored"
        proposal = {}
    by_vectors = run["service"] in ("vector", "stored")
    if run.words.down and by_vectors and "token" not in proposal:
        (car,) = (e.id for e in listed(service) if "RED" in e.text)
        sync.delete_memory(**ALICE, memory_id=car)
    else:
        assert [entry["text"] for entry in proposal["memories"]] == [CAR.upper() + "!"]
        chosen = [entry["id"] for entry in proposal["memories"]]
        done = asyncio.run(tool(token=proposal["token"], ids=chosen))
        merged = run["service"] != "stored"  # one was merged into it, and goes with it
        assert done["count"] == 1 + merged
    run.texts -= {CAR.upper() + "!"}
    assert texts_of(service) == run.texts
    sync.delete_session(**ALICE, session_id="s")
    if run["summarizer"] == "none":
        run.texts -= run.turns
    else:  # the other session has a summary of the same words
        assert SUMMARY in run.texts
    assert texts_of(service) == run.texts
