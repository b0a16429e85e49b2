"""Scalars as vecall keeps them: exactly str, int, float, bool or None.

Subclasses (an enum member that is a string, NumPy's float64) compare as their base, but
have another `repr`, and a database driver may store something else for them. So every
scalar that a caller gives passes one of these functions.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import MISSING, fields
from reprlib import Repr
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_EXACT = frozenset((str, int, float, bool, type(None)))
_NO_SCALARS = _EXACT | {list, dict, tuple, set, MappingProxyType, np.ndarray}
_MOST_SEEN = 100_000  # values that are looked at for an error message
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)


def exact(value: T) -> T:
    """Return a scalar as exactly str, int, float or bool; another value as it is."""
    # A member of an enum that is a string or a number becomes its plain value. NumPy's
    # scalars become Python's, except for times, bytes and complex numbers.
    if type(value) in _EXACT:
        return value
    plain: Any = value
    if isinstance(value, str):
        plain = str.__str__(value)
    elif isinstance(value, int):
        plain = int.__int__(value)
    elif isinstance(value, float):
        plain = float.__float__(value)
    elif isinstance(value, np.bool_):
        plain = bool(value)
    elif isinstance(value, np.floating):
        plain = float(value)
    elif isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        plain = int(value)
    return plain  # type: ignore[no-any-return]


def exact_arguments(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call with their scalars as `exact` returns them."""
    # Those of a named tuple count as arguments. Other containers are left to those who
    # read them.
    if _NO_SCALARS.issuperset(map(type, arguments)):
        return arguments
    plain = list(arguments)
    for place, value in enumerate(arguments):
        if isinstance(value, tuple) and hasattr(value, "_make"):
            given = exact_arguments(value)
            plain[place] = value if given is value else value._make(given)
        elif type(value) not in _NO_SCALARS:
            plain[place] = exact(value)
    return tuple(plain)


def stored_float(text: str) -> float:
    """Return a number of the file, which was once written as NumPy spells it."""
    return float(text.removeprefix("np.float64(").removesuffix(")"))


def make_fields_exact(options: Any) -> None:
    """Replace the scalars among the fields of a frozen dataclass by exact ones."""
    for field in fields(options):
        given = getattr(options, field.name, None)
        if (plain := exact(given)) is not given:
            object.__setattr__(options, field.name, plain)


def json_default(value: object) -> object:
    """Return what JSON has for a value that `json` does not know."""
    plain = exact(value)
    if plain is value and isinstance(value, Mapping):
        return dict(value)
    if plain is value:
        raise TypeError
    return plain


def odd_json_value(value: object) -> str:
    """Say what inside of a value JSON does not have, and where."""
    # Keys of the caller's are shown if they are plain names.
    ahead: deque[tuple[object, str]] = deque([(value, "")])
    for _ in range(_MOST_SEEN):
        if not ahead:
            break
        inner, place = ahead.popleft()
        plain = exact(inner)
        if isinstance(inner, Mapping):
            for key, each in inner.items():
                if not isinstance(key, str):
                    return f"found a key of type {type(key).__name__}{place}"
                shown = f'"{exact(key)}"' if is_field_name(key) else "a key"
                ahead.append((each, f" at {shown}"))
        elif isinstance(inner, list | tuple):
            ahead.extend((each, place) for each in inner)
        elif isinstance(plain, float) and not math.isfinite(plain):
            return f"found NaN or Inf{place}"
        elif isinstance(plain, str) and not is_utf8(plain):
            return f"found a lone surrogate{place}"
        elif type(plain) not in _EXACT:
            return f"found a value of type {type(inner).__name__}{place}"
    return "it is nested too deeply, or refers to itself"


def is_field_name(name: object) -> bool:
    """Return whether an error may contain a name; others may be user text."""
    return isinstance(name, str) and _PLAIN_NAME.fullmatch(name) is not None


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can hold a text, which has no lone surrogate then."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Short texts of public objects for people: no long texts, no vectors.


class _Short(Repr):
    """`repr`, with long texts, containers and arrays cut."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = 60
        self.maxother = 160  # a memory, which is short itself
        self.maxlist = self.maxtuple = self.maxdict = 4

    def repr_ndarray(self, array: Any, _level: int) -> str:
        """Return the type and the shape."""
        return f"<{array.dtype} array {array.shape}>"

    def repr_float(self, number: float, _level: int) -> str:
        """Return a share with four digits, a time in full."""
        return f"{number:.4g}" if abs(number) < 10.0 else repr(number)


shortened = _Short().repr
"""Returns the `repr` of a value, cut to some 60 characters for each text."""


def repr_of_object(value: object, **held: object) -> str:
    """Return the class of an object and what it holds, except for None."""
    parts = [f"{n}={shortened(each)}" for n, each in held.items() if each is not None]
    return f"{type(value).__name__}({', '.join(parts)})"


def repr_of_changed_fields(value: Any) -> str:
    """Return a dataclass with the fields that differ from their defaults."""
    parts = []
    for field in fields(value):
        held, usual = getattr(value, field.name), field.default
        if field.default_factory is not MISSING:
            usual = field.default_factory()
        is_usual = held is usual or (type(held) is type(usual) and bool(held == usual))
        if field.repr and not is_usual:
            parts.append(f"{field.name}={shortened(held)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _compared_values(value: Any, *, hashed: bool = False) -> list[Any]:
    return [
        getattr(value, field.name)
        for field in fields(value)
        if field.compare and not (hashed and field.hash is False)
    ]


class Shown:
    """The base of dataclasses with `repr=False, eq=False`: they share these methods.

    `dataclass` would compile them for each class, which takes 3 % of an import.
    """

    __slots__ = ()
    __repr__ = repr_of_changed_fields

    def __eq__(self, other: object) -> bool:
        """Whether class and fields are equal, but for fields that are not compared."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _compared_values(self) == _compared_values(other)

    def __hash__(self) -> int:
        """Return the hash of the class and its fields."""
        return hash((self.__class__, *_compared_values(self, hashed=True)))


def repr_of_embedder(embedder: Any) -> str:
    """Return an embedder with the name of its model."""
    return f"<{type(embedder).__name__} {shortened(embedder.model_id)}>"


# Which vectors the engine accepts.


def usable_vectors(matrix: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return for each vector whether it has a direction: finite, and not zero."""
    # Every door asks it before a vector is stored: the engine refuses other vectors.
    return np.asarray(np.isfinite(matrix).all(axis=1) & matrix.any(axis=1))
