"""VecallDocumentStore: Haystack's document store over items."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import Secret, deserialize_secrets_inplace
from haystack.utils.filters import document_matches_filter

from vecall.errors import ConflictError, InvalidTypeError, VecallError
from vecall.haystack.bm25 import bm25_scores
from vecall.haystack.filters import check_filters, where_of
from vecall.haystack.metadata import MetadataQueries
from vecall.item_collection import ItemCollection, embedding_of
from vecall.item_types import Item, Put
from vecall.validation import check_storage_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATTEMPTS = 20  # of a write that meets other writes of the same documents


class VecallDocumentStore(MetadataQueries):
    """Documents with embeddings in one file. Similarities are cosines. Thread-safe.

    A document is an item under its id. Documents come in the order in which they were
    written. Filters have Haystack's meaning, which its own function decides. A write of
    up to 5,000 documents is one transaction. Methods that end in `_async` run in
    threads.

    Args:
        path: The path of the file, ":memory:", or the URL of a database; the first call
            opens it. `to_dict` has a text as it is. Give a URL with a password as
            Haystack's `Secret`: `to_dict` has the name of its variable, which the first
            call reads.
        collection: The namespace of the documents.
        app_name: The app whose items the documents are.
        user_id: The user whose items the documents are.
    """

    def __init__(
        self,
        path: str | Secret = "vecall.db",
        *,
        collection: str = "documents",
        app_name: str = "haystack",
        user_id: str = "default",
    ) -> None:
        """Open nothing yet."""
        is_secret = isinstance(path, Secret)
        if not is_secret:  # its text would be a file's name, whatever it is
            check_storage_path(path)
        self._given: dict[str, Any] = {
            "path": path if is_secret else str(path),
            "collection": collection,
            "app_name": app_name,
            "user_id": user_id,
        }
        self._documents = ItemCollection(
            partial(_revealed, path) if isinstance(path, Secret) else str(path),
            app_name,
            user_id,
            ("haystack", collection),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of the store, for a pipeline's file.

        Raises:
            ValueError: The path is a `Secret` that is no environment variable.
        """
        path = self._given["path"]
        given = self._given
        if isinstance(path, Secret):
            given = {**given, "path": path.to_dict()}
        made: dict[str, Any] = default_to_dict(self, **given)
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VecallDocumentStore:
        """Return the store that `to_dict` describes."""
        given = dict(data.get("init_parameters", {}))
        deserialize_secrets_inplace(
            given, [name for name in ("path",) if isinstance(given.get(name), dict)]
        )
        made: VecallDocumentStore = default_from_dict(
            cls, {**data, "init_parameters": given}
        )
        return made

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._documents.close()

    def count_documents(self) -> int:
        """Return the number of documents."""
        with _translated():
            return self._documents.count()

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match filters; None or {}: all.

        Raises:
            FilterError: Invalid filters.
        """
        with _translated():
            found = self._documents.scan(*_conditions(filters))
        return [document_of(item) for item in found]

    def write_documents(
        self,
        documents: list[Document],
        policy: DuplicatePolicy = DuplicatePolicy.NONE,
    ) -> int:
        """Store documents; return the number of those that were written.

        Args:
            documents: The documents.
            policy: What to do with a document whose id is stored, or occurs twice. NONE
                is FAIL: then none is written, of up to 5,000.

        Raises:
            DuplicateDocumentError: The policy is FAIL, and an id is stored already.
            DocumentStoreError: Metadata that are not JSON, or an embedding of another
                dimension than the stored ones; none of up to 5,000 was written.
            ValueError: Not a list of documents.
        """
        given: object = documents
        if not isinstance(given, Sequence) or not all(
            isinstance(each, Document) for each in given
        ):
            msg = "documents: expected a list of documents"
            raise ValueError(msg)
        with _translated():
            if policy == DuplicatePolicy.OVERWRITE:
                self._documents.write([self._put(each) for each in documents])
                return len(documents)
            if policy == DuplicatePolicy.SKIP:
                return self._write_new(documents)
            known = self._documents.get([each.id for each in documents])
            try:
                if any(known):
                    raise ConflictError(_DUPLICATE)
                self._documents.write([self._put(each, 0) for each in documents])
            except ConflictError as error:
                raise DuplicateDocumentError(_DUPLICATE) from error
            return len(documents)

    def _write_new(self, documents: Sequence[Document]) -> int:
        unique = {each.id: each for each in reversed(documents)}
        written = 0
        for attempt in range(_ATTEMPTS):
            known = self._documents.get(unique)
            new = [
                each
                for each, stored in zip(unique.values(), known, strict=True)
                if stored is None
            ]
            new.reverse()
            try:
                self._documents.write([self._put(each, 0) for each in new])
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                written = len(new)
                break
        return written

    def _put(self, document: Document, if_version: int | None = None) -> Put:
        value = document.to_dict(flatten=False)
        embedding = value.pop("embedding", None)
        times: list[Any] = []
        value["meta"] = _timeless(value["meta"], (), times)
        if times:
            value[_TIMES] = times
        return self._documents.put_of(document.id, value, embedding, if_version)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by id; unknown ids are ignored."""
        with _translated():
            self._documents.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents of the collection."""
        with _translated():
            self._documents.clear()

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match filters; return their number."""
        with _translated():
            return self._documents.change(
                *_conditions(filters), self._documents.drop_of
            )

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set metadata of the documents that match filters; return their number.

        Args:
            filters: The filters.
            meta: The fields to set; other fields stay.
        """

        def changed(item: Item) -> Put:
            document = document_of(item)
            new = replace(document, meta={**document.meta, **meta})
            return self._put(new, item.version)

        with _translated():
            return self._documents.change(*_conditions(filters), changed)

    def embedding_retrieval(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        return_embedding: bool = False,
    ) -> list[Document]:
        """Return the documents next to an embedding, best first; scores are cosines.

        Args:
            query_embedding: Numbers (dim,).
            filters: The filters; None or {}: none.
            top_k: Maximum number of documents.
            return_embedding: Whether the documents have their embeddings.

        Raises:
            DocumentStoreError: The stored embeddings have another dimension.
            FilterError: Invalid filters.
        """
        with _translated():
            found = self._documents.nearest(
                query_embedding, top_k, *_conditions(filters)
            )
        return [document_of(item, score, return_embedding) for item, score in found]

    def bm25_retrieval(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
    ) -> list[Document]:
        """Return the documents that share words with a query, best first.

        The score is BM25L over the words of all documents of the collection. Each call
        reads them all. Words are equal without regard to case and accents; there is no
        stemming. A text without spaces, such as Chinese, is pairs of characters.

        Args:
            query: Words. Without any, there is no document.
            filters: The filters; None or {}: none.
            top_k: Maximum number of documents.

        Raises:
            InvalidTypeError: The query is not a text.
            FilterError: Invalid filters.
        """
        given: object = query
        if not isinstance(given, str):
            msg = "query: expected a text"
            raise InvalidTypeError(msg)
        with _translated():
            _, test = _conditions(filters)
            items = [
                item
                for item in self._documents.scan(None, None)
                if item.value["document"].get("content") is not None
            ]
        scores = bm25_scores(
            query, [item.value["document"]["content"] for item in items]
        )
        ranked = sorted(zip(scores, items, strict=True), key=lambda each: -each[0])
        found = (
            document_of(item, score, with_embedding=False)
            for score, item in ranked
            if score > 0 and (test is None or test(item))
        )
        return list(islice(found, max(0, top_k)))

    async def count_documents_async(self) -> int:
        """As `count_documents`."""
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(
        self, filters: dict[str, Any] | None = None
    ) -> list[Document]:
        """As `filter_documents`."""
        return await asyncio.to_thread(self.filter_documents, filters)

    async def write_documents_async(
        self,
        documents: list[Document],
        policy: DuplicatePolicy = DuplicatePolicy.NONE,
    ) -> int:
        """As `write_documents`."""
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """As `delete_documents`."""
        await asyncio.to_thread(self.delete_documents, document_ids)

    async def delete_all_documents_async(self) -> None:
        """As `delete_all_documents`."""
        await asyncio.to_thread(self.delete_all_documents)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `delete_by_filter`."""
        return await asyncio.to_thread(self.delete_by_filter, filters)

    async def update_by_filter_async(
        self, filters: dict[str, Any], meta: dict[str, Any]
    ) -> int:
        """As `update_by_filter`."""
        return await asyncio.to_thread(self.update_by_filter, filters, meta)

    async def embedding_retrieval_async(
        self, query_embedding: list[float], **options: Any
    ) -> list[Document]:
        """As `embedding_retrieval`."""
        return await asyncio.to_thread(
            self.embedding_retrieval, query_embedding, **options
        )

    async def bm25_retrieval_async(self, query: str, **options: Any) -> list[Document]:
        """As `bm25_retrieval`."""
        return await asyncio.to_thread(self.bm25_retrieval, query, **options)


