"""An embedder that fails or answers nonsense writes nothing and leaks nothing."""

from __future__ import annotations

import asyncio
import math
import random
import traceback
from collections.abc import Sequence

import numpy as np
import pytest
from helpers.embedders import Recorder, found, session
from helpers.memories import ALICE, SECRET
from vecall import EmbedderError, FunctionEmbedder
from vecall.embedders import checked_vectors

BAD_RESULTS = [
    ("too few", lambda texts: [[1.0, 2.0, 3.0]] * (len(texts) - 1)),
    ("too many", lambda texts: [[1.0, 2.0, 3.0]] * (len(texts) + 1)),
    ("short", lambda texts: [[1.0, 2.0]] * len(texts)),
    ("long", lambda texts: [[1.0, 2.0, 3.0, 4.0]] * len(texts)),
    ("ragged", lambda texts: [[1.0, 2.0, 3.0], [1.0]][: len(texts)]),
    ("flat", lambda texts: [1.0, 2.0, 3.0]),
    ("NaN", lambda texts: [[1.0, math.nan, 3.0]] * len(texts)),
    ("Inf", lambda texts: [[1.0, math.inf, 3.0]] * len(texts)),
    ("too large", lambda texts: [[1.0, 1e300, 3.0]] * len(texts)),
    ("nothing", lambda texts: None),
    ("a text", lambda texts: SECRET),
    ("a number", lambda texts: 5),
    ("a generator", lambda texts: ([1.0, 2.0, 3.0] for _ in texts)),
    ("objects", lambda texts: [[object()] * 3] * len(texts)),
    ("none inside", lambda texts: [[1.0, None, 3.0]] * len(texts)),
    ("words", lambda texts: [["1", "2", "3"]] * len(texts)),
    ("complex", lambda texts: np.full((len(texts), 3), 1 + 2j)),
    ("a mapping", lambda texts: {"embedding": [1.0, 2.0, 3.0]}),
]


@pytest.mark.parametrize(
    "result",
    [result for _, result in BAD_RESULTS],
    ids=[name for name, _ in BAD_RESULTS],
)
def test_vectors_that_cannot_be_used_write_nothing(open_service, result):
    """S0.22, bug classes 11, 16: count, dimension, finiteness, type."""
    service = open_service(
        embedder=FunctionEmbedder(result, dimensions=3, model_id="bad")
    )
    with pytest.raises(EmbedderError) as caught:
        service.sync.add_memory(**ALICE, memories=[f"zebra {SECRET}", "okapi"])
    assert SECRET not in str(caught.value)
    assert service.sync.admin.stats()["memories"] == 0
    with pytest.raises(EmbedderError):
        service.sync.add_session_to_memory(session("zebra", "okapi"))
    assert service.sync.admin.stats()["memories"] == 0


@pytest.mark.parametrize(
    "result",
    [
        np.ones((2, 3), np.float64),
        np.ones((2, 3), np.float16),
        np.ones((2, 3), np.int64),
        np.ones((2, 3), ">f4"),
        np.asfortranarray(np.ones((2, 3), np.float32)),
        np.ones((2, 6), np.float32)[:, ::2],
        [np.ones(3), np.ones(3)],
        ((1, 1, 1), (1, 1, 1)),
    ],
)
def test_any_array_of_numbers_will_do(result):
    """Bug class 16: dtypes, byte orders, strides and lists."""
    vectors = checked_vectors(result, 2, 3)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert (vectors == 1).all()


