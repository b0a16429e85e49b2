"""The two shapes of an embedder, each made of the other; and embedders by name."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import vecall.embedders
from helpers.embedders import Recorder, found
from helpers.memories import ALICE
from vecall import ConfigError, Embedder, EmbedderError
from vecall.embedders import (
    CachedEmbedder,
    OpenAIEmbedder,
    as_provider,
    from_provider,
    resolve,
)


class One:
    """A provider that knows one text at a time."""

    dimensions = 7

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def embed(self, text: str) -> Any:
        self.calls.append(text)
        return Recorder().vector(text).tolist()


class Batched(One):
    def embed_batch(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        return [Recorder().vector(text) for text in texts]


class AsyncOne(One):
    async def embed(self, text: str) -> Any:
        await asyncio.sleep(0)
        return One.embed(self, text)


class AsyncBatched(AsyncOne):
    async def embed_batch(self, texts: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        return Batched.embed_batch(self, texts)  # type: ignore[arg-type]


class Promising(One):
    """Plain functions that return awaitables are asynchronous, too."""

    def embed(self, text: str) -> Any:
        return AsyncOne.embed(self, text)  # type: ignore[arg-type]


PROVIDERS = [One, Batched, AsyncOne, AsyncBatched, Promising]


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_provider_serves_as_an_embedder(open_service, kind):
    """S4.24: sync or async, with batches or without."""
    provider = kind()
    embedder = from_provider(provider, model_id="theirs")
    assert isinstance(embedder, Embedder)
    service = open_service(embedder=embedder)
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert found(service, "okapi", top_k=1) == ["okapi"]
    assert service.sync.admin.stats()["model"] == "theirs"
    if hasattr(kind, "embed_batch"):
        assert provider.calls[0] == ["zebra", "okapi"]
    else:
        assert provider.calls[:2] == ["zebra", "okapi"]


@pytest.mark.parametrize("kind", [AsyncOne, AsyncBatched])
def test_a_cache_knows_an_asynchronous_provider(kind):
    cached = CachedEmbedder(from_provider(kind(), model_id="theirs"))
    assert asyncio.run(cached.embed(["a"])).shape == (1, 7)


def test_an_asynchronous_provider_is_asked_for_a_few_texts_at_once():
    class Counting(One):
        here = peak = 0

        async def embed(self, text: str) -> Any:
            self.here += 1
            self.peak = max(self.peak, self.here)
            await asyncio.sleep(0.001)
            self.here -= 1
            return Recorder().vector(text)

    provider = Counting()
    texts = [f"text {i}" for i in range(50)]
    embedder = from_provider(provider, model_id="theirs")
    got = np.asarray(asyncio.run(embedder.embed(texts)))
    assert np.array_equal(got, Recorder().embed(texts))
    assert provider.peak == 8


@pytest.mark.parametrize("dimensions", [None, 0, -1, 7.0, True, "7"])
def test_a_provider_must_say_its_dimensions(dimensions):
    provider = One()
    provider.dimensions = dimensions
    with pytest.raises(ConfigError, match="dimensions"):
        from_provider(provider, model_id="theirs")
    with pytest.raises(ConfigError, match="model_id"):
        from_provider(One(), model_id="")
    with pytest.raises(ConfigError, match="embed"):
        from_provider(object(), model_id="theirs")  # type: ignore[arg-type]


def test_a_provider_given_as_an_embedder_is_told_how_to_become_one():
    with pytest.raises(ConfigError, match="from_provider"):
        resolve(One())  # type: ignore[arg-type]


class AsyncRecorder(Recorder):
    async def embed(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return Recorder.embed(self, texts)


class PromisingRecorder(Recorder):
    def embed(self, texts: Sequence[str]) -> Any:
        return AsyncRecorder.embed(self, texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder, PromisingRecorder])
def test_an_embedder_serves_as_a_provider(kind):
    """S4.24: one text, several, none; on one event loop after another."""
    provider = as_provider(kind())
    wanted = Recorder().embed(["a", "b"]).astype(np.float32)
    assert provider.dimensions == 7
    for _ in range(2):
        assert asyncio.run(provider.embed("a")) == wanted[0].tolist()
        assert asyncio.run(provider.embed_batch(["a", "b"])) == wanted.tolist()
    assert asyncio.run(provider.embed_batch([])) == []


def test_there_and_back_again_is_the_same():
    embedder = from_provider(as_provider(Recorder()), model_id="recorder")
    got = np.asarray(asyncio.run(embedder.embed(["a", "b"])), np.float32)
    assert np.array_equal(got, Recorder().embed(["a", "b"]).astype(np.float32))


@pytest.mark.parametrize("result", [[], [[1.0]], [[float("nan")] * 7], None])
def test_a_provider_never_hands_on_what_is_no_vector(result):
    """S0.22."""
    recorder = Recorder()
    recorder.embed = lambda texts: result  # type: ignore[method-assign]
    with pytest.raises(EmbedderError):
        asyncio.run(as_provider(recorder).embed("a"))


@pytest.mark.parametrize(
    "name", ["", "other", "local:", "local:x", "openai:", "OpenAI", ":m", "open ai"]
)
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    """S0.25."""
    with pytest.raises(ConfigError, match="'local', 'openai', 'gemini', 'fastembed'"):
        resolve(name)


def stand_in(made: list[Any]) -> Callable[..., Recorder]:
    """A class that writes down how it is called."""

    def make(*arguments: Any) -> Recorder:
        made.append(arguments)
        return Recorder()

    return make


def test_a_name_may_carry_a_model(monkeypatch):
    """S0.25: everything after the first colon, slashes and colons too."""
    made: list[Any] = []
    for module, name, kind in [
        ("hosted", "openai", "OpenAIEmbedder"),
        ("hosted", "gemini", "GeminiEmbedder"),
        ("local", "fastembed", "FastEmbedEmbedder"),
        ("local", "sentence-transformers", "SentenceTransformerEmbedder"),
    ]:
        path = f"vecall.embedders.{module}.{kind}"
        monkeypatch.setattr(path, stand_in(made))
        resolve(name)
        resolve(f"{name}:some/model:v2")
    assert made == [(), ("some/model:v2",)] * 4


def test_a_missing_key_is_named_by_the_name(monkeypatch):
    """S0.25: before anything is imported or sent."""
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        resolve("openai")
    with pytest.raises(ConfigError, match="GEMINI_API_KEY"):
        resolve("gemini")


def test_every_public_name_is_there_and_imported_late():
    """`import vecall` stays light: no SDK, no class of an embedder that is not used."""
    assert vecall.embedders.__all__ == sorted(vecall.embedders.__all__)
    for name in vecall.embedders.__all__:
        assert getattr(vecall.embedders, name) is not None
        assert name in dir(vecall.embedders)
    assert OpenAIEmbedder.__module__ == "vecall.embedders.hosted"
    with pytest.raises(AttributeError, match="nothing"):
        _ = vecall.embedders.nothing
    script = "import json, sys, vecall; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    loaded = set(json.loads(done.stdout))
    late = {"cached", "hosted", "local", "provider"}
    assert not loaded & {f"vecall.embedders.{name}" for name in late}
    assert not loaded & {"openai", "google.genai", "fastembed", "httpx", "httpx2"}
