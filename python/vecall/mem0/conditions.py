"""Turns mem0's filters into vecall's conditions on metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.filters.metadata import check_conditions
from vecall.mem0.entries import ACTOR, PREFIX, ROLE, RUN
from vecall.mem0.ids import KINDS, Scope, scope_of
from vecall.types import Condition

_OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in")
_OWN = {"actor_id": ACTOR, "role": ROLE}


def scope_and_conditions(
    filters: object, max_bytes: int
) -> tuple[Scope, dict[str, Condition]]:
    """Return the scope of filters, and the conditions on metadata.

    Args:
        filters: As in mem0: names, keys of the metadata with a value or with
            operators, and "AND" with a list of further such filters.
        max_bytes: The limit on the conditions as JSON.

    Raises:
        InvalidArgumentError: No name, an operator that vecall does not have ("nin",
            "contains", "icontains", "OR", "NOT", "*"), or two different values for one
            key and operator.
    """
    if not isinstance(filters, Mapping):
        msg = "filters: expected a mapping with user_id, agent_id or run_id"
        raise InvalidArgumentError(msg)
    names: dict[str, Any] = {}
    wanted: dict[str, dict[str, Any]] = {}
    for key, operator, operand in _comparisons(filters):
        if key in KINDS:
            if operator != "$eq":
                msg = f"filters: {key} takes a name, no operator"
                raise InvalidArgumentError(msg)
            _put(names, key, operand)
        else:
            stored = _OWN.get(key, PREFIX + key)
            _put(wanted.setdefault(stored, {}), operator, operand)
    scope = scope_of(names, "filters")
    if scope.agent_id is not None:
        wanted["agent_id"] = {"$eq": scope.agent_id}
    if scope.run_id is not None:
        wanted[RUN] = {"$eq": scope.run_id}
    return scope, check_conditions(wanted, max_bytes) if wanted else {}


def _comparisons(filters: Mapping[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, value in filters.items():
        if key == "AND":
            if not isinstance(value, list) or not all(
                isinstance(each, Mapping) for each in value
            ):
                msg = "filters: AND expects a list of filters"
                raise InvalidArgumentError(msg)
            for each in value:
                yield from _comparisons(each)
        elif key in ("OR", "NOT", "$or", "$not", "$and") or value == "*":
            msg = "filters: OR, NOT and * are not supported; AND is"
            raise InvalidArgumentError(msg)
        elif not isinstance(key, str):
            msg = "filters: expected names as keys"
            raise InvalidArgumentError(msg)
        elif isinstance(value, Mapping):
            for operator, operand in value.items():
                if operator not in _OPERATORS:
                    msg = f"filters: operators are {', '.join(_OPERATORS)}"
                    raise InvalidArgumentError(msg)
                yield key, f"${operator}", operand
        else:
            yield key, "$eq", value


def _put(into: dict[str, Any], key: str, value: Any) -> None:
    if key in into and into[key] != value:
        msg = "filters: two values for one key and operator"
        raise InvalidArgumentError(msg)
    into[key] = value
