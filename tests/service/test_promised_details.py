"""Small promises: copied lists, flushed writes, the roles of texts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.lifecycle import kept
from helpers.memories import ALICE
from helpers.processes import run
from vecall import InMemoryMemoryService, MemoryService, Session

COUNT = 400  # so many are read on another thread


def turns(count: int) -> list[dict[str, Any]]:
    return [{"id": f"e{n}", "text": f"zebra {n}"} for n in range(count)]


def whole(events: list[Any]) -> Session:
    return Session("app", "alice", "s", events)


def add_session(service: Any, events: list[Any]) -> Any:
    return service.add_session_to_memory(whole(events))


def add_events(service: Any, events: list[Any]) -> Any:
    return service.add_events_to_memory(**ALICE, events=events, session_id="s")


def add_memory(service: Any, events: list[Any]) -> Any:
    return service.add_memory(**ALICE, memories=events)


def end_session(service: Any, events: list[Any]) -> Any:
    return service.end_session(whole(events))


WAYS: list[Callable[[Any, list[Any]], Any]] = [
    add_session,
    add_events,
    add_memory,
    end_session,
]


@pytest.mark.parametrize("count", [3, COUNT])
@pytest.mark.parametrize("tell", WAYS)
@pytest.mark.parametrize("make", [MemoryService, InMemoryMemoryService])
def test_a_list_that_changes_during_the_call_changes_nothing(make, tell, count):
    """S3.30: what is remembered is what the list held when it was handed over."""

    async def scenario(service: MemoryService) -> None:
        events = turns(count)
        work = asyncio.ensure_future(tell(service, events))
        await asyncio.sleep(0)  # it has begun, and waits for another thread
        events[0] = {"id": "late", "text": "an okapi"}
        events += [{"id": f"x{n}", "text": f"okapi {n}"} for n in range(50)]
        await work
        events.clear()

    with make() as service:
        asyncio.run(scenario(service))
        found = kept(service)
    assert sorted(found.values()) == sorted(each["text"] for each in turns(count))


WRITER = """
import asyncio, json, os, sys, vecall
path, call = sys.argv[1:]
async def main():
    service = vecall.MemoryService(path, embedder=None)
    me = {"app_name": "app", "user_id": "alice"}
    meta = {"wait_for_completion": True, "tag": "kept"}
    if call == "memory":
        await service.add_memory(**me, memories=["zebra"], custom_metadata=meta)
    else:
        await service.add_events_to_memory(
            **me, events=[{"id": "e", "text": "zebra"}], custom_metadata=meta)
    os._exit(0)  # nothing is closed, nothing is flushed
asyncio.run(main())
"""


@pytest.mark.parametrize("call", ["memory", "events"])
def test_what_is_waited_for_is_in_the_file(tmp_path: Path, call: str):
    """S1.21: wait_for_completion is always so; it is no metadata of the memory."""
    path = tmp_path / "m.db"
    run(WRITER, path, call)
    with MemoryService(path, embedder=None) as service:
        (memory,) = service.sync.list_memories(**ALICE)
    assert memory.text == "zebra"
    assert json.dumps(memory.custom_metadata) == '{"tag": "kept"}'


@pytest.mark.parametrize(
    ("author", "role"), [(None, "user"), ("user", "user"), ("concierge", "model")]
)
def test_a_text_becomes_a_content_of_the_role_of_its_author(author, role):
    """S1.20: google-adk shows the roles of what it recalls to a model."""
    adk = pytest.importorskip("vecall.adk")
    made = adk.entry("I prefer metric units.", author=author)
    assert made.content.role == role
    assert [part.text for part in made.content.parts] == ["I prefer metric units."]
    service = adk.VecallMemoryService(embedder=None)
    asyncio.run(service.add_memory(**ALICE, memories=[made]))
    found = asyncio.run(service.search_memory(**ALICE, query="metric units"))
    service.close()
    (memory,) = found.memories
    assert (memory.content.role, memory.author) == (role, author)
