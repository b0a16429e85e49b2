"""Haystack: a document store and its retrievers. Needs vecall[haystack]."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from itertools import islice
from typing import Any, Self

from vecall.concurrency.join import on_thread
from vecall.errors import ConflictError, InvalidTypeError, VecallError, needs_extra
from vecall.item_collections import ItemCollection, document_embedding, retry_conflicts
from vecall.lexical import words
from vecall.limits import Limits
from vecall.types import Item, Put
from vecall.validation import check_storage_path, check_top_k

with needs_extra(__name__, "haystack-ai", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import (
        DocumentStoreError,
        DuplicateDocumentError,
    )
    from haystack.document_stores.types import (
        DuplicatePolicy,
        FilterPolicy,
        apply_filter_policy,
    )
    from haystack.errors import FilterError
    from haystack.utils import Secret, deserialize_secrets_inplace
    from haystack.utils.filters import document_matches_filter

__all__ = ["VecallBM25Retriever", "VecallDocumentStore", "VecallEmbeddingRetriever"]

_K1, _B, _DELTA = 1.5, 0.75, 0.5  # the defaults of Haystack's own store


def bm25_scores(query: str, texts: Sequence[str]) -> list[float]:
    """Return the BM25L score of each text; 0 for a text without a word of the query."""
    asked = dict.fromkeys(words(query))
    counts = [Counter(words(text)) for text in texts]
    sizes = [each.total() for each in counts]
    mean = sum(sizes) / len(sizes) if any(sizes) else 1.0
    weights = {
        word: math.log((len(texts) + 1.0) / (having + 0.5))
        for word in asked
        if (having := sum(word in each for each in counts))
    }

    def score(count: Counter[str], size: int) -> float:
        norm = 1.0 - _B + _B * size / mean
        shares = (
            (weight, count[word] / norm + _DELTA)
            for word, weight in weights.items()
            if word in count
        )
        return sum(
            weight * (1.0 + _K1) * share / (_K1 + share) for weight, share in shares
        )

    return list(map(score, counts, sizes))


_DATE = re.compile(r"\d{4}-\d\d-\d\d")  # texts of one time are equal
_LOGIC = {"operator", "conditions"}


def check_haystack_filters(filters: object) -> None:
    """Check that filters are comparisons and logic conditions."""
    # Haystack checks operators and values.
    keys = set(filters) if isinstance(filters, Mapping) else set()
    if not ({"field", "operator", "value"} <= keys or keys >= _LOGIC):
        raise FilterError(
            "filters: expected a mapping with field, operator and value, or with "
            "operator and conditions"
        )
    if isinstance(filters, Mapping) and "field" not in keys:
        if not isinstance(filters["conditions"], list):
            raise FilterError("filters: conditions must be a list")
        for each in filters["conditions"]:
            check_haystack_filters(each)


def conditions_of_filters(filters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return conditions for `Items.find` that every match meets, or None."""
    # They have the comparisons with texts that are no dates. Haystack's own function
    # decides the rest.
    if "field" in filters:
        return _text_condition(filters["field"], filters["operator"], filters["value"])
    parts = [conditions_of_filters(each) for each in filters["conditions"]]
    known = [part for part in parts if part is not None]
    if filters["operator"] == "AND" and known:
        return {"$and": known}
    if filters["operator"] == "OR" and known and len(known) == len(parts):
        return {"$or": known}
    return None


def _text_condition(field: Any, operator: Any, value: Any) -> dict[str, Any] | None:
    if not isinstance(field, str) or not re.fullmatch(r"meta\.\w+", field, re.ASCII):
        return None
    values = value if operator == "in" and isinstance(value, list) else [value]
    are_plain = all(isinstance(v, str) and not _DATE.match(v) for v in values)
    if operator not in {"==", "in"} or not are_plain:
        return None
    name = field.removeprefix("meta.")
    return {"document": {"meta": {name: {"$in": list(values)}}}}


def _different_metadata_values(
    documents: list[Document], name: str
) -> dict[tuple[str, str], Any]:
    """Return the values of a field by type and JSON: 1, 1.0, "1" and true differ."""
    values = (document.meta.get(name) for document in documents)
    return {
        (type(value).__name__, json.dumps(value, sort_keys=True)): value
        for value in values
        if value is not None
    }


