"""A plugin that raises CancelledError by itself fails; nobody was cancelled."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from helpers.memories import ALICE
from vecall import (
    EmbedderError,
    FunctionEmbedder,
    MemoryService,
    Ranking,
    RerankerError,
    RewriterError,
    SummaryError,
    WriteHookError,
    WritePolicy,
)


async def gives_up(*_: object) -> object:
    """Times out inside, as the scope of some clients does."""
    raise asyncio.CancelledError


def awaited_later(*given: object) -> object:
    """A plain function that returns an awaitable."""
    return gives_up(*given)


BAD = [gives_up, awaited_later]


class Gone:
    model_id, dimensions = "m", 4

    def __init__(self, bad: object) -> None:
        self._bad = bad
        self.broken = False
        if bad is gives_up:
            self.embed = self._embed  # type: ignore[method-assign]

    async def _embed(self, texts: list[str]) -> object:
        return await self._bad() if self.broken else np.ones((len(texts), 4))

    def embed(self, texts: list[str]) -> object:
        return self._bad() if self.broken else np.ones((len(texts), 4))


async def _of_embedder(bad):
    embedder = Gone(bad)
    async with MemoryService(embedder=embedder) as service:
        alice = service.user(*ALICE.values())
        await alice.add("Berlin is home")
        embedder.broken = True
        for work in (alice.add("another"), alice.search("where is home")):
            with pytest.raises(EmbedderError, match="Cancelled"):
                await work
        proposal = await alice.propose_forget("Berlin home")
        assert [each.text for each in proposal.memories] == ["Berlin is home"]
        assert await alice.count() == 1


@pytest.mark.parametrize("bad", BAD)
def test_an_embedder_fails_and_forgetting_searches_by_words(bad):
    asyncio.run(_of_embedder(bad))


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("option", "error"), [("reranker", RerankerError), ("rewriter", RewriterError)]
)
def test_a_function_of_the_ranking_fails(bad, option, error):
    async def searched() -> None:
        async with MemoryService(embedder=None) as service:
            alice = service.user(*ALICE.values())
            await alice.add("Berlin is home")
            with pytest.raises(error, match="Cancelled"):
                await alice.search("Berlin", ranking=Ranking(**{option: bad}))

    asyncio.run(searched())


@pytest.mark.parametrize("bad", BAD)
def test_a_write_hook_fails(bad):
    async def added() -> None:
        policy = WritePolicy(on_write=bad)
        async with MemoryService(embedder=None, writes=policy) as service:
            with pytest.raises(WriteHookError):
                await service.user(*ALICE.values()).add("Berlin is home")

    asyncio.run(added())


@pytest.mark.parametrize("bad", BAD)
def test_a_summarizer_fails(bad):
    class Provider:
        get_summaries = staticmethod(bad)

    async def ended() -> None:
        async with MemoryService(embedder=None, summarizer=Provider()) as service:
            session = {**ALICE, "id": "s", "events": [{"id": "1", "text": "hello"}]}
            with pytest.raises(SummaryError):
                await service.add_session_to_memory(session)

    asyncio.run(ended())


def test_a_caller_that_is_cancelled_is_cancelled():
    async def slow(texts: list[str]) -> object:
        await asyncio.sleep(5)
        return np.ones((len(texts), 4))

    async def cancelled() -> None:
        embedder = FunctionEmbedder(slow, model_id="m", dimensions=4)
        async with MemoryService(embedder=embedder) as service:
            task = asyncio.create_task(service.user(*ALICE.values()).search("home"))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
