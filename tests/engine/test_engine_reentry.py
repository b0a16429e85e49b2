"""Calls that come back into the engine, and copies of an engine."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from vecall import InvalidTypeError
from vecall._core import Engine

KEY = ("app", "user")


def filled(dim: int) -> Engine:
    engine = Engine(dim)
    vectors = np.random.default_rng(1).standard_normal((4, dim)).astype(np.float32)
    engine.add(KEY, np.arange(4), vectors)
    return engine


def asked(engine: Engine, dim: int, **options: object) -> list[int]:
    query = np.random.default_rng(2).standard_normal(dim).astype(np.float32)
    return engine.recall(KEY, query, [], 4, **options)[0].tolist()


def test_a_number_that_asks_another_engine_changes_no_answer():
    """A number's own code runs before the query is taken over."""
    small, large = filled(8), filled(4096)
    calls = []

    class Asks(float):
        def __float__(self) -> float:
            calls.append(asked(large, 4096))
            return 0.5

    class Counts(int):
        def __float__(self) -> float:
            calls.append(asked(large, 4096))
            return -1.0

    for number in (Asks(-1.0), Counts(1)):
        assert asked(small, 8, min_similarity=number) == asked(small, 8)
    assert calls, "an int's own code runs"
    assert all(sorted(found) == [0, 1, 2, 3] for found in calls)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_engine_cannot_be_pickled(protocol):
    with pytest.raises(InvalidTypeError, match="pickled"):
        pickle.dumps(filled(8), protocol)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_engine_cannot_be_copied(copied):
    with pytest.raises(InvalidTypeError, match="copied"):
        copied(filled(8))
