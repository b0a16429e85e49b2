"""The retrievers: components of Haystack's pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from vecall.errors import InvalidTypeError
from vecall.haystack.document_store import VecallDocumentStore
from vecall.limits import Limits
from vecall.validation import check_top_k

if TYPE_CHECKING:
    from typing_extensions import Self


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
            msg = "document_store: expected a VecallDocumentStore"
            raise InvalidTypeError(msg)
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

    def _limits(self, filters: dict[str, Any] | None, top_k: int | None) -> Any:
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
            query_embedding, **self._limits(filters, top_k)
        )
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """As `run`."""
        documents = await self.document_store.embedding_retrieval_async(
            query_embedding, **self._limits(filters, top_k)
        )
        return {"documents": documents}


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
            query, **self._limits(filters, top_k)
        )
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """As `run`."""
        documents = await self.document_store.bm25_retrieval_async(
            query, **self._limits(filters, top_k)
        )
        return {"documents": documents}
