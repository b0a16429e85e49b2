"""The search index of one embedding model, or of words only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.concurrency.executor import InterruptibleFuture
from vecall.concurrency.time_slices import in_slices
from vecall.index.embedding import EmbeddingQueue
from vecall.index.item_index import ItemCache
from vecall.index.partition_cache import PartitionCache
from vecall.index.row_cache import NewestChanges, ReadThreads, RowCache
from vecall.index.snapshots import SnapshotCache
from vecall.search.scores import Scoring
from vecall.search.searcher import Searcher
from vecall.store import EmbeddingModel, Storage, passing_metadata
from vecall.types import Filter, as_names

_TEXT_SHARE = 2  # texts may take one part in so many of the budget


def _rotation_seed(identity: bytes) -> int:
    """The seed of the vector rotation, from the file's identity, which is secret."""
    return int.from_bytes(
        blake2b(identity, digest_size=8, person=b"rotation").digest(), "big"
    )


class Use:
    """A call that uses a `SearchIndex`: from `begin_use` to the end of a `with` block.

    The use ends with the object at the latest, also if the call is interrupted before
    its block begins.
    """

    __slots__ = ("counts", "serving")

    serving: SearchIndex
    counts: bool

    def __enter__(self) -> SearchIndex:
        """Return the index."""
        return self.serving

    def __exit__(self, *_: object) -> None:
        """End the use."""
        self.serving.end_use(self)

    def __del__(self) -> None:
        """End the use, unless it has ended."""
        if getattr(self, "counts", False):  # False if `begin_use` was interrupted
            self.serving.end_use(self)


class SearchIndex:
    """An engine, its partition cache and its searcher."""

    def __init__(
        self,
        storage: Storage,
        threads: ReadThreads,
        newest: NewestChanges | None,
        *,
        model: EmbeddingModel | None,
        embedding: EmbeddingQueue | None,
        scoring: Scoring,
        budget: int,
        items: ItemCache | None = None,
    ) -> None:
        """Start with nothing loaded; without a model, search by words only.

        All indexes of a file, which does not publish to this one yet, share the
        threads, the newest changes of a database in memory, and the items. The budget,
        in bytes, is for partitions, texts and vectors of items.
        """
        self._uses = 0
        self._left = False  # no call may begin to use it
        self._retiring = False
        self._idle: InterruptibleFuture[None] = InterruptibleFuture()
        # Guards the four above. Reentrant: garbage collection may end a use anywhere.
        self._mutex = threading.RLock()
        self._closing = threading.Lock()
        self._closed = False
        self.model = model
        self.embedding = embedding
        self.scoring = scoring
        self.engine = Engine(
            0 if model is None else model.dim, seed=_rotation_seed(storage.identity)
        )
        self.cache = RowCache(budget // _TEXT_SHARE)
        number = None if model is None else model.id
        self.snapshots: SnapshotCache | None = None
        if storage.snapshots is not None:
            self.snapshots = SnapshotCache(
                storage, storage.snapshots, self.engine, number
            )
        self.partitions = PartitionCache(
            storage,
            self.engine,
            self.cache,
            self.snapshots,
            threads,
            newest,
            model=number,
            budget=budget,
            items=items,
        )
        self.recall = Searcher(
            self.engine,
            self.partitions,
            self.cache,
            embedding,
            scoring,
            storage.expiry_clock,
        )

    def refuse_nested_call(self) -> None:
        """Raise ReentrantCallError if an embedder or reranker is the caller."""
        self.recall.refuse_nested_call()
        if self.embedding is not None:
            self.embedding.thread.refuse_nested_call()

    def begin_use(self) -> Use | None:
        """Begin a use; None if the index was retired and replaced by another one."""
        use = Use()
        use.serving = self
        with self._mutex:
            if self._left:
                return None
            self._uses += 1
            use.counts = True
        return use

    def end_use(self, use: Use) -> None:
        """End a use; a second call does nothing."""
        with self._mutex:
            if not use.counts:
                return
            use.counts = False
            self._uses -= 1
            if self._retiring:
                self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if not self._uses and not self._left:
            self._left = True
            self.stop_waiting()

    def retiring_thread(self, done: Callable[[], object]) -> threading.Thread:
        """Return a thread that evicts what is unused, and closes after the last use."""

        def run() -> None:
            self._retire()
            done()

        return threading.Thread(target=run, name="vecall-retiring", daemon=True)

    def _retire(self) -> None:
        with self._mutex:
            self._retiring = True
            self._leave_if_idle()
        self.partitions.evict_all()
        self._idle.result()
        self.close_snapshots()
        self.close()
        self.partitions.evict_all()
        self.cache.clear_rows()

    def close_snapshots(self) -> None:
        """Stop writing snapshots; call it before the writer is closed."""
        if self.snapshots is not None:
            self.snapshots.close()

    def close(self) -> None:
        """Finish queued work and end the threads. A second call waits for the first."""
        with self._closing:
            if not self._closed:
                self.recall.close()
                if self.embedding is not None:
                    self.embedding.close()
                self._closed = True

    def stop_waiting(self) -> None:
        """Let the thread of `retiring_thread` continue: the service is closed."""
        with suppress(InvalidStateError):  # it continues already
            self._idle.set_result(None)


# The rows of one partition that pass those conditions that the engine cannot check.
#
# Conditions on metadata are checked on the JSON as parsed by Python, which is what
# callers see. A database may cut texts at a NUL, or convert large integers to floats.


def needs_passing_rows(wanted_labels: Filter) -> bool:
    """Whether a filter has more than the engine supports: one author and one kind."""
    return (
        wanted_labels.metadata is not None
        or wanted_labels.trust is not None
        or wanted_labels.source is not None
        or wanted_labels.not_kind is not None
        or wanted_labels.session_prefix is not None
        or wanted_labels.kind_prefix is not None
        or len(as_names(wanted_labels.author)) > 1
        or len(as_names(wanted_labels.kind)) > 1
    )


def find_passing_rows(
    storage: Storage, key: tuple[str, str], conditions: Filter
) -> NDArray[np.int64]:
    """Return the numbers of the live rows whose labels and metadata pass a filter."""

    def passing(rows: Iterable[tuple[Any, ...]]) -> NDArray[np.int64]:
        wanted = conditions.metadata
        found = in_slices(rows) if wanted is None else passing_metadata(rows, wanted)
        return np.fromiter((row[0] for row in found), np.int64)

    target = storage.version(*key)
    if target is None:
        return np.empty(0, np.int64)
    part = target[0]
    with storage.read(*key) as reads:
        if reads.partition_state(part, *key) is None:
            return np.empty(0, np.int64)  # the user was deleted meanwhile
        rows = reads.likely_rows(part, conditions)
        if not storage.in_memory:
            return passing(rows)
        rows_in_memory = list(rows)  # it has no other readers or writers
    return passing(rows_in_memory)


def find_left_out_rows(
    storage: Storage, key: tuple[str, str], ids: Sequence[str]
) -> NDArray[np.int64]:
    """Return the numbers of the rows that a search leaves out by their ids."""
    target = storage.version(*key)
    if target is None:
        return np.empty(0, np.int64)
    with storage.read(*key) as reads:
        return np.array(reads.rows_of_ids(target[0], ids), np.int64)
