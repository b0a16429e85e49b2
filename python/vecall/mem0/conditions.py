"""Turns mem0's filters into vecall's conditions on metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.mem0.entries import ACTOR, AGENT, EXPIRES, PREFIX, ROLE, RUN
from vecall.mem0.ids import KINDS, Scope, scope_of
from vecall.timestamps import utc_seconds
from vecall.types import Filter

_OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains")
_OWN = {"actor_id": ACTOR, "role": ROLE, "expiration_date": EXPIRES}
_TIMES = {"created_at": "$timestamp", "updated_at": "$updated_at"}
_OF_RESULTS = "id memory data hash score score_details metadata timestamp".split()
"""Names of results and arguments that no filter has."""
_METADATA = "metadata."


def scope_and_filter(filters: object) -> tuple[Scope, Filter | None]:
    """Return the scope of filters, and the filter within it.

    Args:
        filters: As in mem0: names, and keys of the metadata with a value, with "*" for
            any value or with operators; `created_at` and `updated_at` with times;
            "AND", "OR" and "NOT" with lists of such filters. Names are at the top or in
            an "AND". A key that has the name of another field is "metadata.NAME".

    Raises:
        InvalidArgumentError: No name, two different names of one kind, an operator that
            vecall does not have ("icontains"), a name of results that no filter has,
            or an invalid form.
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
        elif key in _TIMES:
            wanted.append({_TIMES[key]: _times(_condition(value), key)})
        elif key in _OF_RESULTS:
            use = "created_at" if key == "timestamp" else f"{_METADATA}{key}"
            meaning = "the time that it gives" if key == "timestamp" else "your own key"
            msg = f"filters: {key} is no field of filters; {meaning} is {use}"
            raise InvalidArgumentError(msg)
        else:
            own = _OWN.get(key, PREFIX + key.removeprefix(_METADATA))
            wanted.append({own: _condition(value)})
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


def _times(condition: Any, key: str) -> Any:
    """Return a condition on a time with seconds as operands."""
    name = f"filters: {key}"
    if isinstance(condition, Mapping):
        return {
            operator: operand if operator == "$exists" else _times(operand, key)
            for operator, operand in condition.items()
        }
    if isinstance(condition, list | tuple):
        return [utc_seconds(each, name) for each in condition]
    return utc_seconds(condition, name)
