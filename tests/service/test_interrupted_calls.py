"""A blocking call may be interrupted anywhere, as by Ctrl-C: all others go on."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from types import FrameType
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from vecall import MemoryService, StorageOptions, VectorStoreMemoryService
from vecall.concurrency.executor import InterruptibleFuture, Pool
from vecall.embedders.cached import CachedEmbedder
from vecall.index.partition_cache import PartitionCache
from vecall.vector_store import InMemoryVectorStore


class InterruptedCallError(BaseException):
    """What the handler of a signal raises."""


def interrupted_at(step: int, work: Callable[[], object]) -> bool:
    """Call something and raise in its step of that number; return whether it had one.

    A step is where Python looks for signals: at the beginning of a function and at the
    end of a call of C code.
    """
    seen = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal seen
        if event in ("call", "c_return") and arg is not sys.setprofile:
            seen += 1
            if seen == step:
                sys.setprofile(None)
                raise InterruptedCallError

    sys.setprofile(profile)
    try:
        work()
    except InterruptedCallError:
        return True
    except RuntimeError as error:
        if not isinstance(error.__context__, InterruptedCallError):
            raise
        return True
    finally:
        sys.setprofile(None)
    return False


def every_step(work: Callable[[int], bool]) -> int:
    """Interrupt at one step after the other until the work is done before; count."""
    step = 1
    while work(step):
        step += 1
        assert step < 5_000
    return step


def test_an_interrupted_wait_leaves_its_promise_to_others(in_time):
    def at(step: int) -> bool:
        promise: InterruptibleFuture[int] = InterruptibleFuture()
        interrupted = threading.Event()

        def settle() -> None:
            """Not before somebody waits, so that there are the steps of a wait."""
            while not (promise._condition._waiters or interrupted.wait(0.001)):
                pass
            promise.set_result(7)

        thread = threading.Thread(target=settle, daemon=True)
        thread.start()
        found = interrupted_at(step, promise.result)
        interrupted.set()
        assert in_time(promise.result, timeout_s=5) == 7
        thread.join()
        return found

    assert every_step(at) > 10


def test_work_that_is_handed_over_while_interrupted_leaves_the_pool_to_others(in_time):
    def at(step: int) -> bool:
        pool = Pool(1, thread_name_prefix="test")
        pool.submit(int).result()  # so that there is a thread
        found = interrupted_at(step, lambda: pool.submit(int))
        assert in_time(lambda: pool.submit(lambda: 7).result(), timeout_s=5) == 7
        pool.shutdown()
        return found

    assert every_step(at) > 10


def test_a_pool_runs_calls_as_a_thread_pool_does(in_time):
    """Results, errors, calls that are cancelled before they run, and its end."""
    pool = Pool(1, thread_name_prefix="test")
    gate = threading.Event()
    first = pool.submit(gate.wait, timeout=10)
    cancelled = pool.submit(int)
    failed = pool.submit(int, "no number")
    last = pool.submit(int, "ff", base=16)
    assert cancelled.cancel()
    gate.set()
    assert in_time(first.result) is True
    with pytest.raises(ValueError, match="no number"):
        failed.result(timeout=5)
    assert last.result(timeout=5) == 255
    assert not first.cancel()
    with pytest.raises(CancelledError):
        cancelled.result(timeout=5)
    several = Pool(3, thread_name_prefix="test")
    meeting = threading.Barrier(3)
    met = [several.submit(meeting.wait, timeout=10) for _ in range(3)]
    assert {each.result(timeout=10) for each in met} == {0, 1, 2}
    waiting = pool.submit(time.sleep, 0.01)
    dropped = [pool.submit(int) for _ in range(3)]
    pool.shutdown(wait=True, cancel_futures=True)
    assert waiting.done()
    assert all(each.done() for each in dropped)
    several.shutdown()
    for closed in (pool, several):
        with pytest.raises(RuntimeError):
            closed.submit(int)


def test_a_promise_has_the_attributes_of_a_future():
    """It does not call `Future.__init__`, so a newer Python might add one."""
    promise: InterruptibleFuture[int] = InterruptibleFuture()
    plain: Future[int] = Future()
    mine, its = vars(promise), vars(plain)
    assert mine.keys() == its.keys()
    same = [name for name in its if name != "_condition"]
    assert [mine[name] for name in same] == [its[name] for name in same]


def test_a_promise_is_a_future():
    promise: InterruptibleFuture[int] = InterruptibleFuture()
    assert promise.cancel()
    with pytest.raises(CancelledError):
        promise.result()
    promise = InterruptibleFuture()
    with pytest.raises(TimeoutError):
        promise.result(timeout=0.01)
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
    promise.add_done_callback(lambda done: seen.put(done.result()))
    promise.set_result(1)
    assert (seen.get(), promise.result(), promise.exception()) == (1, 1, None)


STEPS = range(1, 4_000)


# A call that is interrupted before it began leaves a coroutine that was not run.
@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_search_that_is_interrupted_leaves_its_user_and_others_searchable(
    open_service, tmp_path, in_time
):
    service: MemoryService = open_service(tmp_path / "m.db", durability="process")
    loader = service._memory.search_index.partitions
    for who in (ALICE, BOB):
        service.sync.add_memory(**who, memories=["zebra"])
    service.sync.search_memory(**ALICE, query="zebra")  # so that threads have started

    def search(who: dict[str, str]) -> int:
        return len(service.sync.search_memory(**who, query="zebra").memories)

    interrupted = 0
    for step in STEPS:
        loader._drop_partition(tuple(ALICE.values()))
        if not interrupted_at(step, lambda: search(ALICE)):
            break
        interrupted += 1
        assert in_time(search, ALICE, timeout_s=10) == 1, step
        assert in_time(search, BOB, timeout_s=10) == 1, step
        end = time.monotonic() + 5
        while loader._work.running_keys() and time.monotonic() < end:
            time.sleep(0.001)
        assert not loader._work.running_keys()
        assert not loader._residents.pinned_partitions()
        assert service._memory.search_index._uses == 0
    assert interrupted > 5


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_call_that_embeds_leaves_the_text_to_others(
    open_service, in_time
):
    service: MemoryService = open_service(embedder=Recorder())
    add = partial(service.sync.add_memory, **ALICE)
    add(memories=["so that threads have started"])

    def interrupted(step: int) -> bool:
        memory = {"content": f"zebra {step}", "id": "m"}
        found = interrupted_at(step, lambda: add(memories=[memory]))
        other = {"content": f"zebra {step}", "id": "n"}
        assert in_time(lambda: add(memories=[other]), timeout_s=10)
        return found

    assert every_step(interrupted) > 50


def test_an_interrupted_cached_embedder_leaves_the_text_to_others(in_time):
    def interrupted(step: int) -> bool:
        embedder = CachedEmbedder(Recorder())
        found = interrupted_at(step, lambda: embedder.embed(["zebra"]))
        assert len(in_time(lambda: embedder.embed(["zebra"]), timeout_s=5)) == 1
        assert embedder._cache()._in_flight == {}
        return found

    assert every_step(interrupted) > 20


def test_a_proposal_to_forget_follows_the_file_to_another_model(
    open_service, tmp_path, monkeypatch
):
    service = open_service(tmp_path / "m.db", embedder=Recorder())
    service.sync.add_memory(**ALICE, memories=["I keep a zebra."])
    old = service._memory.search_index.partitions
    old._drop_partition(tuple(ALICE.values()))
    synchronize = PartitionCache.synchronize_partition

    def moved_first(loader: PartitionCache, key: Any) -> Any:
        if loader is old and not loader.retired:
            service.sync.admin.reembed(Recorder(5, "another"))
            while not loader.retired:
                time.sleep(0.001)
        return synchronize(loader, key)

    monkeypatch.setattr(PartitionCache, "synchronize_partition", moved_first)
    proposal = service.sync.propose_forget(**ALICE, query="zebra")
    assert [memory.text for memory in proposal.memories] == ["I keep a zebra."]


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_session_whose_end_is_interrupted_can_be_ended_again(in_time):
    """The store's service: who comes next waits for no run that nobody began."""

    def interrupted(step: int) -> bool:
        with VectorStoreMemoryService(
            InMemoryVectorStore(),
            Recorder(),
            storage=StorageOptions(maintenance_interval=None),
        ) as service:
            session = {**ALICE, "id": "s", "events": [{"id": "e", "text": "zebra"}]}
            service.sync.end_session({**session, "id": "t"})  # threads have started
            end = partial(service.sync.end_session, session)
            found = interrupted_at(step, end)
            in_time(end, timeout_s=5)
            assert service._memory._runs == {}
            ask = partial(service.sync.search_memory, **ALICE, query="zebra")
            memories = in_time(ask, timeout_s=5).memories
            assert sorted(memory.session_id for memory in memories) == ["s", "t"]
            return found

    assert every_step(interrupted) > 50
