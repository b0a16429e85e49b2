"""Parts of which the schemas of the OpenAPI document are made."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

EACH_ALONE = "x-each-alone"
"""Of an array: an invalid item is left out, with its reason, and no other item."""


def ref(name: str) -> Schema:
    """Refer to a shared schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def closed(properties: dict[str, Schema], *required: str) -> Schema:
    """Return the schema of an object without further fields."""
    schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return {**schema, "required": list(required)} if required else schema
