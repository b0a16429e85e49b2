"""Haystack's filters: which part of them the items can decide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from haystack.errors import FilterError

_DATE = re.compile(r"\d{4}-\d\d-\d\d")  # texts of one time are equal
_LOGIC = {"operator", "conditions"}


def check_filters(filters: object) -> None:
    """Check that filters are comparisons and logic conditions.

    Haystack checks operators and values.

    Raises:
        FilterError: They are not.
    """
    keys = set(filters) if isinstance(filters, Mapping) else set()
    if not ({"field", "operator", "value"} <= keys or keys >= _LOGIC):
        msg = (
            "filters: expected a mapping with field, operator and value, or with "
            "operator and conditions"
        )
        raise FilterError(msg)
    if isinstance(filters, Mapping) and "field" not in keys:
        if not isinstance(filters["conditions"], list):
            msg = "filters: conditions must be a list"
            raise FilterError(msg)
        for each in filters["conditions"]:
            check_filters(each)


def where_of(filters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return conditions for `Items.find` that every match meets, or None.

    They have the comparisons with texts that are no dates. Haystack's own function
    decides the rest.
    """
    if "field" in filters:
        return _comparison(filters["field"], filters["operator"], filters["value"])
    parts = [where_of(each) for each in filters["conditions"]]
    known = [part for part in parts if part is not None]
    if filters["operator"] == "AND" and known:
        return {"$and": known}
    if filters["operator"] == "OR" and known and len(known) == len(parts):
        return {"$or": known}
    return None


def _comparison(field: Any, operator: Any, value: Any) -> dict[str, Any] | None:
    if not isinstance(field, str) or not re.fullmatch(r"meta\.\w+", field, re.ASCII):
        return None
    values = value if operator == "in" and isinstance(value, list) else [value]
    if operator not in {"==", "in"} or not all(map(_is_plain, values)):
        return None
    name = field.removeprefix("meta.")
    return {"document": {"meta": {name: {"$in": list(values)}}}}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and not _DATE.match(value)
