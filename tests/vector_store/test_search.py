"""Over a vector store: filters by labels and metadata, query vectors, inner parts."""

from __future__ import annotations

import asyncio
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.options import grouped
from helpers.vector_stores.reference import ReferenceVectorStore
from helpers.vector_stores.servers import ON_SERVERS
from vecall import (
    ConfigError,
    DimensionError,
    Filter,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryConfig,
    MemoryEntry,
    MemoryService,
    MessageCount,
    Quota,
    Ranking,
    Scopes,
    WritePolicy,
)
from vecall.hooks import ALLOW
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.tools import LoadMemory, PreloadMemory
from vecall.vector_store import InMemoryVectorStore, VectorStoreFilter, meets

ENTRIES = [
    MemoryEntry(
        f"zebra {author} {kind} {number}",
        id=f"{author} {kind} {number}",
        author=author,
        kind=kind,
        source=None if number else "book",
        trust="high" if number > 1 else None,
        timestamp=float(number),
        session_id=f"s{number % 2}",
        custom_metadata={} if number == 3 else {"n": number, "deep": {"a": [number]}},
    )
    for author, kind, number in product(
        ("user", "guide", None), ("fact", "note"), range(4)
    )
]
FILTERS: list[dict[str, Any]] = [
    {"author": "user"},
    {"author": ["user", "guide"], "kind": "fact"},
    {"not_kind": "note"},
    {"kind_prefix": ["no", "x"], "session_prefix": "s1"},
    {"source": "book"},
    {"trust": ("high", "low"), "author": "guide"},
    {"metadata": {"n": 1}},
    {"metadata": {"n": {"$gte": 1}}, "not_kind": ["fact"]},
    {"metadata": {"n": {"$ne": 1}, "other": {"$ne": 1}}},
    {"metadata": {"$or": [{"n": 2}, {"deep.a": {"$exists": False}}]}},
    {"metadata": {"n": {"$nin": [1, 2], "$not": {"$gt": 0}}}},
    {"author": "user", "session_id": "s1"},
    {"kind": "note", "after": 1, "before": 3},
    {"author": "absent"},
]


class Down(Recorder):
    """Embeds texts, but no queries."""

    def embed_queries(self, texts: list[str]) -> Any:
        raise AssertionError(len(texts))


class Filtering(ReferenceVectorStore):
    """The plain store, with the conditions that a store may add."""

    applies_where = True

    def let_in(self, asked: Any) -> list[Any]:
        rows = super().let_in(asked)
        where = asked.where
        return [row for row in rows if where is None or meets(row[2], where)]


STORES = {"memory": InMemoryVectorStore, "reference": Filtering, **ON_SERVERS}


@pytest.fixture(params=STORES.values(), ids=STORES)
def service(request):
    store = request.param()
    with VectorStoreMemoryService(store, Recorder(16)) as opened:
        opened.sync.add_memory(**ALICE, memories=ENTRIES)
        yield opened
    if hasattr(store, "close"):
        store.close()


@pytest.fixture(scope="module")
def reference():
    with MemoryService(embedder=None) as opened:
        opened.sync.add_memory(**ALICE, memories=ENTRIES)
        yield opened


def found(service: Any, **asked: Any) -> list[str]:
    call = {**ALICE, "query": "zebra", "top_k": 100, **asked}
    return [memory.text for memory in service.sync.search_memory(**call).memories]


@pytest.mark.parametrize("asked", FILTERS, ids=str)
def test_the_same_memories_pass_as_in_a_file(service, reference, asked):
    right = sorted(found(reference, filter=asked))
    assert sorted(found(service, filter=asked)) == right
    assert sorted(found(service, filter=Filter(**asked))) == right
    few = found(service, filter=asked, top_k=2)
    assert few == found(service, filter=asked)[:2]  # the filter is part of the search
    assert len(few) == min(2, len(right))


def test_a_filter_reaches_no_other_user(service):
    service.sync.add_memory(**BOB, memories=[MemoryEntry("zebra", author="user")])
    assert found(service, filter={"author": "user"}, **BOB) == ["zebra"]
    assert "zebra" not in found(service, filter={"author": "user"})


def test_tools_take_the_filters_of_such_a_store(service):
    who = (service, *ALICE.values())
    tool = LoadMemory(*who, filter={"metadata": {"n": 2}, "author": "guide"})
    texts = [each["text"] for each in asyncio.run(tool(query="zebra"))["memories"]]
    assert sorted(texts) == ["zebra guide fact 2", "zebra guide note 2"]
    block = asyncio.run(PreloadMemory(*who, filter={"trust": "high"}).block("zebra"))
    assert "zebra" in block
    assert "fact 0" not in block


