"""What may be an embedder: an object, a function, a coroutine function."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.embedders import Recorder, embedded, found
from helpers.memories import ALICE
from vecall import ConfigError, Embedder, EmbedderError, FunctionEmbedder
from vecall.embedders import resolve


def test_anything_with_the_one_method_is_an_embedder(open_service):
    """S0.22, S0.25: a protocol, no base class."""
    recorder = Recorder()
    assert isinstance(recorder, Embedder)
    assert resolve(recorder) is recorder
    service = open_service(embedder=recorder)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert embedded(service) == 1
    assert service.sync.admin.stats()["model"] == "recorder"


def test_any_function_is_an_embedder(open_service):
    """S0.25: a plain function is asked once for its dimensions."""
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, 2.0, 3.0] for _ in texts]

    service = open_service(embedder=embed)
    assert len(asked) == 1
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert asked[1:] == [["zebra"]]
    assert FunctionEmbedder(embed).dimensions == 3
    assert "embed" in FunctionEmbedder(embed).model_id


@pytest.mark.parametrize("as_object", [False, True])
def test_an_embedder_may_be_asynchronous(open_service, as_object):
    """S0.22: sync or async; it needs no loop of the caller's."""

    class Asynchronous(Recorder):
        async def embed(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
            await asyncio.sleep(0)
            return Recorder.embed(self, texts)

    async def embed(texts: list[str]) -> Any:
        await asyncio.sleep(0)
        return Recorder(7).embed(texts)

    embedder = Asynchronous() if as_object else FunctionEmbedder(embed, dimensions=7)
    service = open_service(embedder=embedder)
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])

    async def search() -> list[str]:
        answer = await service.search_memory(**ALICE, query="zebra", top_k=1)
        return [memory.text for memory in answer.memories]

    assert asyncio.run(search()) == ["zebra"]
    assert found(service, "okapi", top_k=1) == ["okapi"]


def test_a_coroutine_function_must_say_its_dimensions():
    async def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    with pytest.raises(ConfigError, match="dimensions"):
        FunctionEmbedder(embed)


@pytest.mark.parametrize("result", [[], [1.0, 2.0], [[]], [[[1.0]]], "text", None, 5])
def test_a_function_without_vectors_is_refused(result):
    with pytest.raises(EmbedderError):
        FunctionEmbedder(lambda texts: result)
