"""Haystack's own tests of a document store, and ours."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

pytest.importorskip("haystack.testing.document_store", reason="haystack-ai is missing")

from haystack import Document, Pipeline
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.testing import document_store as blocking
from haystack.testing import document_store_async as asynchronous
from haystack.utils import Secret
from helpers.door_programs import refuses_wrong_names
from helpers.paths import ROOT
from vecall import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.haystack import (
    VecallBM25Retriever,
    VecallDocumentStore,
    VecallEmbeddingRetriever,
)

GUIDE = ROOT / "docs/guide/haystack.md"
DIM = 6


@pytest.fixture
def document_store(tmp_path):
    made = VecallDocumentStore(str(tmp_path / "m.db"))
    yield made
    made.close()


def mixins() -> tuple[type, ...]:
    """Every class of tests that this version of Haystack has for document stores."""
    found = [
        each
        for module in (blocking, asynchronous)
        for name, each in vars(module).items()
        if isinstance(each, type)
        and each.__module__ == module.__name__
        and (name.endswith("Test") or name == "DocumentStoreBaseExtendedTests")
    ]
    # Bases come after the classes that are made of them.
    return tuple(
        each
        for each in found
        if not any(other is not each and issubclass(other, each) for other in found)
    )


class TestHaystacksOwn(*mixins()):  # type: ignore[misc]
    @pytest.fixture
    def document_store(self, tmp_path):
        made = VecallDocumentStore(str(tmp_path / "m.db"))
        yield made
        made.close()

    def test_write_documents(self, document_store):
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])

    async def test_write_documents_async(self, document_store):
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])


def documents(count: int = 40) -> list[Document]:
    rng = np.random.default_rng(4)
    kinds = ["tea", "coffee", "2024-01-01", "2024-01-01T00:00:00", None]
    return [
        Document(
            id=f"d{n}",
            content=f"text {n}",
            meta={"kind": kinds[n % 5], "n": n % 7, "deep": {"even": n % 2 == 0}},
            embedding=None if n % 11 == 5 else rng.standard_normal(DIM).tolist(),
        )
        for n in range(count)
    ]


def compare(operator: str, value: Any, field: str = "meta.kind") -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


def both(operator: str, *conditions: Any) -> dict[str, Any]:
    return {"operator": operator, "conditions": list(conditions)}


FILTERS = [
    compare("==", "tea"),
    compare("==", "2024-01-01"),  # a time, which another text has too
    compare("in", ["tea", "2024-01-01"]),
    compare("in", ["tea", "coffee"]),
    compare("!=", "tea"),
    compare("not in", ["tea", None]),
    compare(">", 3, "meta.n"),
    compare("==", True, "meta.deep.even"),
    compare("==", "d7", "id"),
    both("AND", compare("==", "tea"), compare(">", 2, "meta.n")),
    both("OR", compare("==", "tea"), compare(">", 2, "meta.n")),
    both("OR", compare("==", "tea"), compare("==", "coffee")),
    both("NOT", compare("==", "tea"), compare(">", 2, "meta.n")),
    both("AND", both("NOT", compare("==", "tea")), compare("<", 4, "meta.n")),
]


@pytest.mark.parametrize("filters", FILTERS)
def test_filters_and_searches_agree_with_haystacks_own_store(document_store, filters):
    own = InMemoryDocumentStore(embedding_similarity_function="cosine")
    own.write_documents(documents())
    document_store.write_documents(documents())
    assert document_store.filter_documents(filters) == own.filter_documents(filters)
    query = np.random.default_rng(1).standard_normal(DIM).tolist()
    found = document_store.embedding_retrieval(query, filters=filters, top_k=4)
    expected = own.embedding_retrieval(query, filters=filters, top_k=4)
    assert [each.id for each in found] == [each.id for each in expected]
    scores = [each.score for each in expected]
    assert [each.score for each in found] == pytest.approx(scores, abs=1e-5)


def test_documents_come_back_whole_after_the_file_is_opened_again(document_store):
    given = documents()
    document_store.write_documents(given)
    document_store.close()
    assert document_store.filter_documents() == given
    copy = VecallDocumentStore.from_dict(document_store.to_dict())
    assert copy.filter_documents() == given
    copy.close()


def test_dates_and_times_come_back_and_compare_as_in_haystacks_own_store(
    document_store,
):
    moments = [datetime(2026, 1, day, 9, tzinfo=timezone.utc) for day in (1, 2, 3)]
    given = [
        Document(
            id=f"d{n}",
            content="x",
            meta={"at": at, "deep": {"days": [at.date(), "2026-01-02"]}, "n": n},
            embedding=[1.0, n / 3],
        )
        for n, at in enumerate(moments)
    ]
    own = InMemoryDocumentStore(embedding_similarity_function="cosine")
    for store in (own, document_store):
        store.write_documents(given)
        moved = {"again": moments[0]}
        assert store.update_by_filter(compare("==", 1, "meta.n"), moved) == 1
    document_store.close()

    def sorted_by_id(store: Any, filters: Any = None) -> list[Document]:
        return sorted(store.filter_documents(filters), key=lambda each: each.id)

    assert sorted_by_id(document_store) == sorted_by_id(own)
    for operator in ("==", "!=", ">", "<="):
        for value in (moments[1], moments[1].isoformat()):
            filters = compare(operator, value, "meta.at")
            found = sorted_by_id(document_store, filters)
            assert found == sorted_by_id(own, filters)
    bounds = document_store.get_metadata_field_min_max("meta.at")
    assert bounds == {"min": moments[0], "max": moments[2]}


def test_a_secret_path_is_saved_by_the_name_of_its_variable(tmp_path, monkeypatch):
    store = VecallDocumentStore(Secret.from_env_var("PLACE"))
    saved = store.to_dict()
    assert str(tmp_path) not in str(saved)
    with pytest.raises(ValueError, match="PLACE"):
        store.count_documents()  # the variable is not set
    monkeypatch.setenv("PLACE", str(tmp_path / "m.db"))
    store.write_documents(documents(3))
    store.close()
    again = VecallDocumentStore.from_dict(saved)
    assert again.filter_documents() == documents(3)
    assert again.to_dict() == saved
    again.close()
    token = VecallDocumentStore(Secret.from_token(str(tmp_path / "m.db")))
    assert token.count_documents() == 3
    with pytest.raises(ValueError, match=r"[Tt]oken"):
        token.to_dict()
    token.close()


def test_a_refused_call_changes_nothing(document_store):
    first = documents(3)
    document_store.write_documents(first)
    new = Document(id="new", content="x")
    for bad, error in [
        ([new, first[0]], DuplicateDocumentError),
        ([new, new], DuplicateDocumentError),
        ([new, Document(content="x", meta={"a": object()})], DocumentStoreError),
        ([new, Document(content="x", embedding=[1.0])], DocumentStoreError),
        ([new, "text"], ValueError),
    ]:
        with pytest.raises(error):
            document_store.write_documents(bad)
        assert document_store.filter_documents() == first
    for filters in ({"field": "meta.n"}, {"operator": "==", "value": 1}, ["x"]):
        with pytest.raises(FilterError):
            document_store.delete_by_filter(filters)
    with pytest.raises(DocumentStoreError):
        document_store.embedding_retrieval([1.0])
    assert document_store.filter_documents() == first


def test_of_equal_ids_that_are_skipped_the_first_is_stored(document_store):
    given = [Document(id="a", content=text) for text in ("first", "second")]
    assert document_store.write_documents(given, policy=DuplicatePolicy.SKIP) == 1
    (stored,) = document_store.filter_documents()
    assert stored.content == "first"


def test_writers_of_the_same_ids_write_each_once(document_store):
    """Eight threads that skip what is stored: the numbers add up to the documents."""
    given = documents()
    written: list[int] = []

    def work() -> None:
        policy = DuplicatePolicy.SKIP
        written.append(document_store.write_documents(given, policy=policy))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(written) == len(given)
    assert len(document_store.filter_documents()) == len(given)


def test_a_collection_or_a_user_never_reaches_another(tmp_path):
    path = str(tmp_path / "m.db")
    stores = [
        VecallDocumentStore(path, collection=collection, user_id=user)
        for collection in ("a", "b")
        for user in ("alice", "bob")
    ]
    for number, each in enumerate(stores):
        each.write_documents(
            [Document(id="same", content=str(number), embedding=[1.0])]
        )
    stores[0].delete_all_documents()
    stores[1].delete_by_filter(compare("==", "1", "content"))
    stores[2].update_by_filter(compare("==", "same", "id"), {"mine": True})
    left = [
        [each.content for each in store.embedding_retrieval([1.0])] for store in stores
    ]
    assert left == [[], [], ["2"], ["3"]]
    assert stores[3].filter_documents(compare("==", True, "meta.mine")) == []
    for each in stores:
        each.close()


def test_a_pipeline_with_the_retriever_is_saved_and_runs(document_store):
    given = documents()
    document_store.write_documents(given)
    pipeline = Pipeline()
    retriever = VecallEmbeddingRetriever(
        document_store,
        filters=compare("==", "tea"),
        top_k=3,
        filter_policy=FilterPolicy.MERGE,
    )
    pipeline.add_component("find", retriever)
    again = VecallEmbeddingRetriever.from_dict(retriever.to_dict())
    assert again.to_dict() == retriever.to_dict()
    asked = {"query_embedding": given[0].embedding}
    found = pipeline.run({"find": asked})["find"]["documents"]
    assert again.run(**asked)["documents"] == found
    assert found[0].id == "d0"
    assert {each.meta["kind"] for each in found} == {"tea"}
    narrow = {**asked, "filters": compare("==", 0, "meta.n"), "top_k": 9}
    one = asyncio.run(retriever.run_async(**narrow))["documents"]
    assert {(each.meta["kind"], each.meta["n"]) for each in one} == {("tea", 0)}
    again.document_store.close()
    with pytest.raises(InvalidArgumentError):
        VecallEmbeddingRetriever(document_store, top_k=0)
    with pytest.raises(InvalidTypeError):
        VecallEmbeddingRetriever(InMemoryDocumentStore())


def prose(count: int = 60) -> list[Document]:
    """Documents of 0 to 20 words of a small vocabulary, and some without a text."""
    choose = random.Random(6)
    vocabulary = [f"word{n}" for n in range(30)]
    return [
        Document(
            id=f"d{n}",
            content=None
            if n % 13 == 4
            else " ".join(choose.choices(vocabulary, k=choose.randint(0, 20))),
            meta={"kind": ["tea", "coffee"][n % 2], "n": n % 7},
            embedding=[1.0, float(n)],
        )
        for n in range(count)
    ]


def scores_what_is_missing() -> bool:
    """Whether Haystack's own store counts words that a document lacks (as in 3.0)."""
    own = InMemoryDocumentStore()
    own.write_documents([Document(content="tea"), Document(content="milk")])
    return len(own.bm25_retrieval("tea", scale_score=False)) > 1


