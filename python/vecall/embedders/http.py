"""The base of embedders behind an HTTP API: batches, limits and errors.

Requests block, and run on threads where one call makes several. A blocking client
belongs to no event loop: it serves any number of them, one after the other or at once,
and vecall calls embedders on a thread of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Any

import numpy as np

from vecall.embedders.base import Vectors, checked_vectors
from vecall.embedders.fork_local import PerProcess
from vecall.errors import ConfigError, EmbedderError, VecallError

Send = Callable[[list[str]], Any]
"""Sends one request for some texts; returns their vectors in the order of the texts."""


class Remote:
    """Sends texts in batches, a bounded number at once, and puts the vectors in order.

    Args:
        name: Begins every error message.
        dimensions: Length of every vector.
        batch_size: Most texts of one request.
        batch_bytes: Most bytes of UTF-8 of one request; a single text may have more.
        max_text_bytes: What a text has beyond this is not sent.
        max_concurrency: Most requests under way at once, over all threads.
    """

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
        """Check the bounds.

        Raises:
            ConfigError: A bound is not a positive integer.
        """
        self._name = name
        self._dimensions = positive("dimensions", dimensions)
        self._batch_size = positive("batch_size", batch_size)
        self._batch_bytes = positive("batch_bytes", batch_bytes)
        self._max_text_bytes = positive("max_text_bytes", max_text_bytes)
        self._max_concurrency = positive("max_concurrency", max_concurrency)
        self._slots = PerProcess(lambda: BoundedSemaphore(max_concurrency))

    def embed(self, texts: Sequence[str], send: Send) -> Vectors:
        """Return float32 (len(texts), dimensions).

        Raises:
            EmbedderError: A request failed, or its answer cannot be used.
        """
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
            failure = _described(error)
        # Outside of the handler: what the client or the server said may quote the text
        # or the key, and must not hang on this error as its context.
        msg = f"{self._name}: {failure}"
        raise EmbedderError(msg)


def _described(error: Exception) -> str:
    """Return what is safe to report of an error: its type and the HTTP status."""
    message = f"the request failed with {type(error).__name__}"
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return f"{message}, HTTP status {status}"
    return message


def positive(name: str, value: int) -> int:
    """Return the value of an argument that counts something.

    Raises:
        ConfigError: It is not a positive integer.
    """
    if type(value) is not int or value < 1:
        msg = f"{name}: expected a positive integer"
        raise ConfigError(msg)
    return value


def checked_retries(max_retries: int) -> int:
    """Return `max_retries`.

    Raises:
        ConfigError: It is not an integer of at least 0.
    """
    if type(max_retries) is not int or max_retries < 0:
        msg = "max_retries: expected an integer of at least 0"
        raise ConfigError(msg)
    return max_retries


def checked_timeout(timeout: float) -> float:
    """Return `timeout`.

    Raises:
        ConfigError: It is not a positive number of seconds.
    """
    if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
        msg = "timeout: expected a positive number of seconds"
        raise ConfigError(msg)
    return float(timeout)
