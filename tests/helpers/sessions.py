"""Sessions of numbered turns, and the order in which a file keeps them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from vecall import MemoryService

from helpers.memories import ALICE


def session(*events: Any, id_: str = "s", **who: str) -> dict[str, Any]:
    return {**(who or ALICE), "id": id_, "events": list(events)}


def turn(number: int, text: str | None = None) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "author": "user",
        "timestamp": float(number),
        "text": text or f"turn word{number}",
    }


def turns(*numbers: int) -> list[dict[str, Any]]:
    return [turn(number) for number in numbers]


def remembered(service: MemoryService, query: str = "turn") -> list[str]:
    found = service.sync.search_memory(**ALICE, query=query, top_k=1000)
    return sorted(memory.text for memory in found.memories)


def stored_order(path: Path, session_id: str = "s") -> list[str]:
    """The events of a session by position, from the closed file."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(
            "SELECT pos, event FROM mem WHERE session = ? AND pos IS NOT NULL "
            "ORDER BY pos",
            (session_id,),
        ).fetchall()
    finally:
        connection.close()
    positions = [position for position, _ in rows]
    assert len(set(positions)) == len(positions), "two turns at one position"
    return [event for _, event in rows]