@pytest.mark.parametrize("name", ["author", "metadata"])
def test_a_store_that_does_not_say_so_is_given_no_such_filter(name):
    asked = {"author": "user", "metadata": {"n": 1}}
    store = ReferenceVectorStore()
    store.applies_where = 1  # not True
    with VectorStoreMemoryService(store, Recorder(16)) as service:
        with pytest.raises(InvalidArgumentError, match=rf"filter\.{name}.*applies_wh"):
            found(service, filter={name: asked[name]})
        with pytest.raises(InvalidArgumentError, match=rf"filter\.{name}"):
            LoadMemory(service, *ALICE.values(), filter={name: asked[name]})


@pytest.mark.parametrize("make", [InMemoryVectorStore, *ON_SERVERS.values()])
def test_rows_of_others_in_a_store_are_looked_at_by_the_same_names(make):
    store = make()
    rows = [{"author": "user"}, {"kind": 5, "meta": "{"}, {"meta": '{"n": 1}'}, {}]

    async def ask(**asked: Any) -> list[str]:
        where = VectorStoreFilter(**ALICE, where=Filter(**asked))
        hits = await store.search([1.0, 0.0], 9, where)
        return sorted(hit.id for hit in hits)

    async def run() -> None:
        for number, row in enumerate(rows):
            await store.upsert(str(number), [1.0, number], {**ALICE, **row})
        assert await ask(author="user") == ["0"]
        assert await ask(metadata={"n": 1}) == ["2"]
        assert await ask(metadata={"n": {"$ne": 2}}) == ["0", "1", "2", "3"]
        for bad, error in (
            ({"author": "user"}, InvalidTypeError),
            (Filter(session_id="s"), InvalidArgumentError),
            (Filter(after=1), InvalidArgumentError),
        ):
            asked = VectorStoreFilter(**ALICE, where=bad)  # type: ignore[arg-type]
            with pytest.raises(error, match="where"):
                await store.search([1.0, 0.0], 9, asked)
        only = VectorStoreFilter(**ALICE, where=Filter(author="user"))
        assert await store.delete_many(only) == 1
        left = await store.search([1.0, 0.0], 9, VectorStoreFilter(**ALICE))
        assert sorted(hit.id for hit in left) == ["1", "2", "3"]
        store.close()

    asyncio.run(run())


def test_what_has_expired_does_not_take_the_place_of_what_passes(service):
    service.sync.add_events_to_memory(
        **ALICE,
        events=[{"text": "zebra soon over", "author": "brief"}],
        custom_metadata={"ttl": 1e-6},
    )
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("okapi", author="brief")])
    assert found(service, filter={"author": "brief"}, top_k=1) == ["okapi"]


def test_a_vector_of_the_callers_own_is_searched_by(service):
    recorder = Recorder(16)
    texts = [entry.text for entry in ENTRIES]
    wanted = np.asarray(recorder.vector("something"), np.float64)

    def cosine(entry: MemoryEntry) -> float:
        said = f"{entry.author}: {entry.text}" if entry.author else entry.text
        own = np.asarray(recorder.vector(said), np.float64)
        return float(own @ wanted / np.linalg.norm(own) / np.linalg.norm(wanted))

    expected = [entry.text for entry in sorted(ENTRIES, key=cosine, reverse=True)]
    asked = len(service._memory._embedding.embedder.asked)
    for vector in (wanted, wanted.tolist(), wanted.astype(np.float32) * 7):
        assert found(service, query="", vector=vector) == expected
    assert found(service, query="zebra", vector=wanted, top_k=3) == expected[:3]
    only = found(service, query="", vector=wanted, filter={"kind": "fact"}, top_k=2)
    assert only == [text for text in expected if "fact" in text][:2]
    assert len(service._memory._embedding.embedder.asked) == asked
    assert len(expected) == len(texts)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ([1.0] * 15, DimensionError),
        ([[1.0] * 16], DimensionError),
        ([0.0] * 16, InvalidArgumentError),
        ([float("nan")] + [1.0] * 15, InvalidArgumentError),
        ("x" * 16, InvalidTypeError),
        (["x"] * 16, InvalidTypeError),
    ],
)
def test_a_vector_that_cannot_be_is_refused(service, bad, error):
    with pytest.raises(error, match="vector: "):
        found(service, query="", vector=bad)


def test_a_vector_finds_while_the_embedder_is_down():
    with VectorStoreMemoryService(InMemoryVectorStore(), Down(16)) as service:
        service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
        vector = Recorder(16).vector("okapi")
        assert found(service, vector=vector)[0] == "okapi"


