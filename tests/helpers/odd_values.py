"""Values that look like plain scalars and are not, for every argument of the API.

A base call is a function with plain arguments. `leaves` finds every value in them, also
inside of lists, mappings and dataclasses; `replaced` puts another one in its place.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

UTC = dt.timezone.utc
Place = tuple[Any, ...]
"""The way to a leaf: argument, then keys, indexes and fields."""


class Text(str):
    """A string whose `repr` and `str` say something else."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Text()"

    def __str__(self) -> str:
        return "SECRET"


class Number(float):
    """A float with another `repr`."""

    def __repr__(self) -> str:
        return "Number()"


class Whole(int):
    """An integer with another `repr`."""

    def __repr__(self) -> str:
        return "Whole()"


class Moment(dt.datetime):
    """A datetime with a subtraction of its own."""

    def __sub__(self, other: Any) -> Any:
        return "SECRET"


class Plain(enum.Enum):
    """An enum whose members are neither strings nor numbers."""

    MEMBER = "plain"


def _member(kind: type[Any], value: Any) -> Any:
    made = enum.Enum("Member", {"ONLY": value}, type=kind)  # type: ignore[misc]
    return made.ONLY  # type: ignore[attr-defined]


def alike(value: object) -> list[Any]:
    """The same value in other types, which a call takes as the plain one."""
    if type(value) is str:
        return [Text(value), np.str_(value), _member(str, value)]
    if type(value) is bool:
        return [np.bool_(value)]
    if type(value) is int:
        return [Whole(value), np.int64(value), np.uint64(value), _member(int, value)]
    if type(value) is float:
        return [Number(value), np.float64(value), _member(float, value)]
    return []


def _secret() -> Any:
    try:
        from pydantic import SecretStr
    except ImportError:
        return object()
    return SecretStr("SECRET")


ODD: dict[str, Any] = {
    "text": Text("odd"),
    "enum of str": _member(str, "odd"),
    "np.str_": np.str_("odd"),
    "lone surrogate": Text("\ud800"),
    "NUL": Text("a\0b"),
    "empty": Text(""),
    "enum": Plain.MEMBER,
    "secret": _secret(),
    "bytes": b"odd",
    "np.bytes_": np.bytes_(b"odd"),
    "int": Whole(3),
    "enum of int": _member(int, 3),
    "np.int64": np.int64(3),
    "np.uint8": np.uint8(3),
    "np.int64 below": np.int64(-3),
    "huge": Whole(10**400),
    "float": Number(0.5),
    "enum of float": _member(float, 0.5),
    "np.float64": np.float64(0.5),
    "np.float32": np.float32(0.5),
    "np.float16": np.float16(0.5),
    "np.longdouble": np.longdouble(0.5),
    "nan": np.float64("nan"),
    "inf": Number("inf"),
    "tiny": np.float64(5e-324),
    "np.bool_": np.bool_(True),
    "np.datetime64": np.datetime64("2026-01-01"),
    "NaT": np.datetime64("NaT"),
    "np.timedelta64": np.timedelta64(90, "s"),
    "datetime": Moment(2026, 1, 1, tzinfo=UTC),
    "naive datetime": dt.datetime(2026, 1, 1),
    "date": dt.date(2026, 1, 1),
    "timedelta": dt.timedelta(seconds=90),
    "Decimal": Decimal("0.5"),
    "Fraction": Fraction(1, 2),
    "complex": complex(1, 2),
    "np.complex64": np.complex64(1),
    "np.void": np.void(b"odd"),
    "array of one": np.array(3),
    "array": np.array([1.0, 2.0]),
    "object": object(),
    "list": [np.str_("odd"), np.float32(1.5)],
    "mapping": {np.str_("odd"): np.int64(3)},
    "tiny vector": np.full(4, 1e-42, np.float32),
}


def leaves(value: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """Yield every place of a value, containers included, with what is there."""
    yield place, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from leaves(inner, (*place, at))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.init:
                yield from leaves(getattr(value, field.name), (*place, field.name))


def replaced(value: Any, place: Place, new: object) -> Any:
    """A copy of a value with something else at a place."""
    if not place:
        return new
    first, rest = place[0], place[1:]
    if isinstance(value, Mapping):
        return {**value, first: replaced(value[first], rest, new)}
    if isinstance(value, list | tuple):
        copy = list(value)
        copy[first] = replaced(copy[first], rest, new)
        return type(value)(copy)
    inner = replaced(getattr(value, first), rest, new)
    return dataclasses.replace(value, **{first: inner})
