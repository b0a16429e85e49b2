"""Programs that run through every door: the adapters of frameworks, and their like.

A door is a class below `Door`; a test class below `DoorPrograms` runs the programs.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from vecall import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryService,
    UserMemory,
    render,
)
from vecall.limits import SHARED_APP
from vecall.service._items_sync import SyncItems
from vecall.service._sync import SyncMemoryService
from vecall.service._user_items_sync import SyncUserItems
from vecall.service._user_sync import SyncUserMemory

from helpers.postgres_server import MISSING, Schema, is_available
from helpers.services import PAIRS

# Names of namespaces, sessions and collections that a joined, folded or escaped key
# would confuse. None is above or below another one.
SCOPES = ("a", "ab", "A", "a%", "a_", "a b", "a:b", "a*", "\u00e9", "e\u0301", "a'--")
MORE_SCOPES = (*SCOPES, "a/b", "a.b", "../a", "a\x1fb", "state")
_TEXT = re.compile(r"zebra \d+")
_HELD_S = 5.0  # a write of another program, at most
_WAIT_S = 30.0


class Home(NamedTuple):
    """The corner of one tenant: a service and where it is, a user, a scope."""

    memory: MemoryService
    path: Path | str
    app: str
    user: str
    scope: str

    @property
    def who(self) -> dict[str, str]:
        return {"app_name": self.app, "user_id": self.user}


class Door(ABC):
    """A door, as one tenant uses it on an event loop.

    Attributes:
        module: The module of vecall.
        framework: The module of the framework; "" if it needs none.
        pairs: Hostile apps and users.
        scopes: Hostile names of the door's own namespaces.
        uses_the_service: Whether it is made of a service, not of a path.
    """

    module: ClassVar[str]
    framework: ClassVar[str] = ""
    pairs: ClassVar[Sequence[tuple[str, str]]] = PAIRS
    scopes: ClassVar[Sequence[str]] = ("a",)
    uses_the_service: ClassVar[bool] = True

    def __init__(self, home: Home) -> None:
        self.home = home
        self.open(home)

    @abstractmethod
    def open(self, home: Home) -> None:
        """Make the objects of the framework."""

    @abstractmethod
    async def write(self, text: str) -> Any:
        """Store a text, under the same id as every other tenant where there are ids."""

    @abstractmethod
    async def read(self) -> Any:
        """Return all that the door shows of texts with a zebra, by every call."""

    async def clear(self) -> Any:
        """Delete what the tenant can delete at once; NotImplemented if nothing."""
        return NotImplemented

    async def close(self) -> None:  # noqa: B027
        """Close what the door opened."""

    async def recall(self) -> str:
        """Return the block of recalled text that a prompt gets."""
        return render((await self.memories.search("zebra")).memories, "secure")

    @property
    def memories(self) -> UserMemory:
        """The tenant's memories in vecall."""
        return self.home.memory.user(self.home.app, self.home.user)


class DoorPrograms:
    """What every door does: walls, a free event loop, a lazy import."""

    door: type[Door]

    def test_a_tenant_never_reaches_another(self, tmp_path):
        self.keep_tenants_apart(tmp_path / "m.db")

    def test_a_tenant_of_a_database_never_reaches_another(self):
        with database() as url:
            self.keep_tenants_apart(url)

    def keep_tenants_apart(self, place: Path | str) -> None:
        """Write, read and clear as several tenants of one file or database."""
        pairs, scopes = self.door.pairs, self.door.scopes
        places = [(*pair, scopes[0]) for pair in pairs]
        places += [(*pairs[0], scope) for scope in scopes[1:]]

        async def work(memory: MemoryService) -> None:
            doors = [self.door(Home(memory, place, *each)) for each in places]
            for number, door in enumerate(doors):
                await door.write(f"zebra {number}")
            for number, door in enumerate(doors):
                texts = await shown(door)
                assert texts == {f"zebra {number}"}, (texts, places[number])
            if await doors[0].clear() is not NotImplemented:
                assert await shown(doors[0]) == set()
                await doors[0].write("zebra 0")
            for number, door in enumerate(doors):
                texts = await shown(door)
                assert texts == {f"zebra {number}"}, (texts, places[number])
                await door.close()

        run(work, place)

    def test_the_event_loop_turns_while_a_write_waits(self, tmp_path):
        path = tmp_path / "m.db"

        async def work(memory: MemoryService) -> None:
            door = self.door(Home(memory, path, "app", "alice", self.door.scopes[0]))
            await door.write("zebra 1")
            turns = 0
            with held(path) as let_go:
                writing = asyncio.ensure_future(door.write("zebra 2"))
                while not let_go.is_set() and turns < 50:
                    await asyncio.sleep(0.001)
                    turns += 1
                assert turns == 50, "the write waited on the event loop"
                assert not writing.done(), "the write did not wait"
                let_go.set()
                await asyncio.wait_for(writing, _WAIT_S)
            assert "zebra 2" in await shown(door)
            await door.close()

        run(work, path)

    def test_no_call_blocks_the_event_loop(self, tmp_path, monkeypatch):
        calls = watch_blocking_calls(monkeypatch)
        path = tmp_path / "m.db"

        async def work(memory: MemoryService) -> None:
            door = self.door(Home(memory, path, "app", "alice", self.door.scopes[0]))
            await door.write("zebra 1")
            assert await shown(door) == {"zebra 1"}
            await door.clear()
            await door.close()

        run(work, path)
        assert not calls, calls

    def test_a_read_only_service_shows_all_and_takes_nothing(self, tmp_path):
        path = tmp_path / "m.db"

        async def fill(memory: MemoryService) -> None:
            door = self.door(Home(memory, path, "app", "alice", self.door.scopes[0]))
            await door.write("zebra 1")
            await door.close()

        async def look(memory: MemoryService) -> None:
            door = self.door(Home(memory, path, "app", "alice", self.door.scopes[0]))
            assert await shown(door) == {"zebra 1"}
            for change in (door.write("zebra 2"), door.clear()):
                # A door that remembers what is said logs it, and goes on.
                (result,) = await asyncio.gather(change, return_exceptions=True)
                assert not isinstance(result, Exception) or "read" in str(result)
                assert await shown(door) == {"zebra 1"}
            await door.close()

        run(fill, path)
        if self.door.uses_the_service:
            run(look, path, read_only=True)

    def test_importing_vecall_does_not_import_the_framework(self):
        loaded = modules_after("vecall")
        assert self.door.module not in loaded
        if self.door.framework:
            assert self.door.framework not in loaded
            assert self.door.framework in modules_after(self.door.module)


