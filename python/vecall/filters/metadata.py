"""Conditions on JSON values, on custom_metadata, and on the labels of memories."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from vecall.clock import to_seconds
from vecall.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError
from vecall.scalars import exact
from vecall.types import Filter, Names, as_names

Test = Callable[[Any], bool]

_MISSING = object()
_DEPTH = 32
_IS_OPERATOR = re.compile(r"\$[A-Za-z]")
MOST_COMPARISONS = 10_000_000
"""Maximum number of rows times operators in one scan. Each operand of `$all` and `$any`
counts as an operator; a list of scalars after `$in` or `$nin` counts as one. It takes
some seconds."""
_VALUES = 16  # of a stored list count as one comparison
_CHARACTERS = 256  # of a stored text count as one comparison
_INSIDE = frozenset(("$contains", "$all", "$any"))
AROUND = ("$and", "$or", "$not")
"""Operators around whole conditions."""


def _count_no_comparisons(_comparisons: int) -> None:
    """Count comparisons where no budget limits them."""


class Rules(NamedTuple):
    """What conditions may contain."""

    name: str = "where"  # the argument's name, for error messages
    most_fields: int | None = None  # of one mapping of conditions
    least_values: int = 0  # in a list of operands
    most_values: int = 1_000
    # Whether operands must be scalars or lists of scalars. Then a mapping that is not
    # of operators is refused too.
    scalars_only: bool = False
    # Whether NaN, which equals nothing and has no order, and infinity are refused.
    finite_only: bool = True
    # Called with the comparisons that a long stored list or text takes.
    spend: Callable[[int], None] = _count_no_comparisons
    # Fields besides those of the value, and what converts their operands. They begin
    # with "$" and have the operators that compare two values.
    own: Mapping[str, Callable[[object], object]] = MappingProxyType({})


Operator = Callable[[Any, Rules, int], tuple[Any, Test]]
"""Returns a copy of an operand, and its test."""


class Conditions(dict[str, Any]):
    """A checked copy of conditions, with their test.

    `asks_own` is whether they have a field of `Rules.own`.
    """

    __slots__ = ("asks_own", "rules", "test")
    test: Test
    rules: Rules
    asks_own: bool

    def test_for_scan(self, most: int | None = None) -> Test:
        """Return a test that raises `LimitExceededError` after `most` comparisons."""
        each, left = _comparison_count(self), MOST_COMPARISONS if most is None else most

        def spend(comparisons: int) -> None:
            nonlocal left
            left -= comparisons
            if left < 0:
                raise LimitExceededError(
                    f"{self.rules.name}: at most {MOST_COMPARISONS:,} comparisons in "
                    "one call, one for each operator and row, and more for long "
                    "stored lists; use fewer operators, or narrow down the rows by "
                    "other conditions"
                )

        test = self.test
        if _looks_inside_values(self):
            test = parsed_filter(self, self.rules._replace(spend=spend)).test

        def within_budget(value: Any) -> bool:
            nonlocal left
            if left < each:
                spend(each)
            left -= each
            return test(value)

        return within_budget


def compile_conditions(where: object, name: str = "where") -> Test:
    """Return a test of JSON values for one scan; None or {} is met by every value."""
    if where is None:
        return lambda _: True
    return parsed_filter(where, Rules(name, finite_only=False)).test_for_scan()


def parsed_filter(where: object, rules: Rules) -> Conditions:
    """Return checked conditions.

    `{"kind": "note", "size": {"$gt": 3}}` needs all its fields to match. A field is a
    key of the value; if the value has no such key, dots separate the keys of nested
    mappings. A mapping without operators is compared field by field with the stored
    mapping. Numbers compare by value; true and false are no numbers. Order comparisons
    hold between two numbers or two strings.

    Operators of a field are `$eq $ne $gt $gte $lt $lte $in $nin $contains $all $any
    $exists $not`; those of a whole condition are `$and $or $not`. A missing field meets
    `$ne`, `$nin`, `$not` of a condition that it does not meet, and `{"$exists":
    False}`. A list contains its elements, a text the texts in it; nothing else contains
    anything.
    """
    return _checked_filter_conditions(where, rules, _DEPTH)


def _checked_filter_conditions(where: object, rules: Rules, depth: int) -> Conditions:
    _check_filter_depth(rules, depth)
    if not isinstance(where, Mapping):
        msg = f"{rules.name}: expected a mapping from fields to conditions"
        raise InvalidTypeError(msg)
    if rules.most_fields is not None and not 1 <= len(where) <= rules.most_fields:
        msg = f"{rules.name}: must have 1 to {rules.most_fields} keys"
        raise InvalidArgumentError(msg)
    if not all(isinstance(field, str) for field in where):
        raise InvalidTypeError(f"{rules.name}: expected string keys")
    conditions = Conditions()
    conditions.rules = rules
    conditions.asks_own = False
    tests: list[Test] = []
    for field, condition in zip(map(exact, where), where.values(), strict=True):
        if field == "$not":
            inner = _checked_filter_conditions(condition, rules, depth - 1)
            conditions[field] = inner
            conditions.asks_own |= inner.asks_own
            tests.append(_negated_test(inner.test))
        elif field in AROUND:
            parts = [
                _checked_filter_conditions(each, rules, depth - 1)
                for each in _checked_operand_list(condition, rules)
            ]
            conditions[field] = parts
            conditions.asks_own |= any(part.asks_own for part in parts)
            among = all if field == "$and" else any
            tests.append(_test_among(among, [part.test for part in parts]))
        elif _IS_OPERATOR.match(field) and field not in rules.own:
            raise InvalidArgumentError(_unknown_operator_message(rules))
        else:
            own = rules.own.get(field)
            given = condition
            if own is not None:
                given = _converted_filter_condition(condition, own, rules)
                conditions.asks_own = True
            conditions[field], test = _field_condition_and_test(given, rules, depth)
            tests.append(_field_value_test(field, test))
    conditions.test = _test_of_all_conditions(tests)
    return conditions


def _field_condition_and_test(
    condition: object, rules: Rules, depth: int
) -> tuple[Any, Test]:
    """Return a copy of a condition on one field, and its test."""
    _check_filter_depth(rules, depth)
    if not isinstance(condition, Mapping):
        return _equals_operator(condition, rules, depth)
    condition = {exact(key): each for key, each in condition.items()}
    operators = [key for key in condition if _is_filter_operator(key)]
    if not operators and not rules.scalars_only:
        if not condition:
            return {}, lambda stored: stored == {}
        if not all(isinstance(key, str) for key in condition):
            raise InvalidTypeError(f"{rules.name}: expected string keys")
        nested = {
            k: _field_condition_and_test(each, rules, depth - 1)
            for k, each in condition.items()
        }
        inner = _test_of_all_conditions(
            [_field_value_test(key, test) for key, (_, test) in nested.items()]
        )
        return {key: copy for key, (copy, _) in nested.items()}, lambda stored: (
            isinstance(stored, Mapping) and inner(stored)
        )
    if not condition:
        raise InvalidTypeError(
            f"{rules.name}: expected JSON scalars, or mappings from operators to "
            "operands"
        )
    if len(operators) < len(condition) or not _OPERATORS.keys() >= set(operators):
        raise InvalidArgumentError(_unknown_operator_message(rules))
    made = {op: _OPERATORS[op](condition[op], rules, depth) for op in operators}
    tests = [test for _, test in made.values()]
    copies = {op: copy for op, (copy, _) in made.items()}
    return copies, _test_of_all_conditions(tests)


def _converted_filter_condition(
    condition: object, convert: Callable[[object], object], rules: Rules
) -> object:
    """Return a condition on a field of `Rules.own` with its operands converted."""
    if not isinstance(condition, Mapping):
        return convert(condition)
    changed: dict[object, object] = {}
    for operator, operand in condition.items():
        if operator == "$not":
            changed[operator] = _converted_filter_condition(operand, convert, rules)
        elif operator in ("$in", "$nin"):
            changed[operator] = [
                convert(each) for each in _checked_operand_list(operand, rules)
            ]
        elif operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
            changed[operator] = convert(operand)
        elif operator == "$exists":
            changed[operator] = operand
        else:
            msg = f"{rules.name}: {', '.join(rules.own)} have no such operator"
            raise InvalidArgumentError(msg)
    return changed


def _is_filter_operator(key: object) -> bool:
    return isinstance(key, str) and _IS_OPERATOR.match(key) is not None


def _check_filter_depth(rules: Rules, depth: int) -> None:
    if depth <= 0:
        raise LimitExceededError(f"{rules.name}: at most {_DEPTH} levels")


def _test_of_all_conditions(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else _test_among(all, tests)


def _test_among(among: Callable[[Iterable[bool]], bool], tests: list[Test]) -> Test:
    return lambda value: among(test(value) for test in tests)


def _negated_test(inner: Test) -> Test:
    return lambda value: not inner(value)


def _field_value_test(field: str, test: Test) -> Test:
    """Return a test of the value of a field."""
    path = field.split(".")

    def at(value: Any) -> bool:
        if type(value) is not dict and not isinstance(value, Mapping):
            return test(_MISSING)
        if field in value:
            return test(value[field])
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return test(_MISSING)
            value = value[key]
        return test(value)

    return at


def _is_equal_json(stored: Any, wanted: Any) -> bool:
    """Whether JSON values are equal; true and 1 are not."""
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(map(_is_equal_json, stored, wanted))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(stored, Mapping)
            and stored.keys() == wanted.keys()
            and all(_is_equal_json(stored[key], each) for key, each in wanted.items())
        )
    return bool(stored == wanted)


def _equals_operator(given: object, rules: Rules, depth: int) -> tuple[Any, Test]:
    wanted = _checked_filter_operand(given, rules, depth)
    if isinstance(wanted, bool | list | dict):
        return wanted, lambda stored: _is_equal_json(stored, wanted)
    return wanted, lambda stored: type(stored) is not bool and stored == wanted


def _negated_operator(made: Operator) -> Operator:
    """Return the operator that holds where another one does not."""

    def operator(given: Any, rules: Rules, depth: int) -> tuple[Any, Test]:
        copy, test = made(given, rules, depth)
        return copy, _negated_test(test)

    return operator


def _order_operator(holds: Callable[[Any, Any], bool]) -> Operator:
    def made(given: Any, rules: Rules, depth: int) -> tuple[Any, Test]:
        given = exact(given)
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            msg = f"{rules.name}: an order comparison expects a number or a string"
            raise InvalidTypeError(msg)
        wanted = _checked_filter_operand(given, rules, depth)
        kinds: Any = str if isinstance(wanted, str) else int | float

        def test(stored: Any) -> bool:
            if isinstance(stored, bool) or not isinstance(stored, kinds):
                return False
            return holds(stored, wanted)

        return wanted, test

    return made


def _among_operator(given: object, rules: Rules, depth: int) -> tuple[Any, Test]:
    values = [
        _checked_filter_operand(each, rules, depth)
        for each in _checked_operand_list(given, rules)
    ]
    truths = [each for each in values if isinstance(each, bool)]
    nested = [each for each in values if isinstance(each, list | dict)]
    others = [each for each in values if not isinstance(each, bool | list | dict)]
    known = {each for each in others if each == each}  # noqa: PLR0124 -- not NaN

    def test(stored: Any) -> bool:
        if isinstance(stored, bool):
            return stored in truths
        if isinstance(stored, list | Mapping):
            return any(_is_equal_json(stored, each) for each in nested)
        return stored in known

    return values, test


def _containment_operator(
    among: Callable[[Iterable[bool]], bool], *, several: bool = True
) -> Operator:
    def operator(given: Any, rules: Rules, depth: int) -> tuple[Any, Test]:
        listed = _checked_operand_list(given, rules) if several else [given]
        if rules.scalars_only:
            values = _checked_filter_scalars(listed, rules, depth)
        else:
            values = [_checked_filter_operand(each, rules, depth) for each in listed]
        copy = values if several else values[0]
        return copy, _containment_test(values, among, rules)

    return operator


def _containment_test(
    values: list[Any], among: Callable[[Iterable[bool]], bool], rules: Rules
) -> Test:
    """Return a test whether a list or a text contains all or any of some values."""
    nested = [each for each in values if isinstance(each, list | dict)]
    plain = [each for each in values if not isinstance(each, list | dict)]
    values = [*{(type(each), each): each for each in plain}.values(), *nested]
    texts = [each for each in plain if isinstance(each, str)]

    def test(stored: Any) -> bool:
        if isinstance(stored, list):
            rules.spend(len(values) * (len(stored) // _VALUES))
            return among(_is_list_element(each, stored) for each in values)
        if isinstance(stored, str):
            rules.spend(len(texts) * (len(stored) // _CHARACTERS))
            return among(isinstance(each, str) and each in stored for each in values)
        return False

    return test


def _is_list_element(wanted: Any, stored: list[Any]) -> bool:
    at = -1
    with suppress(ValueError):
        while True:  # a list finds fast what may be equal, such as true for 1
            at = stored.index(wanted, at + 1)
            if _is_equal_json(stored[at], wanted):
                return True
    return False


def _looks_inside_values(condition: Any) -> bool:
    """Whether checked conditions have an operator that looks into stored values."""
    if isinstance(condition, Mapping):
        return not _INSIDE.isdisjoint(condition) or any(
            map(_looks_inside_values, condition.values())
        )
    return isinstance(condition, list) and any(map(_looks_inside_values, condition))


def _exists_operator(given: object, rules: Rules, _depth: int) -> tuple[Any, Test]:
    given = exact(given)
    if not isinstance(given, bool):
        raise InvalidTypeError(f"{rules.name}: $exists expects True or False")
    return given, lambda stored: (stored is not _MISSING) is given


def _checked_filter_operand(given: object, rules: Rules, depth: int) -> Any:
    """Return a copy of an operand."""
    _check_filter_depth(rules, depth)
    given = exact(given)
    is_endless = isinstance(given, float) and not math.isfinite(given)
    if is_endless and rules.finite_only:
        raise InvalidArgumentError(f"{rules.name}: must not contain NaN or Inf")
    if given is None or isinstance(given, str | int | float):
        return given
    if isinstance(given, list | tuple):
        if rules.scalars_only:
            return _checked_filter_scalars(given, rules, depth)
        return [_checked_filter_operand(each, rules, depth - 1) for each in given]
    if rules.scalars_only:
        msg = f"{rules.name}: expected JSON scalars or lists of them as operands"
        raise InvalidTypeError(msg)
    if isinstance(given, Mapping) and all(isinstance(key, str) for key in given):
        return {
            exact(k): _checked_filter_operand(each, rules, depth - 1)
            for k, each in given.items()
        }
    raise InvalidTypeError(f"{rules.name}: expected JSON values as operands")


def _checked_filter_scalars(
    given: list[Any] | tuple[Any, ...], rules: Rules, depth: int
) -> list[Any]:
    """Return a copy of a list of scalars."""
    if any(isinstance(each, list | tuple) for each in given):
        msg = f"{rules.name}: a list as operand must have JSON scalars only"
        raise InvalidTypeError(msg)
    if len(given) > rules.most_values:
        msg = f"{rules.name}: at most {rules.most_values} values in a list"
        raise LimitExceededError(msg)
    return [_checked_filter_operand(each, rules, depth - 1) for each in given]


def _checked_operand_list(given: object, rules: Rules) -> list[Any]:
    if not isinstance(given, list | tuple | set | frozenset):
        msg = f"{rules.name}: $in, $nin, $all, $any, $and and $or expect a list"
        raise InvalidTypeError(msg)
    least, most = rules.least_values, rules.most_values
    if not least <= len(given) <= most:
        if not least:
            raise LimitExceededError(f"{rules.name}: at most {most} values in a list")
        msg = f"{rules.name}: a list must have {least} to {most} values"
        raise InvalidArgumentError(msg)
    return list(given)


def _comparison_count(condition: Any, operator: str = "") -> int:
    """Return the maximum number of comparisons of one value with checked conditions."""
    if isinstance(condition, Mapping):
        return max(
            1, sum(_comparison_count(each, op) for op, each in condition.items())
        )
    if not isinstance(condition, list):
        return 1
    if operator in ("$in", "$nin"):  # scalars are looked up
        condition = [each for each in condition if isinstance(each, list | dict)]
    return max(1, sum(map(_comparison_count, condition)))


def _unknown_operator_message(rules: Rules) -> str:
    fields = ", ".join(_OPERATORS)
    own = f"; fields with $ are {', '.join(rules.own)}" if rules.own else ""
    around = "$and, $or and $not around conditions"
    return f"{rules.name}: operators are {fields}, and {around}{own}"


_OPERATORS: dict[str, Operator] = {
    "$eq": _equals_operator,
    "$ne": _negated_operator(_equals_operator),
    "$gt": _order_operator(gt),
    "$gte": _order_operator(ge),
    "$lt": _order_operator(lt),
    "$lte": _order_operator(le),
    "$in": _among_operator,
    "$nin": _negated_operator(_among_operator),
    "$contains": _containment_operator(all, several=False),
    "$all": _containment_operator(all),
    "$any": _containment_operator(any),
    "$exists": _exists_operator,
    "$not": _negated_operator(
        lambda given, rules, depth: _field_condition_and_test(given, rules, depth - 1)
    ),
}


# Conditions on custom_metadata: values, or operators with operands.

MOST_KEYS = 16
"""Maximum number of keys in one mapping of conditions."""
MOST_VALUES = 64
"""Maximum number of values in one list of operands."""

_NAME = "filter.metadata"
_TIME, _UPDATED = "$timestamp", "$updated_at"


def _time_converter(name: str) -> Callable[[Any], float]:
    """Return what converts operands: times are compared by whole microseconds."""
    return lambda given: round(to_seconds(given, f"{_NAME}.{name}"), 6)


TIMES = MappingProxyType({name: _time_converter(name) for name in (_TIME, _UPDATED)})
"""The fields of conditions that are times of the memory, not keys of its metadata."""

_RULES = Rules(_NAME, MOST_KEYS, 1, MOST_VALUES, scalars_only=True, own=TIMES)


def _parsed_filter_conditions(wanted: Mapping[str, Any]) -> Conditions:
    return wanted if isinstance(wanted, Conditions) else parsed_filter(wanted, _RULES)


def asks_times(wanted: Mapping[str, Any] | None) -> bool:
    """Whether conditions that `check_metadata_conditions` returned ask for times."""
    return isinstance(wanted, Conditions) and wanted.asks_own


def with_times(
    metadata: Mapping[str, object], time: float, updated_at: float
) -> dict[str, object]:
    """Return metadata with the times of their memory, for conditions that ask them."""
    return {**metadata, _TIME: round(time, 6), _UPDATED: round(updated_at, 6)}


def metadata_test(wanted: Mapping[str, Any], most: int | None = None) -> Test:
    """Return a test of the metadata of one scan; see `Conditions.test_for_scan`."""
    return _parsed_filter_conditions(wanted).test_for_scan(most)


def needed_tests(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Yield key, operator, operand of comparisons that a missing key does not meet."""
    for name, condition in wanted.items():
        if name == "$and":
            for part in condition:
                yield from needed_tests(part)
        elif name in AROUND or name in TIMES:
            continue
        elif not isinstance(condition, Mapping):
            yield name, "$eq", condition
        else:
            for operator, operand in condition.items():
                if operator in ("$ne", "$nin", "$not"):
                    continue
                if operator != "$exists" or operand:
                    yield name, operator, operand


