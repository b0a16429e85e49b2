"""Memory services in use: who asks, what is found, who waits, what is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from vecall import MemoryService, VecallError

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}
SECRET = "xyzzysecret"
WAIT_S = 15.0


def texts(service: MemoryService, query: str = "zebra", **scope: str) -> list[str]:
    found = service.sync.search_memory(**(scope or ALICE), query=query, top_k=1000)
    return sorted(memory.text for memory in found.memories)


class Held:
    """An embedder that waits until it is let go."""

    model_id = "held"
    dimensions = 3

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.entered.set()
        assert self.go_on.wait(WAIT_S), "nobody could let the embedder go"
        return [[1.0, 2.0, 3.0] for _ in texts]


async def until(condition: Callable[[], bool]) -> int:
    """Let the loop turn until something is true; return how often it turned."""
    turns = 0
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0)
        turns += 1
    return turns


def unharmed_service(
    open_service: Callable[..., MemoryService], in_time: Callable[..., Any]
) -> Iterator[MemoryService]:
    """For pytest.fixture: a service with one memory, unharmed in the end."""
    opened = open_service()
    opened.sync.add_memory(**ALICE, memories=["zebra"])
    opened.sync.search_memory(**ALICE, query="zebra")
    yield opened
    found = opened.sync.search_memory(**ALICE, query="zebra " + SECRET).memories
    assert [memory.text for memory in found] == ["zebra"], "it was written after all"
    in_time(lambda: opened.sync.add_memory(**ALICE, memories=["okapi"]))


def refuses(
    kind: type[Exception] | tuple[type[Exception], ...], work: Callable[[], Any]
) -> None:
    with pytest.raises(kind) as caught:
        work()
    assert isinstance(caught.value, VecallError)
    assert SECRET not in str(caught.value)
