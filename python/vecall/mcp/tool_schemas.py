"""The schemas of the tools' answers, and the hints about their effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_MEMORY: dict[str, Any] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(
            ("text", "id", "author", "session_id", "kind", "source", "trust", "scope"),
            _TEXT,
        ),
        "timestamp": {**_TEXT, "description": "When it was said, ISO 8601 in UTC"},
        "relevance": {"type": "number"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "cut": {
            "type": "object",
            "description": "The range of characters shown, if the text is cut",
            "properties": {"from": _COUNT, "to": _COUNT, "of": _COUNT},
            "required": ["from", "to", "of"],
        },
    },
    "required": ["text"],
}
_NOTE = {**_TEXT, "description": "How to read the memories"}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
    }


def _status(*statuses: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(statuses)}


_MEMORIES = {"memories": {"type": "array", "items": _MEMORY}, "note": _NOTE}

ANSWERS: dict[str, dict[str, Any]] = {
    "search_memory": _object(
        {**_MEMORIES, "left_out": _COUNT, "searched": _TEXT}, "memories"
    ),
    "get_memory": _object({**_MEMORY["properties"], "note": _NOTE}, "text"),
    "list_memories": _object({**_MEMORIES, "next": _TEXT}, "memories"),
    "add_memory": _object(
        {
            "status": _status("remembered", "already_remembered", "not_remembered"),
            "id": _TEXT,
        },
        "status",
    ),
    "update_memory": _object(
        {"status": _status("updated", "not_updated"), "id": _TEXT}, "status"
    ),
    "delete_memory": _object(
        {
            "status": _status("confirm", "unknown_token", "deleted", "not_found"),
            "token": _TEXT,
            "memory": _MEMORY,
            "note": _NOTE,
        },
        "status",
    ),
}
"""The JSON Schema of each tool's answer, by the name of the tool."""

_READS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_ADDS = {**_READS, "readOnlyHint": False}
_CHANGES = {**_ADDS, "destructiveHint": True}

HINTS: dict[str, dict[str, bool]] = {
    "search_memory": _READS,
    "get_memory": _READS,
    "list_memories": _READS,
    "add_memory": _ADDS,
    "update_memory": _ADDS,  # the former text stays in the history
    "delete_memory": _CHANGES,
}
"""The annotations of each tool, by its name."""

TITLES = {
    "search_memory": "Search memory",
    "get_memory": "Read a memory",
    "list_memories": "List memories",
    "add_memory": "Remember",
    "update_memory": "Correct a memory",
    "delete_memory": "Delete a memory",
}
"""The titles of the tools, for people."""
