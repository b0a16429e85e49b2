"""An embedder with an in-memory LRU cache of vectors."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from vecall.concurrency.executor import InterruptibleFuture
from vecall.embedders import base
from vecall.errors import ConfigError
from vecall.scalars import repr_of_embedder

_ENTRY_BYTES = 256  # overhead: the key, two object headers, the dictionary entry


class _AbandonedError(Exception):
    """The call that embedded a text was interrupted; its waiters embed it."""


@dataclass
class _Turn:
    """The texts of one call, by key."""

    found: dict[bytes, bytes]  # vectors
    mine: dict[bytes, Future[bytes]]  # of texts that this call must embed
    others: dict[bytes, Future[bytes]]  # of texts that other calls are embedding


class _VectorCache:
    """An LRU cache of vectors by key, and the futures of vectors in progress."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._vectors: OrderedDict[bytes, bytes] = OrderedDict()
        self._in_flight: dict[bytes, Future[bytes]] = {}
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @contextmanager
    def divide_keys(self, keys: Sequence[bytes]) -> Iterator[_Turn]:
        """Divide the keys between this call, the cache and other calls."""
        # If the block raises an exception, the waiters of `mine` receive it. If the
        # block is interrupted, they embed the texts themselves.
        turn = _Turn({}, {}, {})
        try:
            with self._lock:
                for key in keys:
                    self._assign_key(turn, key)
            yield turn
        except BaseException as error:
            failure = error if isinstance(error, Exception) else _AbandonedError()
            self._settle_all(turn.mine, lambda _, future: future.set_exception(failure))
            raise

    def _assign_key(self, turn: _Turn, key: bytes) -> None:
        if key in self._vectors:
            self._vectors.move_to_end(key)
            turn.found[key] = self._vectors[key]
        elif key in self._in_flight:
            turn.others[key] = self._in_flight[key]
        else:
            future: Future[bytes] = InterruptibleFuture()
            future.set_running_or_notify_cancel()  # so that no waiter can cancel it
            turn.mine[key] = future  # first: an interrupt then still settles the future
            self._in_flight[key] = future

    def store_vectors(self, turn: _Turn, vectors: base.Vectors) -> None:
        """Store the vectors of `turn.mine`, and resolve its futures."""
        new = dict(zip(turn.mine, (row.tobytes() for row in vectors), strict=True))
        with self._lock:
            self._vectors.update(new)
            while len(self._vectors) > self._limit:
                self._vectors.popitem(last=False)
        turn.found.update(new)
        self._settle_all(turn.mine, lambda key, future: future.set_result(new[key]))

    def count_hits(self, hits: int, misses: int) -> None:
        """Add to the counters of hits and misses."""
        with self._lock:
            self.hits += hits
            self.misses += misses

    def clear_vectors(self) -> None:
        """Delete all vectors from the cache."""
        with self._lock:
            self._vectors.clear()

    def _settle_all(
        self,
        futures: dict[bytes, Future[bytes]],
        settle: Callable[[bytes, Future[bytes]], None],
    ) -> None:
        with self._lock:
            ended = [key for key, future in futures.items() if not future.done()]
            for key in ended:
                if self._in_flight.get(key) is futures[key]:
                    del self._in_flight[key]
        for key in ended:
            settle(key, futures[key])


