"""The schemas of filters."""

from __future__ import annotations

from vecall.filters.metadata import MOST_KEYS, MOST_VALUES, TIMES
from vecall.filters.trust import TRUST_TIERS
from vecall.server.schema_parts import Schema, closed, ref
from vecall.validation import LABEL_FIELDS, MOST_IDS, MOST_NAMES

_NAMES: Schema = {
    "anyOf": [
        ref("Name"),
        {"type": "array", "items": ref("Name"), "minItems": 1, "maxItems": MOST_NAMES},
    ]
}
_IDS: Schema = {
    "anyOf": [
        ref("Name"),
        {"type": "array", "items": ref("Name"), "minItems": 1, "maxItems": MOST_IDS},
    ]
}
_CONDITIONS = {
    "session_id": ref("Name"),
    "after": ref("Time"),
    "before": ref("Time"),
    **dict.fromkeys(LABEL_FIELDS, _NAMES),
    "not_id": _IDS,
}
SCALARS: list[Schema] = [
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
]
_ORDERED: Schema = {"anyOf": [{"type": "number"}, {"type": "string"}]}
_LIST: Schema = {"type": "array", "items": ref("Scalar"), "maxItems": MOST_VALUES}
_VALUE: Schema = ref("Operand")
_SEVERAL: Schema = {
    "type": "array",
    "items": _VALUE,
    "minItems": 1,
    "maxItems": MOST_VALUES,
}
_ELEMENTS: Schema = {**_LIST, "minItems": 1}
_OPERATORS: Schema = {
    **closed(
        {
            "$eq": _VALUE,
            "$ne": _VALUE,
            "$gt": _ORDERED,
            "$gte": _ORDERED,
            "$lt": _ORDERED,
            "$lte": _ORDERED,
            "$in": _SEVERAL,
            "$nin": _SEVERAL,
            "$contains": ref("Scalar"),
            "$all": _ELEMENTS,
            "$any": _ELEMENTS,
            "$exists": {"type": "boolean"},
            "$not": {"anyOf": [_VALUE, ref("Operators")]},
        }
    ),
    "minProperties": 1,
}
_TIMES: Schema = {
    "type": "array",
    "items": ref("Time"),
    "minItems": 1,
    "maxItems": MOST_VALUES,
}
_TIME_OPERATORS: Schema = {
    **closed(
        {
            **dict.fromkeys(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"), ref("Time")),
            **dict.fromkeys(("$in", "$nin"), _TIMES),
            "$exists": {"type": "boolean"},
            "$not": {"anyOf": [ref("Time"), ref("TimeOperators")]},
        }
    ),
    "minProperties": 1,
}
_TIME: Schema = {"anyOf": [ref("Time"), ref("TimeOperators")]}
_PARTS_OF: Schema = {
    "type": "array",
    "items": ref("MetadataConditions"),
    "minItems": 1,
    "maxItems": MOST_VALUES,
}
_VALUES: Schema = {
    "type": "object",
    "description": "Keys of custom_metadata, or dotted paths, and the value of each, "
    "or operators with operands; $timestamp and $updated_at, times of the memory; "
    "$and, $or and $not around such conditions.",
    "properties": {
        "$and": _PARTS_OF,
        "$or": _PARTS_OF,
        "$not": ref("MetadataConditions"),
        **dict.fromkeys(TIMES, _TIME),
    },
    "propertyNames": {
        "pattern": r"^(?!\$[A-Za-z])|"
        r"^\$(and|or|not|timestamp|updated_at)(?![\s\S])",
    },
    "additionalProperties": {"anyOf": [_VALUE, ref("Operators")]},
    "minProperties": 1,
    "maxProperties": MOST_KEYS,
}
_FLOOR: Schema = {"type": "string", "enum": list(TRUST_TIERS)}
FILTER = closed(
    {**_CONDITIONS, "metadata": ref("MetadataConditions"), "min_trust": _FLOOR}
)

FILTER_SCHEMAS: dict[str, Schema] = {
    "Scalar": {"anyOf": SCALARS},
    "Operand": {"anyOf": [*SCALARS, _LIST]},
    "Operators": _OPERATORS,
    "TimeOperators": _TIME_OPERATORS,
    "MetadataConditions": _VALUES,
    "Filter": FILTER,
    "DeleteWhere": closed({"filter": {**FILTER, "minProperties": 1}}, "filter"),
}
"""The schemas by name."""
