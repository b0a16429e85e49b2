"""Memories that are written as such, and what is noted with them."""

from __future__ import annotations

import asyncio
import json
import math

from helpers.adk import ALICE, PARROT, ROOM, an_event
from helpers.adk_conformance.checks import Place, Section, a_memory

SECTION = Section("Direct writes and metadata")
SHORT = {"ttl": "0.05s"}
"""Vertex AI's spelling: "6000s"."""


@SECTION.check(
    "add_memory remembers entries",
    "contract; adk-docs #1951, adk-go #1160",
)
async def entries(place: Place) -> None:
    memory = place.open()
    await memory.add(a_memory(PARROT), a_memory(ROOM))
    assert (await memory.texts("parrots")).count(PARROT) == 1
    assert (await memory.texts("quiet room")).count(ROOM) == 1


@SECTION.check(
    "An entry comes back with its author, time and metadata",
    "contract: the fields of MemoryEntry",
)
async def fields(place: Place) -> None:
    memory = place.open()
    when = "2026-01-02T03:04:05+00:00"
    noted = {"page": 7, "tags": ["pets"]}
    await memory.add(
        a_memory(PARROT, author="guide", timestamp=when, custom_metadata=noted)
    )
    found = await memory.find(PARROT, "parrots")
    assert (found.author, found.timestamp) == ("guide", when)
    assert noted.items() <= found.custom_metadata.items()


@SECTION.check(
    "A delta with a ttl expires, and nothing else does",
    "contract names TTL; adk-docs #1983, mem0 #5588",
)
async def delta_expires(place: Place) -> None:
    memory = place.open()
    await memory.delta(an_event(PARROT), custom_metadata=SHORT)
    await memory.delta(an_event("I fear parrots."))
    await asyncio.sleep(0.1)
    found = await memory.texts("parrots")
    assert "I fear parrots." in found
    assert PARROT not in found


@SECTION.check(
    "An entry with a ttl expires, and nothing else does",
    "adk-docs #1951: add_memory with ttl, as Vertex's",
)
async def entry_expires(place: Place) -> None:
    memory = place.open()
    await memory.add(a_memory(PARROT), custom_metadata=SHORT)
    await memory.add(a_memory("I fear parrots."))
    await asyncio.sleep(0.1)
    found = await memory.texts("parrots")
    assert "I fear parrots." in found
    assert PARROT not in found


@SECTION.check(
    "Whatever metadata goes in, what comes out is JSON",
    "bytes or an object there breaks the session's persistence and /run",
)
async def becomes_json(place: Place) -> None:
    memory = place.open()
    odd = {"raw": b"\xff", "thing": object(), "none": math.nan, "set": {1}}
    event = an_event(PARROT)
    event.custom_metadata = dict(odd)
    await memory.delta(event, custom_metadata=dict(odd))
    found = await memory.service.search_memory(**ALICE, query="parrots")
    assert found.memories
    json.dumps(found.model_dump(mode="json"), allow_nan=False)