class CachedEmbedder(base.WrappedEmbedder):
    """Caches the vectors of recent texts in RAM (LRU), so that each is embedded once.

    Thread-safe. If several threads or tasks embed a text at the same time, the embedder
    receives it once. If the embedder fails, the call fails for all of them and nothing
    is cached.

    The users of a service share the cache. A cached text is answered faster, so a user
    can find out by timing that another user sent the same text. Do not use the cache if
    that matters. The vector of a deleted memory stays in the cache until it is evicted
    or `clear` is called. The cache stores a hash of each text, not the text.

    Args:
        embedder: The embedder to cache. `embed` is a coroutine function if the
            embedder's is.
        max_bytes: Maximum memory in bytes.
        max_entries: Maximum number of vectors; by default limited by `max_bytes` alone.

    Raises:
        ConfigError: The limits are too small for one vector.
    """

    __repr__ = repr_of_embedder

    def __init__(
        self,
        embedder: base.Embedder,
        *,
        max_bytes: int = 64 << 20,
        max_entries: int | None = None,
    ) -> None:
        """Create an empty cache."""
        super().__init__(embedder)
        limit = max_bytes // (4 * self.dimensions + _ENTRY_BYTES)
        if max_entries is not None:
            limit = min(limit, max_entries)
        if limit < 1:
            raise ConfigError("max_bytes, max_entries: too small for one vector")
        self._cache = base.PerProcess(lambda: _VectorCache(limit))
        self._queries = getattr(embedder, "embed_queries", None)
        if base.is_async(embedder.embed):
            self.embed = self._embed_async  # type: ignore[method-assign]
            self.embed_queries = self._queries_async  # type: ignore[method-assign]

    @property
    def hits(self) -> int:
        """The number of cache hits."""
        return self._cache().hits

    @property
    def misses(self) -> int:
        """The number of cache misses."""
        return self._cache().misses

    def clear(self) -> None:
        """Delete all vectors from the cache."""
        self._cache().clear_vectors()

    def embed(self, texts: Sequence[str]) -> Any:
        """Return float32 (len(texts), dimensions), a new array.

        Raises:
            EmbedderError: The embedder's result has another shape, or is not finite
                numbers.
        """
        return self._embed_uncached_now(b"", self._embedder.embed, texts)

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries, from `embed_queries` of the embedder.

        If the embedder has no such method, this calls `embed`.

        Raises:
            EmbedderError: See `embed`.
        """
        if self._queries is None:
            return self.embed(texts)
        return self._embed_uncached_now(b"query", self._queries, texts)

    async def _embed_async(self, texts: Sequence[str]) -> base.Vectors:
        return await self._embed_uncached_later(b"", self._embedder.embed, texts)

    async def _queries_async(self, texts: Sequence[str]) -> base.Vectors:
        if self._queries is None:
            return await self._embed_async(texts)
        return await self._embed_uncached_later(b"query", self._queries, texts)

    def _embed_uncached_now(
        self, kind: bytes, embed: Callable[..., Any], texts: Sequence[str]
    ) -> base.Vectors:
        cache, keys = self._cache(), self._cache_keys(kind, texts)
        found: dict[bytes, bytes] = {}
        embedded = 0
        while missing := {k: t for k, t in keys if k not in found}:
            with cache.divide_keys(list(missing)) as turn:
                if turn.mine:
                    result = embed([missing[key] for key in turn.mine])
                    cache.store_vectors(turn, self._checked_embeddings(result, turn))
            embedded += len(turn.mine)
            found |= turn.found
            for key, future in turn.others.items():
                with suppress(_AbandonedError):
                    found[key] = future.result()
        return self._join_cached_vectors(keys, found, embedded)

    async def _embed_uncached_later(
        self, kind: bytes, embed: Callable[..., Any], texts: Sequence[str]
    ) -> base.Vectors:
        cache, keys = self._cache(), self._cache_keys(kind, texts)
        found: dict[bytes, bytes] = {}
        embedded = 0
        while missing := {k: t for k, t in keys if k not in found}:
            with cache.divide_keys(list(missing)) as turn:
                if turn.mine:
                    result = await embed([missing[key] for key in turn.mine])
                    cache.store_vectors(turn, self._checked_embeddings(result, turn))
            embedded += len(turn.mine)
            found |= turn.found
            for key, future in turn.others.items():
                with suppress(_AbandonedError):
                    found[key] = await asyncio.wrap_future(future)
        return self._join_cached_vectors(keys, found, embedded)

    def _cache_keys(self, kind: bytes, texts: Sequence[str]) -> list[tuple[bytes, str]]:
        """Return each text with its key: a hash of the model, the kind and the text."""
        model = self.model_id.encode("utf-8", "surrogatepass")
        known = blake2b(digest_size=16)
        for part in (model, kind):
            known.update(len(part).to_bytes(8, "little") + part)
        keys = []
        for text in texts:
            key = known.copy()
            key.update(text.encode("utf-8", "surrogatepass"))
            keys.append((key.digest(), text))
        return keys

    def _checked_embeddings(self, result: object, turn: _Turn) -> base.Vectors:
        return base.checked_vectors(result, len(turn.mine), self.dimensions)

    def _join_cached_vectors(
        self, keys: list[tuple[bytes, str]], found: dict[bytes, bytes], embedded: int
    ) -> base.Vectors:
        self._cache().count_hits(len(keys) - embedded, embedded)
        joined = b"".join(found[key] for key, _ in keys)
        vectors = np.frombuffer(joined, np.float32).reshape(len(keys), self.dimensions)
        return vectors.copy()