def check_metadata_conditions(conditions: object, max_bytes: int) -> Conditions:
    """Return a checked copy of conditions on custom_metadata."""
    # `max_bytes` limits their JSON. `$timestamp` and `$updated_at` are times of the
    # memory.
    checked = parsed_filter(conditions, _RULES)
    try:
        size = len(json.dumps(checked))
    except ValueError:  # an integer of thousands of digits
        msg = f"{_NAME}: must not contain numbers too long for JSON"
        raise InvalidArgumentError(msg) from None
    if size > max_bytes:
        raise LimitExceededError(f"{_NAME}: at most max_metadata_bytes = {max_bytes}")
    return checked


# Filter conditions on author, kind, source, trust and custom_metadata.

EVERY = Filter()
"""The filter that every memory passes."""


class Labelled(Protocol):
    """The labels of a row or a memory."""

    @property
    def author(self) -> str | None:
        """The author."""

    @property
    def kind(self) -> str | None:
        """The kind."""

    @property
    def source(self) -> str | None:
        """The source."""

    @property
    def trust(self) -> str | None:
        """The trust tier."""


def passes_label_filter(row: Labelled, conditions: Filter) -> bool:
    """Whether author, kind, source and trust pass a filter."""
    return (
        (conditions.author is None or row.author in as_names(conditions.author))
        and (conditions.kind is None or row.kind in as_names(conditions.kind))
        and (conditions.source is None or row.source in as_names(conditions.source))
        and (conditions.trust is None or row.trust in as_names(conditions.trust))
        and row.kind not in as_names(conditions.not_kind)
        and begins_with_prefix(row.kind, conditions.kind_prefix)
    )


def begins_with_prefix(name: object, prefixes: Names | None) -> bool:
    """Whether a name begins with one of the prefixes, if there are any."""
    if prefixes is None:
        return True
    # The row of a vector store may have anything here.
    return isinstance(name, str) and name.startswith(as_names(prefixes))


def filter_leaves_out(id_: str, session: str | None, conditions: Filter) -> bool:
    """Whether a filter leaves out a memory by its id or its session."""
    return (
        id_ in as_names(conditions.not_id)
        or (session is not None and session in as_names(conditions.not_session_id))
        or not begins_with_prefix(session, conditions.session_prefix)
    )


def passes(row: Labelled, metadata: Mapping[str, object], conditions: Filter) -> bool:
    """Whether labels and metadata pass a filter."""
    return passes_label_filter(row, conditions) and (
        conditions.metadata is None
        or _parsed_filter_conditions(conditions.metadata).test(metadata)
    )
