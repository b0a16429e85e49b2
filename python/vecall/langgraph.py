"""LangGraph's long-term memory store over vecall's items: `VecallStore`."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from datetime import date, datetime, time
from itertools import chain, takewhile
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from vecall import errors
from vecall.clock import to_datetime
from vecall.concurrency.closing import ClosesOnExit
from vecall.embedders import LocalEmbedder
from vecall.item_collections import opened
from vecall.operations.options import StorageOptions
from vecall.service._user_items_sync import SyncUserItems
from vecall.service.memory_service import MemoryService
from vecall.service.user_items import UserItems
from vecall.store import Durability
from vecall.types import Drop, Put
from vecall.types import Item as StoredItem

with errors.needs_extra(__name__, "langgraph-checkpoint", "langgraph"):
    from langchain_core.embeddings import Embeddings
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
        ensure_embeddings,
        get_text_at_path,
        tokenize_path,
    )

__all__ = ["VecallStore"]


class Calls:
    """Calls items and the embedding function; blocks, or awaits them."""

    def __init__(
        self, items: UserItems | SyncUserItems, embeddings: Any, *, awaits: bool
    ) -> None:
        """Call these items."""
        self._items = items
        self._embeddings = embeddings
        self._awaits = awaits

    async def call_items(self, method: str, *args: Any, **named: Any) -> Any:
        """Call a method of the items."""
        found = getattr(self._items, method)(*args, **named)
        return await found if self._awaits else found

    async def call_long(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that takes long."""
        if self._awaits:
            return await asyncio.to_thread(function, *args)
        return function(*args)

    async def embed_documents(self, texts: list[str]) -> Any:
        """Call the embedding function."""
        if self._awaits:
            return await self._embeddings.aembed_documents(texts)
        return self._embeddings.embed_documents(texts)

    async def embed_query(self, text: str) -> Any:
        """Call the embedding function."""
        if self._awaits:
            return await self._embeddings.aembed_query(text)
        return self._embeddings.embed_query(text)


