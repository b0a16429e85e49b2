"""The vectors of items in memory: an engine partition for each namespace.

The storage is the truth. Every search first follows the storage's newest writes, in the
read transaction that then also reads the rows of the winners. A row number stands for
one content for ever, so a deleted or replaced item shows by its missing row. A
namespace is loaded by the first search that needs it. Users that were not searched
lately are evicted, see `ItemCache`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from vecall import store
from vecall._core import Engine
from vecall.errors import CorruptFileError
from vecall.scalars import usable_vectors

_log = logging.getLogger("vecall")

_VECTOR_BITS = 16
_MORE = 4  # rows beyond k whose exact cosines decide who is among the first k
_FEW_GONE = 64
_MOST_NAMES, _MOST_RANGES = 128, 256  # of namespaces that are known by their range
_LARGEST = (1 << 32) - 1
# Bytes outside the engine's count, measured.
_OWNER_BYTES, _ENGINE_BYTES, _ITEM_BYTES, _NAME_BYTES = 1_500, 9_000, 200, 100

_FIRST_TWO = itemgetter(0, 1)

Key = tuple[str, str]
Scored = tuple[float, store.ItemRow]


class _Namespace:
    """What is loaded of one namespace."""

    def __init__(self) -> None:
        self.newest: dict[str, int] = {}  # version by key
        self.counts: dict[int, int] = {}  # number of vectors by version
        self.vectors = 0


class ItemOwner:
    """What is loaded of the items of one (app, user); its lock is held for a search."""

    def __init__(self, budget: int) -> None:
        """Start with nothing loaded; keep to so many bytes."""
        self._budget = budget
        self.lock = threading.Lock()
        self.part = 0
        self.seq = 0  # all writes up to this version are loaded
        self.gone = 0
        self.head = ""  # of the change up to which all is loaded
        self.engine: Engine | None = None
        self.dim = 0
        self.loaded: OrderedDict[str, _Namespace] = OrderedDict()
        self.items = 0  # in `loaded`
        self.vector_bytes = 0  # in the engine
        self.refused = 0  # items with vectors that the engine refused
        self.named: store.ItemState | None = None
        self.names: dict[tuple[str, str | None], list[str]] = {}  # of ranges in `named`
        self.known_names = 0  # in `names`, ranges included
        self.counted = 0  # of its bytes, in those of the cache

    def forget_loaded_items(self) -> None:
        """Begin anew: the next search loads what it needs. The lock is held."""
        self.part = self.items = self.vector_bytes = 0
        self.engine = None
        self.loaded = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Bytes in memory; the caller holds the lock."""
        own = _OWNER_BYTES if self.engine is None else _ENGINE_BYTES
        others = self.items * _ITEM_BYTES + self.known_names * _NAME_BYTES
        return own + self.vector_bytes + others

    def namespaces_between(
        self,
        reads: store.StorageReads,
        state: store.ItemState,
        low: str,
        high: str | None,
    ) -> list[str]:
        """Return the namespaces from `low` to below `high`; None is no bound."""
        # Also those whose items have expired. Those of the same state are known.
        if self.named != state:
            self.named, self.names, self.known_names = state, {}, 0
        known = self.names.get((low, high))
        if known is None:
            known = reads.item_namespaces(state.part, low, high, -math.inf)
            if len(known) <= _MOST_NAMES and len(self.names) < _MOST_RANGES:
                self.names[low, high] = known
                self.known_names += 1 + len(known)
        return known

    def nearest_items(
        self,
        reads: store.StorageReads,
        state: store.ItemState,
        names: Sequence[str],
        query: NDArray[np.float32],
        wanted: int,
        accepts: Callable[[store.ItemRow], bool],
        after: tuple[float, int] | None = None,
    ) -> list[Scored]:
        """Return exact cosine and item of the nearest items of namespaces, best first.

        The query is float32 (state.dim,), of norm 1. With `after`, a cosine and a
        version, only what comes after them. Of equal cosines the later write comes
        first. If there are more than `wanted` items, the last one is one of these.
        """
        try:
            _follow_item_writes(self, reads, state)
            for name in names:
                _load_namespace(self, reads, name)
        except BaseException:  # what is loaded in part would count as all there is
            self.forget_loaded_items()
            raise
        found = _nearest_items(self, reads, names, query, wanted, accepts, after)
        while self.nbytes > self._budget and len(self.loaded) > 1:
            _unload_namespace(self, next(iter(self.loaded)))
        return found


