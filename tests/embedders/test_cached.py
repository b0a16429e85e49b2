"""A cache around any embedder: each text once, nothing of a failure, nothing shared."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder, session
from helpers.memories import ALICE, BOB, WAIT_S, Held
from vecall import ConfigError, EmbedderError, FunctionEmbedder, MemoryService
from vecall.embedders import CachedEmbedder, CallerVectors, MappedEmbedder, QueryMap
from vecall.embedders.base import can_embed
from vecall.evaluation.runner import TimedEmbedder


class Asynchronous(Recorder):
    """A recorder that lets others in before it answers."""

    async def embed(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
        await asyncio.sleep(0.01)
        return Recorder.embed(self, texts)


class Asymmetric(Recorder):
    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        return -self.embed(texts)


def expected(*texts: str) -> np.ndarray:
    return Recorder.embed(Recorder(), texts).astype(np.float32)


def test_each_distinct_text_is_embedded_once_ever():
    """S0.18: within a call and over calls, in the order asked."""
    recorder = Recorder()
    cached = CachedEmbedder(recorder)
    assert (cached.model_id, cached.dimensions) == ("recorder", 7)
    for texts in (["a", "b", "a"], ["b", "c"], ["c", "a", "b"]):
        assert np.array_equal(cached.embed(texts), expected(*texts))
    assert recorder.asked == ["a", "b", "c"]
    assert (cached.hits, cached.misses) == (5, 3)
    cached.clear()
    cached.embed(["a"])
    assert recorder.asked == ["a", "b", "c", "a"]


def test_an_asynchronous_embedder_stays_one():
    """S0.22: and works on one event loop after another."""
    recorder = Asynchronous()
    cached = CachedEmbedder(recorder)
    for _ in range(2):
        got = asyncio.run(cached.embed(["a", "b"]))
        assert np.array_equal(got, expected("a", "b"))
        assert np.array_equal(asyncio.run(cached.embed_queries(["b"])), expected("b"))
    assert recorder.asked == ["a", "b"]


def test_queries_are_kept_apart_where_they_are_embedded_otherwise():
    """S0.22: an asymmetric model has two vectors for one text."""
    cached = CachedEmbedder(Asymmetric())
    for _ in range(2):
        assert np.array_equal(cached.embed(["a"]), expected("a"))
        assert np.array_equal(cached.embed_queries(["a"]), -expected("a"))
    assert (cached.hits, cached.misses) == (2, 2)
    symmetric = CachedEmbedder(Recorder())
    assert np.array_equal(symmetric.embed(["a"]), symmetric.embed_queries(["a"]))
    assert symmetric.misses == 1


def test_two_caches_of_caches_agree():
    cached = CachedEmbedder(CachedEmbedder(Asynchronous()))
    assert np.array_equal(asyncio.run(cached.embed(["a"])), expected("a"))


@pytest.mark.parametrize(
    "bound", [{"max_entries": 2}, {"max_bytes": 2 * (7 * 4 + 256) + 7}]
)
def test_the_least_recently_used_is_forgotten_first(bound):
    recorder = Recorder()
    cached = CachedEmbedder(recorder, **bound)
    for text in ("a", "b", "a", "c", "a", "b"):
        cached.embed([text])
    assert recorder.asked == ["a", "b", "c", "b"]
    texts = [str(number) for number in range(9)]
    assert np.array_equal(cached.embed(texts), expected(*texts))


@pytest.mark.parametrize("bound", [{"max_entries": 0}, {"max_bytes": 100}])
def test_a_cache_for_nothing_is_refused(bound):
    with pytest.raises(ConfigError, match="max_bytes, max_entries"):
        CachedEmbedder(Recorder(), **bound)


def test_who_writes_into_an_answer_changes_nobody_elses():
    cached = CachedEmbedder(Recorder())
    for _ in range(3):
        got = cached.embed(["a", "a"])
        assert np.array_equal(got, expected("a", "a"))
        got[:] = 0


def test_threads_that_ask_for_the_same_text_wait_for_one_answer():
    """S0.18: the second is not sent while the first is under way."""
    held = Held()
    cached = CachedEmbedder(held)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(cached.embed(["a"])))
        for _ in range(4)
    ]
    threads[0].start()
    assert held.entered.wait(WAIT_S)
    for thread in threads[1:]:
        thread.start()
    held.go_on.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(results) == 4
    assert cached.misses == 1
    assert len({result.tobytes() for result in results}) == 1


def test_tasks_that_ask_for_overlapping_texts_embed_each_once():
    recorder = Asynchronous()
    cached = CachedEmbedder(recorder)

    async def all_at_once() -> list[Any]:
        asked = [["a", "b"], ["b", "c"], ["c", "a"], ["a"]]
        return await asyncio.gather(*(cached.embed(texts) for texts in asked))

    answers = asyncio.run(all_at_once())
    assert np.array_equal(answers[2], expected("c", "a"))
    assert sorted(recorder.asked) == ["a", "b", "c"]
    assert (cached.hits, cached.misses) == (4, 3)


def test_a_failure_is_kept_from_nobody_and_by_nobody():
    """S0.22: it reaches everyone who waited, and the next one asks again."""
    tries: list[list[str]] = []

    async def embed(texts: list[str]) -> Any:
        tries.append(texts)
        await asyncio.sleep(0.01)
        if len(tries) == 1:
            msg = "no"
            raise RuntimeError(msg)
        return Recorder().embed(texts)

    function = FunctionEmbedder(embed, dimensions=7, model_id="recorder")
    cached = CachedEmbedder(function)

    async def both() -> list[Any]:
        asked = (cached.embed(["a"]), cached.embed(["a"]))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [type(one) for one in asyncio.run(both())] == [RuntimeError] * 2
    assert np.array_equal(asyncio.run(cached.embed(["a"])), expected("a"))
    assert tries == [["a"], ["a"]]


@pytest.mark.parametrize("result", [[], [[1.0]], [[float("nan")] * 7], None])
def test_an_answer_that_cannot_be_used_is_not_kept(result):
    """S0.22."""
    results = [result, expected("a")]
    cached = CachedEmbedder(
        FunctionEmbedder(lambda texts: results.pop(0), dimensions=7, model_id="m")
    )
    with pytest.raises(EmbedderError):
        cached.embed(["a"])
    assert np.array_equal(cached.embed(["a"]), expected("a"))


@pytest.mark.parametrize("given_up", [[0], [2], [0, 2]])
def test_who_gives_up_takes_nobody_along(given_up):
    """A cancelled task must not cancel, nor leave waiting, another one."""
    recorder = Asynchronous()
    cached = CachedEmbedder(recorder)

    async def one_gives_up() -> Any:
        tasks = [asyncio.create_task(cached.embed(["a"])) for _ in range(3)]
        await asyncio.sleep(0)
        for number in given_up:
            tasks[number].cancel()
        got = await asyncio.wait_for(tasks[1], WAIT_S)
        await asyncio.gather(*tasks, return_exceptions=True)
        return got

    assert np.array_equal(asyncio.run(one_gives_up()), expected("a"))
    assert recorder.asked == ["a"]


def test_a_function_is_still_told_from_another_of_its_name():
    """S4.65: the file's fingerprint of a function survives the cache."""
    function = FunctionEmbedder(lambda texts: [[1.0, 2.0] for _ in texts])
    assert np.array_equal(CachedEmbedder(function).probe, function.probe)


