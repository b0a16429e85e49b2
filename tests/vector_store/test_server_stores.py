"""Vector stores on real servers: the contract, other processes, and bad states."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import numpy as np
import pytest
from helpers.processes import run
from helpers.redis_server import shared_redis
from helpers.vector_stores.contract import VectorStoreContract
from helpers.vector_stores.plain import ALICE, Plain, X, three
from helpers.vector_stores.servers import (
    ON_SERVERS,
    SERVERS,
    needs_postgres,
    needs_redis,
    new_pgvector,
    new_redis,
    pgvector_url,
)
from vecall import Filter
from vecall.errors import (
    ClosedError,
    DimensionError,
)
from vecall.vector_store import (
    DeletingVectorStore,
    VectorStoreFilter,
)
from vecall.vector_store.base import StoredRow

PASSWORD = "geheim"
ME = VectorStoreFilter(**ALICE)
NAMES = count(1)


@needs_postgres
class TestPgVectorStore(VectorStoreContract):
    def make_store(self):
        return new_pgvector()


@needs_redis
class TestRedisVectorStore(VectorStoreContract):
    def make_store(self):
        return new_redis()


@pytest.fixture(params=SERVERS)
def make(request):
    """Makes stores over one table, or one prefix: what several processes share."""
    kind, name, made = request.param, f"shared{next(NAMES)}", []

    def store(**options):
        options = {"table" if kind == "pgvector" else "prefix": name, **options}
        made.append(ON_SERVERS[kind](**options))
        return made[-1]

    yield store
    for each in made:
        each.close()


def test_other_objects_see_the_rows_and_the_length(make):
    three(Plain(make()))
    other = Plain(make())
    assert isinstance(other.store, DeletingVectorStore)
    assert other.ids(X) == ["a", "b", "c"]
    for call in (
        lambda: Plain(make()).put("a", [1.0, 2.0]),
        lambda: Plain(make()).search([1.0, 2.0]),
        lambda: Plain(make(dimensions=2)).put("a", [1.0, 2.0]),
        lambda: Plain(make(dimensions=2)).put("a", X),
    ):
        with pytest.raises(DimensionError):
            call()
    assert other.ids(X) == ["a", "b", "c"]
    assert other.delete_many() == 3
    with pytest.raises(DimensionError):  # it is that of the store, not of its rows
        Plain(make()).put("a", [1.0, 2.0])


def test_of_first_rows_that_differ_in_length_one_length_wins(make):
    stores = [Plain(make()) for _ in range(8)]

    def first(number):
        try:
            stores[number].put(f"{number}", [1.0] * (1 + number % 4))
        except DimensionError:
            return None
        return 1 + number % 4

    with ThreadPoolExecutor(8) as threads:
        lengths = list(threads.map(first, range(8)))
    (length,) = set(lengths) - {None}
    stored = [f"{n}" for n, each in enumerate(lengths) if each is not None]
    assert sorted(stores[0].ids([1.0] * length)) == stored


def test_tables_and_prefixes_are_walls():
    for name, option in (("pgvector", "table"), ("redis", "prefix")):
        with suppress(pytest.skip.Exception):
            one = Plain(ON_SERVERS[name](**{option: "wall"}))
            other = Plain(ON_SERVERS[name](**{option: "wall_1"}))
            three(one)
            other.put("other", [1.0, 0.0])
            assert other.ids([1.0, 0.0]) == ["other"]
            assert one.delete_many() == 3
            assert other.delete_many() == 1
            one.store.close()
            other.store.close()


def test_scores_are_exact_to_float32(make):
    random = np.random.default_rng(5)
    rows = random.normal(size=(200, 384)) + random.normal(size=384)
    store = Plain(make())
    for number, row in enumerate(rows):
        store.put(f"{number}", row)
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    for query in rows[:20] + random.normal(size=(20, 384)):
        exact = unit @ (query / np.linalg.norm(query))
        found = store.search(query, 50)
        assert [int(hit.id) for hit in found] == list(np.argsort(-exact)[:50])
        assert max(abs(hit.score - exact[int(hit.id)]) for hit in found) < 5e-7


def test_a_row_that_is_replaced_while_many_are_deleted_stays(monkeypatch):
    """In Redis a filter is tested in the client; a database locks the rows."""
    store, other = (Plain(new_redis(prefix="replaced")) for _ in range(2))
    three(store)
    original, done = StoredRow.passes_scope, []

    def passes(row, scope):
        if not done:
            done.append(row)
            other.put("b", X, session_id="s", new=True)
        return original(row, scope)

    monkeypatch.setattr(StoredRow, "passes_scope", passes)
    assert store.delete_many(where=Filter(not_kind="x")) == 2
    assert store.ids(X) == ["b"]
    for each in (store, other):
        each.store.close()


FORKING = """
import asyncio, os, sys
from vecall import vector_store

kind, url, option, name = sys.argv[1:]
store = getattr(vector_store, kind)(url, **{option: name})
who = {"app_name": "app", "user_id": "alice"}

def ids():
    mine = vector_store.VectorStoreFilter(**who)
    return [hit.id for hit in asyncio.run(store.search([1, 0, 0], 9, mine))]

assert ids() == ["a", "b", "c"]
child = os.fork()
if not child:
    asyncio.run(store.upsert("d", [0, 0, 1], who))
    print(*ids(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(*ids())
store.close()
"""


@pytest.mark.parametrize("kind", SERVERS)
def test_a_forked_child_opens_connections_of_its_own(kind):
    name = f"forked{next(NAMES)}"
    option = "table" if kind == "pgvector" else "prefix"
    store = three(Plain(ON_SERVERS[kind](**{option: name})))
    url = pgvector_url() if kind == "pgvector" else shared_redis().url()
    done = run(FORKING, type(store.store).__name__, url, option, name)
    assert done.stdout.splitlines() == ["a b d c"] * 2
    store.store.close()


def test_a_closed_store_says_so(make):
    store = three(Plain(make()))
    store.store.close()
    store.store.close()
    for call in (
        lambda: store.put("a", X),
        lambda: store.search(X),
        lambda: store.delete("a"),
        store.delete_many,
    ):
        with pytest.raises(ClosedError, match="vector store"):
            call()
    assert Plain(make()).ids(X) == ["a", "b", "c"]
