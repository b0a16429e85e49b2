"""A model of filters in plain Python; strategies of what is stored and asked."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from vecall import MemoryEntry

LABELS = ("author", "kind", "source", "trust")
WORDS = ("user", "guide", "a,b", "O'Neil", "Ünï")
LABEL = st.sampled_from([None, *WORDS])
IDS = st.sampled_from([f"m{n}" for n in range(8)])
NAMES = st.one_of(
    st.none(),
    st.sampled_from([*WORDS, "absent"]),
    st.lists(st.sampled_from([*WORDS, "absent"]), min_size=1, max_size=3),
    st.sets(st.sampled_from(WORDS), min_size=1).map(frozenset),
)
PREFIXES = st.one_of(
    st.none(),
    st.none(),
    st.sampled_from(["us", "user", "userx", "a,", "O'", "Ü", "%", "_", "u%"]),
    st.lists(st.sampled_from(["u", "g", "Ün", "\x01"]), min_size=1, max_size=2),
)
VALUES: list[Any] = [None, True, False, 0, 1, 1.0, 2**53 + 1, -3.5, "", "1", "b", "ä"]
VALUE = st.sampled_from(VALUES)
ORDERED = st.sampled_from([v for v in VALUES if v is not None and v is not True])
ORDERED = ORDERED.filter(lambda value: not isinstance(value, bool))
LISTS = st.lists(VALUE, max_size=3)
OPERAND = st.one_of(VALUE, VALUE, LISTS)
OPERATORS = st.fixed_dictionaries(
    {},
    optional={
        "$eq": OPERAND,
        "$ne": OPERAND,
        "$gt": ORDERED,
        "$gte": ORDERED,
        "$lt": ORDERED,
        "$lte": ORDERED,
        "$in": st.lists(OPERAND, min_size=1, max_size=3),
        "$nin": st.lists(OPERAND, min_size=1, max_size=3),
        "$contains": VALUE,
        "$all": st.lists(VALUE, min_size=1, max_size=3),
        "$any": st.lists(VALUE, min_size=1, max_size=3),
        "$exists": st.booleans(),
    },
).filter(bool)
OPERATORS = st.one_of(
    OPERATORS, st.one_of(OPERAND, OPERATORS).map(lambda c: {"$not": c})
)
CONDITION = st.one_of(OPERAND, OPERATORS)
FLAT = st.dictionaries(
    st.sampled_from(["p", "q", "d.p", "d.q", "p.x"]), CONDITION, min_size=1, max_size=2
)
WANTED = st.one_of(
    st.none(),
    FLAT,
    st.recursive(
        FLAT,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda some: {"$and": some}),
            st.lists(inner, min_size=1, max_size=3).map(lambda some: {"$or": some}),
            inner.map(lambda one: {"$not": one}),
        ),
        max_leaves=4,
    ),
)
META = st.dictionaries(
    st.sampled_from(["p", "q", "r", "d.p"]),
    st.one_of(VALUE, LISTS, st.just([[1], {"p": 1}, "b"])),
    max_size=2,
)
ENTRY = st.fixed_dictionaries(
    {
        **dict.fromkeys((*LABELS, "session_id"), LABEL),
        "custom_metadata": st.one_of(
            META, st.tuples(META, META).map(lambda two: {**two[0], "d": two[1]})
        ),
    }
)
ASKED = st.fixed_dictionaries(
    {
        **dict.fromkeys((*LABELS, "not_kind", "not_session_id"), NAMES),
        **dict.fromkeys(("session_prefix", "kind_prefix"), PREFIXES),
        "not_id": st.one_of(
            st.none(), st.sampled_from(["m0", "absent"]), st.sets(IDS, min_size=1)
        ),
        "metadata": WANTED,
    }
)


def listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def contains(value: Any, wanted: Any) -> bool:
    """The reference: a list has an element, or a text has a text."""
    if isinstance(value, str):
        return isinstance(wanted, str) and value.find(wanted) >= 0
    return isinstance(value, list) and any(is_same(each, wanted) for each in value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def holds(there: bool, value: Any, operator: str, operand: Any) -> bool:  # noqa: PLR0911 -- one for each operator
    """The reference: one comparison."""
    if operator == "$ne":
        return not there or not is_same(value, operand)
    if operator == "$nin":
        return not there or not any(is_same(value, each) for each in operand)
    if operator == "$exists":
        return there == operand
    if operator == "$not":
        inner = operand if isinstance(operand, dict) else {"$eq": operand}
        return not all(holds(there, value, *each) for each in inner.items())
    if not there:
        return False
    if operator == "$eq":
        return is_same(value, operand)
    if operator == "$in":
        return any(is_same(value, each) for each in operand)
    if operator == "$contains":
        return contains(value, operand)
    if operator == "$any":
        return any(contains(value, each) for each in operand)
    if operator == "$all":
        return all(contains(value, each) for each in operand)
    comparable = (isinstance(value, str) and isinstance(operand, str)) or (
        is_number(value) and is_number(operand)
    )
    if not comparable:
        return False
    return {
        "$gt": value > operand,
        "$gte": value >= operand,
        "$lt": value < operand,
        "$lte": value <= operand,
    }[operator]


def passes(memory: MemoryEntry, asked: dict[str, Any]) -> bool:
    """The reference: what a filter says, of one memory as it is listed."""
    for name in LABELS:
        if asked.get(name) is not None and getattr(memory, name) not in listed(
            asked[name]
        ):
            return False
    if asked.get("not_kind") is not None and memory.kind in listed(asked["not_kind"]):
        return False
    for name, prefix in (("session_id", "session_prefix"), ("kind", "kind_prefix")):
        if asked.get(prefix) is not None:
            stored, wanted = getattr(memory, name), listed(asked[prefix])
            if stored is None or not any(stored[: len(w)] == w for w in wanted):
                return False
    for name in ("id", "session_id"):
        hidden = asked.get(f"not_{name}")
        if hidden is not None and getattr(memory, name) in listed(hidden):
            return False
    return meets(memory.custom_metadata, asked.get("metadata") or {})


def meets(metadata: dict[str, Any], conditions: dict[str, Any]) -> bool:
    """The reference: conditions on the metadata of one memory."""
    for key, condition in conditions.items():
        if key == "$not":
            right = not meets(metadata, condition)
        elif key in ("$and", "$or"):
            each = [meets(metadata, part) for part in condition]
            right = all(each) if key == "$and" else any(each)
        else:
            wanted = condition if isinstance(condition, dict) else {"$eq": condition}
            there, value = key in metadata, metadata.get(key)
            first, dot, last = key.partition(".")
            if not there and dot and isinstance(metadata.get(first), dict):
                there, value = last in metadata[first], metadata[first].get(last)
            right = all(holds(there, value, *pair) for pair in wanted.items())
        if not right:
            return False
    return True
