"""One tenant never sees, finds or disturbs another: the engine's partitions."""

from __future__ import annotations

import gc
import itertools
import threading
import unicodedata

import numpy as np
from vecall import Engine

DIM = 8
# Names that meet when they are joined, folded, normalised, matched or cut short.
NAMES = [
    "a",
    "b",
    "c",
    "ab",
    "bc",
    "A",
    "a/b",
    "b/c",
    "a/",
    "/b",
    "a:b",
    "a|b",
    "a\x1fb",
    "a\nb",
    "a b",
    "a ",
    " a",
    "a\t",
    "\x01",
    "%",
    "_",
    "a%",
    "a_",
    "*",
    ".",
    "..",
    "../a",
    "'",
    '"',
    "\\",
    "('a', 'b')",
    "None",
    "0",
    "00",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "e",
    "É",
    "ss",
    "ß",
    "\u017fs",
    "i",
    "\u0131",
    "İ",
    "\uff21",  # full width
    "\u0430",  # Cyrillic
    "a\u200b",
    "\ufeffa",
    "\u202ea",
    "日本",
    "\U0001f600",
    "\uffff",
    "\U0010ffff",
    "x" * 255,
    "x" * 256,
    "x" * 100_000,
    "x" * 99_999 + "y",
    "y" + "x" * 99_999,
]
PAIRS = list(itertools.product(NAMES[:12], NAMES[:12]))
PAIRS += [(name, "user") for name in NAMES[12:]]
PAIRS += [("app", name) for name in NAMES[12:]]


def vectors_of(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, DIM)).astype(np.float32)


def random_rows(references, rng: np.random.Generator, ids: list[int]) -> list:
    """Rows of every sort: with and without words, vectors, sessions and ends."""
    return [
        references.Row(
            id=row_id,
            words=tuple(rng.integers(1, 12, rng.integers(0, 7)).tolist()),
            vector=rng.standard_normal(DIM).astype(np.float32)
            if rng.random() < 0.8
            else None,
            time=int(rng.integers(0, 20)),
            expires=references.NEVER if rng.random() < 0.7 else int(rng.integers(20)),
            session=int(rng.integers(0, 4)),
            position=int(rng.integers(0, 10)),
        )
        for row_id in ids
    ]


def questions(references, seed: int, count: int) -> list:
    rng = np.random.default_rng(seed)
    options = [
        {},
        {"session": 2},
        {"after": 5, "before": 15},
        {"now": 10},
        {"min_similarity": 0.1},
        {"candidates": 2},
    ]
    return [
        references.Query(
            vector=rng.standard_normal(DIM).astype(np.float32) if at % 4 else None,
            words=tuple(rng.integers(1, 14, rng.integers(0, 5)).tolist()),
            k=int(rng.integers(1, 9)),
            options=options[at % len(options)],
        )
        for at in range(count)
    ]


def answers(references, engine: Engine, key: tuple[str, str], asked: list) -> list:
    """Every answer to the last bit."""
    got = [references.ask(engine, key, query) for query in asked]
    got += [
        engine.search(key, query.vector, query.k)
        for query in asked
        if query.vector is not None
    ]
    return [tuple(column.tobytes() for column in columns) for columns in got]


def test_every_pair_of_names_is_its_own_partition():
    engine = Engine(DIM)
    assert len(set(PAIRS)) == len(PAIRS)
    vectors = vectors_of(1, 2)
    for at, key in enumerate(PAIRS):
        assert key not in engine
        engine.add(key, np.array([2 * at, 2 * at + 1], dtype=np.int64), vectors)
        assert len(engine) == at + 1
    for at, key in enumerate(PAIRS):
        assert key in engine
        assert engine.size(key) == 2
        found = engine.search(key, vectors[0], 10**18)[0]
        assert sorted(found) == [2 * at, 2 * at + 1]
        found = engine.recall(key, vectors[0], [], 10**18)[0]
        assert sorted(found) == [2 * at, 2 * at + 1]


