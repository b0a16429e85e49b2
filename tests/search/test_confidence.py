"""Confidence: how likely a memory is relevant to this query."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.campaigns import examples
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
from vecall.ranking.calibration import WORD_SIGNALS, Signals, Weights, fit_weights

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


@pytest.mark.campaign
@settings(max_examples=examples(60), deadline=None)
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


def probability(weights, memory):
    """The logistic law, from what an explained search says."""
    told = memory.explanation
    length = min(len(memory.text), 4_000)
    unsaid = 0.0 if told["query_coverage"] else memory.similarity
    signals = [
        math.sqrt(told["query_coverage"]),
        math.log1p(told["place"]),
        told["relative"],
        float(told["query_coverage"] > 0),
        math.log(told["factor"]),
        math.sqrt(told["query_coverage"]) * math.log1p(length / 500),
        told["vectors"] * told["vector_scale"],
        unsaid,
    ]
    odds = weights.bias + np.dot(weights.weights, signals[: len(weights.weights)])
    return 1 / (1 + math.exp(-odds))


def shown(weights, memories):
    """What a result shows: never more than the memory before, the same for a tie."""
    expected = []
    for at, memory in enumerate(memories):
        value = probability(weights, memory)
        if at and memory.score == memories[at - 1].score:
            value = expected[-1]
        expected.append(min([value, *expected]))
    return expected


def test_a_text_of_any_length_that_has_the_words_is_not_silent(open_service):
    """The fit saw few texts above 4,000 characters: they count as one of so many."""
    confidences = []
    for number, length in enumerate((40, 4_000, 40_000)):
        service = open_service(embedder=None)
        text = f"The parrot is called Kiwi {'a' * (length - 26)}"
        service.sync.add_memory(**ALICE, memories=[text, f"Another text {number}"])
        (memory,) = found(service, "parrot called Kiwi")
        confidences.append(memory.confidence)
    short, long, huge = confidences
    assert short > long == huge > 0.2


def test_an_embedder_that_nobody_calibrated_has_the_confidence_of_any(open_service):
    """S2.12: fitted on several models, without a look at the cosine."""
    service = open_service(embedder=lambda texts: np.eye(len(texts), 8) + 0.1)
    service.sync.add_memory(**ALICE, memories=FACTS)
    other = Calibration.shipped().other
    assert other.weights[-1] == 0.0
    told = found(service, "parrot Porto", explain=True)
    assert all(memory.similarity is not None for memory in told)
    confidences = [memory.confidence for memory in told]
    assert confidences == pytest.approx(shown(other, told))


def test_a_calibration_of_ones_own_gives_any_embedder_a_confidence(open_service):
    """S2.12: recalibrated per embedder."""
    weights = Weights(-1.0, (1.0, -0.5, 0.5, 0.3, 0.7, -0.2, 2.0, 1.5))
    own = Calibration.shipped().with_model("mine", weights)
    embedder = Eye()
    service = open_service(embedder=embedder, calibration=own, min_confidence=0.01)
    service.sync.add_memory(**ALICE, memories=FACTS)
    told = found(service, "parrot", explain=True)
    confidences = [memory.confidence for memory in told]
    assert confidences == pytest.approx(shown(weights, told), rel=1e-6)


@pytest.mark.parametrize("top_k", [2, 5, 9])
def test_an_answer_is_the_same_whether_it_is_explained_or_not(open_service, top_k):
    """Python orders and rates what is explained, the core what is not; ties as well."""
    service = open_service(embedder=Eye())
    times = [3.0, None, 1.0, 3.0, 2.0, None]
    told = [
        MemoryEntry(f"{fact}.", id=f"{place}{which}", timestamp=time)
        for place, fact in enumerate(FACTS)
        for which, time in zip("fedcba", times, strict=True)
    ]
    service.sync.add_memory(**ALICE, memories=told)
    for query in ("parrot called Kiwi", "red bicycle", "Elm Porto nine", "nothing"):
        plain, explained = (
            service.sync.search_memory(
                **ALICE, query=query, top_k=top_k, explain=explain
            )
            for explain in (False, True)
        )
        assert len(plain) == top_k
        bare = [replace(each, explanation=None) for each in explained]
        assert list(map(repr, plain)) == list(map(repr, bare))
        assert plain.memories == bare
        assert plain.relevance == explained.relevance


@pytest.mark.parametrize("count", [1, 2, 3])
def test_confidence_does_not_depend_on_the_identity_of_the_file(count):
    """Each file rotates its vectors by a seed of its own."""
    random = np.random.default_rng(2)
    known = {text: random.standard_normal(64) for text in [*FACTS, "parrot"]}
    answers = []
    for _ in range(12):
        with MemoryService(
            None, embedder=lambda texts: _vectors(known, texts)
        ) as memory:
            memory.sync.add_memory(**ALICE, memories=FACTS[:count])
            answers.append(found(memory, "parrot", explain=True))
    for answer in answers:
        for memory, first in zip(answer, answers[0], strict=True):
            assert memory.confidence == pytest.approx(first.confidence, abs=2e-3)
        if count == 1:
            assert answer[0].explanation["vector_weight"] == 1.0


def _vectors(known, texts):
    other = np.ones(64)
    return np.array([known.get(text.removeprefix("user: "), other) for text in texts])


class Eye:
    model_id = "mine"
    dimensions = 8

    def embed(self, texts):
        return np.eye(len(texts), 8) + 0.1


def test_a_calibration_survives_its_file(tmp_path, open_service):
    own = Calibration(
        Weights(-2.5, (1.0, -0.25, 0.125, 1.5, 2.5, -0.5)),
        {"mine": Weights(0.5, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0))},
    )
    own.save(tmp_path / "c.json")
    assert Calibration.load(tmp_path / "c.json") == own
    assert own.of_model("another") == Calibration.shipped().other
    mine = own.models["mine"]
    assert own.of_model("fastembed:somebody/Mine") == mine
    with_other = replace(
        own, other=mine, matches=own.words, cosine=own.words, messages=-0.5
    )
    with_other.save(tmp_path / "d.json")
    assert Calibration.load(tmp_path / "d.json") == with_other
    assert with_other.of_model("another") == mine
    assert own.of_cosine() == Calibration.shipped().cosine
    assert with_other.of_cosine() == own.words
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
        '{"words": {"bias": 1, "covered_root": 1}, "models": {}}',
        '{"words": {"bias": NaN, "covered_root": 1, "place": 1, "relative": 1,'
        '"seen": 1, "factor": 1, "size": 1}, "models": {}}',
        '{"words": {"bias": "s3cret", "covered_root": 1, "place": 1, "relative": 1,'
        '"seen": 1, "factor": 1, "size": 1}, "models": {}}',
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path, text, open_service):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ConfigError, match="calibration") as refused:
        open_service(calibration=str(tmp_path / "c.json"))
    assert "s3cret" not in str(refused.value)


WORDS = dict.fromkeys(("bias", *Signals._fields[:WORD_SIGNALS]), 1.0)
MODEL = dict.fromkeys(("bias", *Signals._fields), 1.0)


@pytest.mark.parametrize(
    ("words", "model", "what"),
    [
        # The first signals: three by words, four with vectors.
        (
            {"matched", "place", "relative"},
            MODEL,
            "lacks covered_root, seen, factor, size",
        ),
        (
            WORDS,
            {"matched", "place", "relative", "vectors"},
            "lacks covered_root, seen, factor, size",
        ),
        # The five that followed: the first was the covered share, times `relative`.
        (
            {*WORDS} - {"bias", "covered_root"} | {"matched"},
            MODEL,
            "lacks covered_root",
        ),
        # Those before the length of the memory was one.
        ({*WORDS} - {"bias", "size"}, MODEL, "lacks size"),
        (WORDS, {*MODEL} - {"bias", "size"}, "lacks size"),
        (WORDS, {*MODEL} - {"unsaid"}, "lacks unsaid"),
        (WORDS, {*MODEL, "s3cret"}, "has signals besides"),
    ],
)
def test_a_file_of_other_signals_says_what_it_lacks_and_what_to_do(
    tmp_path, words, model, what
):
    def weights(names):
        return {"bias": 1.0, **dict.fromkeys(names, 1.0)}

    told = {"words": weights(words), "models": {"mine": weights(model)}}
    (tmp_path / "c.json").write_text(json.dumps(told))
    with pytest.raises(ConfigError, match=r"^calibration: ") as refused:
        Calibration.load(tmp_path / "c.json")
    assert what in str(refused.value)
    assert "vecall eval jsonl FILE --calibrate OUT.json" in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("vectors", [False, True])
def test_fitted_weights_find_the_law_that_made_the_data(vectors):
    """A logistic law with known weights is found again, and its probabilities."""
    random = np.random.default_rng(7)
    scale = [0.3, 0.6, 0.2, 0.5, 0.2, 1.0, 0.1, 0.2]
    signals = random.normal(size=(20_000, 8)) * scale
    law = np.array([2.0, -1.0, 0.5, 1.0, 1.5, -0.4, 3.0, 2.0])
    if not vectors:
        law[6:] = 0.0
    chance = 1 / (1 + np.exp(-(signals @ law - 1.5)))
    relevant = random.random(20_000) < chance
    weights = fit_weights(signals, relevant, vectors=vectors)
    count = 8 if vectors else 6
    assert len(weights.weights) == count
    assert weights.weights == pytest.approx(law[:count], abs=0.35)
    assert weights.bias == pytest.approx(-1.5, abs=0.1)
    given_ = np.array([weights.probability(row[:count]) for row in signals])
    # The ridge leaves the bias out, so the mean is the share of relevant hits.
    assert given_.mean() == pytest.approx(relevant.mean(), abs=1e-6)
    assert np.abs(given_ - chance).max() < 0.06


def test_a_hit_that_counts_twice_is_as_good_as_two_hits():
    random = np.random.default_rng(3)
    signals = random.normal(size=(400, 8))
    relevant = (random.random(400) < 0.3).astype(float)
    counts = random.integers(1, 4, 400)
    repeated = fit_weights(
        np.repeat(signals, counts, axis=0), np.repeat(relevant, counts), vectors=True
    )
    counted = fit_weights(signals, relevant, vectors=True, importance=counts)
    assert counted.bias == pytest.approx(repeated.bias, rel=1e-6)
    assert counted.weights == pytest.approx(repeated.weights, rel=1e-6)
    for wrong in (counts[1:], np.zeros(400), np.full(400, np.nan)):
        with pytest.raises(ConfigError, match="importance"):
            fit_weights(signals, relevant, vectors=True, importance=wrong)


def test_too_little_to_fit_on_is_refused():
    rows = [Signals(0.1, 0.0, 1.0)] * 99
    with pytest.raises(ConfigError, match="at least 100"):
        fit_weights(rows, [0, 1, *[0] * 97], vectors=False)
    with pytest.raises(ConfigError, match="relevant ones and others"):
        fit_weights([*rows, rows[0]], [0] * 100, vectors=False)
    assert fit_weights(
        [*rows, rows[0]], [0, 1] * 50, vectors=False
    ).bias == pytest.approx(0.0)


def test_signals_come_from_an_explained_search_alone(service):
    (memory,) = found(service, "parrot", explain=True)
    signals = Signals.signals_of_memory(memory)
    assert signals.relative == 1.0
    assert signals.place == 0.0
    assert 0.0 < signals.covered_root <= 1.0
    with pytest.raises(InvalidMemoryError, match="explain"):
        Signals.signals_of_memory(MemoryEntry("x"))


@pytest.mark.parametrize("dense", [0.2, 0.4, 0.8])
def test_a_fit_sees_the_signals_that_a_search_weighs(open_service, dense):
    """Also where another ranking makes the vectors' part of the score larger."""
    weights = Weights(-1.0, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0))
    own = Calibration.shipped().with_model("mine", weights)
    service = open_service(embedder=Eye(), calibration=own)
    service.sync.add_memory(**ALICE, memories=FACTS)
    ranking = Ranking(weights={"dense": dense})
    (first, *_) = found(service, "parrot", ranking=ranking, explain=True)
    assert first.explanation["vectors"] > 0.0
    fitted = weights.probability(Signals.signals_of_memory(first))
    assert first.confidence == pytest.approx(fitted, abs=1e-9)


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
    assert len(sure) > 8  # equal scores have equal confidences
    assert max(sure) - min(sure) > 0.3


