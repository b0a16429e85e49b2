"""Sessions of google-adk: loaded whole or trimmed, from whatever keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    a_session,
    a_trip,
    adk_service,
    an_event,
    entries,
    ingest,
    search,
    stored,
)
from vecall.adk import VecallMemoryService

service = pytest.fixture(adk_service)
NAMES = {**ALICE, "session_id": "trip-1"}


def in_memory(_: Path) -> BaseSessionService:
    return InMemorySessionService()


def in_sqlite(folder: Path) -> BaseSessionService:
    sqlite = pytest.importorskip("google.adk.sessions.sqlite_session_service")
    return sqlite.SqliteSessionService(db_path=str(folder / "session.db"))


def in_sqlalchemy(folder: Path) -> BaseSessionService:
    pytest.importorskip("sqlalchemy")
    database = pytest.importorskip("google.adk.sessions.database_session_service")
    return database.DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/orm.db")


KEPT = [in_memory, in_sqlite, in_sqlalchemy]
SESSIONS = pytest.mark.parametrize("sessions", KEPT)


async def kept_in(sessions: BaseSessionService, *events: Event, **state: Any) -> None:
    session = await sessions.create_session(**NAMES, state=state)
    for event in events:
        await sessions.append_event(session, event.model_copy(deep=True))


async def closed(sessions: BaseSessionService) -> None:
    if close := getattr(sessions, "close", None):
        await close()
    elif engine := getattr(sessions, "db_engine", None):  # google-adk 1.21
        await engine.dispose()


@SESSIONS
@pytest.mark.parametrize(
    "trimmed",
    [
        {"num_recent_events": 1},
        {"after_timestamp": 3000.0},
        {"num_recent_events": 2, "after_timestamp": 3000.0},
    ],
    ids=str,
)
def test_a_session_that_was_loaded_trimmed_takes_nothing_away(
    sessions: Callable[[Path], BaseSessionService],
    trimmed: dict[str, Any],
    tmp_path: Path,
    service: VecallMemoryService,
) -> None:
    """S0.53, S3.17: get_session with a config, then ingest; in both orders."""
    history = sessions(tmp_path)

    async def scenario() -> tuple[Session | None, Session | None]:
        await kept_in(history, *a_trip().events)
        few = await history.get_session(**NAMES, config=GetSessionConfig(**trimmed))
        whole = await history.get_session(**NAMES)
        await closed(history)
        return few, whole

    few, whole = asyncio.run(scenario())
    assert few is not None
    assert whole is not None
    assert len(whole.events) == 3
    if "num_recent_events" in trimmed:
        assert len(few.events) <= trimmed["num_recent_events"]
    ingest(service, few)
    assert stored(service) == len(few.events)
    ingest(service, whole)
    before = search(service, "quiet room noted parrots")
    assert len(before.memories) == 3
    ingest(service, few)
    assert search(service, "quiet room noted parrots") == before
    assert stored(service) == 3


def test_every_session_service_gives_the_same_memories(tmp_path: Path) -> None:
    """S3.18: ids, texts, authors, times to the microsecond and metadata."""
    said = [
        an_event(ROOM, id="e1", timestamp=1_747_000_000.123456, invocation_id="i1"),
        an_event(
            *("Noted.", "With a view?"),
            id="e2",
            author="concierge",
            timestamp=1_747_000_000.654321,
            invocation_id="i1",
            branch="desk.concierge",
            custom_metadata={"stars": 5, "deep": {"a": [1, None]}},
        ),
        an_event(PARROT, id="e3", timestamp=1_747_000_060.0, invocation_id="i2"),
    ]
    found: list[Any] = []

    async def scenario(history: BaseSessionService) -> Any:
        await kept_in(history, *said)
        session = await history.get_session(**NAMES)
        await closed(history)
        return session

    for make in KEPT:
        session = asyncio.run(scenario(make(tmp_path)))
        service = VecallMemoryService(embedder=None)
        ingest(service, session)
        memories = service.memory.sync.list_memories(**ALICE)
        found.append(
            [
                (each.id, each.text, each.author, each.timestamp, each.custom_metadata)
                for each in memories
            ]
        )
        service.close()
    assert len(found[0]) == 3
    assert found[0][0][3] == 1_747_000_000.123456
    assert found[1] == found[0]
    assert found[2] == found[0]


@SESSIONS
def test_state_is_never_remembered(
    sessions: Callable[[Path], BaseSessionService], tmp_path: Path
) -> None:
    """S3.20: of no scope, not as it was and not as it changed; nor artifact names."""
    (tmp_path / "memory").mkdir()
    scopes = ["", "app:", "user:", "temp:"]
    delta = {f"{scope}key": f"zzzsecret {scope}" for scope in scopes}
    actions = EventActions(state_delta=delta, artifact_delta={"zzzsecret.pdf": 0})
    history = sessions(tmp_path)

    async def scenario() -> Any:
        changed = an_event(PARROT, id="e1", actions=actions)
        await kept_in(history, changed, zzzsecret="zzzsecret")
        session = await history.get_session(**NAMES)
        await closed(history)
        return session

    session = asyncio.run(scenario())
    assert any("zzzsecret" in str(value) for value in session.state.values())
    service = VecallMemoryService(tmp_path / "memory" / "m.db", embedder=None)
    ingest(service, session)
    assert entries(service, "zzzsecret") == {}
    assert list(entries(service, "parrots")) == [PARROT]
    service.close()
    for file in (tmp_path / "memory").iterdir():
        assert b"zzzsecret" not in file.read_bytes()


def test_ingesting_changes_nothing_in_the_session(
    service: VecallMemoryService,
) -> None:
    """S3.29: what was loaded stays as it was, rewinds and compactions included."""
    back = EventActions(rewind_before_invocation_id="i2")
    session = a_session(
        an_event(ROOM, id="e1", invocation_id="i1", custom_metadata={"a": {"b": [1]}}),
        an_event(PARROT, id="e2", invocation_id="i2", branch="x.y"),
        Event(author="user", id="e3", invocation_id="i3", actions=back),
    )
    before = session.model_dump_json()
    ingest(service, session)
    asyncio.run(service.observe_session(session))
    found = entries(service, "quiet room")[ROOM]
    found.custom_metadata["a"]["b"].append("mine")
    assert session.model_dump_json() == before
    assert entries(service, "quiet room")[ROOM].custom_metadata["a"] == {"b": [1]}


def test_memories_are_grouped_by_session(service: VecallMemoryService) -> None:
    """S3.2: so one session can be deleted or replaced, and no other changes."""
    ingest(service, a_trip())
    ingest(service, a_session(an_event("Parrots again.", id="e1"), id="trip-2"))
    ingest(service, a_session(an_event("My parrots.", id="e1"), user_id="bob"))
    events = [an_event("Parrots of no session.", id="e1")]
    asyncio.run(service.add_events_to_memory(**ALICE, events=events))
    below = service.memory.sync
    below.add_session_to_memory(a_session(an_event(ROOM, id="e1")), replace=True)
    kept = {ROOM, "Parrots again.", "Parrots of no session."}
    assert {each.text for each in below.list_memories(**ALICE)} == kept
    below.delete_session(**NAMES)
    kept.remove(ROOM)
    assert {each.text for each in below.list_memories(**ALICE)} == kept
    assert list(entries(service, "parrots", user_id="bob")) == ["My parrots."]
    ingest(service, a_trip())
    assert ROOM not in {each.text for each in below.list_memories(**ALICE)}
