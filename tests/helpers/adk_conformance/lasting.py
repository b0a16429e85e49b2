"""What outlives a process: #559, #2524, #2976."""

from __future__ import annotations

from helpers.adk import PARROT, a_trip
from helpers.adk_conformance.checks import Place, Section
from helpers.adk_conformance.child import Child

SECTION = Section("Persistence")


@SECTION.check(
    "Memories survive a restart",
    '#559 "an urgent need", #2524, #2976, #4735',
)
async def restart(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events)
    before = await memory.find(PARROT, "parrots")
    await place.close()
    memory = place.open()
    after = await memory.find(PARROT, "parrots")
    assert (after.id, after.author, after.timestamp) == (
        before.id,
        before.author,
        before.timestamp,
    )
    await memory.tell(*a_trip().events)
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "They survive without a close",
    "Runner.close closes no memory service: the contract knows no close",
)
async def no_close(place: Place) -> None:
    await place.open().tell(*a_trip().events)
    assert PARROT in await place.open().texts("parrots")


@SECTION.check(
    "What was acknowledged survives kill -9",
    "#559: containers are killed; PATCH .../memory answered 200",
)
async def killed(place: Place) -> None:
    with Child(place) as child:
        child.call("tell", PARROT)
        child.kill()
    assert PARROT in await place.open().texts("parrots")


@SECTION.check(
    "Two processes on one file see each other's writes",
    "several workers of gunicorn or uvicorn serve one app",
)
async def two_processes(place: Place) -> None:
    memory = place.open()
    await memory.delta(*a_trip().events[:1], session_id="trip-1")
    with Child(place) as child:
        child.call("tell", PARROT)
        assert PARROT in await memory.texts("parrots")
        await memory.delta(*a_trip().events[1:2], session_id="trip-1")
        assert "Noted." in child.call("search", "noted")
