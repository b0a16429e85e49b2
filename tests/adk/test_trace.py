"""Whole runs of google-adk, step by step: where a memory is touched, and where not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

import google.adk.tools
import vecall.adk
from google.adk.sessions import BaseSessionService, InMemorySessionService
from helpers.adk import (
    PARROT,
    ROOM,
    CountingMemoryService,
    a_runner,
    a_trip,
    answers_in,
    entries,
    ingest,
    say,
    shown_in,
    stored,
    the_session,
)
from vecall.adk import VecallMemoryPlugin, VecallMemoryService

ASK = "Which quiet room do I like?"
LOAD = ("load_memory", {"query": ASK})


def in_memory(_: Path) -> BaseSessionService:
    return InMemorySessionService()


def in_sqlite(folder: Path) -> BaseSessionService:
    sqlite = pytest.importorskip("google.adk.sessions.sqlite_session_service")
    return sqlite.SqliteSessionService(db_path=str(folder / "session.db"))


def in_sqlalchemy(folder: Path) -> BaseSessionService:
    pytest.importorskip("sqlalchemy")
    database = pytest.importorskip("google.adk.sessions.database_session_service")
    return database.DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/session.db")


async def closed(sessions: BaseSessionService) -> None:
    """Let go of the database where there is one."""
    if close := getattr(sessions, "close", None):
        await close()
    elif engine := getattr(sessions, "db_engine", None):  # google-adk 1.21
        await engine.dispose()


SESSIONS = pytest.mark.parametrize("sessions", [in_memory, in_sqlite, in_sqlalchemy])


@SESSIONS
def test_the_order_in_which_a_run_touches_things(
    sessions: Callable[[Path], BaseSessionService],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3.24, S3.6, S3.14: history first, memory only for tools, ingest at the end."""
    memory = CountingMemoryService()
    ingest(memory, a_trip())
    steps: list[str] = []
    history = sessions(tmp_path)
    runner, llm = a_runner(
        memory,
        LOAD,
        tools=(vecall.adk.load_memory, vecall.adk.preload_memory),
        plugins=(VecallMemoryPlugin(),),
        sessions=history,
    )

    def noted(owner: Any, name: str, told: Callable[..., str]) -> None:
        real = getattr(owner, name)

        async def call(*args: Any, **arguments: Any) -> Any:
            steps.append(told(**arguments))
            return await real(*args, **arguments)

        monkeypatch.setattr(owner, name, call)

    async def scenario() -> None:
        await runner.session_service.create_session(
            app_name="hotel", user_id="alice", session_id="trip-2"
        )
        noted(history, "get_session", lambda **_: "read the session")
        noted(
            history,
            "append_event",
            lambda event, **_: f"append {event.author}: {kind_of(event)}",
        )
        noted(memory.memory, "search_memory", lambda query, **_: f"search {query}")
        noted(
            memory.memory,
            "add_events_to_memory",
            lambda events, **_: f"remember {len(events)}",
        )
        generate = llm.generate_content_async

        async def asked(request: Any, **options: Any) -> Any:
            steps.append("ask the model")
            async for answer in generate(request, **options):
                yield answer

        object.__setattr__(llm, "generate_content_async", asked)
        await say(runner, ASK, session="trip-2")
        steps.append("the reply is there")
        await runner.close()
        await closed(history)

    asyncio.run(scenario())
    reply = steps.index("the reply is there")
    assert steps.count("remember 4") == 1
    assert steps.index("remember 4") >= reply - 1
    steps.remove("remember 4")
    assert [step for step in steps if step != "read the session"] == [
        "append user: text",
        f"search {ASK}",
        "ask the model",
        "append concierge: call",
        f"search {ASK}",
        "append concierge: answer",
        "ask the model",
        "append concierge: text",
        "the reply is there",
    ]
    assert steps[:2] == ["read the session", "read the session"]
    assert stored(memory) == 5  # the trip, the question and the reply
    memory.memory.close()


def kind_of(event: Any) -> str:
    if event.get_function_calls():
        return "call"
    return "answer" if event.get_function_responses() else "text"


@SESSIONS
def test_a_conversation_is_recalled_in_the_next_whatever_keeps_the_sessions(
    sessions: Callable[[Path], BaseSessionService], tmp_path: Path
) -> None:
    """S0.52, S1.2, S3.18: the same memories from every session service."""
    path = tmp_path / "memory.db"
    tools = (vecall.adk.load_memory, vecall.adk.preload_memory)

    async def scenario(*said: str, session: str) -> Any:
        memory = VecallMemoryService(path, embedder=None)
        runner, llm = a_runner(
            memory,
            *([LOAD] if session == "trip-2" else []),
            tools=tools,
            plugins=(VecallMemoryPlugin(),),
            sessions=sessions(tmp_path),
        )
        await say(runner, *said, session=session)
        kept = await the_session(runner, session=session)
        await runner.close()
        await closed(runner.session_service)
        memory.close()
        return llm.requests, kept

    asyncio.run(scenario(ROOM, PARROT, session="trip-1"))
    requests, kept = asyncio.run(scenario(ASK, session="trip-2"))
    assert ROOM in shown_in(requests[0].contents[-1])
    (answer,) = answers_in(requests[1])
    assert ROOM not in [each["text"] for each in answer["memories"]]
    assert answer["already_in_context"] >= 1
    assert not any("PAST_CONV" in event.model_dump_json() for event in kept.events)
    memory = VecallMemoryService(path, embedder=None)
    before = set(entries(memory, "quiet room parrots"))
    ingest(memory, kept)
    assert set(entries(memory, "quiet room parrots")) == before
    assert stored(memory) == 6
    memory.close()


@pytest.mark.parametrize(
    ("tools", "searches"),
    [
        ((), 0),
        ((google.adk.tools.load_artifacts,), 0),
        ((vecall.adk.remember, vecall.adk.forget_memory), 0),
        ((vecall.adk.load_memory,), 1),
        ((vecall.adk.preload_memory,), 1),
        ((vecall.adk.load_memory, vecall.adk.preload_memory), 2),
        ((google.adk.tools.load_memory, google.adk.tools.preload_memory), 3),
    ],
)
def test_a_run_searches_as_often_as_its_tools_ask(
    tools: tuple[Any, ...], searches: int
) -> None:
    """S1.15, S3.7: none without tools; google-adk's own preload once a request."""
    memory = CountingMemoryService()
    names = {tool.name for tool in tools}
    script = [LOAD] if "load_memory" in names else []
    runner, _ = a_runner(memory, *script, tools=tools)
    asyncio.run(say(runner, ASK))
    assert len(memory.searches) == searches
    assert stored(memory) == 0
    memory.memory.close()
