"""A database gives the answers of a file, in few round trips."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers.postgres_server import MISSING, Schema, is_available
from vecall import Filter, FunctionEmbedder, MemoryEntry, MemoryService, Put
from vecall.store.postgres import transaction as transactions

pytestmark = pytest.mark.skipif(not is_available(), reason=MISSING)

ME = {"app_name": "hotel", "user_id": "alice"}
WORDS = "parrot bicycle garden window train evening doctor summer yellow sea".split()


def embed(texts: list[str]) -> np.ndarray:
    seeds = [sum(map(ord, text)) for text in texts]
    rows = [np.random.default_rng(seed).standard_normal(64) for seed in seeds]
    return np.array(rows, np.float32)


def text(choose: random.Random) -> str:
    return " ".join(choose.choices(WORDS, k=choose.randint(1, 9)))


@pytest.fixture
def schema() -> Iterator[Schema]:
    """A schema of its own."""
    made = Schema()
    yield made
    made.drop()


def write_all(memory: MemoryService) -> None:
    """Facts, a session, corrections, uses and deletions, the same in each storage."""
    choose = random.Random(11)
    sync = memory.sync
    facts = [
        {
            "content": text(choose),
            "id": f"fact {n}",
            "timestamp": 1.7e9 + 1000 * n,
            "kind": choose.choice(["preference", "plan"]),
            "custom_metadata": {"n": n % 5, "name": "Zo\u00eb \x00 \x01"},
        }
        for n in range(120)
    ]
    sync.add_memory(**ME, memories=facts)
    events = [
        {"content": text(choose), "id": f"turn {n}", "author": "user", "timestamp": n}
        for n in range(40)
    ]
    sync.add_events_to_memory(**ME, session_id="s", events=events)
    # Turns that come late get positions between others.
    late = [*events[:10], {"content": "sea late", "id": "late"}, *events[10:]]
    sync.add_events_to_memory(**ME, session_id="s", events=late)
    for n in range(0, 30, 3):
        sync.update_memory(**ME, memory_id=f"fact {n}", content=f"sea {text(choose)}")
    for n in range(1, 30, 7):
        sync.delete_memory(**ME, memory_id=f"fact {n}")


def test_every_answer_is_the_files_to_the_bit(open_service, tmp_path, schema) -> None:
    embedder = FunctionEmbedder(embed, dimensions=64)
    file = open_service(tmp_path / "m.db", embedder=embedder)
    # The rotation of vectors has a seed that every storage has of its own.
    identity = file._memory.storage.identity.hex()
    schema.server.execute(
        f"UPDATE {schema.name}.meta SET value = '{identity}' WHERE key = 'uuid'"
    )
    database = open_service(schema.url, embedder=embedder)
    for memory in (file, database):
        write_all(memory)
    choose = random.Random(12)
    filters = [None, Filter(kind="plan"), Filter(session_id="s")]
    filters.append(Filter(metadata={"n": 3}))
    for _ in range(150):
        query, where = text(choose), choose.choice(filters)
        answers: list[Any] = [
            [
                (e.id, e.content, e.score, e.similarity, e.confidence, e.timestamp)
                for e in memory.sync.search_memory(
                    **ME, query=query, top_k=8, filter=where
                )
            ]
            for memory in (file, database)
        ]
        assert answers[0] == answers[1]
        assert answers[0] or where is not None
    listed = [
        [
            (e.id, e.content, e.custom_metadata)
            for e in memory.sync.list_memories(**ME, limit=500)
        ]
        for memory in (file, database)
    ]
    assert listed[0] == listed[1]
    (late,) = (id_ for id_, content, _ in listed[0] if content == "sea late")
    around = [
        [e.id for e in memory.sync.expand_session(**ME, memory_id=late)]
        for memory in (file, database)
    ]
    assert around[0] == around[1]
    assert len(around[0]) > 1


def transactions_made(
    monkeypatch: Any,
) -> dict[transactions.PostgresTransaction, int]:
    """A dict to which every later transaction adds itself.

    Its value is how often the transaction waited for the server, without the end.
    """
    kind, result = transactions.PostgresTransaction, transactions.PostgresResult
    made: dict[transactions.PostgresTransaction, int] = {}
    owners: dict[Any, transactions.PostgresTransaction] = {}
    begin, send = kind.__init__, kind._send_statement

    def noted(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        made[self] = 0

    def sent(self: Any, *arguments: Any) -> transactions.PostgresResult:
        found = send(self, *arguments)
        owners[found] = self
        return found

    def counting(read: Any) -> Any:
        def counted(self: Any, *arguments: Any) -> Any:
            if self._cursor.pgresult is None and owners[self] in made:
                made[owners[self]] += 1
            return read(self, *arguments)

        return counted

    monkeypatch.setattr(kind, "__init__", noted)
    monkeypatch.setattr(kind, "_send_statement", sent)
    for name in ("fetchone", "fetchmany", "fetchall"):
        monkeypatch.setattr(result, name, counting(getattr(result, name)))
    rowcount = property(counting(result.rowcount.fget))
    monkeypatch.setattr(result, "rowcount", rowcount)
    return made


@pytest.mark.parametrize("loaded", [True, False])
def test_an_embedded_add_of_a_loaded_user_takes_three_round_trips(
    open_service, schema, monkeypatch, loaded
) -> None:
    """One for the look-up, which is two if the user is not loaded; two to write."""
    memory = open_service(schema.url, embedder=FunctionEmbedder(embed, dimensions=64))
    deleted = memory.sync.add_memory(**ME, memories=["sea", "sun"])[0]
    memory.sync.delete_memory(**ME, memory_id=deleted)
    if loaded:
        memory.sync.search_memory(**ME, query="sea")
    made = transactions_made(monkeypatch)
    add_events = partial(memory.sync.add_events_to_memory, **ME, session_id="s")
    add = partial(memory.sync.add_memory, **ME)
    chat = [{"id": f"e{n}", "author": "user", "text": f"turn {n}"} for n in range(9)]
    calls = [
        lambda: add(memories=["sky"]),
        lambda: add(memories=[f"sky {n}" for n in range(100)]),
        lambda: add_events(events=chat[:7]),
        lambda: add_events(events=chat),
        lambda: add(memories=["moon"], idempotency_key="k"),
        lambda: add(memories=[f"star {n}" for n in range(2_000)]),
    ]
    for call in calls:
        made.clear()
        call()
        look, write = list(made.values())[:2]  # a snapshot may follow
        # The end of each pipeline is one more.
        assert look + 1 == (1 if loaded else 2)
        assert write + 1 == 2


def test_an_add_takes_two_or_three_round_trips_and_a_search_one_statement(
    open_service, schema, monkeypatch
) -> None:
    memory = open_service(schema.url)
    made = transactions_made(monkeypatch)
    for trips in (3, 2):
        for count in (1, 100):
            made.clear()
            facts = [f"sea {trips} {count} {n}" for n in range(count)]
            memory.sync.add_memory(**ME, memories=facts)
            # The end of the pipeline, with the commit, is one more.
            assert [waits + 1 for waits in made.values()] == [trips]
        memory.sync.search_memory(**ME, query="sea")  # loads the user
    made.clear()
    checker = memory._memory.storage._checker
    before = checker.statements
    memory.sync.search_memory(**ME, query="sea")
    assert (made, checker.statements - before) == ({}, 1)

    async def at_once() -> None:
        await asyncio.gather(
            *(memory.search_memory(**ME, query=f"sea {n}") for n in range(100))
        )

    before = checker.statements
    asyncio.run(at_once())
    assert made == {}
    assert checker.statements - before <= 5


def test_prefixes_of_kinds_and_sessions_select_the_same(schema):
    """Also with characters that PostgreSQL stores as two."""
    told = [
        MemoryEntry(f"zebra {n}", id=f"m{n}", kind=kind, session_id=session)
        for n, (kind, session) in enumerate(
            [("p/\x01a", "Chat 1"), ("p/x", "chat 1"), ("p", None), (None, "%hat")]
        )
    ]
    filters: list[dict[str, Any]] = [
        {"kind_prefix": "p/\x01"},
        {"kind_prefix": ["p/x", "q"]},
        {"session_prefix": ["Ch", "%"]},
        {"kind_prefix": "p", "session_prefix": "c"},
    ]

    def selected(memory: MemoryService) -> list[Any]:
        sync = memory.sync
        sync.add_memory(**ME, memories=told)
        answers: list[Any] = []
        for each in filters:
            listed = [entry.id for entry in sync.list_memories(**ME, filter=each)]
            found = sync.search_memory(**ME, query="zebra", filter=each)
            assert {entry.id for entry in found} == set(listed)
            answers.append((listed, sync.count_memories(**ME, filter=each)))
        return [*answers, sync.delete_where(**ME, filter=filters[2])]

    with (
        MemoryService(embedder=None) as file,
        MemoryService(schema.url, embedder=None) as database,
    ):
        assert selected(database) == selected(file)
        assert selected(file)[:2] == [(["m0"], 1), (["m1"], 1)]


def test_a_transaction_is_freed_when_it_ends(open_service, schema) -> None:
    """Not when the garbage collector finds it, with its connection, in a cycle."""
    memory = open_service(schema.url, embedder=FunctionEmbedder(embed, dimensions=64))

    def calls(number: int) -> None:
        memory.sync.add_memory(**ME, memories=[f"sea {number}"])
        memory.sync.search_memory(**ME, query="sea")
        memory.sync.list_memories(**ME)
        memory.sync.items.write([Put(("notes",), "a", number)], **ME)
        memory.sync.items.find(("notes",), **ME)

    calls(0)
    gc.collect()
    gc.disable()
    try:
        for number in range(5):
            calls(number + 1)
        left = [
            each
            for each in gc.get_objects()
            if isinstance(each, transactions.PostgresTransaction)
        ]
    finally:
        gc.enable()
    assert left == []


def test_the_turns_of_a_replaced_session_are_neighbours_as_in_a_file(
    schema: Schema,
) -> None:
    # The session's last position is read ahead; the deletions before it change it.
    def session(*numbers: int) -> dict[str, Any]:
        turns = [{"id": f"e{n}", "content": f"turn {n} sea"} for n in numbers]
        return {**ME, "id": "s", "events": turns}

    found = []
    for place in (None, schema.url):
        with MemoryService(place, embedder=None) as memory:
            memory.sync.add_session_to_memory(session(0, 1, 2, 3, 4))
            memory.sync.add_session_to_memory(session(0, 9), replace=True)
            answer = memory.sync.search_memory(**ME, query="9", explain=True)
            found.append([(each.text, each.explanation) for each in answer])
    assert found[0] == found[1]
