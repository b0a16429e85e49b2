"""Forgetting: #6949, #6961, #7175."""

from __future__ import annotations

from helpers.adk import PARROT, ROOM, a_trip, an_event
from helpers.adk_conformance.checks import Memory, Place, Section

SECTION = Section("Forgetting")


async def deleted(memory: Memory) -> None:
    """The trip, and one of its turns is deleted."""
    await memory.tell(*a_trip().events)
    found = await memory.find(PARROT, "parrots")
    await memory.delete(found.id)


async def gone(memory: Memory) -> None:
    assert PARROT not in await memory.texts("parrots")
    assert ROOM in await memory.texts("quiet room")


@SECTION.check(
    "delete_memory deletes the one memory of that id",
    "contract; #6949: no way to delete",
)
async def one(place: Place) -> None:
    memory = place.open()
    await deleted(memory)
    await gone(memory)


@SECTION.check(
    "What was deleted stays so when its session is added again",
    "#6949; InMemoryMemoryService notes deleted ids for it",
)
async def session_again(place: Place) -> None:
    memory = place.open()
    await deleted(memory)
    await memory.tell(*a_trip().events)
    await gone(memory)


@SECTION.check(
    "What was deleted stays so when its event comes as a delta",
    "#6949; InMemoryMemoryService notes deleted ids for it",
)
async def delta_again(place: Place) -> None:
    memory = place.open()
    await deleted(memory)
    await memory.delta(*a_trip().events, session_id="trip-1")
    await gone(memory)


@SECTION.check(
    "What was deleted stays so in the next process",
    "#6949 and #559 together: the right to be forgotten outlives a restart",
)
async def restarted(place: Place) -> None:
    memory = place.open()
    await deleted(memory)
    await place.close()
    memory = place.open()
    await gone(memory)
    await memory.tell(*a_trip().events)
    await gone(memory)


@SECTION.check(
    "Another user's id deletes nothing",
    "contract: app_name and user_id are the scope; #5294",
)
async def not_mine(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events)
    await memory.tell(an_event("I fear parrots.", id="x"), user_id="bob")
    theirs = (await memory.find(PARROT, "parrots")).id
    await memory.delete(theirs, user_id="bob")
    await memory.delete(theirs, app_name="bank")
    assert PARROT in await memory.texts("parrots")


@SECTION.check(
    "None and an unknown id delete nothing and are no error",
    "contract: memory_id is None by default; InMemoryMemoryService",
)
async def nothing(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events)
    for unknown in (None, "", "no such id", "%", "999999"):
        await memory.delete(unknown)
    assert PARROT in await memory.texts("parrots")
    assert ROOM in await memory.texts("quiet room")
