"""Short texts of public objects for people: no long texts, no vectors."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from reprlib import Repr
from typing import Any


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


def shown(value: object, **held: object) -> str:
    """Return the class of an object and what it holds, except for None."""
    parts = [
        f"{name}={shortened(each)}" for name, each in held.items() if each is not None
    ]
    return f"{type(value).__name__}({', '.join(parts)})"


def short_repr(value: Any) -> str:
    """Return a dataclass with the fields that differ from their defaults."""
    held = {
        field.name: getattr(value, field.name) for field in fields(value) if field.repr
    }
    usual = {field.name: _default(field) for field in fields(value)}
    parts = [
        f"{name}={shortened(each)}"
        for name, each in held.items()
        if each is not usual[name] and not _is_equal(each, usual[name])
    ]
    return f"{type(value).__name__}({', '.join(parts)})"


def _is_equal(value: Any, usual: Any) -> bool:
    return type(value) is type(usual) and bool(value == usual)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def model_repr(embedder: Any) -> str:
    """Return an embedder with the name of its model."""
    return f"<{type(embedder).__name__} {shortened(embedder.model_id)}>"
