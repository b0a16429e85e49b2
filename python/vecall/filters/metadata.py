"""Filter conditions on custom_metadata: values, or operators with operands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeGuard

from vecall.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
)
from vecall.types import Condition, Scalar

MOST_KEYS = 16
"""Maximum number of keys in the conditions of a filter."""
MOST_VALUES = 64
"""Maximum number of values of one $in."""

_NAME = "filter.metadata"


def has_values(metadata: Mapping[str, object], wanted: Mapping[str, Condition]) -> bool:
    """Whether metadata meets every condition.

    Numbers compare by value: 1 equals 1.0. true is not a number. A missing key meets
    $ne only.

    Args:
        metadata: The custom_metadata of one memory.
        wanted: Conditions that `check_conditions` returned.
    """
    return all(
        _OPERATORS[operator](name in metadata, metadata.get(name), operand)
        for name, operator, operand in comparisons(wanted)
    )


def comparisons(
    wanted: Mapping[str, Condition],
) -> Iterator[tuple[str, str, object]]:
    """Yield the key, the operator and the operand of each comparison."""
    for name, condition in wanted.items():
        if isinstance(condition, Mapping):
            for operator, operand in condition.items():
                yield name, operator, operand
        else:
            yield name, "$eq", condition


def needs_key(operator: str) -> bool:
    """Whether metadata without the key fails a comparison."""
    return operator != "$ne"


def check_conditions(conditions: object, max_bytes: int) -> dict[str, Condition]:
    """Return a checked copy of conditions on custom_metadata.

    Args:
        conditions: Scalars, or mappings from operators to operands, by key.
        max_bytes: The limit on their bytes as JSON.

    Raises:
        InvalidTypeError: Not a mapping, or a value that is neither a JSON scalar nor a
            mapping from operators to operands.
        InvalidArgumentError: Not 1 to 16 keys, an unknown operator, a number that JSON
            cannot represent, or not 1 to 64 values for $in.
        LimitExceededError: Longer than `max_bytes`.
    """
    if not isinstance(conditions, Mapping):
        msg = f"{_NAME}: expected a mapping"
        raise InvalidTypeError(msg)
    wanted = dict(conditions)
    if not 1 <= len(wanted) <= MOST_KEYS:
        msg = f"{_NAME}: must have 1 to {MOST_KEYS} keys"
        raise InvalidArgumentError(msg)
    if not all(isinstance(name, str) for name in wanted):
        msg = f"{_NAME}: expected string keys"
        raise InvalidTypeError(msg)
    checked = {name: _condition(value) for name, value in wanted.items()}
    try:
        size = len(json.dumps(checked, allow_nan=False))
    except ValueError:  # also for an integer of thousands of digits
        msg = f"{_NAME}: must not contain NaN, Inf or numbers too long for JSON"
        raise InvalidArgumentError(msg) from None
    if size > max_bytes:
        msg = f"{_NAME}: at most max_metadata_bytes = {max_bytes}"
        raise LimitExceededError(msg)
    return checked


def _condition(given: object) -> Condition:
    if _is_scalar(given):
        return given
    if not isinstance(given, Mapping) or not given:
        msg = f"{_NAME}: expected JSON scalars, or mappings from operators to operands"
        raise InvalidTypeError(msg)
    if not given.keys() <= _OPERATORS.keys():
        msg = f"{_NAME}: operators are {', '.join(_OPERATORS)}"
        raise InvalidArgumentError(msg)
    return {operator: _operand(operator, value) for operator, value in given.items()}


def _operand(operator: str, given: object) -> Scalar | list[Scalar]:
    if operator == "$in":
        if not isinstance(given, list | tuple | set | frozenset):
            msg = f"{_NAME}: $in expects a list of JSON scalars"
            raise InvalidTypeError(msg)
        if not 1 <= len(given) <= MOST_VALUES:
            msg = f"{_NAME}: $in must list 1 to {MOST_VALUES} values"
            raise InvalidArgumentError(msg)
        values = []
        for value in given:
            if not _is_scalar(value):
                msg = f"{_NAME}: $in expects a list of JSON scalars"
                raise InvalidTypeError(msg)
            values.append(value)
        return values
    if not _is_scalar(given):
        msg = f"{_NAME}: {operator} expects a JSON scalar"
        raise InvalidTypeError(msg)
    if operator not in ("$eq", "$ne") and (given is None or isinstance(given, bool)):
        msg = f"{_NAME}: {operator} expects a number or a string"
        raise InvalidTypeError(msg)
    return given


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    return value is None or isinstance(value, str | int | float)


def _is_equal(stored: object, wanted: object) -> bool:
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    return stored == wanted


def _ordered(
    holds: Callable[[int], bool],
) -> Callable[[bool, object, object], bool]:
    """Return a comparison of two numbers, or of two strings by code points."""

    def compare(_has_key: bool, stored: object, wanted: object) -> bool:
        if isinstance(stored, bool):
            return False
        if isinstance(stored, str) and isinstance(wanted, str):
            return holds((stored > wanted) - (stored < wanted))
        if isinstance(stored, int | float) and isinstance(wanted, int | float):
            return holds((stored > wanted) - (stored < wanted))
        return False

    return compare


# The arguments: whether the key exists, its value, and the operand.
_OPERATORS: dict[str, Callable[[bool, object, object], bool]] = {
    "$eq": lambda has_key, stored, wanted: has_key and _is_equal(stored, wanted),
    "$ne": lambda has_key, stored, wanted: not (has_key and _is_equal(stored, wanted)),
    "$gt": _ordered(lambda sign: sign > 0),
    "$gte": _ordered(lambda sign: sign >= 0),
    "$lt": _ordered(lambda sign: sign < 0),
    "$lte": _ordered(lambda sign: sign <= 0),
    "$in": lambda has_key, stored, wanted: has_key
    and isinstance(wanted, list)
    and any(_is_equal(stored, value) for value in wanted),
}