def test_dropping_one_partition_leaves_every_look_alike():
    engine = Engine(DIM)
    vectors = vectors_of(1, 1)
    for at, key in enumerate(PAIRS):
        engine.add(key, np.array([at], dtype=np.int64), vectors)
    left = dict(enumerate(PAIRS))
    for at in np.random.default_rng(2).permutation(len(PAIRS)).tolist():
        key = left.pop(at)
        assert engine.drop(key) is True
        assert engine.drop(key) is False
        assert key not in engine
        assert engine.size(key) == 0
        assert engine.search(key, vectors[0], 5)[0].tolist() == []
        assert len(engine) == len(left)
        for other in list(left)[:7]:
            found = engine.search(left[other], vectors[0], 5)[0]
            assert found.tolist() == [other]


def test_removing_from_one_partition_leaves_the_same_ids_elsewhere():
    engine = Engine(DIM)
    ids = np.arange(3, dtype=np.int64)
    for key in PAIRS:
        engine.add(key, ids, vectors_of(3, 3))
    for at, key in enumerate(PAIRS):
        assert engine.remove(key, ids[:2]) == 2
        assert engine.size(key) == 1
        assert {engine.size(other) for other in PAIRS[at + 1 :]} <= {3}


def test_an_unknown_key_has_nothing():
    engine = Engine(DIM)
    engine.add(("app", "user"), np.array([1], dtype=np.int64), vectors_of(1, 1))
    for key in (("app", "use"), ("app", "user2"), ("user", "app"), ("APP", "user")):
        assert key not in engine
        assert engine.size(key) == 0
        assert engine.drop(key) is False
        assert engine.remove(key, np.array([1], dtype=np.int64)) == 0
        assert engine.search(key, vectors_of(1, 1)[0], 5)[0].size == 0
        found = engine.recall(key, vectors_of(1, 1)[0], [1], 5)
        assert [column.size for column in found] == [0, 0, 0, 0, 0, 6]
        assert found[5].tolist() == [0] * 6
    assert len(engine) == 1


def test_equal_names_are_one_key_however_they_were_made():
    engine = Engine(DIM)
    engine.add(("app", "user"), np.array([1], dtype=np.int64), vectors_of(1, 1))

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 0

    for key in (("ap" + "p", "".join("user")), (Name("app"), Name("user"))):
        assert key in engine
        assert engine.size(key) == 1


def test_an_emptied_partition_is_there_until_it_is_dropped():
    engine = Engine(DIM)
    key = ("app", "user")
    ids = np.arange(4, dtype=np.int64)
    engine.add(key, ids, vectors_of(1, 4))
    assert engine.remove(key, ids) == 4
    assert engine.size(key) == 0
    assert key in engine
    assert engine.search(key, vectors_of(1, 1)[0], 5)[0].size == 0
    assert engine.recall(key, vectors_of(1, 1)[0], [1], 5)[0].size == 0
    assert engine.drop(key) is True
    engine.add(key, ids[:1], vectors_of(1, 1))
    assert engine.size(key) == 1


def test_dropping_a_partition_frees_its_memory():
    engine = Engine(DIM)
    empty = engine.nbytes
    for tenant in range(20):
        key = ("app", str(tenant))
        engine.add(key, np.arange(500, dtype=np.int64), vectors_of(tenant, 500))
    full = engine.nbytes
    assert full >= empty + 20 * 500 * DIM * 4
    for tenant in range(20):
        engine.drop(("app", str(tenant)))
    assert len(engine) == 0
    assert engine.nbytes <= empty + 10_000


def test_answers_do_not_change_by_a_bit_whatever_other_tenants_do(references):
    rng = np.random.default_rng(4)
    mine = ("app", "me")
    others = [("app", "you"), ("app", "m"), ("me", "app"), ("apps", "me")]
    alone, shared = Engine(DIM), Engine(DIM)
    asked = questions(references, 5, 24)
    for step in range(25):
        rows = random_rows(references, rng, rng.integers(0, 60, 8).tolist())
        gone = np.array(rng.integers(0, 60, 3), dtype=np.int64)
        for engine in (alone, shared):
            references.add_rows(engine, mine, rows)
            engine.remove(mine, gone)
        for other in others:
            size = int(rng.integers(1, 150))
            more = random_rows(references, rng, rng.integers(0, 400, size).tolist())
            references.add_rows(shared, other, more)
            shared.remove(other, np.array(rng.integers(0, 400, 40), dtype=np.int64))
            references.ask(shared, other, asked[step % len(asked)])
        if step % 6 == 5:
            assert shared.drop(others[step % len(others)])
        wanted = answers(references, alone, mine, asked)
        assert answers(references, shared, mine, asked) == wanted


