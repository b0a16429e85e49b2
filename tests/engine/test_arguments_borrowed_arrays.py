"""The memory of an array stays where it is while a call reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from vecall import Index, InvalidArgumentError
from vecall._core import Engine

KEY = ("app", "user")
DIM, ROWS = 64, 8
FAR = 1 << 20  # so many numbers move an array


def rows(count: int = ROWS) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, DIM)).astype(np.float32)


class Resizes:
    """A number, or an array, whose own code resizes an array that the call borrowed."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.refused = 0

    def resize(self) -> None:
        try:
            self.array.resize(FAR, refcheck=False)
        except ValueError:
            self.refused += 1

    def __index__(self) -> int:
        self.resize()
        return 3

    def __array__(self, *args: object, **options: object) -> np.ndarray:
        self.resize()
        return rows()


def of_search(index: Index, one: np.ndarray) -> Resizes:
    resizes = Resizes(one)
    found, _ = index.search(one, resizes)
    assert found[0] == 0
    return resizes


def of_search_batch(index: Index, one: np.ndarray) -> Resizes:
    queries = one.reshape(1, -1).copy()
    resizes = Resizes(queries)
    found, _ = index.search_batch(queries, resizes)
    assert found[0, 0] == 0
    return resizes


def of_a_view(index: Index, one: np.ndarray) -> Resizes:
    """The view has no memory of its own: that it is of is not resized."""
    resizes = Resizes(one)
    found, _ = index.search(one[:][:], resizes)
    assert found[0] == 0
    return resizes


def of_add(index: Index, _: np.ndarray) -> Resizes:
    ids = np.arange(100, 100 + ROWS)
    resizes = Resizes(ids)
    index.add(ids, resizes)
    assert sorted(index.ids)[-ROWS:] == list(range(100, 100 + ROWS))
    return resizes


@pytest.mark.parametrize("call", [of_search, of_search_batch, of_a_view, of_add])
def test_a_callback_cannot_resize_what_the_call_borrowed(
    call: Callable[[Index, np.ndarray], Resizes],
):
    index = Index(DIM)
    index.add(np.arange(ROWS), rows())
    resizes = call(index, rows()[0].copy())
    assert resizes.refused > 0
    resizes.array.resize(FAR, refcheck=False)  # nothing holds it any more
    assert resizes.array.size == FAR


@pytest.mark.parametrize("kind", [Index, Engine])
def test_another_thread_cannot_resize_what_is_being_added(kind):
    """Adding gives the interpreter lock away while it reads the vectors."""
    many = 2000
    vectors = rows(many)
    made = kind(DIM)
    refused, stop = threading.Event(), threading.Event()

    def resize() -> None:
        while not stop.is_set():
            for count in (many + 1, many):
                try:
                    vectors.resize((count, DIM), refcheck=False)
                except ValueError:
                    refused.set()

    thread = threading.Thread(target=resize)
    thread.start()
    try:
        for _ in range(500):
            ids = np.arange(len(vectors))
            try:
                made.add(ids, vectors) if kind is Index else made.add(KEY, ids, vectors)
            except InvalidArgumentError:  # resized between the last two lines
                continue
            if refused.is_set():
                break
    finally:
        stop.set()
        thread.join()
    assert refused.is_set()
