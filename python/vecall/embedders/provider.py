"""The other shape of an embedder: one text at a time, batches if it can.

Agent frameworks know an `EmbeddingProvider`; `from_provider` makes an `Embedder` of one
and `as_provider` the reverse.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from vecall.embedders.base import Embedder, Vectors, checked_vectors, is_async
from vecall.errors import ConfigError

_AT_ONCE = 8


class EmbeddingProvider(Protocol):
    """Turns one text into a vector; both methods may be coroutine functions.

    It may also have `embed_batch(texts)`, which returns one vector for each text.
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

    def __init__(self, provider: EmbeddingProvider, model_id: str) -> None:
        """Look at what the provider has.

        Raises:
            ConfigError: It lacks `embed` or `dimensions`, or `model_id` is empty.
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
        """Take over the embedder's dimensions."""
        self._embedder = embedder
        self.dimensions = embedder.dimensions

    async def embed(self, text: str) -> list[float]:
        """Return the vector of a text.

        Raises:
            EmbedderError: The embedder returned no such vector.
        """
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in order.

        Raises:
            EmbedderError: The embedder returned something else.
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

    `embed_batch` is preferred; without it texts are embedded one by one, a coroutine
    function's up to eight at once.

    Args:
        provider: Has `embed(text)`, `dimensions`, perhaps `embed_batch(texts)`; the
            methods may be plain ones or coroutine functions.
        model_id: Names the provider's model in the file.

    Raises:
        ConfigError: It lacks `embed` or `dimensions`, or `model_id` is empty.
    """
    return ProviderEmbedder(provider, model_id)


def as_provider(embedder: Embedder) -> EmbedderProvider:
    """Return a provider that calls an `Embedder`, a plain one on another thread.

    Args:
        embedder: Any embedder, asynchronous or not.
    """
    return EmbedderProvider(embedder)


async def _all(vectors: list[Any]) -> list[Any]:
    """Await those that are to be awaited."""
    return [await v if inspect.isawaitable(v) else v for v in vectors]