def test_a_thread_carries_nothing_from_one_partition_to_the_next(references):
    # The same slots have other words, other neighbours and other ids in each.
    rng = np.random.default_rng(6)
    keys = [("app", str(n)) for n in range(6)]
    shared = Engine(DIM)
    lonely = {key: Engine(DIM) for key in keys}
    for at, key in enumerate(keys):
        rows = random_rows(references, rng, list(range((at * 37) % 90 + 1)))
        references.add_rows(shared, key, rows)
        references.add_rows(lonely[key], key, rows)
    asked = questions(references, 7, 40)
    for query in asked:
        for key in rng.permutation(len(keys)):
            got = answers(references, shared, keys[key], [query])
            assert got == answers(references, lonely[keys[key]], keys[key], [query])


def test_found_rows_are_always_the_tenants_own(references):
    rng = np.random.default_rng(8)
    keys = [(f"app{n % 3}", f"user{n % 5}") for n in range(15)]
    assert len(set(keys)) == 15
    engine = Engine(DIM)
    for tenant, key in enumerate(keys):
        ids = (rng.permutation(1000)[: 20 + 30 * tenant] + 1000 * tenant).tolist()
        references.add_rows(engine, key, random_rows(references, rng, ids))
    for query in questions(references, 9, 30):
        for tenant, key in enumerate(keys):
            for found in (
                references.ask(engine, key, query)[0],
                engine.search(key, vectors_of(tenant, 1)[0], 10**18)[0],
            ):
                assert set((found // 1000).tolist()) <= {tenant}


def test_tenants_in_threads_do_not_disturb_each_other(references):
    rng = np.random.default_rng(10)
    keys = [("app", str(n)) for n in range(3)]
    engine = Engine(DIM)
    asked = questions(references, 11, 12)
    wanted = {}
    for tenant, key in enumerate(keys):
        ids = list(range(1000 * tenant, 1000 * tenant + 80))
        references.add_rows(engine, key, random_rows(references, rng, ids))
        wanted[key] = answers(references, engine, key, asked)
    noise = random_rows(references, rng, list(range(300)))
    stop = threading.Event()
    problems: list[object] = []

    def read(key: tuple[str, str]) -> None:
        for _ in range(40):
            if answers(references, engine, key, asked) != wanted[key]:
                problems.append(key)

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            other = ("noise", str(turn % 3))
            references.add_rows(engine, other, noise[: turn % 300])
            engine.remove(other, np.arange(100, dtype=np.int64))
            if turn % 5 == 0:
                engine.drop(other)

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read, args=(key,)) for key in keys]
    for thread in (writer, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    writer.join()
    assert problems == []


def test_an_answer_outlives_its_partition_and_its_engine():
    engine = Engine(DIM)
    key = ("app", "user")
    engine.add(key, np.arange(5, dtype=np.int64), vectors_of(12, 5))
    ids, cosines = engine.search(key, vectors_of(12, 1)[0], 5)
    kept = ids.tolist(), cosines.tolist()
    engine.drop(key)
    del engine
    gc.collect()
    assert (ids.tolist(), cosines.tolist()) == kept


def test_engines_share_nothing():
    made = {dim: Engine(dim) for dim in (1, 2, 3)}
    key = ("app", "user")
    for dim, engine in made.items():
        assert key not in engine
        ones = np.ones((1, dim), dtype=np.float32)
        engine.add(key, np.array([dim], dtype=np.int64), ones)
    for dim, engine in made.items():
        query = np.ones(dim, dtype=np.float32)
        assert engine.search(key, query, 5)[0].tolist() == [dim]
