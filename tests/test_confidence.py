"""Confidence: how likely a memory is relevant to this query."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.conversations import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    Calibration,
    ConfigError,
    InvalidMemoryError,
    MemoryEntry,
    MemoryService,
    Ranking,
)
from vecall.calibration import Signals, Weights, fit

FACTS = [
    "The parrot is called Kiwi",
    "The dentist moved to Elm Street",
    "I bought a red bicycle for the summer",
    "Our train to Porto leaves at nine",
]


@pytest.fixture
def service(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=FACTS)
    return memory


def found(service, query, **asked):
    return service.sync.search_memory(**ALICE, query=query, **asked).memories


def test_every_memory_of_a_search_by_words_has_a_probability(service):
    """S2.7, S2.11, S2.12: set by retrieval, within [0, 1]."""
    for memory in found(service, "parrot bicycle train"):
        assert memory.confidence is not None
        assert 0.0 < memory.confidence < 1.0


def test_a_memory_that_was_not_searched_has_no_confidence(service):
    """S2.15: a row has no relevance of its own."""
    (memory,) = found(service, "parrot")
    stored = service.sync.get_memory(**ALICE, memory_id=memory.id)
    assert stored.confidence is None
    assert stored.score is None


def test_the_same_memory_is_less_likely_for_a_query_that_says_more_besides(service):
    """S2.16: same row, other query, other scores."""
    (sure,) = found(service, "parrot called Kiwi")
    (doubtful, *_) = found(service, "parrot insurance claim deadline form")
    assert sure.id == doubtful.id
    assert sure.confidence > doubtful.confidence + 0.1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from("parrot dentist red train Kiwi unheard".split()), min_size=1
    ),
)
def test_a_lower_place_is_never_more_likely(words):
    """S2.12, S2.24: within one answer the better memory has the higher confidence."""
    with MemoryService(embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=FACTS)
        answer = found(memory, " ".join(words))
    engine = [entry.score for entry in answer]
    assert engine == sorted(engine, reverse=True)
    assert all(0.0 < entry.confidence < 1.0 for entry in answer)
    if len(answer) > 1 and answer[0].score > 2 * answer[-1].score:
        assert answer[0].confidence > answer[-1].confidence


def test_a_floor_makes_a_search_silent_where_nothing_is_relevant(service):
    """min_confidence, inclusive, on a call and on a service."""
    asked = "which parrot insurance form did the accountant send in spring"
    (first, *_) = found(service, asked)
    assert found(service, asked, min_confidence=first.confidence)
    above = math.nextafter(first.confidence, 1.0)
    assert found(service, asked, min_confidence=above) == []
    assert found(service, "parrot called Kiwi", min_confidence=above)


def test_a_service_may_be_silent_by_default(open_service):
    quiet = open_service(min_confidence=0.99)
    quiet.sync.add_memory(**ALICE, memories=FACTS)
    assert found(quiet, "parrot") == []
    assert found(quiet, "parrot", min_confidence=0.0)


def test_an_embedder_that_nobody_calibrated_has_no_confidence(open_service):
    """S2.12: per embedder; never a made-up number."""
    service = open_service(embedder=lambda texts: np.eye(len(texts), 8) + 0.1)
    service.sync.add_memory(**ALICE, memories=FACTS)
    memory = found(service, "parrot")[0]
    assert memory.similarity is not None
    assert memory.confidence is None


def test_a_calibration_of_ones_own_gives_any_embedder_a_confidence(open_service):
    """S2.12: recalibrated per embedder."""
    weights = Weights(-1.0, (1.0, -0.5, 0.5, 2.0))
    own = Calibration.shipped().with_model("mine", weights)
    embedder = Eye()
    service = open_service(embedder=embedder, calibration=own, min_confidence=0.01)
    service.sync.add_memory(**ALICE, memories=FACTS)
    memory = found(service, "parrot", explain=True)[0]
    told = memory.explanation
    odds = -1.0 + told["covered"] * told["relative"] - 0.5 * math.log1p(told["place"])
    odds += 0.5 * told["relative"] + 2.0 * told["vectors"]
    assert memory.confidence == pytest.approx(1 / (1 + math.exp(-odds)), rel=1e-6)


class Eye:
    model_id = "mine"
    dimensions = 8

    def embed(self, texts):
        return np.eye(len(texts), 8) + 0.1


def test_a_calibration_survives_its_file(tmp_path, open_service):
    own = Calibration(
        Weights(-2.5, (1.0, -0.25, 0.125)),
        {"mine": Weights(0.5, (1.0, 2.0, 3.0, 4.0))},
    )
    own.save(tmp_path / "c.json")
    assert Calibration.load(tmp_path / "c.json") == own
    service = open_service(calibration=tmp_path / "c.json")
    service.sync.add_memory(**ALICE, memories=FACTS)
    assert found(service, "parrot")[0].confidence is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"words": {}, "models": {}}',
        '{"words": {"bias": 1, "matched": 1}, "models": {}}',
        '{"words": {"bias": NaN, "matched": 1, "place": 1, "relative": 1},'
        '"models": {}}',
        '{"words": {"bias": "s3cret", "matched": 1, "place": 1, "relative": 1},'
        '"models": {}}',
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path, text, open_service):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ConfigError, match="calibration") as refused:
        open_service(calibration=str(tmp_path / "c.json"))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("vectors", [False, True])
def test_fitted_weights_find_the_law_that_made_the_data(vectors):
    """A logistic law with known weights is found again, and its probabilities."""
    random = np.random.default_rng(7)
    signals = random.normal(size=(20_000, 4)) * [0.3, 0.6, 0.2, 0.1]
    law = np.array([2.0, -1.0, 0.5, 3.0 if vectors else 0.0])
    chance = 1 / (1 + np.exp(-(signals @ law - 1.5)))
    relevant = random.random(20_000) < chance
    weights = fit(signals, relevant, vectors=vectors)
    count = 4 if vectors else 3
    assert len(weights.weights) == count
    assert weights.weights == pytest.approx(law[:count], abs=0.35)
    assert weights.bias == pytest.approx(-1.5, abs=0.1)
    given_ = np.array([weights.probability(row[:count]) for row in signals])
    assert abs(given_.mean() - relevant.mean()) < 0.005
    assert np.abs(given_ - chance).max() < 0.06


def test_too_little_to_fit_on_is_refused():
    rows = [Signals(0.1, 0.0, 1.0)] * 99
    with pytest.raises(ConfigError, match="at least 100"):
        fit(rows, [0, 1, *[0] * 97], vectors=False)
    with pytest.raises(ConfigError, match="relevant ones and others"):
        fit([*rows, rows[0]], [0] * 100, vectors=False)


def test_signals_come_from_an_explained_search_alone(service):
    (memory,) = found(service, "parrot", explain=True)
    signals = Signals.of(memory)
    assert signals.relative == 1.0
    assert signals.place == 0.0
    assert 0.0 < signals.matched <= 1.0
    with pytest.raises(InvalidMemoryError, match="explain"):
        Signals.of(MemoryEntry("x"))


def test_confidences_spread(open_service):
    """S2.24: shedding can tell memories apart."""
    service = open_service()
    service.sync.add_memory(
        **ALICE, memories=[f"parrot {'Kiwi ' * (n % 3)} note {n}" for n in range(30)]
    )
    sure = {
        round(memory.confidence, 3)
        for query in ("parrot", "Kiwi note", "unheard parrot", "note 7 Kiwi")
        for memory in found(service, query, top_k=20)
    }
    assert len(sure) > 20
    assert max(sure) - min(sure) > 0.3


@pytest.mark.parametrize(
    "ranking",
    [
        Ranking(fusion="vectors"),
        Ranking(weights={"session": 0.0}),
        Ranking(weights={"dense": 0.4}),
    ],
)
def test_another_way_of_ranking_has_no_confidence(service, ranking):
    """S2.12: what was calibrated is the default; never a made-up number."""
    assert all(m.confidence is None for m in found(service, "parrot", ranking=ranking))
    with pytest.raises(ConfigError, match="not calibrated"):
        found(service, "parrot", ranking=ranking, min_confidence=0.1)


@pytest.mark.parametrize(
    "ranking", [Ranking(fusion="rrf"), Ranking(fusion="words"), Ranking(collapse=0.9)]
)
def test_options_that_only_order_anew_keep_it(service, ranking):
    plain = {m.id: m.confidence for m in found(service, "parrot red train")}
    asked = found(service, "parrot red train", ranking=ranking)
    assert {m.id: m.confidence for m in asked} == plain
