"""Index.build and search_batch end when a signal's handler raises, as on Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.indexes import random_vectors
from vecall import Index


class StoppedError(Exception):
    """What the handler raises, as Python's own raises KeyboardInterrupt."""


@pytest.fixture
def stop_soon() -> Iterator[threading.Timer]:
    def stop(_signal: int, _frame: object) -> None:
        raise StoppedError

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    yield timer
    timer.cancel()
    timer.join()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("threads", [1, -1])
def test_a_signal_ends_a_build_and_what_was_linked_stays(stop_soon, threads):
    vectors = random_vectors(1, 20_000, 64)
    index = Index(64, "hnsw", ef_construction=400)
    index.add(np.arange(20_000), vectors)
    stop_soon.start()
    with pytest.raises(StoppedError):
        index.build(threads=threads)
    assert index.linked < 20_000  # to link all of them takes many seconds
    # Searches go on as if there had been no build.
    assert index.search(vectors[19_999], 1)[0].tolist() == [19_999]


@pytest.mark.parametrize("threads", [1, -1])
def test_a_signal_ends_a_batch_of_queries(stop_soon, threads):
    vectors = random_vectors(2, 20_000, 64)
    index = Index(64, "flat")
    index.add(np.arange(20_000), vectors)
    queries = np.tile(vectors, (5, 1))  # more than 10 seconds of work
    index.search_batch(queries[:1], 1)
    stop_soon.start()
    begun = time.process_time()
    with pytest.raises(StoppedError):
        index.search_batch(queries, 10, exact=True, threads=threads)
    assert time.process_time() - begun < 5
    assert index.search(vectors[5], 1)[0].tolist() == [5]


def test_a_thread_that_gets_no_signals_answers_its_batch_whole():
    vectors = random_vectors(3, 5_000, 64)
    index = Index(64, "flat")
    index.add(np.arange(5_000), vectors)
    found: list[np.ndarray] = []
    thread = threading.Thread(
        target=lambda: found.append(index.search_batch(vectors, 1)[0][:, 0])
    )
    thread.start()
    thread.join()
    assert (found[0] == np.arange(5_000)).all()


def test_writes_go_on_during_a_long_batch():
    vectors = random_vectors(4, 20_000, 64)
    index = Index(64, "flat")
    index.add(np.arange(20_000), vectors)
    queries = np.tile(vectors[:2_000], (4, 1))
    over = threading.Event()
    answers: list[np.ndarray] = []

    def ask() -> None:
        answers.append(index.search_batch(queries, 1, exact=True)[0][:, 0])
        over.set()

    thread = threading.Thread(target=ask)
    thread.start()
    written = 0
    while not over.is_set():
        index.add([30_000 + written], vectors[:1])
        written += 1
        time.sleep(0.001)
    thread.join()
    assert written > 1
    # Equal cosines come by smaller id, so the new copies of row 0 change no answer.
    assert (answers[0] == np.tile(np.arange(2_000), 4)).all()
