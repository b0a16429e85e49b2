"""A bad embedder buries no exact word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.campaigns import examples
from helpers.engines import DIM, KEY, corner, engine_of, found_ids
from helpers.memories import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import Calibration, FunctionEmbedder, MemoryService, SearchOptions


@pytest.mark.campaign
@settings(derandomize=True, max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_an_exact_rare_word_is_at_rank_1_whatever_the_vectors_say(references, data):
    count = data.draw(st.integers(1, 60))
    rare = data.draw(st.integers(0, count - 1))
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    query = rng.standard_normal(DIM).astype(np.float32)
    # From all rows near the query and the rare one opposite, to pure noise.
    noise = data.draw(st.sampled_from([0.0, 0.01, 0.3, 3.0]))
    vectors = query + noise * rng.standard_normal((count, DIM)).astype(np.float32)
    if data.draw(st.booleans()):
        vectors[rare] = -query
    rows = [
        references.Row(
            id=n,
            words=(77, 1, 2) if n == rare else (1, 2, 3),
            vector=vectors[n],
            session=1,
            position=n,
        )
        for n in range(count)
    ]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(query, (77,), k=1))
    assert found[0][0] == rare
    assert found[3][0] > 0


def test_an_exact_rare_word_is_found_among_a_thousand_rows_that_look_nearer(references):
    rng = np.random.default_rng(13)
    query = rng.standard_normal(DIM).astype(np.float32)
    near = query + 0.1 * rng.standard_normal((1000, DIM)).astype(np.float32)
    rows = [
        references.Row(n, (1, 2, 3), near[n], session=n // 20 + 1, position=n % 20)
        for n in range(1000)
    ]
    rows[517] = references.Row(517, (77, 1, 2, 3, 4, 5, 6), -query, time=-5)
    engine = engine_of(references, rows)
    assert engine.search(KEY, query, 999)[0].tolist().count(517) == 0
    for candidates in (1, 50):
        options = {"candidates": candidates}
        asked = references.Query(query, (77,), 1, options)
        assert found_ids(references, engine, asked) == [517]


def test_the_vectors_of_a_known_model_count_in_full(references):
    """A model that vecall was fitted to needs no agreement with the words."""
    rows = [
        references.Row(1, (1, 2), -corner(5)),
        references.Row(2, (3,), corner(5)),
        *(references.Row(n, (4,), corner(n)) for n in range(6, 12)),
    ]
    engine = engine_of(references, rows)
    weights = {}
    for known in (False, True):
        asked = references.Query(corner(5), (1, 2), 9, {"known_model": known})
        found = references.ask(engine, KEY, asked)
        weights[known] = found[5][1]
    assert weights == {False: 0.0, True: 1.0}


SHIPPED = Calibration.shipped()
WEIGHED = sorted(set(SHIPPED.models) - SHIPPED.full_weight)


@pytest.mark.parametrize(
    ("model", "own", "full"),
    [
        ("use-multilingual-v3", False, True),
        ("not use-multilingual-v3", False, False),
        *((model, False, False) for model in WEIGHED),
        ("mine", True, True),
        ("use-multilingual-v3", True, True),
        ("not mine", True, False),
    ],
)
def test_the_vectors_of_models_on_the_list_of_a_calibration_count_in_full(
    model, own, full
):
    """Of the shipped one and of the service's. Own weights are another matter."""
    calibration = replace(SHIPPED, full_weight=frozenset(["mine"])) if own else None
    # Opposite to the query where the words agree.
    vectors = {"parrot": (1.0, 0.0), "parrot walnut": (-1.0, 0.1)}

    def embed(texts):
        return np.array([vectors.get(text, (0.5, 0.5)) for text in texts])

    embedder = FunctionEmbedder(embed, dimensions=2, model_id=model)
    search = SearchOptions(calibration=calibration)
    with MemoryService(embedder=embedder, search=search) as memory:
        texts = ["parrot walnut", "hamster", "turtle", "goldfish"]
        memory.sync.add_memory(**ALICE, memories=texts)
        hits = memory.sync.search_memory(**ALICE, query="parrot", explain=True).memories
    assert {hit.explanation["vector_weight"] for hit in hits} == {float(full)}


def test_an_embedder_that_tells_no_texts_apart_changes_no_order(references):
    rng = np.random.default_rng(14)
    for _ in range(20):
        rows = [
            references.Row(n, tuple(rng.integers(1, 30, rng.integers(1, 9)).tolist()))
            for n in range(40)
        ]
        blind = [references.Row(row.id, row.words, corner(6)) for row in rows]
        words = tuple(rng.integers(1, 34, 3).tolist())
        lexical = engine_of(references, rows)
        hybrid = engine_of(references, blind)
        wanted = found_ids(references, lexical, references.Query(None, words, k=40))
        found = found_ids(references, hybrid, references.Query(corner(2), words, k=40))
        assert found[: len(wanted)] == wanted
