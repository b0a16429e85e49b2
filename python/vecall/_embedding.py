"""Runs the embedder off the event loop, once for each distinct text of a call."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall.embedders import Embedder, Vectors, checked_vectors
from vecall.errors import ClosedError, EmbedderError, VecallError
from vecall.store import EmbeddingModel

T = TypeVar("T")

Wait = Callable[["Future[Any]"], Awaitable[Any]]
"""How the caller waits for another thread: on its event loop, or blocking."""

_BATCH = 64
_QUERIES_KEPT = 1_024


class Embedding:
    """One embedder, its thread, and the vectors of recent queries."""

    def __init__(self, embedder: Embedder) -> None:
        """Start without having embedded anything."""
        self.embedder = embedder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vecall-embedder")
        self._queries: OrderedDict[tuple[str, str, str], Vectors] = OrderedDict()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def known_query(self, app: str, user: str, query: str) -> Vectors | None:
        """Return the vector of a query that this user asked before, or None.

        Nothing is shared between users, not even how long an answer takes.
        """
        key = (app, user, query)
        with self._lock:
            vector = self._queries.get(key)
            if vector is not None:
                self._queries.move_to_end(key)
        return vector

    async def embed_query(self, wait: Wait, app: str, user: str, query: str) -> Vectors:
        """Return the vector of a query, float32 (dimensions,).

        Raises:
            EmbedderError: The embedder failed.
        """
        vector: Vectors = (await wait(self._submit([query])))[0]
        with self._lock:
            self._queries[(app, user, query)] = vector
            while len(self._queries) > _QUERIES_KEPT:
                self._queries.popitem(last=False)
        return vector

    async def embed_texts(self, wait: Wait, texts: Sequence[str]) -> list[bytes]:
        """Return one vector for each text, as float32 little-endian bytes.

        Equal texts are embedded once.

        Raises:
            EmbedderError: The embedder failed; nothing was kept.
        """
        distinct = list(dict.fromkeys(texts))
        found: dict[str, bytes] = {}
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            vectors = await wait(self._submit(batch))
            for text, vector in zip(batch, vectors, strict=True):
                found[text] = as_bytes(vector)
        return [found[text] for text in texts]

    def embed_now(self, texts: Sequence[str]) -> list[bytes]:
        """Return vectors as `embed_texts` does, on a thread that may block."""
        vectors = self._submit(list(texts)).result()
        return [as_bytes(vector) for vector in vectors]

    def close(self) -> None:
        """Finish what waits and end the thread."""
        self._thread.shutdown(wait=True)
        if self._loop is not None:
            self._loop.close()

    def _submit(self, texts: list[str]) -> Future[Vectors]:
        try:
            return self._thread.submit(self._run, texts)
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        """The one loop of the embedder's thread, to which async clients may cling."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def _run(self, texts: list[str]) -> Vectors:
        """Embed on the embedder's thread; a coroutine gets an event loop there."""
        try:
            result = self.embedder.embed(list(texts))
            if isinstance(result, Awaitable):
                result = self._event_loop().run_until_complete(_finish(result))
        except VecallError:
            raise
        except Exception as error:
            # The embedder's own message may quote the text; its type does not. So the
            # cause stays out of what is logged.
            msg = f"the embedder failed with {type(error).__name__}"
            raise EmbedderError(msg) from None
        return checked_vectors(result, len(texts), self.embedder.dimensions)


async def _finish(result: Awaitable[T]) -> T:
    return await result


def model_of(embedder: Embedder) -> EmbeddingModel:
    """Return what the file is to know of an embedder."""
    probe = getattr(embedder, "probe", None)
    return EmbeddingModel(
        embedder.model_id,
        embedder.dimensions,
        fingerprint=None if probe is None else probe.astype("<f4").tobytes(),
    )


def as_bytes(vector: NDArray[np.float32]) -> bytes:
    """Return a vector as the file keeps it.

    Raises:
        EmbedderError: A zero vector, which is near to nothing and far from nothing.
    """
    if not vector.any():
        msg = "the embedder returned a zero vector"
        raise EmbedderError(msg)
    return vector.astype("<f4", copy=False).tobytes()


def embedded_text(author: str | None, text: str) -> str:
    """Return what the embedder sees of a memory: who said what."""
    return f"{author}: {text}" if author else text
