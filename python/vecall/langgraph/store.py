"""VecallStore: LangGraph's `BaseStore` over items."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)

from vecall.errors import ClosedError
from vecall.item_types import Drop, Put
from vecall.langgraph.calls import Awaiting, Blocking, finished
from vecall.langgraph.embedding import StoreEmbedding, distinct
from vecall.langgraph.filters import where_of
from vecall.langgraph.namespaces import (
    check_item_namespace,
    check_operation,
    known_prefix,
    listed,
)
from vecall.langgraph.returned_items import to_item, to_search_item
from vecall.langgraph.values import ManyValuesError, plain, stored_key
from vecall.operations.options import StorageOptions
from vecall.service.memory_service import MemoryService
from vecall.store import Durability
from vecall.validation import checked_owner

_log = logging.getLogger("vecall")
_MINUTE_S = 60.0
_SWEEP_MINUTES = 5.0


class VecallStore(BaseStore):
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
        self._owns = not isinstance(memory, MemoryService)
        self._embedding = None if index is None else StoreEmbedding(dict(index))
        self.index_config = None if index is None else dict(index)
        self.ttl_config: Any = None if ttl is None else dict(ttl)
        if isinstance(memory, MemoryService):
            self._memory = memory
        else:
            checked_owner(app_name, user_id)
            options = StorageOptions(durability=durability)
            self._memory = MemoryService(memory, embedder=None, storage=options)
        self._memory.user(app_name, user_id)  # checks the names
        self._owner = {"app_name": app_name, "user_id": user_id}
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
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            async with await opening:  # which closes it
                raise
        async with opened as store:
            yield store

    @property
    def embeddings(self) -> Any:
        """The embedding function; None without an index."""
        return None if self._embedding is None else self._embedding.embeddings

    def setup(self) -> None:
        """Do nothing: the file is ready when the store is."""

    def get(
        self,
        namespace: tuple[str, ...],
        key: str,
        *,
        refresh_ttl: bool | None = None,
    ) -> Any:
        """Return an item, as `BaseStore.get`; not by a batch of one."""
        check_item_namespace(namespace)
        if refresh_ttl is None:
            refresh_ttl = (self.ttl_config or {}).get("refresh_on_read", True)
        (item,) = self._memory.items.sync.get(
            [(namespace, stored_key(str(key)))],
            refresh=bool(refresh_ttl),
            **self._owner,
        )
        return None if item is None else to_item(item)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations; see `BaseStore.batch`.

        Raises:
            InvalidNamespaceError: A label that LangGraph does not allow.
            InvalidTypeError: A value that JSON does not have.
            InvalidArgumentError: Another invalid argument. Nothing was written.
            EmbedderError: The embedding function failed. Nothing was written.
        """
        return finished(
            self._execute(
                list(ops),
                Blocking(self._memory.items.sync, self._owner, self.embeddings),
            )
        )

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations without blocking the event loop; as `batch`."""
        return await self._execute(
            list(ops), Awaiting(self._memory.items, self._owner, self.embeddings)
        )

    async def _execute(self, ops: list[Any], through: Any) -> list[Any]:
        for op in ops:
            check_operation(op)
        if len(ops) == 1 and not isinstance(ops[0], PutOp):  # most calls
            return [await self._read(ops[0], through)]
        ops = [
            await _stored(op, through) if isinstance(op, PutOp) else op for op in ops
        ]
        filters = [where_of(op) if isinstance(op, SearchOp) else None for op in ops]
        vectors = await self._vectors(ops, through)
        puts = self._puts(ops, vectors)
        queries = await self._queries(ops, through)
        results: list[Any] = [None] * len(ops)
        gets: dict[bool, list[int]] = {True: [], False: []}
        for at, op in enumerate(ops):
            if isinstance(op, GetOp):
                gets[bool(op.refresh_ttl)].append(at)
        for refresh, places in gets.items():
            keys = [(ops[at].namespace, stored_key(ops[at].key)) for at in places]
            if keys:
                items = await through.items("get", keys, refresh=refresh)
                for at, item in zip(places, items, strict=True):
                    results[at] = None if item is None else to_item(item)
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[at] = await self._search(
                    op, filters[at], queries.get(op.query or ""), through
                )
            elif isinstance(op, ListNamespacesOp):
                results[at] = await self._read(op, through)
        if puts:
            name = None if self._embedding is None else self._embedding.name
            await through.items("write", puts, embedder=name)
        return results

    async def _read(self, op: Any, through: Any) -> Any:
        """Execute an operation that writes nothing."""
        if isinstance(op, GetOp):
            keys = [(op.namespace, stored_key(op.key))]
            refresh = bool(op.refresh_ttl)
            (item,) = await through.items("get", keys, refresh=refresh)
            return None if item is None else to_item(item)
        if isinstance(op, ListNamespacesOp):
            names = await through.items("namespaces", known_prefix(op))
            return listed(names, op)
        where = where_of(op)
        vectors = await self._queries([op], through)
        return await self._search(op, where, vectors.get(op.query or ""), through)

    async def _search(
        self, op: SearchOp, where: Any, vector: Any, through: Any
    ) -> list[SearchItem]:
        if op.limit <= 0:
            return []
        named = None if vector is None or not self._embedding else self._embedding.name
        found = await through.items(
            "find",
            op.namespace_prefix,
            vector=vector,
            where=where,
            limit=op.limit,
            offset=op.offset,
            embedder=named,
            refresh=bool(op.refresh_ttl),
        )
        return [to_search_item(item, self._embedding) for item in found]

    async def _vectors(self, ops: list[Any], through: Any) -> dict[str, Any]:
        """Embed the texts of all values in one call."""
        if self._embedding is None:
            return {}
        wanted = {
            (op.namespace, op.key): op for op in ops if isinstance(op, PutOp)
        }.values()
        texts = distinct(
            [
                text
                for op in wanted
                if op.value is not None
                for text in self._embedding.texts_of(op.value, op.index)
            ]
        )
        if not texts:
            return {}
        found = await through.embed_documents(texts)
        checked = self._embedding.checked(found, len(texts))
        return dict(zip(texts, checked, strict=True))

    async def _queries(self, ops: list[Any], through: Any) -> dict[str, Any]:
        if self._embedding is None:
            return {}
        asked = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        found = {}
        for query in distinct(asked):
            vector = np.asarray(await through.embed_query(query), np.float32)
            found[query] = self._embedding.checked(vector[None], 1)[0]
        return found

    def _puts(self, ops: list[Any], vectors: Mapping[str, Any]) -> list[Put | Drop]:
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        puts: list[Put | Drop] = []
        for (namespace, key), op in last.items():
            if op.value is None:
                puts.append(Drop(namespace, key))
                continue
            texts = []
            if self._embedding is not None:
                texts = self._embedding.texts_of(op.value, op.index)
            found = [vectors[text] for text in texts]
            rows = [vector for vector in found if vector is not None]
            ttl = None if op.ttl is None else op.ttl * _MINUTE_S
            matrix = np.stack(rows) if rows else None
            puts.append(Put(namespace, key, op.value, matrix, ttl))
        return puts

    def sweep_ttl(self) -> int:
        """Delete the expired items; return their number."""
        return self._memory.items.sync.sweep(**self._owner)

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
                    except ClosedError:
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

    def __enter__(self) -> VecallStore:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    async def __aenter__(self) -> VecallStore:
        """Return the store."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store on another thread."""
        await asyncio.to_thread(self.close)


async def _stored(op: PutOp, through: Any) -> PutOp:
    """Return a write with a key and a value that items take."""
    try:
        value = plain(op.value)
    except ManyValuesError:
        value = await through.apart(plain, op.value, math.inf)
    return op._replace(key=stored_key(op.key), value=value)