def _revealed(path: Secret) -> str:
    """Return the path of a secret.

    Raises:
        ValueError: Its environment variable is not set.
        ConfigError: It is no path of a file and no URL of a database.
    """
    text = path.resolve_value()
    check_storage_path(text)
    return str(text)


_TIMES = "times"
"""Where a stored document says which of its metadata were dates and times."""

_DUPLICATE = "documents: an id is stored already, or occurs twice"


@contextmanager
def _translated() -> Iterator[None]:
    """Raise vecall's errors as Haystack's."""
    try:
        yield
    except VecallError as error:
        raise DocumentStoreError(str(error)) from error


def _conditions(
    filters: Mapping[str, Any] | None,
) -> tuple[dict[str, Any] | None, Callable[[Item], bool] | None]:
    if not filters:
        return None, None
    check_filters(filters)
    given = dict(filters)
    return where_of(given), lambda item: bool(
        document_matches_filter(given, document_of(item))
    )


def document_of(
    item: Item, score: float | None = None, with_embedding: bool = True
) -> Document:
    """Return a stored document."""
    value = dict(item.value["document"])
    times = value.pop(_TIMES, ())
    if times:
        value["meta"] = deepcopy(value["meta"])
    for kind, *path, last in times:
        holder = value["meta"]
        for step in path:
            holder = holder[step]
        made = date if kind == "date" else datetime
        holder[last] = made.fromisoformat(holder[last])
    value["embedding"] = embedding_of(item) if with_embedding else None
    if score is not None:
        value["score"] = score
    return Document.from_dict(value)


def _timeless(value: Any, place: tuple[Any, ...], times: list[Any]) -> Any:
    """Return metadata with dates and times as texts, and note where those are."""
    if isinstance(value, date):
        times.append(["datetime" if isinstance(value, datetime) else "date", *place])
        return value.isoformat()
    if isinstance(value, dict):
        return {k: _timeless(each, (*place, k), times) for k, each in value.items()}
    if isinstance(value, list | tuple):
        return [_timeless(each, (*place, n), times) for n, each in enumerate(value)]
    return value