@pytest.mark.parametrize(
    "ranking",
    [
        Ranking(fusion="vectors"),
        Ranking(weights={"session": 0.0}),
        Ranking(weights={"dense": 0.4}),
    ],
)
def test_another_way_of_ranking_has_a_confidence_too(open_service, ranking):
    """S2.12: wherever there is a score. The default's is the one that was fitted."""
    service = open_service(embedder=Eye())
    service.sync.add_memory(**ALICE, memories=FACTS)
    told = found(service, "parrot", ranking=ranking)
    assert told
    assert all(0.0 < memory.confidence < 1.0 for memory in told)
    least = min(memory.confidence for memory in told)
    assert len(found(service, "parrot", ranking=ranking, min_confidence=least)) == len(
        told
    )


@pytest.mark.parametrize("dense", [0.2, 0.8])
def test_the_weight_of_the_vectors_does_not_change_what_they_say(open_service, dense):
    """Where no word matches, the order and the cosines are all there is."""
    service = open_service(embedder=Eye())
    service.sync.add_memory(**ALICE, memories=FACTS)
    usual = {m.id: m.confidence for m in found(service, "unheard")}
    asked = found(service, "unheard", ranking=Ranking(weights={"dense": dense}))
    assert {m.id for m in asked} == set(usual)
    for memory in asked:
        assert memory.confidence == pytest.approx(usual[memory.id], rel=1e-4)


