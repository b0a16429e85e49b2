"""Conditions on JSON values: fields by path, operators with operands, and, or, not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vecall.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError

Test = Callable[[Any], bool]

_MISSING = object()
_DEPTH = 32
_MAX_VALUES = 1_000


def compiled(where: object, name: str = "where") -> Test:
    """Return a function that says whether a JSON value meets conditions.

    `{"kind": "note", "size": {"$gt": 3}}` needs all its fields to match. A field is a
    key of the value; if the value has no such key, dots separate the keys of nested
    mappings. A mapping without operators is compared field by field with the stored
    mapping. Numbers compare by value; true and false are no numbers. Order comparisons
    hold between two numbers or two strings.

    Operators of a field are `$eq $ne $gt $gte $lt $lte $in $nin $exists $not`; those of
    a whole condition are `$and $or $not`. A missing field meets `$ne`, `$nin`,
    `$not` of a condition that it does not meet, and `{"$exists": False}`.

    Args:
        where: The conditions; None or {} is met by every value.
        name: The argument's name, for error messages.

    Raises:
        InvalidTypeError: Not a mapping, or an operand of a wrong type.
        InvalidArgumentError: An unknown operator.
        LimitExceededError: Nested more than 32 levels, or a list of more than 1,000.
    """
    if where is None:
        return lambda _: True
    return _whole(where, name, _DEPTH)


def _whole(where: object, name: str, depth: int) -> Test:
    if not depth:
        msg = f"{name}: at most {_DEPTH} levels"
        raise LimitExceededError(msg)
    if not isinstance(where, Mapping) or not all(isinstance(k, str) for k in where):
        msg = f"{name}: expected a mapping from fields to conditions"
        raise InvalidTypeError(msg)
    tests: list[Test] = []
    for field, condition in where.items():
        if field in ("$and", "$or"):
            parts = [_whole(each, name, depth - 1) for each in _list(condition, name)]
            among = all if field == "$and" else any
            tests.append(
                lambda value, parts=parts, among=among: among(  # type: ignore[misc]
                    test(value) for test in parts
                )
            )
        elif field == "$not":
            inner = _whole(condition, name, depth - 1)
            tests.append(lambda value, inner=inner: not inner(value))  # type: ignore[misc]
        elif field.startswith("$"):
            raise InvalidArgumentError(_unknown(name))
        else:
            test = _field(condition, name, depth)
            tests.append(
                lambda value, field=field, test=test: test(_found(value, field))  # type: ignore[misc]
            )
    return lambda value: all(test(value) for test in tests)


def _field(condition: object, name: str, depth: int) -> Test:
    if not depth:
        msg = f"{name}: at most {_DEPTH} levels"
        raise LimitExceededError(msg)
    if not isinstance(condition, Mapping):
        return lambda stored: _is_equal(stored, condition)
    operators = [key for key in condition if str(key).startswith("$")]
    if not operators:
        if not condition:
            return lambda stored: stored == {}
        nested = {key: _field(each, name, depth - 1) for key, each in condition.items()}
        return lambda stored: isinstance(stored, Mapping) and all(
            test(_found(stored, key)) for key, test in nested.items()
        )
    if len(operators) < len(condition) or not _OPERATORS.keys() >= set(operators):
        raise InvalidArgumentError(_unknown(name))
    tests = [_OPERATORS[op](condition[op], name, depth) for op in operators]
    return lambda stored: all(test(stored) for test in tests)


def _found(value: object, field: str) -> object:
    if not isinstance(value, Mapping):
        return _MISSING
    if field in value:
        return value[field]
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value


def _is_equal(stored: object, wanted: object) -> bool:
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if isinstance(wanted, tuple):
        wanted = list(wanted)
    return stored == wanted


def _equals(wanted: object, _name: str, _depth: int) -> Test:
    return lambda stored: _is_equal(stored, wanted)


def _differs(wanted: object, _name: str, _depth: int) -> Test:
    return lambda stored: not _is_equal(stored, wanted)


def _ordered(holds: Callable[[int], bool]) -> Callable[[object, str, int], Test]:
    def made(wanted: Any, name: str, _depth: int) -> Test:
        if isinstance(wanted, bool) or not isinstance(wanted, int | float | str):
            msg = f"{name}: an order comparison expects a number or a string"
            raise InvalidTypeError(msg)
        kinds: Any = str if isinstance(wanted, str) else int | float

        def test(stored: Any) -> bool:
            if isinstance(stored, bool) or not isinstance(stored, kinds):
                return False
            return holds((stored > wanted) - (stored < wanted))

        return test

    return made


def _among(wanted: object, name: str, _depth: int) -> Test:
    values = _list(wanted, name)
    return lambda stored: any(_is_equal(stored, each) for each in values)


def _not_among(wanted: object, name: str, depth: int) -> Test:
    test = _among(wanted, name, depth)
    return lambda stored: not test(stored)


def _exists(wanted: object, name: str, _depth: int) -> Test:
    if not isinstance(wanted, bool):
        msg = f"{name}: $exists expects True or False"
        raise InvalidTypeError(msg)
    return lambda stored: (stored is not _MISSING) is wanted


def _not(wanted: object, name: str, depth: int) -> Test:
    test = _field(wanted, name, depth - 1)
    return lambda stored: not test(stored)


def _list(given: object, name: str) -> list[Any]:
    if not isinstance(given, list | tuple | set | frozenset):
        msg = f"{name}: $in, $nin, $and and $or expect a list"
        raise InvalidTypeError(msg)
    if len(given) > _MAX_VALUES:
        msg = f"{name}: at most {_MAX_VALUES} values in a list"
        raise LimitExceededError(msg)
    return list(given)


def _unknown(name: str) -> str:
    fields = ", ".join(_OPERATORS)
    return f"{name}: operators are {fields}, and $and and $or around conditions"


_OPERATORS: dict[str, Callable[[Any, str, int], Test]] = {
    "$eq": _equals,
    "$ne": _differs,
    "$gt": _ordered(lambda sign: sign > 0),
    "$gte": _ordered(lambda sign: sign >= 0),
    "$lt": _ordered(lambda sign: sign < 0),
    "$lte": _ordered(lambda sign: sign <= 0),
    "$in": _among,
    "$nin": _not_among,
    "$exists": _exists,
    "$not": _not,
}