@pytest.mark.skipif(scores_what_is_missing(), reason="its store scores missing words")
@pytest.mark.parametrize("filters", [None, *FILTERS])
@pytest.mark.parametrize("query", ["word3", "Word3, word7 word3!", "unknown", "? -"])
def test_keywords_find_and_score_as_haystacks_own_store(document_store, query, filters):
    own = InMemoryDocumentStore()
    for store in (own, document_store):
        store.write_documents(prose())
    for top_k in (0, 4, 99):
        asked = {"query": query, "filters": filters, "top_k": top_k}
        found = document_store.bm25_retrieval(**asked)
        expected = own.bm25_retrieval(**asked)
        assert [each.id for each in found] == [each.id for each in expected]
        scores = [each.score for each in expected]
        assert [each.score for each in found] == pytest.approx(scores)
        assert all(each.embedding is None for each in found)
    if query == "word3" and filters is None:
        assert found


def test_keywords_are_words_of_any_script_without_accents(document_store):
    texts = [
        "Caf\u00e9 noir",
        "C++ and Rust",
        "\u6771\u4eac\u90fd\u306e\u5929\u6c17",
        "pools",
    ]
    document_store.write_documents([Document(content=text) for text in texts])
    for query, found in [
        ("CAFE", texts[:1]),
        ("c++?", texts[1:2]),
        ("\u6771\u4eac", texts[2:3]),
        ("pool", []),  # no stemming
        ("", []),
    ]:
        assert [each.content for each in document_store.bm25_retrieval(query)] == found
    with pytest.raises(InvalidTypeError, match="query"):
        document_store.bm25_retrieval(["pool"])
    with pytest.raises(FilterError):
        document_store.bm25_retrieval("pool", filters={"field": "meta.n"})


