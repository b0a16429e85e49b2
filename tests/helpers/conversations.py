"""What Alice tells her concierge, and what she finds again."""

from __future__ import annotations

from typing import Any

from vecall import MemoryService

ALICE = {"app_name": "concierge", "user_id": "alice"}


def texts(service: MemoryService, query: str, **options: Any) -> list[str]:
    found = service.sync.search_memory(**ALICE, query=query, **options)
    return [memory.text for memory in found.memories]


def session(*events: Any, id_: str = "trip-1") -> dict[str, Any]:
    return {**ALICE, "id": id_, "events": list(events)}


def turn(id_: str, text: str, author: str = "user", **more: Any) -> dict[str, Any]:
    return {"id": id_, "author": author, "content": {"parts": [{"text": text}]}, **more}
