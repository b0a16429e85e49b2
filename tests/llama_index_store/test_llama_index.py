"""LlamaIndex's vector store and memory block, against float64 and LlamaIndex's own."""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle
import random
import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from helpers.door_programs import refuses_wrong_names
from helpers.paths import ROOT
from helpers.unasked import check_unasked
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.memory import Memory
from llama_index.core.schema import (
    IndexNode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from vecall import ConfigError, InvalidArgumentError, InvalidTypeError, MemoryService
from vecall.llama_index import VecallMemoryBlock, VecallVectorStore

GUIDE = ROOT / "docs/guide/llama-index.md"


def nodes(count: int = 60, seed: int = 3) -> list[TextNode]:
    rng = np.random.default_rng(seed)
    choose = random.Random(seed)
    made = []
    for number in range(count):
        metadata: dict[str, Any] = {
            "n": number % 7,
            "kind": choose.choice(["tea", "milk tea", "Tea"]),
            "tags": choose.sample(["a", "b", "c"], k=2),
            "a.b": number % 2,
        }
        if number % 5 == 0:
            metadata["maybe"] = choose.choice([None, "", "x"])
        source = RelatedNodeInfo(node_id=f"doc-{number % 4}")
        made.append(
            TextNode(
                id_=f"node-{number}",
                text=f"text {number} \u00e9",
                metadata=metadata,
                embedding=rng.standard_normal(8).tolist(),
                relationships={NodeRelationship.SOURCE: source},
            )
        )
    return made


@pytest.fixture
def store(tmp_path):
    made = VecallVectorStore(tmp_path / "m.db")
    yield made
    made.close()


def query(**more: Any) -> VectorStoreQuery:
    vector = np.random.default_rng(9).standard_normal(8).tolist()
    return VectorStoreQuery(query_embedding=vector, **{"similarity_top_k": 80, **more})


FILTERS = [
    MetadataFilter(key=key, operator=FilterOperator(operator), value=value)
    for key, operator, value in [
        ("kind", "==", "tea"),
        ("kind", "!=", "tea"),
        ("n", ">", 3),
        ("n", ">=", 3),
        ("n", "<", 3),
        ("n", "<=", 3),
        ("n", "in", [1, 5]),
        ("kind", "nin", ["tea"]),
        ("tags", "any", ["a", "b"]),
        ("tags", "all", ["a", "b"]),
        ("tags", "contains", "c"),
        ("kind", "text_match", "tea"),
        ("kind", "text_match_insensitive", "TEA"),
        ("maybe", "is_empty", None),
        ("maybe", "==", "x"),
        ("missing", "==", "x"),
        ("a.b", "==", 1),
    ]
]


def test_filters_hold_for_the_nodes_that_llamaindex_own_store_finds(store):
    """Every filter, and every pair of filters under and, or and not."""
    own = SimpleVectorStore()
    store.add(nodes())
    own.add(nodes())
    no = MetadataFilters(filters=FILTERS[:1], condition=FilterCondition.NOT)
    try:
        own.query(query(filters=no))
    except ValueError:
        pytest.skip("SimpleVectorStore of this version has fewer filters")
    groups = [[each] for each in FILTERS] + list(itertools.combinations(FILTERS, 2))
    for group, condition in itertools.product(groups, FilterCondition):
        wanted = MetadataFilters(filters=list(group), condition=condition)
        expected = own.query(query(filters=wanted))
        found = store.query(query(filters=wanted))
        assert set(found.ids) == set(expected.ids), wanted
    some = random.Random(5).sample(groups, 20)
    for group in some:
        wanted = MetadataFilters(filters=list(group))
        found = store.query(query(filters=wanted, similarity_top_k=3))
        expected = own.query(query(filters=wanted, similarity_top_k=3))
        assert found.ids == expected.ids
        assert found.similarities == pytest.approx(expected.similarities, abs=1e-5)


@pytest.mark.parametrize(("operator", "value"), [("!=", "x"), ("nin", ["x"])])
def test_a_missing_field_differs_from_every_value(store, operator, value):
    """As in the newest version of LlamaIndex; 0.14.0 disagrees."""
    given = nodes()
    store.add(given)
    one = MetadataFilter(key="maybe", operator=FilterOperator(operator), value=value)
    found = {n.node_id for n in store.get_nodes(filters=MetadataFilters(filters=[one]))}
    assert found == {n.node_id for n in given if n.metadata.get("maybe") != "x"}


def test_filters_may_contain_filters(store):
    given = nodes()
    store.add(given)
    inner = MetadataFilters(filters=FILTERS[:2], condition=FilterCondition.OR)
    outer = MetadataFilters(filters=[inner, FILTERS[6]])
    found = {each.node_id for each in store.get_nodes(filters=outer)}
    assert found == {each.node_id for each in given if each.metadata["n"] in {1, 5}}


def test_nodes_come_back_whole_also_after_the_file_is_opened_again(store):
    given = nodes(5)
    given.append(
        IndexNode(text="points", index_id="other", id_="index", embedding=[0.0] * 8)
    )
    assert store.add(given) == [each.node_id for each in given]
    store.close()
    for before, after in zip(given, store.get_nodes(), strict=True):
        assert type(before) is type(after)
        assert after == before.model_copy(update={"embedding": None})
    assert "index" not in store.query(query()).ids  # an embedding of zeros
    changed = given[0].model_copy(update={"text": "other"})
    store.add([changed])
    assert [each.get_content() for each in store.get_nodes(["node-0"])] == ["other"]
    assert len(store.get_nodes()) == 6


def test_deletions_take_those_nodes_and_no_other(store):
    given = nodes(20)
    store.add(given)
    store.delete("doc-1")
    left = [each for each in given if each.ref_doc_id != "doc-1"]
    assert {n.node_id for n in store.get_nodes()} == {n.node_id for n in left}
    store.delete_nodes(["node-0", "unknown"])
    only = MetadataFilters(filters=[FILTERS[6]])
    store.delete_nodes(filters=only)
    left = [n for n in left if n.node_id != "node-0" and n.metadata["n"] not in {1, 5}]
    assert {n.node_id for n in store.get_nodes()} == {n.node_id for n in left}
    ids = [left[0].node_id, "unknown"]
    assert store.query(query(node_ids=ids)).ids == ids[:1]
    asyncio.run(store.aclear())
    assert store.query(query()).ids == []
    store.add([TextNode(text="x", embedding=[1.0, 0.0])])  # another dimension


def test_mmr_chooses_as_llamaindex_does(store):
    own = SimpleVectorStore()
    store.add(nodes())
    own.add(nodes())
    mode = VectorStoreQueryMode.MMR
    asked = query(mode=mode, similarity_top_k=20)
    for threshold in (0.2, 0.5, 0.9):
        found = store.query(asked, mmr_threshold=threshold)
        expected = own.query(asked, mmr_threshold=threshold)
        assert found.ids == expected.ids


def test_what_cannot_be_stored_or_searched_is_refused(store):
    store.add(nodes(3))
    with pytest.raises(InvalidArgumentError):
        store.query(query(mode=VectorStoreQueryMode.HYBRID))
    with pytest.raises(InvalidArgumentError):
        store.query(VectorStoreQuery(query_str="text"))
    with pytest.raises(ValueError, match="embedding"):
        store.add([TextNode(text="no embedding")])
    with pytest.raises(InvalidArgumentError):
        store.add([*nodes(1, seed=8), TextNode(text="x", embedding=[1.0])])
    nan = TextNode(text="x", embedding=[float("nan")] * 8)
    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
        store.add([nan])
    assert [n.get_content() for n in store.get_nodes()] == [
        n.get_content() for n in nodes(3)
    ]


def test_a_collection_or_a_user_never_reaches_another(tmp_path):
    memory = MemoryService(tmp_path / "m.db", embedder=None)
    stores = [
        VecallVectorStore(memory, collection=collection, user_id=user)
        for collection in ("a", "b")
        for user in ("alice", "bob")
    ]
    for number, each in enumerate(stores):
        each.add([TextNode(id_="same", text=f"{number}", embedding=[1.0, number])])
    for number, each in enumerate(stores):
        found = each.query(VectorStoreQuery(query_embedding=[1, 1], similarity_top_k=9))
        assert [node.get_content() for node in found.nodes] == [f"{number}"]
    stores[0].clear()
    stores[1].delete_nodes(["same"])
    assert [len(each.get_nodes()) for each in stores] == [0, 0, 1, 1]
    memory.sync.close()


def test_a_scan_reads_more_nodes_than_one_page(store, monkeypatch):
    monkeypatch.setattr("vecall.item_collections._PAGE", 16)
    given = nodes(100)
    store.add(given)
    assert [n.node_id for n in store.get_nodes()] == [n.node_id for n in given]
    last = MetadataFilters(filters=[FILTERS[4]])
    found = store.query(query(filters=last, similarity_top_k=4))
    vector = np.asarray(query().query_embedding)
    wanted = sorted(
        (n for n in given if n.metadata["n"] < 3),
        key=lambda n: -(vector @ n.embedding) / np.linalg.norm(n.embedding),
    )
    assert found.ids == [n.node_id for n in wanted[:4]]


def memory_of(
    memory: MemoryService, user: str, limit: int = 400, **more: Any
) -> Memory:
    block = VecallMemoryBlock(memory, "hotel", user, **more)
    return Memory.from_defaults(
        session_id=f"s-{user}",
        token_limit=limit,
        token_flush_size=10,
        chat_history_token_ratio=0.07,
        memory_blocks=[block],
        tokenizer_fn=str.split,
    )


def test_messages_that_leave_the_chat_are_recalled_by_their_user_alone(tmp_path):
    async def run() -> None:
        memory = MemoryService(tmp_path / "m.db", embedder=None)
        alice, bob = memory_of(memory, "alice"), memory_of(memory, "bob")
        await alice.aput(ChatMessage(role="user", content="My zebra is called Zoe"))
        await alice.aput(ChatMessage(role="tool", content="zebra tool output"))
        for number in range(12):
            text = f"small talk {number} about nothing in particular today"
            role = ("user", "assistant")[number % 2]
            await alice.aput(ChatMessage(role=role, content=text))
        asked = "What is my zebra called?"
        shown = "\n".join(str(m.content) for m in await alice.aget(asked))
        assert "My zebra is called Zoe" in shown
        assert "tool output" not in shown
        assert "small talk 11" in shown
        other = "\n".join(str(m.content) for m in await bob.aget(asked))
        assert "Zoe" not in other
        entries = await memory.user("hotel", "alice").list(limit=100)
        assert {each.session_id for each in entries} == {"s-alice"}
        memory.sync.close()

    asyncio.run(run())


def test_memories_are_cut_where_the_window_is_small(tmp_path):
    """LlamaIndex shortens blocks of priority 1, and none of priority 0."""

    async def run() -> tuple[str, str]:
        memory = MemoryService(tmp_path / "m.db", embedder=None)
        told = [f"zebra {n} eats {'grass ' * 20}" for n in range(4)]
        await memory.add_memory(app_name="hotel", user_id="alice", memories=told)
        shown = []
        for limit in (400, 60):
            chat = memory_of(memory, "alice", limit)
            await chat.aput(ChatMessage(role="user", content="zebra"))
            shown.append("\n".join(str(m.content) for m in await chat.aget("zebra")))
        memory.sync.close()
        return shown[0], shown[1]

    whole, cut = asyncio.run(run())
    assert whole.count("eats") == 4
    assert 1 <= cut.count("eats") < 4


def test_recalled_text_is_not_stored_again_and_truncation_drops_whole_bullets(
    tmp_path,
):
    async def run() -> None:
        memory = MemoryService(tmp_path / "m.db", embedder=None)
        block = VecallMemoryBlock(memory, "hotel", "alice")
        told = [ChatMessage(role="user", content=f"zebra {n} eats") for n in range(4)]
        await block.aput(told, session_id="s")
        shown = await block.aget([ChatMessage(role="user", content="zebra")])
        lines = shown.splitlines()
        blocks = [TextBlock(text=shown)]
        [cut] = await block.atruncate(blocks, 1)  # as LlamaIndex passes it
        assert shown.startswith(cut.text)
        assert sum(line.startswith("- ") for line in lines) == 4
        shorter = await block.atruncate(shown, 1)
        assert lines[: len(shorter.splitlines())] == shorter.splitlines()
        assert await block.atruncate(shown, 10_000) is None
        await block.aput([ChatMessage(role="user", content=shown)])
        assert await memory.user("hotel", "alice").count() == 4
        memory.sync.close()

    asyncio.run(run())


def test_the_program_of_the_page_runs(tmp_path, monkeypatch, capsys):
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(program.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "llama-index.md", "exec"), {})
    assert "black" in capsys.readouterr().out