def test_a_child_does_not_wait_for_what_its_parent_asked():
    held = Held()
    cached = CachedEmbedder(held)
    asking = threading.Thread(target=cached.embed, args=(["a"],))
    asking.start()
    assert held.entered.wait(WAIT_S)
    child = os.fork()
    if child == 0:
        try:
            faulthandler.dump_traceback_later(WAIT_S, exit=True)
            held.go_on.set()
            os._exit(0 if cached.embed(["a"]).tolist() == [[1.0, 2.0, 3.0]] else 3)
        finally:
            os._exit(4)
    held.go_on.set()
    asking.join(WAIT_S)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_memory_service_pays_for_no_text_twice():
    """S0.18, S4.13: not for another user's, not in another service."""
    recorder = Recorder()
    cached = CachedEmbedder(recorder)
    for _ in range(2):
        with MemoryService(embedder=cached) as service:
            service.sync.add_session_to_memory(session("zebra", "okapi"))
            for scope in (ALICE, BOB):
                service.sync.search_memory(**scope, query="zebra")
    assert recorder.asked == ["user: zebra", "user: okapi", "zebra"]


class Limited(Recorder):
    """A recorder with each attribute that an embedder may have, and one of tomorrow."""

    max_concurrency = 3
    scripts = ("latin",)
    tomorrow = "a value"


def mapped(embedder: Any) -> MappedEmbedder:
    return MappedEmbedder(embedder, QueryMap(np.eye(embedder.dimensions)))


@pytest.mark.parametrize("wrapped", [CachedEmbedder, mapped, TimedEmbedder])
def test_a_wrapper_has_what_its_embedder_has(wrapped):
    limited = wrapped(Limited())
    for name in ("max_concurrency", "scripts", "tomorrow", "model_id", "dimensions"):
        assert getattr(limited, name) == getattr(Limited(), name)
    assert not hasattr(wrapped(Recorder()), "tomorrow")
    assert can_embed(limited)
    assert not can_embed(wrapped(CallerVectors(3)))


@pytest.mark.parametrize("wrapped", [CachedEmbedder, mapped])
def test_texts_without_vectors_are_taken_by_a_wrapper_as_by_its_embedder(wrapped):
    with MemoryService(embedder=wrapped(CallerVectors(3))) as memory:
        memory.sync.add_memory(**ALICE, memories=["a zebra"])
        found = memory.sync.search_memory(**ALICE, query="zebra").memories
        assert [each.text for each in found] == ["a zebra"]
