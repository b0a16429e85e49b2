"""Questions about the metadata of a document store."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from typing import Any

from haystack import Document


class MetadataQueries:
    """Answers questions about metadata from the documents that match filters.

    Field names may begin with "meta.".
    """

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match filters."""
        raise NotImplementedError

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that match filters."""
        return len(self.filter_documents(filters))

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return the number of different values of fields, by field."""
        documents = self.filter_documents(filters)
        return {
            name: len(_different(documents, name))
            for name in map(_name, metadata_fields)
        }

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the type of each field: boolean, int, float or keyword.

        A field with values of several types is a keyword; one with integers and other
        numbers is a float.
        """
        types: dict[str, set[str]] = {}
        for document in self.filter_documents():
            for name, value in document.meta.items():
                if value is not None:
                    types.setdefault(name, set()).add(_type(value))
        return {name: {"type": _common(found)} for name, found in types.items()}

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the greatest value of a field.

        Both are None if no document has it, or if its values have no order.
        """
        name = _name(metadata_field)
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
        values = _different(self.filter_documents(filters), _name(metadata_field))
        if search_term:
            part = search_term.lower()
            values = {k: v for k, v in values.items() if part in str(v).lower()}
        keys = sorted(values, key=lambda key: (str(values[key]), key))
        return [values[key] for key in keys[from_ : from_ + size]], len(keys)

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `count_documents_by_filter`."""
        return await asyncio.to_thread(self.count_documents_by_filter, filters)

    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """As `count_unique_metadata_by_filter`."""
        return await asyncio.to_thread(
            self.count_unique_metadata_by_filter, filters, metadata_fields
        )

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        """As `get_metadata_fields_info`."""
        return await asyncio.to_thread(self.get_metadata_fields_info)

    async def get_metadata_field_min_max_async(
        self, metadata_field: str
    ) -> dict[str, Any]:
        """As `get_metadata_field_min_max`."""
        return await asyncio.to_thread(self.get_metadata_field_min_max, metadata_field)

    async def get_metadata_field_unique_values_async(
        self, metadata_field: str, *args: Any, **options: Any
    ) -> tuple[list[Any], int]:
        """As `get_metadata_field_unique_values`."""
        return await asyncio.to_thread(
            self.get_metadata_field_unique_values, metadata_field, *args, **options
        )


def _name(field: str) -> str:
    return field.removeprefix("meta.")


def _different(documents: list[Document], name: str) -> dict[tuple[str, str], Any]:
    """Return the values of a field by type and JSON: 1, 1.0, "1" and true differ."""
    values = (document.meta.get(name) for document in documents)
    return {
        (type(value).__name__, json.dumps(value, sort_keys=True)): value
        for value in values
        if value is not None
    }


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "int" if isinstance(value, int) else "float"
    return "keyword"


def _common(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    return "float" if types == {"int", "float"} else "keyword"
