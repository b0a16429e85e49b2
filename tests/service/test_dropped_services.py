"""Services that are dropped without `close`, or whose `close` is interrupted."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vecall import BusyError, ClosedError, MemoryService, WritePolicy
from vecall.hooks import ALLOW
from vecall.other_storage.in_memory import InMemoryMemoryService
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.vector_store import InMemoryVectorStore

ME = {"app_name": "a", "user_id": "u"}


class Async:
    """An embedder whose coroutines run on a loop of the service's."""

    model_id = "m"
    dimensions = 2

    async def embed(self, texts: list[str]) -> Any:
        return np.ones((len(texts), 2), np.float32)


class Plain:
    model_id = "m"
    dimensions = 2

    def embed(self, texts: list[str]) -> Any:
        return np.ones((len(texts), 2), np.float32)


def in_file(folder: Path, embedder: Any = None) -> MemoryService:
    memory = MemoryService(folder / "m.db", embedder=embedder)
    memory.sync.add_memory(**ME, memories=["a dog"])
    assert memory.sync.search_memory(**ME, query="dog").memories
    return memory


def hooked(folder: Path) -> MemoryService:
    """A service whose hook refers to it."""
    holder: list[MemoryService] = []
    memory = MemoryService(
        folder / "m.db",
        embedder=None,
        writes=WritePolicy(on_write=lambda _: holder and ALLOW),
    )
    holder.append(memory)
    memory.sync.add_memory(**ME, memories=["a dog"])
    return memory


def stored(_: Path) -> VectorStoreMemoryService:
    memory = VectorStoreMemoryService(InMemoryVectorStore(2), Async())
    asyncio.run(memory.add_memory(**ME, memories=["a dog"]))
    return memory


MADE: dict[str, Callable[[Path], Any]] = {
    "file": in_file,
    "file, plain embedder": lambda folder: in_file(folder, Plain()),
    "file, async embedder": lambda folder: in_file(folder, Async()),
    "memory": lambda _: MemoryService(embedder=None),
    "matching": lambda _: InMemoryMemoryService(),
    "hook": hooked,
    "store": stored,
}


EARLIER: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _threads_of_other_tests():
    """What a failing test keeps open is none of a test here."""
    EARLIER.clear()
    EARLIER.update(threading.enumerate())


def own_threads() -> set[str]:
    """Names of vecall's threads that began in this test."""
    began = set(threading.enumerate()) - EARLIER
    return {each.name for each in began if "vecall" in each.name}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return condition()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors")
@pytest.mark.parametrize("kind", MADE)
def test_a_dropped_service_is_freed_with_a_warning(kind: str, tmp_path: Path) -> None:
    gc.collect()
    assert until(lambda: not own_threads())
    before = descriptors()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gone = weakref.ref(MADE[kind](tmp_path))
        assert until(lambda: gone() is None and not own_threads()), own_threads()
    assert until(lambda: descriptors() <= before)
    ours = [each for each in told if "unclosed memory service" in str(each.message)]
    assert [each.category for each in ours] == [ResourceWarning]


@pytest.mark.parametrize("kind", MADE)
def test_a_closed_service_is_freed_without_a_word(kind: str, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        service = MADE[kind](tmp_path)
        gone = weakref.ref(service)
        service.close()
        del service
        assert until(lambda: gone() is None)
    assert not [each for each in told if "unclosed" in str(each.message)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, BusyError])
@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("storage", "close"),
        ("storage", "end_writes"),
        ("threads", "close"),
        ("reader", "shutdown"),
    ],
)
def test_close_that_was_interrupted_is_finished_by_the_next(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    step: str,
    name: str,
) -> None:
    memory = in_file(tmp_path)
    part = getattr(memory._memory, step)
    real, calls = getattr(part, name), []

    def interrupted(*args: Any, **kwargs: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise error
        real(*args, **kwargs)

    monkeypatch.setattr(part, name, interrupted)
    with pytest.raises(error):
        memory.close()
    with pytest.raises(ClosedError):
        memory.sync.search_memory(**ME, query="dog")
    memory.close()
    memory.close()
    assert len(calls) == 2
    assert until(lambda: not own_threads())


def test_two_threads_that_close_both_return_once_it_is_closed(
    tmp_path: Path, in_time: Callable[..., Any]
) -> None:
    memory = in_file(tmp_path)
    other = threading.Thread(target=memory.close)
    other.start()
    in_time(memory.close)
    assert not own_threads() - {other.name}
    other.join()


class Broken(BaseException):
    """An error that nobody expects."""


@pytest.mark.parametrize(
    "place", ["_write_group", "_acknowledge_job", "_fail_group", "_commit_group"]
)
def test_the_writer_survives_an_error_in_its_own_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_time: Callable[..., Any],
    place: str,
) -> None:
    with in_file(tmp_path) as memory:
        writer = memory._memory.storage._writer
        with monkeypatch.context() as patched:

            def broken(*_: Any) -> None:
                raise Broken

            patched.setattr(writer, place, broken)
            if place == "_fail_group":
                patched.setattr(writer, "_commit_group", broken)
            with pytest.raises((OSError, Broken)):
                in_time(lambda: memory.sync.add_memory(**ME, memories=["a cat"]))
        in_time(lambda: memory.sync.add_memory(**ME, memories=["a bird"]))
        assert memory.sync.search_memory(**ME, query="bird").memories