def _follow_item_writes(
    owner: ItemOwner, reads: store.StorageReads, state: store.ItemState
) -> None:
    """Apply the writes since the last search to the loaded namespaces."""
    gone = state.gone - owner.gone
    forgotten = gone > _FEW_GONE and gone > owner.items
    # After a restore or a failover the numbers may be those of another history.
    is_other = state.seq < owner.seq or not state.is_after_change(owner.head)
    if (owner.part, owner.dim) != (state.part, state.dim) or forgotten or is_other:
        owner.part, owner.dim = state.part, state.dim
        owner.engine = Engine(state.dim)
        owner.loaded = OrderedDict()
        owner.items = owner.vector_bytes = 0
    elif owner.seq < state.seq and owner.loaded:
        changed = (
            entry
            for entry in reads.item_vectors(state.part, None, owner.seq)
            if entry.ns in owner.loaded
        )
        _add_item_vectors(owner, changed)
    if forgotten or not owner.loaded:
        owner.gone = state.gone
    owner.seq = state.seq
    owner.head = state.head


def _load_namespace(owner: ItemOwner, reads: store.StorageReads, name: str) -> None:
    if name in owner.loaded:
        owner.loaded.move_to_end(name)
        return
    owner.loaded[name] = _Namespace()
    _add_item_vectors(owner, reads.item_vectors(owner.part, name, 0))


def _engine_key_of_name(name: str) -> Key:
    return ("items", name or "\x1f")


def _add_item_vectors(owner: ItemOwner, entries: Iterable[store.ItemVectors]) -> None:
    ids: dict[str, list[int]] = {}
    vectors: dict[str, list[bytes]] = {}
    for entry in entries:
        known = owner.loaded[entry.ns]
        if entry.key in known.newest:
            _remove_item_vectors(owner, entry.ns, known.newest[entry.key])
            owner.items -= 1
        owner.items += 1
        version = entry.rid & _LARGEST
        count = len(entry.vectors) // (4 * owner.dim)
        known.newest[entry.key] = version
        if count:
            known.counts[version] = count
            known.vectors += count
            first = version << _VECTOR_BITS
            ids.setdefault(entry.ns, []).extend(range(first, first + count))
            vectors.setdefault(entry.ns, []).append(entry.vectors)
    assert owner.engine is not None
    for name, numbers in ids.items():
        matrix = np.frombuffer(b"".join(vectors[name]), np.float32)
        matrix = matrix.reshape(len(numbers), owner.dim)
        added = np.array(numbers, np.int64)
        good = usable_vectors(matrix)
        if not good.all():
            good = _give_up_refused_vectors(owner, name, added, good)
            added, matrix = added[good], matrix[good]
        before = _bytes_of_namespace(owner, name)
        owner.engine.add(_engine_key_of_name(name), added, matrix)
        owner.vector_bytes += _bytes_of_namespace(owner, name) - before


