"""Which partitions go first when memory is short."""

from __future__ import annotations

import numpy as np
import pytest
from vecall import Engine
from vecall.errors import InvalidArgumentError

KEYS = [("app", f"user {n}") for n in range(50)]
VECTOR = np.ones((1, 8), np.float32)


def filled() -> Engine:
    engine = Engine(8)
    for key in KEYS:
        engine.add(key, np.array([1], dtype=np.int64), VECTOR)
    return engine


def test_a_sweep_names_those_that_nobody_used_since_the_last_one():
    engine = filled()
    assert sorted(engine.sweep(100)) == sorted(KEYS)  # all are equally old
    engine.sweep(100)
    used = KEYS[::7]
    for _ in range(2):
        for key in used:
            engine.search(key, VECTOR[0], 1)
        cold = engine.sweep(len(KEYS) - len(used))
        assert sorted(cold) == sorted(set(KEYS) - set(used))


def test_a_sweep_names_no_more_than_asked_and_goes_on_where_it_stopped():
    engine = filled()
    engine.sweep(100)
    seen = [key for _ in range(5) for key in engine.sweep(10)]
    assert sorted(seen) == sorted(KEYS)


def test_what_was_evicted_comes_back_from_its_snapshot():
    engine = filled()
    kept = {key: engine.snapshot(key) for key in engine.sweep(20)}
    held = engine.nbytes
    for key in kept:
        assert engine.drop(key)
    assert len(engine) == len(KEYS) - len(kept)
    assert engine.nbytes < held
    for key, snapshot in kept.items():
        engine.restore(key, snapshot)
        assert engine.search(key, VECTOR[0], 1)[0].tolist() == [1]
    assert len(engine) == len(KEYS)


def test_an_empty_engine_has_nothing_to_sweep():
    engine = Engine(8)
    assert engine.sweep(3) == []
    with pytest.raises(InvalidArgumentError):
        engine.sweep(0)
