"""LangChain's own tests of a vector store, and filters."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_tests.integration_tests")

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from vecall import InvalidArgumentError
from vecall.langchain import VecallVectorStore
from vecall.limits import SHARED_APP


class TestVecallVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = VecallVectorStore(self.get_embeddings(), tmp_path / "m.db")
        yield store
        store.close()


@pytest.mark.parametrize("name", ["app_name", "user_id"])
def test_a_wrong_name_opens_no_file(tmp_path, name):
    for wrong in ("", "a\0b", SHARED_APP):
        with pytest.raises(InvalidArgumentError):
            VecallVectorStore(None, tmp_path / "m.db", **{name: wrong})
    assert list(tmp_path.iterdir()) == []


def test_searches_filter_by_metadata_and_refuse_what_they_do_not_know(tmp_path):
    embedding = DeterministicFakeEmbedding(size=8)
    texts = [f"text {n}" for n in range(20)]
    metadatas = [{"n": n, "deep": {"even": n % 2 == 0}} for n in range(20)]
    store = VecallVectorStore.from_texts(
        texts, embedding, metadatas, memory=tmp_path / "m.db"
    )
    [(best, score)] = store.similarity_search_with_score("text 7", k=1)
    assert (best.page_content, best.metadata) == (texts[7], metadatas[7])
    assert score == pytest.approx(1.0, abs=1e-6)
    wanted = {"n": {"$gte": 10}, "deep.even": True}
    found = store.similarity_search("text 7", k=20, filter=wanted)
    assert {each.metadata["n"] for each in found} == {10, 12, 14, 16, 18}
    vector = embedding.embed_query("text 3")
    [near] = store.similarity_search_by_vector(vector, k=1)
    assert near.page_content == "text 3"
    assert store.similarity_search_by_vector([0.0] * 8) == []
    with pytest.raises(InvalidArgumentError):
        store.similarity_search("text", fetch_k=3)
    with pytest.raises(InvalidArgumentError):
        store.add_texts(["a", "b"], ids=["one"])
    store.close()
