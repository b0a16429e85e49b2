"""LlamaIndex: a vector store and a memory block. Needs vecall[llama-index]."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vecall import errors
from vecall.concurrency.join import on_thread
from vecall.ingest.parts import is_spoken_role, is_user_name
from vecall.item_collections import ItemCollection, document_embedding
from vecall.prompts.render import estimate_tokens
from vecall.service.memory_service import MemoryService
from vecall.tools import PreloadMemory, UnaskedFloor
from vecall.types import UNSET, Event, Item

with errors.needs_extra(__name__, "llama-index-core", "llama-index"):
    from llama_index.core.base.llms.types import ChatMessage, TextBlock
    from llama_index.core.bridge.pydantic import PrivateAttr, field_serializer
    from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
    from llama_index.core.memory.memory import BaseMemoryBlock
    from llama_index.core.schema import BaseNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import (
        metadata_dict_to_node,
        node_to_metadata_dict,
    )

__all__ = ["VecallMemoryBlock", "VecallVectorStore"]

_EMPTY: tuple[Any, ...] = (None, "", [])


def metadata_matches(filters: MetadataFilters, metadata: Mapping[str, Any]) -> bool:
    """Whether metadata meet filters; filters may contain filters.

    A missing or null field meets `!=`, `nin` and `is_empty` only. Values that have no
    order do not meet an order comparison.
    """
    if not filters.filters:
        return True
    held = (
        metadata_matches(each, metadata)
        if isinstance(each, MetadataFilters)
        else _meets_filter(each, metadata)
        for each in filters.filters
    )
    condition = filters.condition or FilterCondition.AND
    if condition == FilterCondition.AND:
        return all(held)
    if condition == FilterCondition.OR:
        return any(held)
    return not any(held)


def where_of(filters: MetadataFilters | None) -> dict[str, Any] | None:
    """Return conditions for `Items.find` that every match meets."""
    # They have the exact comparisons of an "and" with texts.
    if filters is None or filters.condition not in {None, FilterCondition.AND}:
        return None
    parts = [
        {"document": {"metadata": {each.key: each.value}}}
        for each in filters.filters
        if isinstance(each, MetadataFilter)
        and each.operator == FilterOperator.EQ
        and isinstance(each.value, str)
        and not each.key.startswith("$")
    ]
    return {"$and": parts} if parts else None


def _meets_filter(given: MetadataFilter, metadata: Mapping[str, Any]) -> bool:
    stored = metadata.get(given.key)
    if given.operator == FilterOperator.IS_EMPTY:
        return any(stored == each for each in _EMPTY)
    if stored is None:
        return given.operator in {FilterOperator.NE, FilterOperator.NIN}
    try:
        return _TESTS[given.operator](stored, given.value)
    except TypeError:
        return False


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise errors.InvalidArgumentError(
            "filters: this operator expects a list of values"
        )
    return value


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise errors.InvalidArgumentError("filters: a text match expects a text")
    return value


def _has_text(stored: Any, wanted: str, fold: Callable[[str], str] = str) -> bool:
    return isinstance(stored, str) and fold(wanted) in fold(stored)


_TESTS: dict[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.EQ: lambda stored, value: bool(stored == value),
    FilterOperator.NE: lambda stored, value: bool(stored != value),
    FilterOperator.GT: lambda stored, value: bool(stored > value),
    FilterOperator.GTE: lambda stored, value: bool(stored >= value),
    FilterOperator.LT: lambda stored, value: bool(stored < value),
    FilterOperator.LTE: lambda stored, value: bool(stored <= value),
    FilterOperator.IN: lambda stored, value: stored in _as_list(value),
    FilterOperator.NIN: lambda stored, value: stored not in _as_list(value),
    FilterOperator.CONTAINS: lambda stored, value: value in stored,
    FilterOperator.ANY: lambda stored, value: any(v in stored for v in _as_list(value)),
    FilterOperator.ALL: lambda stored, value: all(v in stored for v in _as_list(value)),
    FilterOperator.TEXT_MATCH: lambda stored, value: _has_text(stored, _as_text(value)),
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda stored, value: _has_text(
        stored, _as_text(value), str.lower
    ),
}

_BULLET = re.compile(r"\n(?=- )")


class VecallMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory of one user as a block of LlamaIndex's `Memory`.

    Reading searches for the last user message and returns the memories as bullets;
    a failing search is logged without content and returns "". Messages that leave the
    short-term memory are stored, durably, as turns of their session; messages of other
    roles than user and assistant are not. Recalled text is not stored again.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        name: The name of the block.
        description: What the block holds.
        priority: 0 is never truncated.
        max_entries: Maximum number of memories in the block.
        max_tokens: Maximum number of tokens of the block.
        min_confidence: The least confidence of a memory, in [0, 1]; default: see
            `vecall.tools.PreloadMemory`.

    Raises:
        InvalidArgumentError: A name or a number is invalid.
    """

    _user: Any = PrivateAttr()
    _preload: Any = PrivateAttr()

    def __init__(
        self,
        memory: MemoryService,
        app_name: str,
        user_id: str,
        *,
        name: str = "long_term_memory",
        description: str | None = "Long-term memories of the user.",
        priority: int = 1,
        max_entries: int = 5,
        max_tokens: int = 1_000,
        min_confidence: UnaskedFloor = UNSET,
    ) -> None:
        """Bind the block to one user."""
        super().__init__(name=name, description=description, priority=priority)
        self._user = memory.user(app_name, user_id)
        self._preload = PreloadMemory(
            memory,
            app_name,
            user_id,
            max_entries=max_entries,
            max_tokens=max_tokens,
            min_confidence=min_confidence,
            format="bullets",
        )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> VecallMemoryBlock:
        """Return a copy that shares the service."""
        del memo
        copied: VecallMemoryBlock = self.__copy__()
        return copied

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> str:
        """Return the memories for the last user message; "" without one."""
        del block_kwargs  # options of other blocks
        for message in reversed(messages or []):
            if is_user_name(message.role) and (message.content or "").strip():
                block: str = await self._preload.block(message.content)
                return block
        return ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store the texts of user and assistant messages as turns of their session."""
        now = time.time()
        by_session: dict[str | None, list[Event]] = {}
        for at, message in enumerate(messages):
            text = message.content or ""
            if is_spoken_role(message.role) and text.strip():
                session = message.additional_kwargs.get("session_id")
                event = Event(text, author=message.role.value, timestamp=now + at / 1e6)
                by_session.setdefault(session, []).append(event)
        failure: errors.VecallError | None = None
        for session, events in by_session.items():
            try:
                await self._user.add_events(events, session_id=session)
            except errors.VecallError as error:  # the other sessions do not pay for it
                failure = failure or error
        if failure is not None:
            raise failure

    async def atruncate(self, content: Any, tokens_to_truncate: int) -> Any:
        """Drop the last bullets until so many tokens are saved.

        Args:
            content: The block: a text, or LlamaIndex's content blocks.
            tokens_to_truncate: Number of tokens to save.

        Returns:
            The shorter block, of the same type; None if no bullet is left.
        """
        plain = isinstance(content, str)
        text = content if plain else "\n".join(getattr(b, "text", "") for b in content)
        most = estimate_tokens(text) - tokens_to_truncate
        bullets = _BULLET.split(text)
        while len(bullets) > 1:
            bullets.pop()
            shorter = "\n".join(bullets)
            if len(bullets) > 1 and estimate_tokens(shorter) <= most:
                return shorter if plain else [TextBlock(text=shorter)]
        return None


_MMR_CANDIDATES = 4  # for each wanted result


class VecallVectorStore(BasePydanticVectorStore):
    """Nodes with embeddings in one file. Similarities are cosines. Thread-safe.

    A node is an item under its node id; a node with a stored id replaces it. The store
    holds texts, so an index needs no other store. A zero embedding is stored, but no
    search finds the node. The modes "default" and "mmr" are available. The
    asynchronous methods run in threads.

    `from_dict(to_dict())` and pickle make a store of the same file. A store of a
    service is restored by `from_dict(to_dict(), memory=service)`. Copies, also deep
    ones, share the file or the service.

    Args:
        memory: The path of the file, or ":memory:", which the first call opens; or a
            service, which stays open. `to_dict` has a path as it is, so keep passwords
            out of URLs.
        collection: The namespace of the nodes.
        app_name: The app whose items the nodes are.
        user_id: The user whose items the nodes are.
        stores_text: LlamaIndex's; an index needs no other store for texts.
        is_embedding_query: LlamaIndex's; queries are embeddings.

    Raises:
        InvalidTypeError: `memory` is no path and no service.
        InvalidArgumentError: An invalid name; no file was opened.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    memory: Any
    collection: str
    app_name: str
    user_id: str
    _documents: ItemCollection = PrivateAttr()

    def __init__(
        self,
        memory: str | Path | MemoryService,
        *,
        collection: str = "nodes",
        app_name: str = "llama-index",
        user_id: str = "default",
        stores_text: bool = True,
        is_embedding_query: bool = True,
    ) -> None:
        """Open nothing yet."""
        given: object = memory
        if not isinstance(given, str | Path | MemoryService):
            msg = "memory: expected a path or a service; `to_dict` has no service"
            raise errors.InvalidTypeError(msg)
        stored = ItemCollection(memory, app_name, user_id, ("llama-index", collection))
        super().__init__(
            memory=memory,
            collection=collection,
            app_name=app_name,
            user_id=user_id,
            stores_text=stores_text,
            is_embedding_query=is_embedding_query,
        )
        self._documents = stored

    @field_serializer("memory")  # type: ignore[misc]
    def _memory_as_text(self, memory: Any) -> str | None:
        return None if isinstance(memory, MemoryService) else str(memory)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> VecallVectorStore:
        """Return a copy that shares the file or the service."""
        del memo
        copied: VecallVectorStore = self.__copy__()
        return copied

    def __getstate__(self) -> dict[Any, Any]:
        """Return the arguments of the store, for pickle.

        Raises:
            ConfigError: The store is over a service, or over ":memory:".
        """
        if isinstance(self.memory, MemoryService) or self.memory == ":memory:":
            msg = "memory: only a store over the path of a file can be pickled"
            raise errors.ConfigError(msg)
        state: dict[Any, Any] = {"__dict__": dict(self.__dict__)}
        return state

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Open nothing yet, of pickled arguments."""
        self.__init__(**state["__dict__"])  # type: ignore[misc]

    @classmethod
    def class_name(cls) -> str:
        """The name of the class, for LlamaIndex."""
        return "VecallVectorStore"

    @property
    def client(self) -> Any:
        """The collection of items."""
        return self._documents

    def add(self, nodes: Sequence[BaseNode], **add_kwargs: Any) -> list[str]:
        """Store nodes with their embeddings; return their ids.

        Raises:
            ValueError: A node has no embedding.
            InvalidTypeError: Metadata that are not JSON.
            DimensionError: An embedding has another dimension than the stored ones.
        """
        del add_kwargs  # other stores' options, which an index passes on
        puts = []
        for node in nodes:
            metadata = node_to_metadata_dict(node, flat_metadata=False)
            document = {"metadata": metadata, "ref_doc_id": node.ref_doc_id}
            puts.append(
                self._documents.write_of(node.node_id, document, node.get_embedding())
            )
        self._documents.write(puts)
        return [node.node_id for node in nodes]

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes with some ids, or all, that meet filters."""
        return [_node_of_item(item) for item in self._chosen_items(node_ids, filters)]

    def _chosen_items(
        self, node_ids: Sequence[str] | None, filters: MetadataFilters | None
    ) -> list[Item]:
        test = _test_of_item_filters(filters)
        if node_ids is None:
            return self._documents.scan(where_of(filters), test)
        found = self._documents.get_documents(dict.fromkeys(node_ids))
        return [item for item in found if item is not None and (not test or test(item))]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a source document."""
        del delete_kwargs
        where = {"document": {"ref_doc_id": ref_doc_id}}
        self._documents.change(where, None, self._documents.deletion_of)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete the nodes with some ids, or all, that meet filters."""
        del delete_kwargs
        if node_ids is None:
            test = _test_of_item_filters(filters)
            self._documents.change(where_of(filters), test, self._documents.deletion_of)
        else:
            chosen = self._chosen_items(node_ids, filters)
            self._documents.delete_documents([item.key for item in chosen])

    def clear(self) -> None:
        """Delete all nodes of the collection."""
        self._documents.delete_all_documents()

    def close(self) -> None:
        """Close the file, if the store opened it; the next call opens it again."""
        self._documents.close()

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes next to an embedding with their cosines, best first.

        Args:
            query: The embedding, the number of nodes, and conditions on node ids,
                document ids and metadata. An empty list of ids is no condition, as an
                index passes it.
            **kwargs: `mmr_threshold`, in [0, 1], of the mode "mmr".

        Raises:
            InvalidArgumentError: Another mode, no embedding, or an invalid filter.
            DimensionError: The stored embeddings have another dimension.
        """
        if query.mode not in {VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR}:
            raise errors.InvalidArgumentError('mode: expected "default" or "mmr"')
        if query.query_embedding is None:
            raise errors.InvalidArgumentError("query_embedding: expected numbers")
        is_mmr = query.mode == VectorStoreQueryMode.MMR
        most = query.similarity_top_k
        found = self._documents.nearest_documents(
            query.query_embedding,
            most * _MMR_CANDIDATES if is_mmr else most,
            where_of(query.filters),
            _test_of_item_filters(query.filters, query.node_ids, query.doc_ids),
        )
        if is_mmr and found:
            threshold = kwargs.get("mmr_threshold", query.mmr_threshold)
            scores, places = get_top_k_mmr_embeddings(
                query.query_embedding,
                [document_embedding(item) or [] for item, _ in found],
                similarity_top_k=most,
                embedding_ids=list(range(len(found))),
                mmr_threshold=threshold,
            )
            chosen = zip(places, scores, strict=True)
            found = [(found[at][0], score) for at, score in chosen]
        return VectorStoreQueryResult(
            nodes=[_node_of_item(item) for item, _ in found],
            similarities=[score for _, score in found],
            ids=[item.key for item, _ in found],
        )

    aget_nodes = on_thread(get_nodes, "a{}")
    async_add = on_thread(add, "async_{}")  # type: ignore[arg-type]
    adelete = on_thread(delete, "a{}")  # type: ignore[arg-type]
    adelete_nodes = on_thread(delete_nodes, "a{}")  # type: ignore[arg-type]
    aclear = on_thread(clear, "a{}")
    aquery = on_thread(query, "a{}")  # type: ignore[arg-type]


def _test_of_item_filters(
    filters: MetadataFilters | None,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Callable[[Item], bool] | None:
    """Return the conditions as a test of an item; None if there are none."""
    if not (node_ids or doc_ids or (filters and filters.filters)):
        return None
    nodes = set(node_ids or ())
    sources = set(doc_ids or ())

    def test(item: Item) -> bool:
        document = item.value["document"]
        if nodes and item.key not in nodes:
            return False
        if sources and document["ref_doc_id"] not in sources:
            return False
        return filters is None or metadata_matches(filters, document["metadata"])

    return test


def _node_of_item(item: Item) -> BaseNode:
    return metadata_dict_to_node(item.value["document"]["metadata"])