THOUGHT = {"text": "The user likes zebras.", "thought": True}
CALL = {"function_call": {"name": "get_weather", "args": {"city": "Paris"}}}
PARTS = [THOUGHT, CALL, {"text": "It rains."}]
TEXTS = {
    (): "It rains.",
    ("thoughts",): "(thought) The user likes zebras.\nIt rains.",
    ("calls",): '(call) get_weather {"city": "Paris"}\nIt rains.',
}


@pytest.mark.parametrize("way", ["session", "events", "observed"])
@pytest.mark.parametrize("include", TEXTS)
def test_thoughts_and_calls_are_remembered_on_request(include, way):
    event = {"id": "e", "author": "agent", "content": {"parts": PARTS}}
    session = {**ALICE, "id": "s", "events": [event]}
    store = InMemoryVectorStore()
    how = {"include": include, "trigger": MessageCount(9), "maintenance_interval": None}
    with VectorStoreMemoryService(store, Recorder(16), **grouped(**how)) as service:
        if way == "session":
            service.sync.add_session_to_memory(session)
        elif way == "events":
            service.sync.add_events_to_memory(**ALICE, events=[event])
        else:
            service.sync.observe_session(session)
            service.sync.end_session(session)
        assert found(service) == [TEXTS[include]]


@pytest.mark.parametrize("bad", ["thoughts", ["pictures"], None, 1])
def test_something_else_to_include_is_refused(bad):
    with pytest.raises(ConfigError, match="include"):
        VectorStoreMemoryService(
            InMemoryVectorStore(), Recorder(16), writes=WritePolicy(include=bad)
        )


@pytest.mark.parametrize(
    "option", ["durability", "ranking", "scopes", "on_write", "min_confidence", "nope"]
)
def test_a_configuration_refuses_options_that_such_a_service_lacks(option):
    config = MemoryConfig(embedding=Recorder(16), vector_store=InMemoryVectorStore())
    with pytest.raises(ConfigError, match=f"{option}: VectorStoreM.* options .*ttl"):
        config.build(**{option: None})
    with pytest.raises(ConfigError, match=r"nope: MemoryService has .*search"):
        MemoryConfig().build(nope=None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ranking": Ranking()}, r"search\.ranking"),
        ({"authors": ("agent",)}, r"search\.authors"),
        ({"scorer": lambda *_: (0.5, 0.5)}, r"search\.scorer"),
        ({"durability": "process"}, r"storage\.durability"),
        ({"cache_bytes": 0}, r"storage\.cache_bytes"),
        ({"min_free_bytes": 0}, r"storage\.min_free_bytes"),
        ({"allow_network_filesystem": True}, r"storage\.allow_network_filesystem"),
        ({"on_write": lambda _: ALLOW}, r"writes\.on_write"),
        ({"history_ttl": 60}, r"writes\.history_ttl"),
        ({"quota": Quota(memories=1)}, r"writes\.quota"),
        ({"scopes": Scopes(read=["shared"])}, r"writes\.scopes"),
    ],
)
def test_a_field_that_such_a_service_lacks_is_refused_by_its_name(options, named):
    store = InMemoryVectorStore()
    with pytest.raises(ConfigError, match=f"{named}: VectorStoreMemoryService has"):
        VectorStoreMemoryService(store, Recorder(16), **grouped(**options))


def test_pages_are_one_search(service):
    whole = found(service, filter={"author": "user"})
    pages = [
        found(service, filter={"author": "user"}, top_k=3, offset=n)
        for n in range(0, len(whole) + 3, 3)
    ]
    assert [len(page) for page in pages] == [3, 3, 2, 0]
    assert list(chain(*pages)) == whole


def test_a_store_that_applies_only_a_part_of_the_conditions_returns_no_others():
    class Partial(Filtering):
        """A store that does not know the operators around conditions."""

        def let_in(self, asked: Any) -> list[Any]:
            return ReferenceVectorStore.let_in(self, asked)

    with VectorStoreMemoryService(Partial(), Recorder(16)) as opened:
        opened.sync.add_memory(**ALICE, memories=ENTRIES)
        assert len(found(opened)) == len(ENTRIES)
        (asked,) = [each for each in FILTERS if "$or" in each.get("metadata", {})]
        assert 0 < len(found(opened, filter=asked)) < len(ENTRIES)
        assert set(found(opened, filter=asked)) == {
            entry.text for entry in ENTRIES if entry.custom_metadata.get("n", 2) == 2
        }