def _type_of_values(values: list[Any]) -> str:
    """Return one type for a field: what has several is a keyword, numbers a float."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        return "int" if kinds == {int} else "float"
    return "boolean" if kinds == {bool} else "keyword"


_ATTEMPTS = 20  # of a write that meets other writes of the same documents


class VecallDocumentStore:
    """Documents with embeddings in one file. Similarities are cosines. Thread-safe.

    A document is an item under its id. Documents come in the order in which they were
    written. Filters have Haystack's meaning, which its own function decides. A write of
    up to 5,000 documents is one transaction. Methods that end in `_async` run in
    threads. Names of metadata fields may begin with "meta.".

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
            partial(_checked_secret_path, path)
            if isinstance(path, Secret)
            else str(path),
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
        with _as_haystack_errors():
            return self._documents.count_documents()

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match filters; None or {}: all.

        Raises:
            FilterError: Invalid filters.
        """
        with _as_haystack_errors():
            found = self._documents.scan(*_condition_and_test(filters))
        return [document_of(item) for item in found]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
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
            raise ValueError("documents: expected a list of documents")
        with _as_haystack_errors():
            if policy == DuplicatePolicy.OVERWRITE:
                self._documents.write([self._put_of(each) for each in documents])
                return len(documents)
            if policy == DuplicatePolicy.SKIP:
                return self._write_new_documents(documents)
            known = self._documents.get_documents([each.id for each in documents])
            try:
                if any(known):
                    raise ConflictError(_DUPLICATE)
                self._documents.write([self._put_of(each, 0) for each in documents])
            except ConflictError as error:
                raise DuplicateDocumentError(_DUPLICATE) from error
            return len(documents)

    def _write_new_documents(self, documents: Sequence[Document]) -> int:
        unique = {each.id: each for each in reversed(documents)}

        def write() -> int:
            known = self._documents.get_documents(unique)
            new = [
                self._put_of(each, 0)
                for each, stored in zip(unique.values(), known, strict=True)
                if stored is None
            ]
            self._documents.write(reversed(new))
            return len(new)

        return retry_conflicts(write, _ATTEMPTS)

    def _put_of(self, document: Document, if_version: int | None = None) -> Put:
        value = document.to_dict(flatten=False)
        embedding = value.pop("embedding", None)
        times: list[Any] = []
        value["meta"] = _times_as_texts(value["meta"], (), times)
        if times:
            value[_TIMES] = times
        return self._documents.write_of(document.id, value, embedding, if_version)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by id; unknown ids are ignored."""
        with _as_haystack_errors():
            self._documents.delete_documents(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents of the collection."""
        with _as_haystack_errors():
            self._documents.delete_all_documents()

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match filters; return their number."""
        with _as_haystack_errors():
            return self._documents.change(
                *_condition_and_test(filters), self._documents.deletion_of
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
            return self._put_of(new, item.version)

        with _as_haystack_errors():
            return self._documents.change(*_condition_and_test(filters), changed)

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
        with _as_haystack_errors():
            found = self._documents.nearest_documents(
                query_embedding, top_k, *_condition_and_test(filters)
            )
        return [document_of(item, score, return_embedding) for item, score in found]

    def bm25_retrieval(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int = 10
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
            raise InvalidTypeError("query: expected a text")
        with _as_haystack_errors():
            _, test = _condition_and_test(filters)
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

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that match filters."""
        return len(self.filter_documents(filters))

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return the number of different values of fields, by field."""
        documents = self.filter_documents(filters)
        return {
            name: len(_different_metadata_values(documents, name))
            for name in (each.removeprefix("meta.") for each in metadata_fields)
        }

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the type of each field: boolean, int, float or keyword.

        A field with values of several types is a keyword; one with integers and other
        numbers is a float.
        """
        values: dict[str, list[Any]] = {}
        for document in self.filter_documents():
            for name, value in document.meta.items():
                if value is not None:
                    values.setdefault(name, []).append(value)
        return {name: {"type": _type_of_values(all_)} for name, all_ in values.items()}

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the greatest value of a field.

        Both are None if no document has it, or if its values have no order.
        """
        name = metadata_field.removeprefix("meta.")
        values = [
            document.meta[name]
            for document in self.filter_documents()
            if isinstance(document.meta.get(name), int | float | str | date)
        ]
        try:
            return {"min": min(values), "max": max(values)}
        except (TypeError, ValueError):
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Return different values of a field, sorted as texts, and their number.

        Args:
            metadata_field: The field.
            search_term: Only values that contain this text in any case.
            from_: Number of values to skip.
            size: Maximum number of values.
            filters: Only documents that match these filters.
        """
        values = _different_metadata_values(
            self.filter_documents(filters), metadata_field.removeprefix("meta.")
        )
        if search_term:
            part = search_term.lower()
            values = {k: v for k, v in values.items() if part in str(v).lower()}
        keys = sorted(values, key=lambda key: (str(values[key]), key))
        return [values[key] for key in keys[from_ : from_ + size]], len(keys)

    count_documents_async = on_thread(count_documents)
    filter_documents_async = on_thread(filter_documents)
    write_documents_async = on_thread(write_documents)
    delete_documents_async = on_thread(delete_documents)
    delete_all_documents_async = on_thread(delete_all_documents)
    delete_by_filter_async = on_thread(delete_by_filter)
    update_by_filter_async = on_thread(update_by_filter)
    embedding_retrieval_async = on_thread(embedding_retrieval)
    bm25_retrieval_async = on_thread(bm25_retrieval)
    count_documents_by_filter_async = on_thread(count_documents_by_filter)
    count_unique_metadata_by_filter_async = on_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = on_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = on_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = on_thread(get_metadata_field_unique_values)


def _checked_secret_path(path: Secret) -> str:
    """Return the path of a secret."""
    text = path.resolve_value()
    check_storage_path(text)
    return str(text)


_TIMES = "times"
"""Where a stored document says which of its metadata were dates and times."""

_DUPLICATE = "documents: an id is stored already, or occurs twice"


@contextmanager
def _as_haystack_errors() -> Iterator[None]:
    """Raise vecall's errors as Haystack's."""
    try:
        yield
    except VecallError as error:
        raise DocumentStoreError(str(error)) from error


def _condition_and_test(
    filters: Mapping[str, Any] | None,
) -> tuple[dict[str, Any] | None, Callable[[Item], bool] | None]:
    if not filters:
        return None, None
    check_haystack_filters(filters)
    given = dict(filters)
    return conditions_of_filters(given), lambda item: bool(
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
    value["embedding"] = document_embedding(item) if with_embedding else None
    if score is not None:
        value["score"] = score
    return Document.from_dict(value)


def _times_as_texts(value: Any, place: tuple[Any, ...], times: list[Any]) -> Any:
    """Return metadata with dates and times as texts, and note where those are."""
    if isinstance(value, date):
        times.append(["datetime" if isinstance(value, datetime) else "date", *place])
        return value.isoformat()
    if isinstance(value, dict):
        return {k: _times_as_texts(v, (*place, k), times) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_times_as_texts(v, (*place, n), times) for n, v in enumerate(value)]
    return value


class _Retriever:
    """What the retrievers of a `VecallDocumentStore` share."""

    def __init__(
        self,
        document_store: VecallDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Check the arguments; reads nothing."""
        given: object = document_store
        if not isinstance(given, VecallDocumentStore):
            raise InvalidTypeError("document_store: expected a VecallDocumentStore")
        self.document_store = document_store
        self.filters = filters
        self.top_k = check_top_k(top_k, Limits())
        self.filter_policy = filter_policy

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of the component, for a pipeline's file."""
        made: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            filter_policy=self.filter_policy.value,
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the component that `to_dict` describes."""
        given = dict(data["init_parameters"])
        store = given["document_store"]
        if isinstance(store, dict):
            given["document_store"] = VecallDocumentStore.from_dict(store)
        given["filter_policy"] = FilterPolicy.from_str(given["filter_policy"])
        made: Self = default_from_dict(cls, {**data, "init_parameters": given})
        return made

    def _limits_of_run(self, filters: dict[str, Any] | None, top_k: int | None) -> Any:
        """Return the filters and the number of documents of a run."""
        return {
            "filters": apply_filter_policy(self.filter_policy, self.filters, filters),
            "top_k": self.top_k if top_k is None else top_k,
        }


@component
class VecallEmbeddingRetriever(_Retriever):
    """Finds the documents of a `VecallDocumentStore` next to an embedding.

    Args:
        document_store: The store.
        filters: Filters of every run.
        top_k: Maximum number of documents, at least 1.
        filter_policy: Whether the filters of a run replace these, or narrow them.

    Raises:
        InvalidTypeError: Another store.
        InvalidArgumentError: An invalid `top_k`.
    """

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return the nearest documents, best first.

        Args:
            query_embedding: Numbers (dim,).
            filters: Filters of this run.
            top_k: Maximum number of documents; None is that of the component.
        """
        documents = self.document_store.embedding_retrieval(
            query_embedding, **self._limits_of_run(filters, top_k)
        )
        return {"documents": documents}

    run_async = component.output_types(documents=list[Document])(on_thread(run))


@component
class VecallBM25Retriever(_Retriever):
    """Finds the documents of a `VecallDocumentStore` that share words with a query.

    The arguments are those of `VecallEmbeddingRetriever`.
    """

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return the documents with words of a query, best first.

        Args:
            query: Words.
            filters: Filters of this run.
            top_k: Maximum number of documents; None is that of the component.
        """
        documents = self.document_store.bm25_retrieval(
            query, **self._limits_of_run(filters, top_k)
        )
        return {"documents": documents}

    run_async = component.output_types(documents=list[Document])(on_thread(run))
