"""The base of embedders that call an HTTP API: batches, limits and errors.

Requests block. A call with several requests sends them from several threads. A blocking
client is not bound to an event loop, so any number of event loops can use it. vecall
calls embedders on a thread of its own.
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
"""Sends one request; returns one vector for each text, in order."""


class Remote:
    """Sends texts in batches, several at once, and returns the vectors in order.

    Args:
        name: The prefix of error messages.
        dimensions: Length of every vector.
        batch_size: Maximum number of texts in one request.
        batch_bytes: Maximum UTF-8 bytes in one request. A single text may exceed it.
        max_text_bytes: Longer texts are truncated to this number of UTF-8 bytes.
        max_concurrency: Maximum number of requests in progress at once, over all
            threads.
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
        """Check the limits.

        Raises:
            ConfigError: A limit is not a positive integer.
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
            EmbedderError: A request failed, or its response is invalid.
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
        # Raised outside the handler, so that the original error is not its context: its
        # message may quote the text or the API key.
        msg = f"{self._name}: {failure}"
        raise EmbedderError(msg)


def _described(error: Exception) -> str:
    """Describe an error by its type and HTTP status, without its message."""
    message = f"the request failed with {type(error).__name__}"
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return f"{message}, HTTP status {status}"
    return message


def positive(name: str, value: int) -> int:
    """Return `value` if it is a positive integer.

    Raises:
        ConfigError: It is not a positive integer.
    """
    if type(value) is not int or value < 1:
        msg = f"{name}: expected a positive integer"
        raise ConfigError(msg)
    return value


def checked_retries(max_retries: int) -> int:
    """Return `max_retries` if it is valid.

    Raises:
        ConfigError: It is not an integer of at least 0.
    """
    if type(max_retries) is not int or max_retries < 0:
        msg = "max_retries: expected an integer of at least 0"
        raise ConfigError(msg)
    return max_retries


def checked_timeout(timeout: float) -> float:
    """Return `timeout` in seconds if it is valid.

    Raises:
        ConfigError: It is not a positive finite number.
    """
    if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
        msg = "timeout: expected a positive number of seconds"
        raise ConfigError(msg)
    return float(timeout)
