"""Reads memories in every state, and adds turns as a callback does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vecall import MemoryEntry, MemoryService

from helpers.memories import ALICE
from helpers.processes import run


def kept(
    service: MemoryService, state: str = "live", **who: str
) -> dict[str | None, str]:
    """The texts of a user's memories of one state, by id, in their order."""
    listed = service.sync.list_memories(**(who or ALICE), state=state, limit=1000)
    return {memory.id: memory.text for memory in listed}


def found(service: MemoryService, query: str, **who: str) -> set[str]:
    """The texts that have the query's words, of those that a search finds."""
    response = service.sync.search_memory(**(who or ALICE), query=query, top_k=100)
    wanted = set(query.lower().split())
    texts = {memory.text for memory in response.memories}
    return {text for text in texts if wanted & set(text.lower().split())}


def past(service: MemoryService, id_: str, **who: str) -> list[tuple[str, Any, Any]]:
    """Text, state and reason of each revision of a memory."""
    revisions = service.sync.memory_history(**(who or ALICE), memory_id=id_)
    return [(each.memory.text, each.state, each.why) for each in revisions]


def get(service: MemoryService, id_: str, **who: str) -> MemoryEntry:
    return service.sync.get_memory(**(who or ALICE), memory_id=id_)


def add(service: MemoryService, text: str, id_: str | None = None, **more: Any) -> str:
    """Remember one fact; returns its id."""
    entry = MemoryEntry(text, id=id_, **more)
    (made,) = service.sync.add_memory(**ALICE, memories=[entry])
    return made


def update(service: MemoryService, id_: str, **changes: Any) -> MemoryEntry:
    return service.sync.update_memory(**ALICE, memory_id=id_, **changes)


def everything(service: MemoryService, **who: str) -> list[Any]:
    """All memories of a user, whatever their state."""
    states = ("live", "archived", "quarantined")
    scope = who or ALICE
    return [
        service.sync.list_memories(**scope, state=state, limit=1000) for state in states
    ]


# In a process of its own: closing a file that a service has open drops its locks.
_SEARCHER = """
import json, pathlib, sys
files = [file for file in pathlib.Path(sys.argv[1]).rglob("*") if file.is_file()]
data = [file.read_bytes() for file in files]
words = json.loads(sys.stdin.read())
found = [word for word in words if any(word.encode() in each for each in data)]
print(json.dumps(found))
"""


def bytes_with(folder: Path, words: Iterable[str]) -> set[str]:
    """Which of the words stand in some file of a folder."""
    done = run(_SEARCHER, folder, stdin=json.dumps(list(words)))
    return set(json.loads(done.stdout))
