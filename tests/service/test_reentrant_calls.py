"""Functions that a service calls, and that call the same service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vecall import (
    EmbedderError,
    MemoryService,
    Ranking,
    RerankerError,
    RewriterError,
    SummaryError,
    WriteHookError,
    WriteRejectedError,
)
from vecall.embedders import FunctionEmbedder
from vecall.errors import ReentrantCallError
from vecall.hooks import ALLOW, REJECT, PendingWrite, Verdict

ME = {"app_name": "a", "user_id": "u"}
AUDIT = {"app_name": "audit", "user_id": "log"}
SECRET = "walrus"

Open = Callable[..., MemoryService]
InTime = Callable[..., Any]


def ones(texts: list[str]) -> Any:
    return np.ones((len(texts), 4), np.float32)


class Calls:
    """What a callback does to the service that it was given to."""

    def __init__(self) -> None:
        self.service: MemoryService | None = None
        self.errors: list[str] = []

    def add(self) -> None:
        if self.service is not None:
            self.service.sync.add_memory(**AUDIT, memories=["a note"])

    async def add_async(self) -> None:
        if self.service is not None:
            await self.service.add_memory(**AUDIT, memories=["a note"])

    def search(self) -> Any:
        if self.service is None:
            return None
        return self.service.sync.search_memory(**ME, query="another question")

    def close(self) -> None:
        if self.service is not None:
            self.service.close()


@pytest.fixture
def calls() -> Calls:
    return Calls()


def add(memory: MemoryService, *texts: str) -> Any:
    return memory.sync.add_memory(**ME, memories=list(texts or [f"a {SECRET}"]))


def is_whole(memory: MemoryService, in_time: InTime) -> None:
    """Nothing of the refused call was written, and the service goes on."""
    assert memory.sync.admin.stats()["memories"] == 0
    in_time(memory.close)


@pytest.mark.parametrize("what", ["add", "close"])
def test_a_hook_that_asks_itself_is_refused(
    open_service: Open, in_time: InTime, calls: Calls, what: str
) -> None:
    def hook(_: PendingWrite) -> Verdict:
        getattr(calls, what)()
        return ALLOW

    memory = calls.service = open_service(embedder=None, on_write=hook)
    with pytest.raises(WriteHookError, match="on_write") as told:
        in_time(lambda: add(memory))
    assert SECRET not in str(told.value)
    is_whole(memory, in_time)


def test_a_coroutine_hook_that_asks_itself_is_refused(
    open_service: Open, in_time: InTime, calls: Calls
) -> None:
    async def hook(_: PendingWrite) -> Verdict:
        await calls.add_async()
        return ALLOW

    memory = calls.service = open_service(embedder=None, on_write=hook)
    with pytest.raises(WriteHookError, match="its own memory service"):
        in_time(lambda: add(memory))
    is_whole(memory, in_time)


def test_a_hook_may_search_its_service_and_write_to_another(
    open_service: Open, in_time: InTime
) -> None:
    audit = open_service(embedder=None)
    holder: list[MemoryService] = []

    def hook(write: PendingWrite) -> Verdict:
        audit.sync.add_memory(**AUDIT, memories=["a note"])
        (memory,) = holder
        found = memory.sync.search_memory(**ME, query=write.memory.text)
        return REJECT if found.memories else ALLOW

    memory = open_service(embedder=FunctionEmbedder(ones), on_write=hook)
    holder.append(memory)
    in_time(lambda: add(memory, "the dog barks"))
    with pytest.raises(WriteRejectedError):
        in_time(lambda: add(memory, "the dog barks"))
    assert audit.sync.search_memory(**AUDIT, query="note").memories


@pytest.mark.parametrize("what", ["add", "search", "close"])
@pytest.mark.parametrize("call", ["add", "search"])
def test_an_embedder_that_asks_itself_is_refused(
    open_service: Open, in_time: InTime, calls: Calls, what: str, call: str
) -> None:
    def embed(texts: list[str]) -> Any:
        getattr(calls, what)()
        return ones(texts)

    memory = open_service(embedder=FunctionEmbedder(embed))
    calls.service = memory
    if call == "add":
        work: Callable[[], Any] = lambda: add(memory)  # noqa: E731
    else:
        work = lambda: memory.sync.search_memory(**ME, query=SECRET)  # noqa: E731
    with pytest.raises((EmbedderError, ReentrantCallError), match=r"own|same") as told:
        in_time(work)
    assert SECRET not in str(told.value)
    calls.service = None
    is_whole(memory, in_time)


def test_an_embedder_that_embeds_the_same_text_again_is_refused(
    open_service: Open, in_time: InTime, calls: Calls
) -> None:
    def embed(texts: list[str]) -> Any:
        if calls.service is not None:
            calls.service.sync.add_memory(**ME, memories=[f"a {SECRET}"])
        return ones(texts)

    memory = open_service(embedder=FunctionEmbedder(embed))
    calls.service = memory
    with pytest.raises(EmbedderError, match="its own memory service"):
        in_time(lambda: add(memory))


def test_a_circle_over_the_hook_and_the_embedder_is_refused(
    open_service: Open, in_time: InTime, calls: Calls
) -> None:
    def embed(texts: list[str]) -> Any:
        calls.add()  # which asks the hook, which waits for this search
        return ones(texts)

    def hook(_: PendingWrite) -> Verdict:
        calls.search()
        return ALLOW

    memory = open_service(embedder=FunctionEmbedder(embed), on_write=hook)
    calls.service = memory
    with pytest.raises((WriteHookError, EmbedderError)):
        in_time(lambda: add(memory))
    calls.service = None
    is_whole(memory, in_time)


def test_a_circle_over_two_services_is_refused(
    open_service: Open, in_time: InTime
) -> None:
    services: list[MemoryService] = []

    def into(number: int) -> Callable[[PendingWrite], Verdict]:
        def hook(_: PendingWrite) -> Verdict:
            add(services[number])
            return ALLOW

        return hook

    services.append(open_service(embedder=None, on_write=into(1)))
    services.append(open_service(embedder=None, on_write=into(0)))
    with pytest.raises(WriteHookError):
        in_time(lambda: add(services[0]))
    for memory in services:
        is_whole(memory, in_time)


def test_a_reranker_that_asks_itself_is_refused(
    open_service: Open, in_time: InTime, calls: Calls
) -> None:
    def rerank(_: str, texts: list[str]) -> list[float]:
        calls.search()
        return [1.0] * len(texts)

    memory = open_service(embedder=None, ranking=Ranking(reranker=rerank))
    add(memory, "another question")
    calls.service = memory
    with pytest.raises(RerankerError, match="its own memory service"):
        in_time(lambda: memory.sync.search_memory(**ME, query="question"))
    calls.service = None
    in_time(memory.close)


def test_a_rewriter_that_asks_itself_is_refused(
    open_service: Open, in_time: InTime, calls: Calls
) -> None:
    def rewrite(query: str) -> str:
        calls.search()
        return query

    memory = open_service(embedder=None, ranking=Ranking(rewriter=rewrite))
    add(memory, "another question")
    calls.service = memory
    with pytest.raises(RewriterError, match="its own memory service"):
        in_time(lambda: memory.sync.search_memory(**ME, query="question"))
    calls.service = None
    in_time(memory.close)


def test_a_summarizer_that_asks_itself_is_refused(
    tmp_path: Path, open_service: Open, in_time: InTime
) -> None:
    class Summarizer:
        def get_summaries(self, session: Any) -> Any:
            return memory.sync.add_session_to_memory(session)

    memory = open_service(tmp_path / "m.db", embedder=None, summarizer=Summarizer())
    session = {**ME, "id": "s", "events": [{"content": SECRET}]}
    with pytest.raises(SummaryError, match="its own memory service"):
        in_time(lambda: memory.sync.add_session_to_memory(session))
    in_time(memory.close)


def test_tasks_and_threads_of_a_hook_are_known_as_its_own(
    open_service: Open, in_time: InTime, calls: Calls
) -> None:
    async def hook(_: PendingWrite) -> Verdict:
        await asyncio.to_thread(calls.add)
        return ALLOW

    memory = calls.service = open_service(embedder=None, on_write=hook)
    with pytest.raises(WriteHookError, match="its own memory service"):
        in_time(lambda: add(memory))
    is_whole(memory, in_time)
