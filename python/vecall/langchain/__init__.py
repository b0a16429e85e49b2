"""LangChain's vector store and chat message history over vecall's items.

`vecall.langchain.middleware` is a memory for LangChain's agents.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vecall.concurrency.join import run_async, run_sync
from vecall.errors import EmbedderError, InvalidArgumentError, needs_extra
from vecall.item_collections import ItemLog, opened, read_log_as
from vecall.service.memory_service import MemoryService
from vecall.types import Drop, Item, Put
from vecall.validation import check_name

with needs_extra(__name__, "langchain-core", "langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
    from langchain_core.vectorstores import VectorStore

__all__ = ["VecallChatMessageHistory", "VecallVectorStore"]

_PLACE = ("langchain", "history")


class VecallChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session of one user, in the file of a memory service.

    Messages are stored apart from memories: a search does not find them; `delete_user`
    deletes them. Several processes may use one session. Every call is one transaction,
    and returns when it is durable. On an event loop, use `aget_messages`,
    `aadd_messages` and `aclear`; the other methods block.

    Args:
        session_id: The id of the session.
        memory: The memory service.
        app_name: The app.
        user_id: The user.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    def __init__(
        self, session_id: str, memory: MemoryService, app_name: str, user_id: str
    ) -> None:
        """Bind the history to one session; reads and writes nothing."""
        self.session_id = check_name(session_id, "session_id", memory.limits)
        self._log = ItemLog(memory, app_name, user_id, (*_PLACE, session_id))

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, in order; reading it blocks."""
        return _messages_of_values(run_sync(self._log.read_values()))

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, in order."""
        return await read_log_as(self._log, _messages_of_values)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, all or none but what is too large.

        Raises:
            InvalidTypeError: A message has a value that JSON does not have; nothing was
                added.
            LimitExceededError: A message is too large; the others were added. Or
                there are more than 9,999; nothing was added.
        """
        run_sync(self._log.append_values(_values_of_messages(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end; see `add_messages`."""
        await run_async(self._log.append_values(_values_of_messages(messages)))

    def clear(self) -> None:
        """Remove all messages."""
        run_sync(self._log.clear_log())

    async def aclear(self) -> None:
        """Remove all messages."""
        await run_async(self._log.clear_log())


def _values_of_messages(messages: Sequence[BaseMessage]) -> list[Any]:
    return [message_to_dict(message) for message in messages]


def _messages_of_values(values: list[Any]) -> list[BaseMessage]:
    messages: list[BaseMessage] = messages_from_dict(values)
    return messages


class VecallVectorStore(VectorStore):
    """Documents with vectors in one file. Scores are cosines.

    A document's id is the key of an item, its text and metadata are the value. A text
    with a zero vector is stored, but no search finds it. Thread-safe. The asynchronous
    methods run on LangChain's threads.

    Args:
        embedding: The embedding function.
        memory: The path of the file, or ":memory:"; or a service, which stays open when
            the store is closed.
        collection: The namespace of the documents.
        app_name: The app whose items the documents are.
        user_id: The user whose items the documents are.
    """

    def __init__(
        self,
        embedding: Any,
        memory: str | Path | MemoryService | None = None,
        *,
        collection: str = "documents",
        app_name: str = "langchain",
        user_id: str = "default",
    ) -> None:
        """Open the file, or use a service."""
        self._embedding = embedding
        self._memory, self._owns = opened(memory, app_name, user_id, embedder=None)
        self._items = self._memory.sync.user(app_name, user_id).items
        self._namespace = (collection,)

    @property
    def embeddings(self) -> Any:
        """The embedding function."""
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Any,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **options: Any,
    ) -> VecallVectorStore:
        """Open a store and add texts; `options` are those of the class."""
        store = cls(embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **unknown: Any,
    ) -> list[str]:
        """Embed and store texts in one transaction; replace those with the same id.

        Returns:
            The ids, also those that were made.

        Raises:
            InvalidArgumentError: Lists of different lengths, or an unknown option.
            EmbedderError: The embedding function returned other than one vector a text.
        """
        _check_no_unknown_options(unknown)
        given = list(texts)
        metas = [{} for _ in given] if metadatas is None else list(metadatas)
        names: list[str | None] = [None] * len(given) if ids is None else list(ids)
        if not len(given) == len(metas) == len(names):
            msg = "texts, metadatas, ids: must have the same length"
            raise InvalidArgumentError(msg)
        if not given:
            return []
        keys = [name or str(uuid.uuid4()) for name in names]
        vectors = np.asarray(self._embedding.embed_documents(given), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(given):
            raise EmbedderError("embedding: expected one vector for each text")
        puts = [
            Put(
                self._namespace,
                key,
                {"text": text, "metadata": meta},
                vector if vector.any() else None,
            )
            for key, text, meta, vector in zip(keys, given, metas, vectors, strict=True)
        ]
        self._items.write(puts)
        return keys

    def delete(self, ids: list[str] | None = None, **unknown: Any) -> bool | None:
        """Delete documents by id, or all; unknown ids are ignored."""
        _check_no_unknown_options(unknown)
        if ids is None:
            self._items.delete(self._namespace)
        else:
            drops = [Drop(self._namespace, key) for key in ids]
            self._items.write(drops)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that exist of some ids."""
        found = self._items.get([(self._namespace, key) for key in ids])
        return [_document_of_item(item) for item in found if item is not None]

    def similarity_search(
        self, query: str, k: int = 4, **options: Any
    ) -> list[Document]:
        """Return the nearest documents to a text, best first."""
        found = self.similarity_search_with_score(query, k, **options)
        return [document for document, _ in found]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the nearest documents to a text with their cosines, best first.

        Args:
            query: The text.
            k: Maximum number of documents.
            **options: `filter`, conditions on the metadata as in `Items.find`.
        """
        vector = self._embedding.embed_query(query)
        return self._nearest_documents(vector, k, **options)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Any
    ) -> list[Document]:
        """Return the nearest documents to a vector."""
        return [each for each, _ in self._nearest_documents(embedding, k, **options)]

    def _nearest_documents(
        self,
        vector: Sequence[float],
        k: int,
        filter: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> list[tuple[Document, float]]:
        _check_no_unknown_options(unknown)
        if not np.any(vector):
            return []
        found = self._items.find(
            self._namespace,
            vector=vector,
            where={"metadata": filter} if filter else None,
            limit=k,
            only_with_vector=True,
        )
        return [(_document_of_item(item), item.score or 0.0) for item in found]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(1.0, max(0.0, cosine))

    def close(self) -> None:
        """Close the file if the store opened it."""
        if self._owns:
            self._memory.close()


def _check_no_unknown_options(unknown: Mapping[str, Any]) -> None:
    if unknown:
        msg = "unknown options; known are ids, and filter in a search"
        raise InvalidArgumentError(msg)


def _document_of_item(item: Item) -> Document:
    return Document(
        id=item.key, page_content=item.value["text"], metadata=item.value["metadata"]
    )
