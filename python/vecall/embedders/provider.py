"""Adapters between `Embedder` and the `EmbeddingProvider` of agent frameworks.

An `EmbeddingProvider` embeds one text per call, and optionally batches. `from_provider`
converts it to an `Embedder`, `as_provider` converts an `Embedder` to a provider.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from vecall.embedders.base import Embedder, Vectors, checked_vectors, is_async
from vecall.errors import ConfigError
from vecall.reprs import model_repr

_AT_ONCE = 8


class EmbeddingProvider(Protocol):
    """Turns one text into a vector.

    It may also have `embed_batch(texts)`, which returns one vector for each text. Both
    methods may be coroutine functions.
    """

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, text: str) -> Any | Awaitable[Any]:
        """Return the vector of a text, or an awaitable of it."""
        ...


class ProviderEmbedder:
    """An `EmbeddingProvider` behind the `Embedder` protocol; see `from_provider`."""

    __repr__ = model_repr

    def __init__(self, provider: EmbeddingProvider, model_id: str) -> None:
        """Wrap a provider.

        Raises:
            ConfigError: The provider lacks `embed` or `dimensions`, or `model_id` is
                empty.
        """
        batch: Any = getattr(provider, "embed_batch", None)
        one: Any = getattr(provider, "embed", None)
        dimensions = getattr(provider, "dimensions", None)
        if not callable(one) or type(dimensions) is not int or dimensions < 1:
            msg = "provider: expected `embed(text)` and a positive integer `dimensions`"
            raise ConfigError(msg)
        if not model_id:
            msg = "model_id: expected a name for the provider's model"
            raise ConfigError(msg)
        self.model_id = model_id
        self.dimensions = dimensions
        self._batch = batch if callable(batch) else None
        self._one = one
        if is_async(one if self._batch is None else self._batch):
            self.embed = self._embed_async  # type: ignore[method-assign]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the provider's vectors, or an awaitable of them."""
        if self._batch is not None:
            return self._batch(list(texts))
        vectors = [self._one(text) for text in texts]
        return _all(vectors) if any(map(inspect.isawaitable, vectors)) else vectors

    async def _embed_async(self, texts: Sequence[str]) -> Any:
        if self._batch is not None:
            return await self._batch(list(texts))
        free = asyncio.Semaphore(_AT_ONCE)

        async def embed(text: str) -> Any:
            async with free:
                return await self._one(text)

        return await asyncio.gather(*map(embed, texts))


class EmbedderProvider:
    """An `Embedder` as an asynchronous `EmbeddingProvider`; see `as_provider`."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder."""
        self._embedder = embedder
        self.dimensions = embedder.dimensions

    async def embed(self, text: str) -> list[float]:
        """Return the vector of a text.

        Raises:
            EmbedderError: The embedder's result is not one vector of its dimensions.
        """
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in order.

        Raises:
            EmbedderError: The embedder's result is not such vectors.
        """
        if not texts:
            return []
        embed = self._embedder.embed
        if is_async(embed):
            result = await embed(list(texts))
        else:
            result = await asyncio.to_thread(embed, list(texts))
            if inspect.isawaitable(result):
                result = await result
        vectors: Vectors = checked_vectors(result, len(texts), self.dimensions)
        rows: list[list[float]] = vectors.tolist()
        return rows


def from_provider(provider: EmbeddingProvider, *, model_id: str) -> ProviderEmbedder:
    """Return an `Embedder` that calls a provider.

    It calls `embed_batch` if the provider has it, else `embed` once per text. Up to
    eight calls of a coroutine function run at once.

    Args:
        provider: An object with `embed(text)`, `dimensions` and optionally
            `embed_batch(texts)`. The methods may be coroutine functions.
        model_id: The model's name in the file.

    Raises:
        ConfigError: The provider lacks `embed` or `dimensions`, or `model_id` is empty.
    """
    return ProviderEmbedder(provider, model_id)


def as_provider(embedder: Embedder) -> EmbedderProvider:
    """Return an asynchronous provider that calls an `Embedder`.

    Args:
        embedder: An embedder. A plain `embed` runs on another thread.
    """
    return EmbedderProvider(embedder)


async def _all(vectors: list[Any]) -> list[Any]:
    """Await the vectors that are awaitable, one after the other."""
    return [await v if inspect.isawaitable(v) else v for v in vectors]
