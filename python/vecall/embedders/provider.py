"""Adapters between `Embedder` and the `EmbeddingProvider` of agent frameworks.

An `EmbeddingProvider` embeds one text per call, and optionally batches. `from_provider`
converts it to an `Embedder`, `as_provider` converts an `Embedder` to a provider.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Any, Protocol

import numpy as np

from vecall.embedders.base import (
    Embedder,
    PerProcess,
    Vectors,
    checked_vectors,
    is_async,
)
from vecall.errors import ConfigError, EmbedderError, VecallError
from vecall.scalars import model_repr

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
        return (
            _await_vectors(vectors)
            if any(map(inspect.isawaitable, vectors))
            else vectors
        )

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


async def _await_vectors(vectors: list[Any]) -> list[Any]:
    """Await the vectors that are awaitable, one after the other."""
    return [await v if inspect.isawaitable(v) else v for v in vectors]


# The base of embedders that call an HTTP API: batches, limits and errors.
#
# Requests block. A call with several requests sends them from several threads. A
# blocking client is not bound to an event loop, so any number of event loops can use
# it. vecall calls embedders on a thread of its own.

Send = Callable[[list[str]], Any]
"""Sends one request; returns one vector for each text, in order."""


class Remote:
    """Sends texts in batches, several at once, and returns the vectors in order."""

    def __init__(
        self,
        name: str,
        *,
        dimensions: int,
        batch_size: int,
        batch_bytes: int,
        max_text_bytes: int,
        max_concurrency: int,
    ) -> None:
        """Check the limits."""
        self._name = name
        self._dimensions = positive("dimensions", dimensions)
        self._batch_size = positive("batch_size", batch_size)
        self._batch_bytes = positive("batch_bytes", batch_bytes)
        self._max_text_bytes = positive("max_text_bytes", max_text_bytes)
        self._max_concurrency = positive("max_concurrency", max_concurrency)
        self._slots = PerProcess(lambda: BoundedSemaphore(max_concurrency))

    def embed(self, texts: Sequence[str], send: Send) -> Vectors:
        """Return float32 (len(texts), dimensions)."""
        batches = list(self._batches(texts))
        if not batches:
            return np.empty((0, self._dimensions), np.float32)
        if len(batches) == 1:
            return self._request(batches[0], send)
        with ThreadPoolExecutor(min(len(batches), self._max_concurrency)) as threads:
            parts = threads.map(lambda batch: self._request(batch, send), batches)
            return np.concatenate(list(parts))

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            encoded = text.encode("utf-8", "replace")[: self._max_text_bytes]
            full = len(batch) == self._batch_size
            if batch and (full or size + len(encoded) > self._batch_bytes):
                yield batch
                batch, size = [], 0
            batch.append(encoded.decode("utf-8", "ignore"))
            size += len(encoded)
        if batch:
            yield batch

    def _request(self, batch: list[str], send: Send) -> Vectors:
        try:
            with self._slots():
                answer = send(batch)
            return checked_vectors(answer, len(batch), self._dimensions)
        except VecallError:
            raise
        except Exception as error:
            failure = _error_description(error)
        # Raised outside the handler, so that the original error is not its context: its
        # message may quote the text or the API key.
        msg = f"{self._name}: {failure}"
        raise EmbedderError(msg)


def _error_description(error: Exception) -> str:
    """Describe an error by its type and HTTP status, without its message."""
    message = f"the request failed with {type(error).__name__}"
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return f"{message}, HTTP status {status}"
    return message


def positive(name: str, value: int) -> int:
    """Return `value` if it is a positive integer."""
    if type(value) is not int or value < 1:
        msg = f"{name}: expected a positive integer"
        raise ConfigError(msg)
    return value


def checked_retries(max_retries: int) -> int:
    """Return `max_retries` if it is valid."""
    if type(max_retries) is not int or max_retries < 0:
        msg = "max_retries: expected an integer of at least 0"
        raise ConfigError(msg)
    return max_retries


def checked_timeout(timeout: float) -> float:
    """Return `timeout` in seconds if it is valid."""
    if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
        msg = "timeout: expected a positive number of seconds"
        raise ConfigError(msg)
    return float(timeout)