def _give_up_refused_vectors(
    owner: ItemOwner, name: str, added: NDArray[np.int64], good: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Treat items with a refused vector as such without; return which are of others."""
    versions = added >> _VECTOR_BITS
    refused = set(versions[~good].tolist())
    known = owner.loaded[name]
    owner.refused += len(refused)
    for version in refused:
        known.vectors -= known.counts.pop(version)
    _log.error(
        "%d items of a user have vectors that cannot be searched; `vecall doctor` "
        "says more",
        len(refused),
    )
    return ~np.isin(versions, list(refused))


def _remove_item_vectors(owner: ItemOwner, name: str, version: int) -> None:
    """Remove the vectors of an item that no longer exists in that version."""
    known = owner.loaded[name]
    count = known.counts.pop(version, 0)
    known.vectors -= count
    if count:
        assert owner.engine is not None
        first = version << _VECTOR_BITS
        owner.engine.remove(
            _engine_key_of_name(name), np.arange(first, first + count, dtype=np.int64)
        )


def forget_vectors(owner: ItemOwner, deleted: Iterable[tuple[str, str, int]]) -> None:
    """Remove deleted items: namespace, key and version. The lock is held."""
    for name, key, version in deleted:
        known = owner.loaded.get(name)
        if known is None or known.newest.get(key) != version:
            continue  # not loaded, or written again since
        before = _bytes_of_namespace(owner, name)
        del known.newest[key]
        _remove_item_vectors(owner, name, version)
        owner.items -= 1
        owner.gone += 1
        owner.vector_bytes += _bytes_of_namespace(owner, name) - before
        if not known.newest:
            _unload_namespace(owner, name)


def _bytes_of_namespace(owner: ItemOwner, name: str) -> int:
    assert owner.engine is not None
    return owner.engine.nbytes_of(_engine_key_of_name(name))


def _unload_namespace(owner: ItemOwner, name: str) -> None:
    assert owner.engine is not None
    owner.items -= len(owner.loaded.pop(name).newest)
    owner.vector_bytes -= _bytes_of_namespace(owner, name)
    owner.engine.drop(_engine_key_of_name(name))


def _nearest_items(
    owner: ItemOwner,
    reads: store.StorageReads,
    names: Sequence[str],
    query: NDArray[np.float32],
    wanted: int,
    accepts: Callable[[store.ItemRow], bool],
    after: tuple[float, int] | None,
) -> list[Scored]:
    """Ask the engine for more and more until enough items are accepted."""
    decided: dict[int, store.ItemRow | None] = {}
    k = wanted + _MORE + 1  # the last one shows that those before it are complete
    most = sum(owner.loaded[name].vectors for name in names)
    while True:
        candidates, is_whole = _nearest_candidates(owner, names, query, k)
        good: list[store.ItemRow] = []
        for start in range(0, len(candidates), wanted + _MORE):
            some = candidates[start : start + wanted + _MORE]
            _read_candidate_items(owner, reads, some, decided, accepts)
            rows = [row for v, _ in some if (row := decided[v]) is not None]
            if after is not None:
                cosines = _row_cosines(rows, owner.dim, query)
                scored = zip(cosines, rows, strict=True)
                rows = [row for cosine, row in scored if (cosine, row.version) < after]
            good += rows
            if len(good) >= wanted + _MORE:
                break
        if is_whole or k >= most or len(good) >= wanted + _MORE:
            best = list(zip(_row_cosines(good, owner.dim, query), good, strict=True))
            best.sort(key=lambda each: (-each[0], -each[1].rid))
            return best[: wanted + 1]
        k *= 4


def _nearest_candidates(
    owner: ItemOwner, names: Sequence[str], query: NDArray[np.float32], k: int
) -> tuple[list[tuple[int, str]], bool]:
    """Return version and namespace of the nearest items, nearest first."""
    # Equal vectors have equal estimates; of these the later write comes first. Also
    # returns whether these are all items that have a vector: what is missing is
    # farther.
    assert owner.engine is not None
    found: list[tuple[float, int, str]] = []
    horizon = -math.inf
    for name in names:
        count = owner.loaded[name].vectors
        if count:
            ids, scores = owner.engine.search(_engine_key_of_name(name), query, k)
            best = scores.tolist()
            if len(best) < count:
                horizon = max(horizon, best[-1] if best else math.inf)
            numbers = (ids >> _VECTOR_BITS).tolist()
            found += zip(best, numbers, repeat(name))
    # The engine leaves open which of the rows at its horizon it returns.
    near = [each for each in found if each[0] > horizon]
    near.sort(key=_FIRST_TWO, reverse=True)
    first: dict[int, str] = {}  # of several vectors of an item, the nearest
    for _, number, name in near:
        first.setdefault(number, name)
    return list(first.items()), horizon == -math.inf


def _read_candidate_items(
    owner: ItemOwner,
    reads: store.StorageReads,
    some: Sequence[tuple[int, str]],
    decided: dict[int, store.ItemRow | None],
    accepts: Callable[[store.ItemRow], bool],
) -> None:
    """Read the rows of candidates; None stands for one that is not to be found."""
    unknown = {version: name for version, name in some if version not in decided}
    first = owner.part << 32
    rids = [first | version for version in unknown]
    rows = {row.version: row for row in reads.items_by_number(owner.part, rids)}
    for version, name in unknown.items():
        row = rows.get(version)
        if row is None:
            _remove_item_vectors(owner, name, version)
        elif row.ns != name:
            raise CorruptFileError(store.DAMAGED_ITEM)  # an index led to another item
        decided[version] = row if row is not None and accepts(row) else None


def _row_cosines(
    rows: Sequence[store.ItemRow], dim: int, query: NDArray[np.float32]
) -> list[float]:
    """Return the cosine of the nearest vector of each row, from its stored vectors."""
    if not rows:
        return []
    stored = [store.checked_vectors(row.rid, row.vecs, dim) for row in rows]
    if not all(stored):
        raise CorruptFileError(store.DAMAGED_ITEM)  # the vectors of a row were lost
    matrix = np.frombuffer(b"".join(stored), np.float32).astype(np.float64)
    matrix = matrix.reshape(-1, dim)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    # A product by BLAS may give equal rows different last bits.
    products = np.einsum("ij,j->i", matrix, query.astype(np.float64))
    cosines = products / norms
    if len(matrix) > len(rows):  # several vectors of a row: the nearest one counts
        ends = np.cumsum([len(each) // (4 * dim) for each in stored])
        cosines = np.maximum.reduceat(cosines, [0, *ends[:-1]])
    return [min(1.0, max(-1.0, each)) for each in cosines.tolist()]


# The vectors of items that are loaded, of all users.
#
# They share the budget of the partitions, and the same policy evicts them: users whose
# items were not searched lately go first (`PartitionCache.keep_to_budget`).


class ItemCache:
    """What is loaded of the items of all users. Thread-safe."""

    def __init__(self, budget: int) -> None:
        """Start with nothing loaded; keep each user's vectors to so many bytes."""
        self._budget = budget
        self._owners: OrderedDict[Key, ItemOwner] = OrderedDict()  # last searched last
        self.nbytes = 0
        """Bytes of all loaded vectors, and of what belongs to them."""
        self._lock = threading.RLock()

    @contextmanager
    def held(self, key: Key, after: Callable[[], object]) -> Iterator[ItemOwner]:
        """Hold what is loaded of a user, for one search; then call `after`."""
        # Open the read transaction inside: then the states of successive searches come
        # in order, and what one found to be gone is gone for all later ones.
        with self._lock:
            owner = self._owners.get(key)
            if owner is None:
                owner = self._owners[key] = ItemOwner(self._budget)
            self._owners.move_to_end(key)
        with owner.lock:
            try:
                yield owner
            finally:
                self._count_item_bytes(key, owner)
                after()

    def drop(self, key: Key) -> int:
        """Free what is loaded of a user, after the search in progress; its bytes."""
        with self._lock:
            owner = self._owners.pop(key, None)
            if owner is None:
                return 0
            self.nbytes -= owner.counted
            return owner.counted

    def forget_items(self, key: Key, deleted: Iterable[tuple[str, str, int]]) -> None:
        """Free the vectors of deleted items: namespace, key and version. Never waits.

        A search would find that they are gone, but there may be none.
        """
        owner = self._owners.get(key)
        if owner is None:
            return
        if not owner.lock.acquire(blocking=False):
            self.drop(key)  # a search is in progress; the next one loads them again
            return
        try:
            forget_vectors(owner, deleted)
            self._count_item_bytes(key, owner)
        finally:
            owner.lock.release()
        if not owner.loaded:
            self.drop(key)

    def evict(self, nbytes: int) -> int:
        """Free some bytes or more, of users not searched lately; return how many."""
        # It is 0 if all users are being searched.
        victims, freed = [], 0
        with self._lock:
            for key, owner in self._owners.items():
                if freed >= nbytes:
                    break
                if not owner.lock.locked():
                    victims.append(key)
                    freed += owner.counted
            for key in victims:
                self.drop(key)
        return freed

    def _count_item_bytes(self, key: Key, owner: ItemOwner) -> None:
        """Count the bytes of a user, whose lock is held."""
        nbytes = owner.nbytes
        with self._lock:
            if self._owners.get(key) is owner:
                self.nbytes += nbytes - owner.counted
                owner.counted = nbytes