class Failing(Recorder):
    """An embedder whose error quotes what it was asked."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if any(SECRET in text for text in texts):
            msg = f"cannot embed {texts!r}"
            raise RuntimeError(msg)
        return super().embed(texts)


def test_an_error_of_the_embedder_does_not_leak_the_text(open_service):
    """contracts.md, errors: no user text; nothing is written; the service goes on."""
    service = open_service(embedder=Failing())
    for ask in (
        lambda: service.sync.add_memory(**ALICE, memories=["zebra", SECRET]),
        lambda: service.sync.add_session_to_memory(session("zebra", SECRET)),
        lambda: service.sync.search_memory(**ALICE, query=SECRET),
    ):
        with pytest.raises(EmbedderError, match="RuntimeError") as caught:
            ask()
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value)
    assert service.sync.admin.stats()["memories"] == 0
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert found(service, "zebra") == ["zebra"]


def test_a_logged_error_of_the_embedder_does_not_leak_the_text(open_service):
    """What `logging.exception` prints: the chain of causes is part of an error."""
    service = open_service(embedder=Failing())
    with pytest.raises(EmbedderError) as caught:
        service.sync.add_memory(**ALICE, memories=[SECRET])
    printed = "".join(traceback.format_exception(caught.value))
    assert f"cannot embed ['{SECRET}']" not in printed


def test_trying_again_leaves_the_random_numbers_of_its_host_alone(
    open_service, monkeypatch
):
    """A program that seeds them expects the same ones from run to run."""
    failures = [ConnectionError, TimeoutError]

    def embed(texts: list[str]) -> list[list[float]]:
        if "zebra" in texts[0] and failures:
            raise failures.pop()
        return [[1.0, 2.0, 3.0]] * len(texts)

    service = open_service(
        embedder=FunctionEmbedder(embed, dimensions=3, model_id="late")
    )
    for name in ("random", "uniform"):
        monkeypatch.delattr(random, name)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert not failures


def test_a_failing_batch_writes_nothing_of_the_call(open_service):
    """Guarantee 2: all or nothing, also when a later batch of texts fails."""
    service = open_service(embedder=Failing())
    texts = [f"zebra {i}" for i in range(150)] + [SECRET]
    with pytest.raises(EmbedderError):
        service.sync.add_memory(**ALICE, memories=texts)
    assert service.sync.admin.stats()["memories"] == 0


def test_an_embedder_that_keeps_its_list_cannot_change_a_memory(open_service):
    class Greedy(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            vectors = super().embed(texts)
            if isinstance(texts, list):
                texts.clear()
            return vectors

    service = open_service(embedder=Greedy())
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert sorted(found(service, "zebra")) == ["okapi", "zebra"]


def test_an_embedder_with_a_plain_and_an_async_method_answers(open_service, in_time):
    """Texts on an event loop, queries on a thread, in any order."""

    class Mixed:
        model_id = "mixed"
        dimensions = 4

        async def embed(self, texts):
            return [[1.0, 0.0, 0.0, float(len(text))] for text in texts]

        def embed_queries(self, texts):
            return [[1.0, 0.0, 0.0, 1.0] for _ in texts]

    service = open_service(embedder=Mixed())
    scope = {"app_name": "app", "user_id": "u"}
    for n in range(3):
        in_time(lambda n=n: service.sync.add_memory(**scope, memories=[f"zebra {n}"]))
        found = in_time(lambda n=n: service.sync.search_memory(**scope, query=f"q{n}"))
        assert len(found.memories) == n + 1
    in_time(service.close)


def test_an_embedder_that_says_it_was_cancelled_cancels_nobody(open_service):
    def embed(texts):
        raise asyncio.CancelledError

    embedder = FunctionEmbedder(embed, dimensions=4, model_id="cancelling")
    service = open_service(embedder=embedder)
    with pytest.raises(EmbedderError, match="CancelledError"):
        asyncio.run(service.add_memory(app_name="app", user_id="u", memories=["zebra"]))


def test_a_floor_on_the_confidence_holds_after_a_move_to_any_model(open_service):
    """Every model has a confidence, so that no search becomes an error."""
    service = open_service(min_confidence=0.001)
    embedder = FunctionEmbedder(
        lambda texts: [[1.0, 2.0]] * len(texts), dimensions=2, model_id="unknown"
    )
    service.sync.add_memory(app_name="app", user_id="u", memories=["zebra"])
    service.sync.admin.reembed(embedder)
    asked = {"app_name": "app", "user_id": "u", "query": "zebra"}
    (memory,) = service.sync.search_memory(**asked).memories
    assert memory.confidence is not None
    above = min(1.0, memory.confidence + 0.01)
    assert service.sync.search_memory(**asked, min_confidence=above).memories == []


def test_a_query_of_zero_norm_is_as_sure_as_words_alone(open_service):
    """It is searched by words, so it is calibrated by words."""

    class Zero:
        model_id = "use-multilingual-v3"
        dimensions = 4

        def embed(self, texts):
            return [[0.0] * 4 if text == "zebra" else [1.0] * 4 for text in texts]

    scope = {"app_name": "app", "user_id": "u"}
    sure = []
    for embedder in (None, Zero()):
        service = open_service(embedder=embedder)
        service.sync.add_memory(**scope, memories=["a zebra", "an okapi"])
        found = service.sync.search_memory(**scope, query="zebra").memories
        sure.append(found[0].confidence)
    assert sure[0] == pytest.approx(sure[1])
