"""Sessions and deltas of them, in any order and as often as one likes."""

from __future__ import annotations

from helpers.adk import PARROT, ROOM, a_trip, an_event
from helpers.adk_conformance.checks import Place, Section

SECTION = Section("Sessions and deltas")


@SECTION.check(
    "A session added twice is remembered once",
    'contract: "A session may be added multiple times during its lifetime"',
)
async def twice(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events)
    await memory.tell(*a_trip().events)
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "A session that has grown is remembered whole",
    'contract: "A session may be added multiple times during its lifetime"',
)
async def grown(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events[:1])
    await memory.tell(*a_trip().events)
    assert (await memory.texts("quiet room")).count(ROOM) == 1
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "A delta is not taken for the whole session",
    'contract: "must not assume it represents the full session"',
)
async def deltas(place: Place) -> None:
    memory = place.open()
    for event in a_trip().events:
        await memory.delta(event, session_id="trip-1")
    assert (await memory.texts("quiet room")).count(ROOM) == 1
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "Deltas and then the whole session are remembered once",
    "contract: deltas and sessions are two ways to the same memory",
)
async def deltas_then_session(place: Place) -> None:
    memory = place.open()
    for event in a_trip().events:
        await memory.delta(event, session_id="trip-1")
    await memory.tell(*a_trip().events)
    assert (await memory.texts("quiet room")).count(ROOM) == 1
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "A delta without a session, given twice, is remembered once",
    "contract: session_id is optional; adk-docs: events=session.events[-2:]",
)
async def no_session(place: Place) -> None:
    memory = place.open()
    for _ in range(2):
        await memory.delta(*a_trip().events[-2:])
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "The same event id in two sessions is two memories",
    "event ids are unique in their session; a session can be copied",
)
async def same_event_id(place: Place) -> None:
    memory = place.open()
    await memory.tell(an_event(PARROT, id="e1"), id="trip-1")
    await memory.tell(an_event("I fear parrots.", id="e1"), id="trip-2")
    found = await memory.texts("parrots")
    assert PARROT in found
    assert "I fear parrots." in found


@SECTION.check(
    "Events without an id are each remembered, and once",
    "SqliteMemoryService's docstring promises it",
)
async def no_event_id(place: Place) -> None:
    memory = place.open()
    events = [
        an_event(text, timestamp=float(at))
        for at, text in enumerate([PARROT, "I fear no parrots."])
    ]
    for event in events:
        event.id = ""  # Event makes one if it is created without
    await memory.delta(*events, session_id="trip-1")
    await memory.delta(*events, session_id="trip-1")
    found = await memory.texts("parrots")
    assert found.count(PARROT) == 1
    assert found.count("I fear no parrots.") == 1


@SECTION.check(
    "A text with half a surrogate pair does not cost the session",
    "models and clients send such JSON; PATCH .../memory would answer 500",
)
async def surrogate(place: Place) -> None:
    memory = place.open()
    broken = an_event("Parrots \ud83d", id="e1")
    await memory.tell(broken, an_event(PARROT, id="e2"))
    assert PARROT in await memory.texts("favourite animals")
