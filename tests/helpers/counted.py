"""What a service holds, counted from an export of it: a reference for its counters."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from typing import Any

from vecall import MemoryService
from vecall.store.queries.listing import miscounted_counters

Lines = list[dict[str, Any]]
_KEY = "\0!"  # the id of a tombstone that holds a key begins so


def exported(service: MemoryService) -> dict[tuple[str, str], dict[str, Lines]]:
    """The lines of an export, by user and kind; users are (app, user)."""
    stream = io.StringIO()
    service.sync.admin.export_jsonl(stream)
    users: dict[tuple[str, str], dict[str, Lines]] = {}
    own: dict[str, Lines] = {}
    for line in stream.getvalue().splitlines():
        values = json.loads(line)
        if "part" in values:
            own = users[values["part"]["app"], values["part"]["user"]] = defaultdict(
                list
            )
            own["part"].append(values["part"])
        elif "vecall" not in values:
            ((kind, fields),) = values.items()
            own[kind].append(fields)
    return users


def size(memories: Lines) -> int:
    return sum(len(each["text"].encode()) for each in memories)


def in_state(memories: Lines, state: str = "live") -> Lines:
    return [each for each in memories if each["state"] == state]


def said(memory: dict[str, Any]) -> float:
    return float(memory.get("ts", memory["created_at"]))


def stats(users: dict[tuple[str, str], dict[str, Lines]]) -> dict[str, int]:
    """What `admin.stats` counts, but for vectors."""
    memories = [each for own in users.values() for each in own["mem"]]
    return {
        "users": len(users),
        "sessions": sum(
            len({each["session"] for each in own["mem"] if "session" in each})
            for own in users.values()
        ),
        "memories": len(in_state(memories)),
        "archived": len(in_state(memories, "archived")),
        "quarantined": len(in_state(memories, "quarantined")),
        "text_bytes": size(in_state(memories)),
        "items": sum(len(own["item"]) for own in users.values()),
        "deleted_ids": sum(
            not each["id"].startswith(_KEY)
            for own in users.values()
            for each in own["tomb"]
        ),
        "waiting_turns": sum(
            "event" in each for own in users.values() for each in own["told"]
        ),
    }


def user(own: dict[str, Lines]) -> tuple[Any, ...]:
    """Memories, bytes, times, sessions and items of a user who has memories."""
    live = in_state(own["mem"])
    return (
        len(live),
        size(live),
        min(each["created_at"] for each in own["mem"]),
        max(each["updated_at"] for each in own["mem"]),
        len({each["session"] for each in own["mem"] if "session" in each}),
        len(own["item"]),
    )


def sessions(own: dict[str, Lines], now: float) -> list[tuple[Any, ...]]:
    """Name, memories, bytes and times of the sessions of a user at a time."""
    found: dict[str, Lines] = defaultdict(list)
    for each in own["mem"]:
        if "session" in each and each.get("expires_at", 9e99) > now:
            found[each["session"]].append(each)
    listed = []
    for name, memories in sorted(found.items()):
        live = [e for e in in_state(memories) if e.get("valid_until", 9e99) > now]
        times = [said(each) for each in memories]
        listed.append((name, len(live), size(live), min(times), max(times)))
    return listed


def wrong_counters(service: MemoryService) -> str:
    """What `vecall doctor` says of the counters; "" if all are right."""
    with service._memory.storage.read() as reads:
        return miscounted_counters(reads._connection)
