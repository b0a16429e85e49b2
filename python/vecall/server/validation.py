"""Checks values against the schemas of the OpenAPI document.

Supports the part of JSON Schema that those schemas use. Its messages name a field and a
rule, never a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.ingest.roles import speaker_of, unwrapped
from vecall.scalars import is_field_name
from vecall.server.responses import HttpError
from vecall.server.schema_parts import EACH_ALONE

Schema = dict[str, Any]

_PREFIX = "#/components/schemas/"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == value // 1,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}

# Keyword, measured quantity, whether the bound is a lower one, and the message.
_BOUNDS: list[tuple[str, Callable[[Any], float], bool, str]] = [
    ("minimum", lambda value: value, True, "must be at least {}"),
    ("maximum", lambda value: value, False, "must be at most {}"),
    ("minLength", len, True, "must have at least {} characters"),
    ("maxLength", len, False, "must have at most {} characters"),
    ("minItems", len, True, "must have at least {} items"),
    ("maxItems", len, False, "must have at most {} items"),
    ("minProperties", len, True, "must have at least {} fields"),
    ("maxProperties", len, False, "must have at most {} fields"),
]


class Validator:
    """Checks values against schemas that refer to each other.

    Args:
        shared: The schemas by name.
    """

    def __init__(self, shared: dict[str, Schema]) -> None:
        """Use the shared schemas."""
        self._shared = shared

    def check(self, value: object, schema: Schema, where: str = "body") -> None:
        """Check one value.

        An invalid item of an array with `EACH_ALONE`, which are turns, is replaced by
        its error, which leaves out that item alone. One that nobody said stays as it
        is: the service leaves it out by its role, whatever fields it has.

        Args:
            value: The value from the client.
            schema: The schema of the value.
            where: The name of the value in messages.

        Raises:
            HttpError: 422, with the field and its rule.
        """
        schema = self._resolved(schema)
        if "anyOf" in schema:
            self._check_any(value, schema["anyOf"], where)
            return
        if "type" not in schema:
            return  # any value
        kind = schema["type"]
        if not _TYPES[kind](value):
            raise _broken(where, f"expected {_article(kind)} {kind}")
        if "enum" in schema and value not in schema["enum"]:
            words = (str(word).lower() for word in schema["enum"])
            raise _broken(where, f"must be one of {', '.join(words)}")
        for keyword, measure, floor, rule in _BOUNDS:
            if keyword in schema:
                bound, given = schema[keyword], measure(value)
                # With `not`, NaN fails the check; JSON has no NaN.
                if not (given >= bound if floor else given <= bound):
                    raise _broken(where, rule.format(bound))
        if kind == "array" and "items" in schema:
            assert isinstance(value, list)
            items, alone = schema["items"], EACH_ALONE in schema
            for number, item in enumerate(value):
                place = f"{where}[{number}]"
                if alone:
                    value[number] = self._turn(item, items, place)
                else:
                    self.check(item, items, place)
        elif kind == "object":
            assert isinstance(value, dict)
            self._check_fields(value, schema, where)

    def _turn(self, item: object, schema: Schema, where: str) -> object:
        turn = unwrapped(item)
        try:
            self.check(turn, schema, where)
        except HttpError as error:
            if speaker_of(turn).program is None:
                return InvalidArgumentError(error.message)
        return turn

    def _resolved(self, schema: Schema) -> Schema:
        if "$ref" in schema:
            return self._shared[schema["$ref"].removeprefix(_PREFIX)]
        return schema

    def _check_any(self, value: object, schemas: list[Schema], where: str) -> None:
        """Check a value against the schemas of its type, or else against all."""
        fitting = [
            schema
            for schema in map(self._resolved, schemas)
            if "type" not in schema or _TYPES[schema["type"]](value)
        ]
        schemas = fitting or schemas
        for schema in schemas[:-1]:
            try:
                self.check(value, schema, where)
            except HttpError:
                continue
            return
        self.check(value, schemas[-1], where)

    def _check_fields(self, value: dict[str, Any], schema: Schema, where: str) -> None:
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        names = schema.get("propertyNames", {}).get("pattern")
        if names is not None and not all(re.search(names, name) for name in value):
            raise _broken(where, f"an unknown operator; known are {', '.join(known)}")
        for name in schema.get("required", ()):
            if name not in value:
                field = f"{where}.{name}"
                raise _broken(field, "is missing")
        for name, item in value.items():
            if name in known:
                self.check(item, known[name], f"{where}.{name}")
            elif more is False:
                # An unusual name may be user text; the error must not contain it.
                shown = f' "{name}"' if is_field_name(name) else ""
                fields = ", ".join(known)
                raise _broken(where, f"unknown field{shown}; fields are {fields}")
            elif more is not True:
                self.check(item, more, f"{where}.*")


def _article(kind: str) -> str:
    return "an" if kind[0] in "aio" else "a"


def _broken(where: str, rule: str) -> HttpError:
    return HttpError(422, "invalid", f"{where}: {rule}")