class RememberingPrograms(DoorPrograms):
    """And of a door to memories: recalled text is not remembered again."""

    def test_recalled_text_is_not_remembered_again(self, tmp_path):
        self.recall_and_write(tmp_path / "m.db")

    def test_recalled_text_is_not_remembered_again_in_a_database(self):
        with database() as url:
            self.recall_and_write(url)

    def recall_and_write(self, place: Path | str) -> None:
        """Write what a prompt with recalled text says."""

        async def work(memory: MemoryService) -> None:
            door = self.door(Home(memory, place, "app", "alice", self.door.scopes[0]))
            await door.memories.add(["Alice feeds zebra 1"])
            block = await door.recall()
            assert "zebra 1" in block
            await door.write(block + "\nAnd zebra 2?")
            texts = [entry.text.strip() for entry in await door.memories.list()]
            numbered = sorted(text for text in texts if _TEXT.search(text))
            assert numbered == ["Alice feeds zebra 1", "And zebra 2?"], texts
            await door.close()

        run(work, place)


def refuses_wrong_names(make: Callable[..., Any], folder: Path) -> None:
    """Assert that wrong names are refused, and no file is made.

    Args:
        make: Makes an object of the door of a path or a service, and names.
        folder: An empty folder.
    """
    with MemoryService(embedder=None) as memory:
        for wrong in ("", "a\0b", "\ud800", "n" * 2_000, SHARED_APP, 5, None):
            for names in ({"app_name": wrong}, {"user_id": wrong}):
                given = {"app_name": "app", "user_id": "alice", **names}
                for place in (folder / "m.db", memory):
                    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
                        make(place, **given)
    assert list(folder.iterdir()) == []


def run(work: Any, place: Path | str, **options: Any) -> None:
    """Run a program with a service on a file or a database."""

    async def opened() -> None:
        with MemoryService(place, embedder=None, **options) as memory:
            await work(memory)

    asyncio.run(opened())


@contextmanager
def database() -> Iterator[str]:
    """The URL of a schema of a real server, for one program."""
    if not is_available():
        pytest.skip(MISSING)
    schema = Schema()
    yield schema.url
    schema.drop()


async def shown(door: Door) -> set[str]:
    return set(_TEXT.findall(str(await door.read())))


@contextmanager
def held(path: Path) -> Iterator[threading.Event]:
    """Hold the write lock of a file, as another program does, until the event is set.

    A loop that a write blocks cannot set it; then the lock is released after 5 s.
    """
    is_held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        connection = sqlite3.connect(path, isolation_level=None, timeout=_HELD_S)
        connection.execute("BEGIN IMMEDIATE")
        is_held.set()
        let_go.wait(_HELD_S)
        let_go.set()
        connection.execute("ROLLBACK")
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_held.wait(_WAIT_S)
        yield let_go
    finally:
        let_go.set()
        thread.join()


def watch_blocking_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the blocking calls that are made on an event loop."""
    calls: list[str] = []

    def watched(owner: type, name: str, method: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                calls.append(f"{owner.__name__}.{name}")
            return method(*args, **named)

        return call

    for owner in (SyncItems, SyncUserItems, SyncUserMemory, SyncMemoryService):
        for name, method in list(vars(owner).items()):
            if callable(method) and not name.startswith("_") and name != "user":
                monkeypatch.setattr(owner, name, watched(owner, name, method))
    return calls


def modules_after(module: str) -> list[str]:
    """The modules that a new interpreter has after an import."""
    script = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    loaded: list[str] = json.loads(done.stdout)
    return loaded