def test_a_wrong_name_opens_no_file(tmp_path):
    refuses_wrong_names(VecallVectorStore, tmp_path)


def test_whoever_speaks_is_remembered_and_no_program(open_service):
    """Providers of models name the assistant "model" or "chatbot"."""
    service = open_service()
    block = VecallMemoryBlock(service, app_name="app", user_id="alice")
    said = [
        ChatMessage(role=role, content=f"zebra {role}")
        for role in ("user", "assistant", "model", "chatbot")
    ]
    programs = [
        ChatMessage(role=role, content=f"zebra {role}")
        for role in ("system", "developer", "tool", "function")
    ]
    asyncio.run(block.aput([*said, *programs]))
    stored = service.sync.list_memories(app_name="app", user_id="alice")
    assert [each.author for each in stored] == ["user", "assistant", "model", "chatbot"]


def test_an_unrelated_message_gets_no_block():
    def inject(memory: MemoryService, text: str, **options: Any) -> str:
        block = VecallMemoryBlock(memory, "hotel", "alice", **options)
        said = [ChatMessage(role="user", content=text)]
        return str(asyncio.run(block.aget(said, session_id="s")))

    check_unasked(inject, ("hotel", "alice"))


def test_turns_of_one_session_do_not_pay_for_those_of_another():
    """A session whose id cannot be one is an error, after the others are stored."""
    with MemoryService(embedder=None) as memory:
        block = VecallMemoryBlock(memory, "app", "alice")
        messages = [
            ChatMessage(
                role="user", content=text, additional_kwargs={"session_id": id_}
            )
            for text, id_ in [("zebra", "\0"), ("okapi", "s"), ("teal", "t")]
        ]
        with pytest.raises(InvalidArgumentError, match="session_id"):
            asyncio.run(block.aput(messages))
        stored = memory.sync.list_memories(app_name="app", user_id="alice")
        assert sorted(entry.text for entry in stored) == ["okapi", "teal"]


