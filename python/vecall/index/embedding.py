"""Runs the embedder off the event loop, once for each distinct text of a user."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall import store
from vecall.concurrency.executor import PluginExecutor, await_result
from vecall.concurrency.join import Join
from vecall.concurrency.locks import Claim, FlightKey, SingleFlight
from vecall.embedders import Embedder, Vectors, checked_vectors
from vecall.embedders.base import can_embed, is_async
from vecall.embedders.resolve import are_letters_known, scripts_of_embedder
from vecall.errors import BusyError, EmbedderError, ReentrantCallError, VecallError
from vecall.scalars import exact

K = TypeVar("K")
V = TypeVar("V")

_BATCH = 64
_AHEAD = 4  # batches in flight
_AT_ONCE = 8  # concurrent calls of an embedder that declares its limit
_QUERIES_KEPT = 1_024
_TEXTS_KEPT = 4_096
_chance = random.SystemRandom()  # the host's own numbers stay, and forks differ
_TRIES = 3
_PAUSE = 0.1  # seconds before the second try, then twice that, both plus up to as much
_PASSING = (  # until Python 3.11 the three timeouts are classes of their own
    TimeoutError,
    asyncio.TimeoutError,
    concurrent.futures.TimeoutError,
    ConnectionError,
)


class EmbeddingQueue:
    """One embedder, its thread, and the vectors of recent queries and texts."""

    def __init__(self, embedder: Embedder) -> None:
        """Start without having embedded anything."""
        self.embedder = embedder
        self.can_embed = can_embed(embedder)
        """Whether it computes vectors; if not, callers give all vectors."""
        self._scripts = scripts_of_embedder(embedder)
        allowed = getattr(embedder, "max_concurrency", 1)
        self._at_once = min(allowed, _AT_ONCE) if type(allowed) is int else 1
        self.thread = PluginExecutor("vecall-embedder", max(self._at_once, 1))
        """Where the embedder runs."""
        self._queries = _UserLru[str, Vectors](_QUERIES_KEPT)
        self._texts = _UserLru[bytes, bytes](_TEXTS_KEPT)
        self._in_flight = SingleFlight()
        # A model that tells questions from statements has a second method.
        self._embed_queries: Callable[[list[str]], Any] = getattr(
            embedder, "embed_queries", embedder.embed
        )
        self._texts_async = is_async(embedder.embed)
        self._queries_async = is_async(self._embed_queries)

    def knows_letters(self, query: str) -> bool:
        """Whether most of a query's letters belong to scripts that the model knows."""
        return are_letters_known(self._scripts, query)

    def cached_query_vector(self, app: str, user: str, query: str) -> Vectors | None:
        """Return the cached vector of a user's query, or None."""
        # Vectors are not shared between users, so the latency of a search reveals
        # nothing about other users' queries.
        return self._queries.get_of_user(app, user, query)

    async def embed_query(self, app: str, user: str, query: str) -> Vectors:
        """Return the vector of a query, float32 (dimensions,)."""
        self.refuse_nested_call()
        work = self._submit(self._queries_async, self._embed_queries, [query], None)
        vectors: Vectors = await Join(work)
        vector: Vectors = vectors[0]
        self._queries.put_for_user(app, user, query, vector)
        return vector

    async def embed_texts(
        self, app: str, user: str, texts: Sequence[str]
    ) -> list[bytes | None]:
        """Return one vector for each text, as float32 little-endian bytes."""
        # None stands for a zero vector, which has no direction. Equal texts of one user
        # are embedded once, while they are in the cache. If the embedder fails, nothing
        # is cached.
        self.refuse_nested_call()
        found: dict[str, bytes | None] = {}
        todo = list(dict.fromkeys(texts))
        running: list[tuple[list[str], Future[list[bytes | None]]]] = []
        elsewhere: dict[str, Future[bytes | None]] = {}
        while todo or running:
            while todo and len(running) < self._most_in_flight:
                next_texts, todo = todo[:_BATCH], todo[_BATCH:]
                batch = self._start_embedding(app, user, next_texts, found, elsewhere)
                if batch is not None:
                    running.append(batch)
            if running:
                sent, vectors = running.pop(0)
                made = await Join(vectors)
                found |= zip(sent, made, strict=True)
        for text, promise in elsewhere.items():
            try:
                found[text] = await Join(promise)
            except EmbedderError:  # of another call; this call may succeed
                found[text] = (await self.embed_texts(app, user, [text]))[0]
        return [found[text] for text in texts]

    def _start_embedding(
        self,
        app: str,
        user: str,
        texts: list[str],
        found: dict[str, bytes | None],
        elsewhere: dict[str, Future[bytes | None]],
    ) -> tuple[list[str], Future[list[bytes | None]]] | None:
        """Start embedding the texts that are neither cached nor in flight."""
        keys = [(app, user, store.hash_of_text(text)) for text in texts]
        mine: dict[int, Claim] = {}
        try:
            others = self._in_flight.claim_keys(keys, mine)
            elsewhere.update({texts[at]: promise for at, promise in others.items()})
            # Check the cache after the claim: another call caches before it releases.
            batch, claimed, needless = [], [], []
            for at in mine:
                known = self._texts.get_of_user(*keys[at])
                if known is None:
                    batch.append(texts[at])
                    claimed.append(keys[at])
                else:
                    found[texts[at]] = known
                    needless.append(keys[at])
            self._in_flight.drop_claims(needless)
            if not batch:
                return None
            vectors = self._submit_texts(batch)
            vectors.add_done_callback(partial(self._cache_vectors, claimed))
            self._in_flight.hand_claims_to_batch(claimed, vectors)
            return batch, vectors
        except BaseException:
            self._in_flight.abandon_claims(keys, mine)  # others may wait for it
            raise

    def _cache_vectors(
        self, keys: Sequence[FlightKey], done: Future[list[bytes | None]]
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for (app, user, name), vector in zip(keys, done.result(), strict=True):
            if vector is not None:
                self._texts.put_for_user(app, user, name, vector)

    def embed_now(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return vectors as `embed_texts` does, on a thread that may block."""
        self.refuse_nested_call()
        return self._submit_texts(list(texts)).result()

    def refuse_nested_call(self) -> None:
        """Raise EmbedderError if the embedder itself is the caller."""
        try:
            self.thread.refuse_nested_call()
        except ReentrantCallError:
            raise EmbedderError(
                "the embedder called its own memory service where that asks the "
                "embedder; it can only call another service"
            ) from None

    def forget_texts(self, app: str, user: str) -> None:
        """Drop the vectors of this user's texts, some of which are being deleted."""
        self._texts.drop_of_user(app, user)

    def forget_user(self, app: str, user: str) -> None:
        """Drop the vectors of this user's texts and queries."""
        self._texts.drop_of_user(app, user)
        self._queries.drop_of_user(app, user)

    def close(self) -> None:
        """Finish queued work and end the thread."""
        self.thread.close()

    @property
    def _most_in_flight(self) -> int:
        """Batches in flight: one for a plain embedder, so queries run in between."""
        several = self._at_once > 1 or self._texts_async
        return _AHEAD if several else 1

    def _submit_texts(self, texts: list[str]) -> Future[list[bytes | None]]:
        return self._submit(
            self._texts_async, self.embedder.embed, texts, _vectors_as_bytes
        )

    def _submit(
        self,
        concurrent: bool,
        embed: Callable[[list[str]], Any],
        texts: list[str],
        convert: Callable[[Vectors], Any] | None,
    ) -> Future[Any]:
        """Run a method of the embedder, check what it returns, and convert that."""
        size = self.embedder.dimensions

        def finish(result: Any) -> Any:
            vectors = checked_vectors(result, len(texts), size)
            return vectors if convert is None else convert(vectors)

        tried = _embed_with_retries_async if concurrent else _embed_with_retries
        return self.thread.run(
            partial(tried, embed, texts, finish), concurrent=concurrent
        )


class _UserLru(Generic[K, V]):
    """An LRU cache whose entries belong to users. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._values: OrderedDict[tuple[str, str, K], V] = OrderedDict()
        self._of_user: dict[tuple[str, str], set[K]] = {}
        self._limit = limit
        self._lock = threading.Lock()

    def get_of_user(self, app: str, user: str, key: K) -> V | None:
        with self._lock:
            value = self._values.get((app, user, key))
            if value is not None:
                self._values.move_to_end((app, user, key))
        return value

    def put_for_user(self, app: str, user: str, key: K, value: V) -> None:
        with self._lock:
            self._values[app, user, key] = value
            self._of_user.setdefault((app, user), set()).add(key)
            while len(self._values) > self._limit:
                (of_app, of_user, oldest), _ = self._values.popitem(last=False)
                keys = self._of_user[of_app, of_user]
                keys.discard(oldest)
                if not keys:
                    del self._of_user[of_app, of_user]

    def drop_of_user(self, app: str, user: str) -> None:
        with self._lock:
            for key in self._of_user.pop((app, user), ()):
                del self._values[app, user, key]


def _embed_with_retries(
    embed: Callable[[list[str]], Any], texts: list[str], finish: Callable[[Any], Any]
) -> Any:
    """Embed, check and convert; retry after a pause if the failure may be temporary."""
    # A plain function may return an awaitable, which its thread awaits.
    for attempt in range(1, _TRIES + 1):
        try:
            result = embed(list(texts))
            break
        except (Exception, asyncio.CancelledError) as error:
            _raise_unless_passing(error, attempt)
        time.sleep(_embed_retry_pause(attempt))
    if isinstance(result, Awaitable):
        return _awaited_vectors(result, finish)
    return finish(result)


async def _embed_with_retries_async(
    embed: Callable[[list[str]], Awaitable[Any]],
    texts: list[str],
    finish: Callable[[Any], Any],
) -> Any:
    for attempt in range(1, _TRIES + 1):
        try:
            result = await await_result(embed(list(texts)))
            break
        except Exception as error:
            _raise_unless_passing(error, attempt)
        await asyncio.sleep(_embed_retry_pause(attempt))
    return finish(result)


async def _awaited_vectors(result: Awaitable[Any], finish: Callable[[Any], Any]) -> Any:
    try:
        vectors = await await_result(result)
    except Exception as error:
        raise _embedder_failure(error, 1) from None
    return finish(vectors)


def _raise_unless_passing(error: BaseException, attempt: int) -> None:
    if not isinstance(error, _PASSING) or attempt == _TRIES:
        raise _embedder_failure(error, attempt) from None


def _embedder_failure(error: BaseException, attempt: int) -> VecallError:
    if isinstance(error, VecallError):
        return error
    # The embedder's message may quote the text; its type does not. So the cause is not
    # logged.
    tries = f" after {attempt} tries" if attempt > 1 else ""
    return EmbedderError(f"the embedder failed with {type(error).__name__}{tries}")


def _embed_retry_pause(attempt: int) -> float:
    longest = _PAUSE * 2 ** (attempt - 1)
    return float(longest) * (1.0 + _chance.random())


def model_of_embedder(embedder: Embedder) -> store.EmbeddingModel:
    """Return the model of an embedder, as the file stores it."""
    probe = getattr(embedder, "probe", None)
    return store.EmbeddingModel(
        exact(embedder.model_id),
        embedder.dimensions,
        fingerprint=None if probe is None else probe.astype("<f4").tobytes(),
    )


def vector_as_bytes(vector: NDArray[np.float32]) -> bytes | None:
    """Return a vector in the file's format; None for a zero vector."""
    if not vector.any():
        return None
    return vector.astype("<f4", copy=False).tobytes()


def _vectors_as_bytes(vectors: Vectors) -> list[bytes | None]:
    return [vector_as_bytes(vector) for vector in vectors]


def text_to_embed(author: str | None, text: str) -> str:
    """Return the embedder's input for a memory: author and text."""
    return f"{author}: {text}" if author else text


# Embeds, in the background, memories that were stored without an embedder.


def move_migrated_vectors(
    storage: store.Storage, is_stopped: Callable[[], bool] = lambda: False
) -> None:
    """Move the vectors that a model migration has left in `vec_next`."""
    while not is_stopped():
        with storage.read() as reads:
            if not reads.unmoved_vectors():
                return
        storage.submit(store.MoveVectors()).result()


class Backfill:
    """One pass over the rows without vectors, on its own thread.

    Meanwhile searches find the remaining rows by words. The pass stops at the first
    failure of the embedder and starts again when the file is next opened.
    """

    def __init__(
        self,
        storage: store.Storage,
        embedding: EmbeddingQueue | None,
        model: int | None,
    ) -> None:
        """Start the thread if there are rows to embed; None embeds nothing."""
        self._storage = storage
        self._embedding = embedding
        self._model = model
        self.filled = 0  # rows that got a vector
        self._stopping = threading.Event()
        self.stop: Callable[[], None] = self._stopping.set
        """Ends the thread after the batch that is being embedded; does not wait."""
        self._thread: threading.Thread | None = None
        if self._has_backfill_work():
            self._thread = threading.Thread(
                target=self._embed_what_lacks, name="vecall-backfill", daemon=True
            )
            self._thread.start()

    def wait_for_backfill(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the pass; False on timeout."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def close(self) -> None:
        """Stop after the batch that is being embedded."""
        self.stop()
        self.wait_for_backfill()

    def _has_backfill_work(self) -> bool:
        with self._storage.read() as reads:
            if reads.unmoved_vectors():
                return True
        return self._embedding is not None and bool(self._rows_without_vector(0, 1))

    def _rows_without_vector(self, after: int, limit: int) -> list[store.RowWithVector]:
        with self._storage.read() as reads:
            return reads.without_vector(after, limit)

    def _embed_what_lacks(self) -> None:
        last = 0
        try:
            self._move_migrated_vectors()
            while self._embedding is not None and not self._stopping.is_set():
                rows = self._rows_without_vector(last, _BATCH)
                if not rows:
                    return
                last = rows[-1].row.rid
                for part, some in groupby(rows, lambda stored: stored.row.rid >> 32):
                    with suppress(BusyError):  # of a user that is locked
                        self._embed_rows(part, list(some))
        except VecallError:
            return  # the rows stay searchable by words

    def _move_migrated_vectors(self) -> None:
        move_migrated_vectors(self._storage, self._stopping.is_set)

    def _embed_rows(self, part: int, rows: list[store.RowWithVector]) -> None:
        assert self._embedding is not None
        assert self._model is not None
        with self._storage.read() as reads:
            names = reads.partition_names(part)
            said = [(store.hash_of_text(row.text), row.author) for row, *_ in rows]
            known = reads.vectors_of(part, said, self._model)
        if names is None:
            return  # the user was deleted after the rows were read
        new = {
            each: text_to_embed(row.author, row.text)
            for each, (row, *_) in zip(said, rows, strict=True)
            if each not in known
        }
        if new:
            made = self._embedding.embed_now(list(new.values()))
            for text, vector in zip(new, made, strict=True):
                if vector is not None:
                    known[text] = vector
        filled = [
            (row, known[text])
            for row, text in zip(rows, said, strict=True)
            if text in known
        ]
        if filled:
            with_vectors, vectors = map(list, zip(*filled, strict=True))
            job = store.SetVectors(*names, with_vectors, vectors, self._model)
            self._storage.submit(job).result()
            self.filled += len(filled)