@pytest.mark.parametrize(
    "ranking", [Ranking(fusion="rrf"), Ranking(fusion="words"), Ranking(collapse=0.9)]
)
def test_options_that_only_order_anew_keep_it(service, ranking):
    plain = {m.id: m.confidence for m in found(service, "parrot red train")}
    asked = found(service, "parrot red train", ranking=ranking)
    assert {m.id: m.confidence for m in asked} == plain


def shortest(query, texts):
    return [-len(text) for text in texts]


@pytest.mark.parametrize(
    "ranking", [Ranking(half_life=60.0), Ranking(reranker=shortest)]
)
def test_what_is_below_the_floor_takes_no_place_in_a_reordered_result(
    open_service, ranking
):
    """The sure memory is old, and the reranker puts it last."""
    service = open_service()
    texts = ["the cabin was cold", "is it raining", "the bus of 8", "of today"]
    old = {"text": "The wifi password of the cabin is heron-42", "timestamp": 1000.0}
    service.sync.add_memory(**ALICE, memories=[old, *texts])
    asked = "What is the wifi password of the cabin?"
    sure = found(service, asked, top_k=1)[0]
    assert sure.text == old["text"]
    (told,) = found(
        service, asked, top_k=1, ranking=ranking, min_confidence=sure.confidence
    )
    assert told.text == old["text"]