def test_a_store_is_made_again_of_its_dict_and_of_its_pickle(tmp_path):
    path = str(tmp_path / "v.db")
    store = VecallVectorStore(path, collection="facts", app_name="a", user_id="alice")
    store.add([TextNode(id_="n", text="tea", embedding=[1.0, 0.0])])
    again = [
        VecallVectorStore.from_dict(store.to_dict()),
        VecallVectorStore.from_json(store.to_json()),
        pickle.loads(pickle.dumps(store)),
    ]
    for other in again:
        assert [node.text for node in other.get_nodes()] == ["tea"]
        assert other.to_dict() == store.to_dict()
        other.close()
    store.close()
    assert (store.memory, store.collection, store.app_name, store.user_id) == (
        *(path, "facts", "a", "alice"),
    )


def test_copies_share_the_file_or_the_service(tmp_path):
    with MemoryService(embedder=None) as service:
        for memory in (service, ":memory:", tmp_path / "v.db"):
            store = VecallVectorStore(memory)
            copies = [
                copy.copy(store),
                copy.deepcopy(store),
                store.model_copy(deep=True),
            ]
            store.add([TextNode(id_="n", text="tea", embedding=[1.0, 0.0])])
            for each in copies:
                assert [node.text for node in each.get_nodes()] == ["tea"]
            store.close()
        block = VecallMemoryBlock(service, "a", "u")
        message = ChatMessage(role="user", content="I drink tea")
        for each in (copy.deepcopy(block), block.model_copy(deep=True)):
            asyncio.run(each.aput(messages=[message]))
        assert service.sync.count_memories(app_name="a", user_id="u") == 2


def test_what_is_in_no_file_is_not_pickled_and_a_service_is_given_again(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        store = VecallVectorStore(service, collection="facts")
        store.add([TextNode(id_="n", text="tea", embedding=[1.0, 0.0])])
        for each in (store, VecallVectorStore(":memory:")):
            with pytest.raises(ConfigError, match="pickled"):
                pickle.dumps(each)
        with pytest.raises(InvalidTypeError, match="memory"):
            VecallVectorStore.from_dict(store.to_dict())
        again = VecallVectorStore.from_dict(store.to_dict(), memory=service)
        assert [node.text for node in again.get_nodes()] == ["tea"]
