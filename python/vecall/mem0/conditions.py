"""Turns mem0's filters into vecall's conditions on metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.mem0.entries import ACTOR, AGENT, PREFIX, ROLE, RUN
from vecall.mem0.ids import KINDS, Scope, scope_of
from vecall.types import Filter

_OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")
_OWN = {"actor_id": ACTOR, "role": ROLE}


def scope_and_filter(filters: object) -> tuple[Scope, Filter | None]:
    """Return the scope of filters, and the filter within it.

    Args:
        filters: As in mem0: names, and keys of the metadata with a value, with "*" for
            any value or with operators; "AND", "OR" and "NOT" with lists of such
            filters. Names are at the top or in an "AND".

    Raises:
        InvalidArgumentError: No name, two different names of one kind, an operator that
            vecall does not have ("contains", "icontains"), or an invalid form.
    """
    names: dict[str, Any] = {}
    wanted = _conditions(filters, names)
    scope = scope_of(names, "filters")
    if scope.agent_id is not None:
        wanted.append({AGENT: scope.agent_id})
    if scope.run_id is not None:
        wanted.append({RUN: scope.run_id})
    return scope, Filter(metadata={"$and": wanted}) if wanted else None


def _conditions(filters: object, names: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the conditions that must hold; put the names of owners into `names`."""
    if not isinstance(filters, Mapping):
        msg = "filters: expected a mapping with user_id, agent_id or run_id"
        raise InvalidArgumentError(msg)
    wanted: list[dict[str, Any]] = []
    for key, value in filters.items():
        if key == "AND":
            for each in _parts(value):
                wanted += _conditions(each, names)
        elif key in ("OR", "NOT"):
            parts = [{"$and": _conditions(each, None)} for each in _parts(value)]
            whole: dict[str, Any] = {"$or": parts}
            wanted.append(whole if key == "OR" else {"$not": whole})
        elif key in KINDS:
            _name(key, value, names)
        elif not isinstance(key, str) or key.startswith("$"):
            msg = "filters: expected names as keys, or AND, OR and NOT"
            raise InvalidArgumentError(msg)
        else:
            wanted.append({_OWN.get(key, PREFIX + key): _condition(value)})
    return wanted


def _parts(value: object) -> list[Any]:
    if not isinstance(value, list) or not value or not all(value):
        msg = "filters: AND, OR and NOT expect a list of filters"
        raise InvalidArgumentError(msg)
    return value


def _name(key: str, value: object, names: dict[str, Any] | None) -> None:
    if names is None or isinstance(value, Mapping) or value == "*":
        msg = f"filters: {key} takes one name, at the top or in AND"
        raise InvalidArgumentError(msg)
    if names.setdefault(key, value) != value:
        msg = f"filters: two values of {key}"
        raise InvalidArgumentError(msg)


def _condition(value: object) -> Any:
    if value == "*":
        return {"$exists": True}
    if not isinstance(value, Mapping):
        return value
    if not set(value) <= set(_OPERATORS):
        msg = f"filters: operators are {', '.join(_OPERATORS)}"
        raise InvalidArgumentError(msg)
    return {f"${operator}": operand for operator, operand in value.items()}
