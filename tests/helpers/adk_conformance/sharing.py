"""One service for many threads and event loops, which nobody is held up by: #4386."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Coroutine
from typing import Any

from helpers.adk import PARROT, a_trip, an_event
from helpers.adk_conformance.checks import Memory, Place, Section

SECTION = Section("Loops and threads")
THREADS = 8
TURNS = 5
EVENTS = 10_000
HELD_S = 0.25


def at_once(*works: Coroutine[Any, Any, None]) -> list[BaseException]:
    """Runs each in a loop and a thread of its own; what they raised."""
    raised: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def live(work: Coroutine[Any, Any, None]) -> None:
        barrier.wait()
        try:
            asyncio.run(asyncio.wait_for(work, 10.0))
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=live, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@SECTION.check(
    "One event loop after the other can use it",
    "made at import, used in uvicorn's loop and in Runner.run's threads",
)
async def loops(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events[:2])
    for _ in range(2):
        raised = await asyncio.to_thread(at_once, memory.tell(*a_trip().events))
        assert not raised, raised
    assert (await memory.texts("parrots")).count(PARROT) == 1


@SECTION.check(
    "Tasks of one loop can use it at once",
    "sub-agents and users share one service",
    raced=True,
)
async def tasks(place: Place) -> None:
    memory = place.open()
    events = [an_event(f"Parrot n{n}.", id=f"e{n}") for n in range(20)]
    await asyncio.gather(
        *[memory.delta(event, session_id="trip-1") for event in events],
        *[memory.search("parrot") for _ in range(5)],
    )
    for n in range(20):
        assert (await memory.texts(f"n{n}")).count(f"Parrot n{n}.") == 1


@SECTION.check(
    f"{THREADS} threads with a loop each can use a new one at once",
    "Runner.run starts a thread and a loop for each call",
    raced=True,
)
async def threads(place: Place) -> None:
    memory = place.open()

    async def live(number: int) -> None:
        who = {"user_id": f"user{number % 2}"}
        for turn in range(TURNS):
            said = an_event(f"Parrot n{number}t{turn}.", id=f"{number}-{turn}")
            await memory.delta(said, session_id="trip-1", **who)
            for text in await memory.texts("parrot", **who):
                assert int(text[8]) % 2 == number % 2, "another user's"

    raised = await asyncio.to_thread(at_once, *[live(n) for n in range(THREADS)])
    assert not raised, raised
    for number in range(THREADS):
        for turn in range(TURNS):
            word, who = f"n{number}t{turn}", {"user_id": f"user{number % 2}"}
            assert f"Parrot {word}." in await memory.texts(word, **who)


@SECTION.check(
    f"Adding {EVENTS:,} events at once holds the loop up for less than {HELD_S:g} s",
    "#4386: other users' replies wait meanwhile",
    timed=True,
)
async def not_held_up(place: Place) -> None:
    """The best of three, since the machine may be busy.

    The garbage collector is off: it would walk the caller's own events.
    """
    memory = place.open()
    gc.disable()
    try:
        held = min([await _held(memory, attempt) for attempt in range(3)])
    finally:
        gc.enable()
    assert held < HELD_S, f"{held:.2f} s"


async def _held(memory: Memory, attempt: int) -> float:
    events = [
        an_event(f"Parrot number {n} of {attempt} said a word or two.", id=f"e{n}")
        for n in range(EVENTS)
    ]
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not done:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.02)
    await memory.tell(*events, id=f"trip-{attempt}")
    done = True
    await watching
    return longest
