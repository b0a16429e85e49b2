"""What a check is, where it runs, and how it ends."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from helpers.adk import ALICE, a_session
from helpers.adk_conformance.kinds import Kind
from helpers.fork_pool import ForkPool

PATIENCE_S = 30.0


class Memory:
    """An open service; whose memories they are is Alice's unless a call says so."""

    def __init__(self, service: Any) -> None:
        self.service = service

    async def tell(self, *events: Any, id: str = "trip-1", **who: str) -> None:
        await self.service.add_session_to_memory(a_session(*events, id=id, **who))

    async def delta(self, *events: Any, **more: Any) -> None:
        await self.service.add_events_to_memory(**{**ALICE, "events": events, **more})

    async def add(self, *memories: MemoryEntry, **more: Any) -> None:
        await self.service.add_memory(**{**ALICE, "memories": memories, **more})

    async def search(self, query: str, **who: str) -> list[MemoryEntry]:
        found = await self.service.search_memory(**{**ALICE, "query": query, **who})
        return list(found.memories)

    async def texts(self, query: str, **who: str) -> list[str]:
        return [text_of(entry) for entry in await self.search(query, **who)]

    async def shown(self, query: str) -> str:
        """All that a model would get to see."""
        found = await self.search(query)
        return json.dumps([entry.model_dump(mode="json") for entry in found])

    async def find(self, text: str, query: str, **who: str) -> MemoryEntry:
        """The one memory with this text."""
        found = await self.search(query, **who)
        same = [entry for entry in found if text_of(entry) == text]
        assert len(same) == 1, f"found {len(same)} times"
        return same[0]

    async def delete(self, memory_id: str | None, **who: str) -> None:
        await self.service.delete_memory(**{**ALICE, "memory_id": memory_id, **who})


def text_of(entry: MemoryEntry) -> str:
    return " ".join(part.text for part in entry.content.parts or [] if part.text)


def a_memory(text: str, **fields: Any) -> MemoryEntry:
    """An entry for add_memory."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return MemoryEntry(content=content, **fields)


@dataclass
class Place:
    """Where one check runs: a kind of service, and a file of its own.

    Attributes:
        kind: Which service is opened.
        folder: For the file.
        pool: Starts other processes, which run helpers.adk_conformance.child.
    """

    kind: Kind
    folder: Path
    pool: ForkPool
    _opened: list[Any] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.folder / "memory.db"

    def open(self) -> Memory:
        """A service on this place's file, as it is by now."""
        service = self.kind.open(self.path)
        self.adopt(service)
        return Memory(service)

    def adopt(self, service: Any) -> None:
        """Closes it with the others."""
        self._opened.append(service)

    async def close(self) -> None:
        """Closes what was opened; the contract knows no close, so it may lack one."""
        for service in reversed(self._opened):
            close = getattr(service, "close", None)
            closing = close() if close else None
            if inspect.isawaitable(closing):
                await closing
        self._opened.clear()


@dataclass(frozen=True)
class Check:
    """One behaviour.

    Attributes:
        name: What a service does that passes.
        why: Who says that it should.
        section: Where it stands in the table.
        run: Raises unless the service behaves so.
        raced: Threads race in it: whether a service fails may vary.
        timed: It takes the time, so it is for the benchmark alone.
    """

    name: str
    why: str
    section: str
    run: Callable[[Place], Awaitable[None]]
    raced: bool = False
    timed: bool = False


@dataclass(frozen=True)
class Section:
    """The checks of one module."""

    title: str
    checks: list[Check] = field(default_factory=list)

    def check(self, name: str, why: str, **flags: bool) -> Callable[..., Any]:
        """Makes the decorated coroutine function a check."""

        def note(run: Callable[[Place], Awaitable[None]]) -> Any:
            self.checks.append(Check(name, why, self.title, run, **flags))
            return run

        return note


@dataclass(frozen=True)
class Outcome:
    """How a check ended: `failure` is the name of what it raised, if it raised."""

    failure: str = ""
    detail: str = ""


def examine(check: Check, kind: Kind, folder: Path, pool: ForkPool) -> Outcome:
    """Runs a check in an event loop of its own."""

    async def run() -> None:
        place = Place(kind, folder, pool)
        try:
            await asyncio.wait_for(check.run(place), PATIENCE_S)
        finally:
            await place.close()

    try:
        asyncio.run(run())
    except Exception as error:
        return Outcome(type(error).__name__, str(error))
    return Outcome()