def run_without_waiting(steps: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """Run a coroutine that never waits."""
    try:
        steps.send(None)
    except StopIteration as stop:
        result: list[Any] = stop.value
        return result
    finally:
        steps.close()
    msg = "embed: an asynchronous function needs the asynchronous methods of the store"
    raise errors.ConfigError(msg)


_KNOWN = {"dims", "embed", "fields", "text_fields", "distance_type"}
_DISTANCES = ("cosine", "inner_product", "l2")
_NORM_ERROR = 1e-3  # of a vector of length 1, also in half precision


class _LocalEmbeddings(Embeddings):
    """vecall's offline model; the asynchronous methods of the base run on threads."""

    def __init__(self) -> None:
        self._model = LocalEmbedder()
        self.name = f"local {self._model.dimensions}"

    def embed_documents(self, texts: list[str]) -> Any:
        return self._model.embed(texts)

    def embed_query(self, text: str) -> Any:
        return self._model.embed_queries([text])[0]


class StoreEmbedding:
    """Embeds the texts of values and queries, as an IndexConfig says."""

    def __init__(self, index: dict[str, Any]) -> None:
        """Check a configuration; the embedding function is not called."""
        if set(index) - _KNOWN:
            raise errors.ConfigError(f"index: expected keys of {sorted(_KNOWN)}")
        self._distance = index.get("distance_type", "cosine")
        if self._distance not in _DISTANCES:
            msg = f'index: expected "distance_type" to be one of {_DISTANCES}'
            raise errors.ConfigError(msg)
        embed = index.get("embed")
        if embed is None:
            raise errors.ConfigError('index: needs "embed"')
        self.embeddings: Any
        self.name: str | None = embed if isinstance(embed, str) else None
        if embed == "local":
            self.embeddings = _LocalEmbeddings()
        else:
            self.embeddings = ensure_embeddings(embed)
        self._dims = index.get("dims")
        fields = index.get("fields") or index.get("text_fields") or ["$"]
        if isinstance(fields, str):
            fields = [fields]
        if not all(isinstance(field, str) for field in fields):
            raise errors.ConfigError('index: expected "fields" to be a list of paths')
        self._paths = [_path_tokens(field) for field in fields]

    def texts_to_embed(self, value: Any, index: Any) -> list[str]:
        """Return the texts of a value that get a vector each."""
        if index is False:
            return []
        paths = self._paths if index is None else [_path_tokens(path) for path in index]
        return [
            text for path in paths for text in get_text_at_path(value, path) if text
        ]

    def checked_embeddings(self, found: Any, count: int) -> list[Any]:
        """Return the embedding function's vectors; None for one that is zero."""
        matrix = np.asarray(found, np.float32)
        dims = self._dims or (matrix.shape[-1] if matrix.ndim == 2 else 0)
        if matrix.shape != (count, dims) or not np.isfinite(matrix).all():
            msg = f"embed: expected finite vectors of shape ({count}, {dims})"
            raise errors.EmbedderError(msg)
        if self._distance != "cosine":
            norms = np.linalg.norm(matrix, axis=1)
            # Only over vectors of norm 1 does the cosine determine the other distances.
            if np.any((norms != 0) & (np.abs(norms - 1) > _NORM_ERROR)):
                msg = f"embed: the distance {self._distance} needs vectors of norm 1"
                raise errors.EmbedderError(msg)
        return [row if row.any() else None for row in matrix]

    def score(self, cosine: float | None) -> float | None:
        """Return the score of a cosine between vectors of norm 1; larger is nearer."""
        if cosine is None or self._distance != "l2":
            return cosine
        return -math.sqrt(max(0.0, 2.0 - 2.0 * cosine))


def _path_tokens(path: str) -> Any:
    return path if path == "$" else tokenize_path(path)


Labels = tuple[str, ...]


def check_store_operation(op: Any) -> None:
    """Check the labels of an operation."""
    if isinstance(op, GetOp | PutOp):
        check_item_namespace(op.namespace)
    elif isinstance(op, SearchOp):
        _check_namespace_labels(op.namespace_prefix)
    elif isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            _check_namespace_labels(condition.path)
            if condition.match_type not in ("prefix", "suffix"):
                raise ValueError("match_type: must be prefix or suffix")
    else:
        raise ValueError(f"unknown operation: {type(op).__name__}")


def check_item_namespace(labels: Sequence[Any]) -> None:
    """Check the namespace of an item."""
    _check_namespace_labels(labels)
    if not labels:
        raise InvalidNamespaceError("namespace: must have a label")


def _check_namespace_labels(labels: Sequence[Any]) -> None:
    for label in labels:
        if not isinstance(label, str) or not label or "." in label or "\0" in label:
            msg = "namespace: labels are non-empty strings without a period or NUL"
            raise InvalidNamespaceError(msg)


def select_listed_namespaces(names: Iterable[Labels], op: Any) -> list[Labels]:
    """Return the namespaces that a ListNamespacesOp asks for."""
    conditions = op.match_conditions
    found = list(names)
    if conditions:
        found = [name for name in found if _is_matching_namespace(name, conditions)]
    if op.max_depth is not None:
        found = list(dict.fromkeys(name[: op.max_depth] for name in found))
    found.sort()
    return found[op.offset : op.offset + op.limit]


def common_namespace_prefix(op: Any) -> Labels:
    """Return the labels with which every wanted namespace begins."""
    best: Labels = ()
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix":
            known = tuple(takewhile(lambda label: label != "*", condition.path))
            best = max(best, known, key=len)
    return best


def _is_matching_namespace(name: Labels, conditions: Iterable[Any]) -> bool:
    for condition in conditions:
        path = tuple(condition.path)
        if len(name) < len(path):
            return False
        part = name[: len(path)]
        if condition.match_type == "suffix":
            part = name[len(name) - len(path) :]
        if any(w not in ("*", label) for w, label in zip(path, part, strict=True)):
            return False
    return True


# Keys and values that LangGraph's own stores take and items do not.

_MARK = "\x1bkey:"
"""The beginning of a stored key that is JSON."""

_PLAIN = frozenset((str, int, float, bool, type(None)))
_TEXTS = (date, datetime, time)
_MOST = 5_000


class ManyValuesError(Exception):
    """A value has more values inside than an event loop should look at."""


def stored_item_key(key: Any) -> Any:
    """Return the key of the item: a key that is empty or has NUL as JSON."""
    # Also one with a lone surrogate, or that looks like the JSON of another key.
    if type(key) is str and key and key.isprintable():
        return key  # most keys
    if not isinstance(key, str):
        return key
    odd = not key or "\0" in key or key.startswith(_MARK)
    if odd or key != key.encode("utf-8", "replace").decode():
        return _MARK + json.dumps(key)
    return key


def shown_item_key(key: str) -> str:
    """Return the key of an item as it was given."""
    if not key.startswith(_MARK):
        return key
    try:
        given: object = json.loads(key[len(_MARK) :])
    except ValueError:
        return key
    return given if isinstance(given, str) else key


def with_times_as_texts(value: Any, most: float = _MOST) -> Any:
    """Return a value with dates, times and UUIDs as texts; itself if it has none."""
    # It looks at so many values inside. What else JSON does not have stays.
    try:
        return _TimesAsTexts(most).of(value)
    except RecursionError:
        return value  # items refuse it


class _TimesAsTexts:
    __slots__ = ("left",)

    def __init__(self, left: float) -> None:
        self.left = left

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is dict or kind is list or kind is tuple:
            self.left -= len(value)
            if self.left < 0:
                raise ManyValuesError
        if kind is dict:
            made = {key: self.of(each) for key, each in value.items()}
            same = all(made[key] is each for key, each in value.items())
            return value if same else made
        if kind is list or kind is tuple:
            items = [self.of(each) for each in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else items
        if isinstance(value, _TEXTS):
            return value.isoformat()
        return str(value) if isinstance(value, UUID) else value


_FILTER_KEY = re.compile(r"[\w.\-]+", re.ASCII)
_WHOLE = ("$and", "$or", "$not")


def where_of_op(op: SearchOp) -> Any:
    """Return the conditions of a search for `Items.find`; None for none."""
    for key in op.filter or ():
        if key not in _WHOLE and not (
            isinstance(key, str) and _FILTER_KEY.fullmatch(key)
        ):
            msg = "Invalid filter key: expected letters, digits, '_', '.' and '-'"
            raise errors.InvalidArgumentError(msg)
    return with_times_as_texts(op.filter, math.inf) if op.filter else None


def to_langgraph_item(item: StoredItem | None) -> Item | None:
    """Return an item as LangGraph's `get` returns it."""
    return None if item is None else Item(**_item_fields(item))


def _item_fields(item: StoredItem) -> dict[str, Any]:
    return {
        "value": item.value,
        "key": shown_item_key(item.key),
        "namespace": item.namespace,
        "created_at": to_datetime(item.created_at),
        "updated_at": to_datetime(item.updated_at),
    }


_log = logging.getLogger("vecall")
_MINUTE_S = 60.0
_SWEEP_MINUTES = 5.0


class VecallStore(BaseStore, ClosesOnExit):
    """Long-term memory of LangGraph agents in one file.

    A namespace is a namespace of items, a key is a key, and a value is a JSON value.
    Dates, times and UUIDs in a value, or in a filter, are stored and compared as the
    texts of their `isoformat` and `str`. A search by a query returns the items that
    have vectors by cosine, best first, then the others, latest write first, with the
    score None. Without `index`, queries are ignored. An expired item is never returned.

    Safe to share between threads and event loops. A batch reads first, then writes all
    or nothing in one transaction; of several writes of one key, the last one counts.

    Args:
        memory: The path of the file, or ":memory:"; or a service, which stays open when
            the store is closed.
        app_name: The app whose items these are.
        user_id: The user whose items these are. Namespaces do not select it.
        index: LangGraph's IndexConfig: "embed" is an Embeddings, a function from texts
            to vectors, awaitable or not, "provider:model", or "local" for vecall's
            offline model. "distance_type" is "cosine", or "inner_product" or "l2" for
            vectors of norm 1. "dims" is checked if it is there. "fields" are paths of
            texts; default: the whole value. The first write with vectors calls it.
        ttl: LangGraph's TTLConfig; TTLs are in minutes.
        durability: What an acknowledged write survives: "full" is a power cut,
            "process" is the end of the process. Only for a path.

    Raises:
        ConfigError: An unusable path or configuration.
        InvalidArgumentError: An invalid name; no file was opened.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: str | Path | MemoryService | None = None,
        *,
        app_name: str = "langgraph",
        user_id: str = "default",
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        durability: Durability = "full",
    ) -> None:
        """Open the file, or use a service."""
        self._embedding = None if index is None else StoreEmbedding(dict(index))
        self.index_config = None if index is None else dict(index)
        self.ttl_config: Any = None if ttl is None else dict(ttl)
        options = StorageOptions(durability=durability)
        self._memory, self._owns = opened(
            memory, app_name, user_id, embedder=None, storage=options
        )
        self._items = self._memory.user(app_name, user_id).items
        self._sync_items = self._memory.sync.user(app_name, user_id).items
        self._sweeper: threading.Thread | None = None
        self._stopping = threading.Event()
        self._swept: Future[None] | None = None

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, **options: Any
    ) -> Iterator[VecallStore]:
        """Open a store for a `with` block.

        Args:
            conn_string: The path of the file.
            **options: As for the class.
        """
        with cls(conn_string, **options) as store:
            yield store

    @classmethod
    @asynccontextmanager
    async def afrom_conn_string(
        cls, conn_string: str, **options: Any
    ) -> AsyncIterator[VecallStore]:
        """Open a store for an `async with` block; see `from_conn_string`."""
        opening = asyncio.ensure_future(asyncio.to_thread(cls, conn_string, **options))
        try:
            store = await asyncio.shield(opening)
        except asyncio.CancelledError:
            async with await opening:  # which closes it
                raise
        async with store:
            yield store

    @property
    def embeddings(self) -> Any:
        """The embedding function; None without an index."""
        return None if self._embedding is None else self._embedding.embeddings

    def setup(self) -> None:
        """Do nothing: the file is ready when the store is."""

    def get(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Any:
        """Return an item, as `BaseStore.get`; not by a batch of one."""
        check_item_namespace(namespace)
        if refresh_ttl is None:
            refresh_ttl = (self.ttl_config or {}).get("refresh_on_read", True)
        keys = [(namespace, stored_item_key(str(key)))]
        (item,) = self._sync_items.get(keys, refresh=bool(refresh_ttl))
        return to_langgraph_item(item)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations; see `BaseStore.batch`.

        Raises:
            InvalidNamespaceError: A label that LangGraph does not allow.
            InvalidTypeError: A value that JSON does not have.
            InvalidArgumentError: Another invalid argument. Nothing was written.
            EmbedderError: The embedding function failed. Nothing was written.
        """
        return run_without_waiting(self._execute_operations(list(ops), awaits=False))

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations without blocking the event loop; as `batch`."""
        return await self._execute_operations(list(ops), awaits=True)

    async def _execute_operations(self, ops: list[Any], *, awaits: bool) -> list[Any]:
        items = self._items if awaits else self._sync_items
        through = Calls(items, self.embeddings, awaits=awaits)
        for op in ops:
            check_store_operation(op)
        if len(ops) == 1 and not isinstance(ops[0], PutOp):  # most calls
            return [await self._run_reading_operation(ops[0], through)]
        ops = [
            await _storable(op, through) if isinstance(op, PutOp) else op for op in ops
        ]
        filters = [where_of_op(op) if isinstance(op, SearchOp) else None for op in ops]
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        puts = await self._puts_of(last.values(), through)
        queries = await self._embed_queries(ops, through)
        results: list[Any] = [None] * len(ops)
        gets = {at: op for at, op in enumerate(ops) if isinstance(op, GetOp)}
        for refresh in (True, False):
            places = [at for at in gets if bool(gets[at].refresh_ttl) is refresh]
            if places:
                found = await self._get_items([gets[at] for at in places], through)
                for at, item in zip(places, found, strict=True):
                    results[at] = item
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[at] = await self._search_items(
                    op, filters[at], queries.get(op.query or ""), through
                )
            elif isinstance(op, ListNamespacesOp):
                results[at] = await self._run_reading_operation(op, through)
        if puts:
            name = None if self._embedding is None else self._embedding.name
            await through.call_items("write", puts, embedder=name)
        return results

    async def _run_reading_operation(self, op: Any, through: Calls) -> Any:
        """Execute an operation that writes nothing."""
        if isinstance(op, GetOp):
            return (await self._get_items([op], through))[0]
        if isinstance(op, ListNamespacesOp):
            names = await through.call_items("namespaces", common_namespace_prefix(op))
            return select_listed_namespaces(names, op)
        where = where_of_op(op)
        vectors = await self._embed_queries([op], through)
        return await self._search_items(op, where, vectors.get(op.query or ""), through)

    async def _get_items(self, ops: list[GetOp], through: Calls) -> list[Item | None]:
        """Read items; either all of their TTLs begin again, or none."""
        keys = [(op.namespace, stored_item_key(op.key)) for op in ops]
        refresh = bool(ops[0].refresh_ttl)
        found = await through.call_items("get", keys, refresh=refresh)
        return [to_langgraph_item(item) for item in found]

    async def _search_items(
        self, op: SearchOp, where: Any, vector: Any, through: Calls
    ) -> list[SearchItem]:
        if op.limit <= 0:
            return []
        named = None if vector is None or not self._embedding else self._embedding.name
        found = await through.call_items(
            "find",
            op.namespace_prefix,
            vector=vector,
            where=where,
            limit=op.limit,
            offset=op.offset,
            embedder=named,
            refresh=bool(op.refresh_ttl),
        )
        score = self._embedding.score if self._embedding else (lambda cosine: cosine)
        return [
            SearchItem(**_item_fields(item), score=score(item.score)) for item in found
        ]

    async def _embed_queries(self, ops: list[Any], through: Calls) -> dict[str, Any]:
        if self._embedding is None:
            return {}
        asked = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        found = {}
        for query in dict.fromkeys(asked):
            vector = np.asarray(await through.embed_query(query), np.float32)
            found[query] = self._embedding.checked_embeddings(vector[None], 1)[0]
        return found

    async def _puts_of(self, ops: Iterable[PutOp], through: Calls) -> list[Put | Drop]:
        """Return the writes; the texts of all values are embedded in one call."""
        texts_of: dict[int, list[str]] = {
            id(op): self._embedding.texts_to_embed(op.value, op.index)
            for op in ops
            if self._embedding is not None and op.value is not None
        }
        vectors: dict[str, Any] = {}
        texts = list(dict.fromkeys(chain.from_iterable(texts_of.values())))
        if self._embedding is not None and texts:
            found = await through.embed_documents(texts)
            checked = self._embedding.checked_embeddings(found, len(texts))
            vectors = dict(zip(texts, checked, strict=True))
        puts: list[Put | Drop] = []
        for op in ops:
            if op.value is None:
                puts.append(Drop(op.namespace, op.key))
                continue
            own = [vectors[text] for text in texts_of.get(id(op), ())]
            rows = [vector for vector in own if vector is not None]
            ttl = None if op.ttl is None else op.ttl * _MINUTE_S
            matrix = np.stack(rows) if rows else None
            puts.append(Put(op.namespace, op.key, op.value, matrix, ttl))
        return puts

    def sweep_ttl(self) -> int:
        """Delete the expired items; return their number."""
        return self._sync_items.sweep()

    def start_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> Future[None]:
        """Delete expired items regularly, in a thread of its own.

        If a sweep fails, the logger "vecall" has a warning without content, and the
        next sweep tries again.

        Args:
            sweep_interval_minutes: Minutes between two sweeps; default: that of the
                TTLConfig, else 5.

        Returns:
            A future that is done when the sweeper has stopped. `cancel` stops it. It
            has a `ClosedError` if the service was closed before the sweeper stopped.
        """
        if not self.ttl_config:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        if self._swept is not None and not self._swept.done():
            return self._swept
        minutes = (
            sweep_interval_minutes
            or self.ttl_config.get("sweep_interval_minutes")
            or _SWEEP_MINUTES
        )
        self._stopping = stopping = threading.Event()
        ended: Future[None] = Future()
        self._swept = ended
        ended.add_done_callback(lambda _: stopping.set())

        def sweep() -> None:
            try:
                while not stopping.wait(float(minutes) * _MINUTE_S):
                    try:
                        self.sweep_ttl()
                    except errors.ClosedError:
                        raise
                    except Exception as error:
                        name = type(error).__name__
                        _log.warning("expired items were not deleted: %s", name)
            except BaseException as error:
                if not ended.done():
                    ended.set_exception(error)
            else:
                if not ended.done():
                    ended.set_result(None)

        self._sweeper = threading.Thread(
            target=sweep, name="vecall-ttl-sweeper", daemon=True
        )
        self._sweeper.start()
        return ended

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper; return whether it has ended.

        Args:
            timeout: Seconds to wait; None waits until it has ended.
        """
        sweeper = self._sweeper
        if sweeper is None or not sweeper.is_alive():
            return True
        self._stopping.set()
        sweeper.join(timeout)
        return not sweeper.is_alive()

    def close(self) -> None:
        """Stop the sweeper, and close the file if the store opened it."""
        self.stop_ttl_sweeper()
        if self._owns:
            self._memory.close()


async def _storable(op: PutOp, through: Calls) -> PutOp:
    """Return a write with a key and a value that items take."""
    try:
        value = with_times_as_texts(op.value)
    except ManyValuesError:
        value = await through.call_long(with_times_as_texts, op.value, math.inf)
    return op._replace(key=stored_item_key(op.key), value=value)