def test_without_documents_or_texts_no_keyword_finds_any(document_store):
    assert document_store.bm25_retrieval("word1") == []
    document_store.write_documents([Document(content=""), Document(meta={"a": 1})])
    assert document_store.bm25_retrieval("word1") == []


def test_a_retriever_finds_ten_documents_as_haystacks_own_do(document_store):
    texts = [Document(content=f"zebra {n}", embedding=[1.0, n]) for n in range(12)]
    document_store.write_documents(texts)
    for retriever, asked in (
        (VecallEmbeddingRetriever(document_store), {"query_embedding": [1.0, 0.0]}),
        (VecallBM25Retriever(document_store), {"query": "zebra"}),
    ):
        assert len(retriever.run(**asked)["documents"]) == 10


def test_a_pipeline_with_the_keyword_retriever_is_saved_and_runs(document_store):
    document_store.write_documents(prose())
    pipeline = Pipeline()
    retriever = VecallBM25Retriever(
        document_store,
        filters=compare("==", "tea"),
        top_k=3,
        filter_policy=FilterPolicy.MERGE,
    )
    pipeline.add_component("find", retriever)
    again = VecallBM25Retriever.from_dict(retriever.to_dict())
    assert again.to_dict() == retriever.to_dict()
    found = pipeline.run({"find": {"query": "word3"}})["find"]["documents"]
    assert len(found) == 3
    assert {each.meta["kind"] for each in found} == {"tea"}
    assert again.run(query="word3")["documents"] == found
    narrow = {"query": "word3", "filters": compare("<", 4, "meta.n"), "top_k": 9}
    few = asyncio.run(again.run_async(**narrow))["documents"]
    assert few
    assert all(each.meta["kind"] == "tea" and each.meta["n"] < 4 for each in few)
    again.filter_policy = FilterPolicy.REPLACE
    replaced = again.run(**narrow)["documents"]
    assert {each.meta["kind"] for each in replaced} == {"tea", "coffee"}
    again.document_store.close()
    with pytest.raises(InvalidArgumentError):
        VecallBM25Retriever(document_store, top_k=0)
    with pytest.raises(InvalidTypeError):
        VecallBM25Retriever(InMemoryDocumentStore())


@pytest.mark.parametrize(("number", "printed"), [(0, "black"), (1, "zebra")])
def test_the_programs_of_the_page_run(number, printed, tmp_path, monkeypatch, capsys):
    programs = re.findall(
        r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(programs) == 2
    assert len(programs[number].splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(programs[number], "haystack.md", "exec"), {})
    assert printed in capsys.readouterr().out


def test_a_wrong_name_opens_no_file(tmp_path):
    refuses_wrong_names(
        lambda place, **names: VecallDocumentStore(tmp_path / "m.db", **names), tmp_path
    )


def test_what_is_no_path_makes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="path"):
        VecallDocumentStore(object())
    assert not list(tmp_path.iterdir())
