"""Says awkward turns between ordinary ones through vecall's own doors.

Each door is a function of a service, a turn and a folder. It returns the reason why the
turn was left out, as far as the door tells it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vecall import AddedIds, MemoryService

from helpers.awkward_turns import AFTER, BEFORE, NEIGHBOURS, AwkwardTurn, conversation

WHO = {"app_name": "hotel", "user_id": "alice"}
SESSION = {**WHO, "session_id": "s"}

Door = Callable[[MemoryService, AwkwardTurn, Path], "str | None"]


def session_of(turn: AwkwardTurn) -> dict[str, Any]:
    events = [{"id": f"e{at}", **each} for at, each in enumerate(conversation(turn), 1)]
    return {**WHO, "id": "s", "events": events}


def reason_in(added: AddedIds) -> str | None:
    assert len(added) == 3
    assert added[0] is not None
    assert added[2] is not None
    return added.left_out[0].reason if added.left_out else None


def add_events(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    return reason_in(
        memory.sync.add_events_to_memory(**SESSION, messages=conversation(turn))
    )


def add_session(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    added = memory.sync.add_session_to_memory(session_of(turn))
    again = memory.sync.add_session_to_memory(session_of(turn))
    assert added == again
    return reason_in(added)


def observe_session(memory: MemoryService, turn: AwkwardTurn, _: Path) -> None:
    memory.sync.observe_session(session_of(turn))
    memory.sync.observe_session(session_of(turn))
    memory.sync.end_session(**SESSION)


def http_events(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    from helpers.http import ALICE, door_to

    body = {"messages": conversation(turn), "session_id": "s"}
    answer = door_to(memory).ask("POST", f"{ALICE}/events", **_json(body))
    assert answer.status_code == 201
    return next((each["reason"] for each in answer.json().get("left_out", ())), None)


def http_session(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    from helpers.http import ALICE, door_to

    async def load(**_: Any) -> dict[str, Any]:
        return session_of(turn)

    door = door_to(memory, session_loader=load)
    answer = door.ask("PATCH", f"{ALICE}/memory", json={"sessionId": "s"})
    assert answer.status_code == 200
    return next((each["reason"] for each in answer.json().get("left_out", ())), None)


def http_observe(memory: MemoryService, turn: AwkwardTurn, _: Path) -> None:
    from helpers.http import ALICE, door_to

    door, path = door_to(memory), f"{ALICE}/sessions/s"
    body = {"events": conversation(turn)}
    assert door.ask("POST", f"{path}/observe", **_json(body)).is_success
    assert door.ask("POST", f"{path}/end", json={}).is_success


def _json(body: object) -> dict[str, Any]:
    """A body in ASCII, as clients write lone surrogates."""
    headers = {"Content-Type": "application/json"}
    return {"content": json.dumps(body), "headers": headers}


def adk_events(turn: AwkwardTurn) -> list[Any]:
    """The conversation as events of google-adk."""
    return [_adk_event(each) for each in conversation(turn)]


def _adk_event(message: Any) -> Any:
    from google.adk.events.event import Event
    from google.genai import types

    author = {"user": "user", "tool": "user", "system": "system"}.get(
        message["role"], "concierge"
    )
    content = message.get("content")
    parts = []
    if message["role"] == "tool":
        answer = types.FunctionResponse(name="f", response=json.loads(content))
        parts.append(types.Part(function_response=answer))
    elif isinstance(content, str):
        parts.append(types.Part(text=content))
    for part in content if isinstance(content, list) else ():
        if part["type"] == "text":
            parts.append(types.Part(text=part["text"]))
        else:
            photo = types.Blob(mime_type="image/png", data=b"\0" * 1_000_000)
            parts.append(types.Part(inline_data=photo))
    for call in message.get("tool_calls", ()):
        named = call["function"]
        made = types.FunctionCall(
            name=named["name"], args=json.loads(named["arguments"])
        )
        parts.append(types.Part(function_call=made))
    role = {"user": "user", "system": "system"}.get(author, "model")
    said = types.Content(role=role, parts=parts) if parts else None
    return Event(author=author, content=said)


def _adk_session(turn: AwkwardTurn) -> Any:
    from google.adk.sessions.session import Session

    return Session(id="s", events=adk_events(turn), **WHO)


def adk_by_hand(memory: MemoryService, turn: AwkwardTurn, _: Path) -> None:
    from vecall.adk import VecallMemoryService

    service = VecallMemoryService(memory=memory)
    asyncio.run(service.add_session_to_memory(_adk_session(turn)))


def adk_delta(memory: MemoryService, turn: AwkwardTurn, _: Path) -> None:
    from vecall.adk import VecallMemoryService

    service = VecallMemoryService(memory=memory)
    asyncio.run(service.add_events_to_memory(**SESSION, events=adk_events(turn)))


def adk_plugin(memory: MemoryService, turn: AwkwardTurn, _: Path) -> None:
    from vecall.adk import VecallMemoryPlugin, VecallMemoryService

    from helpers.adk import a_runner, say

    service = VecallMemoryService(memory=memory)
    plugin = VecallMemoryPlugin()

    async def scenario() -> None:
        before, _ = a_runner(service)
        await say(before, "A run without the plugin.", session="s")
        sessions = before.session_service
        session = await sessions.get_session(**SESSION)
        for event in adk_events(turn):
            await sessions.append_event(session, event)
        after, _ = a_runner(service, plugins=(plugin,), sessions=sessions)
        await say(after, "A run with the plugin.", session="s")
        await plugin.flush()

    asyncio.run(scenario())


def retain_hook(memory: MemoryService, turn: AwkwardTurn, folder: Path) -> None:
    from vecall.coding_agents.hook_command import retain_turns
    from vecall.coding_agents.transcript import read_turns

    from helpers.coding_agents import claude_line, write_lines

    lines = [
        claude_line(f"u{at}", each["role"], each.get("content"))
        for at, each in enumerate(conversation(turn))
    ]
    turns, unread = read_turns(write_lines(folder / "t.jsonl", lines))
    assert unread == 0
    refused = retain_turns(memory, WHO, "s", turns, lambda: 9.0)
    assert refused == (0, 0)


def facts(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    texts = said(turn)
    added = memory.sync.add_memory(**WHO, memories=texts)
    assert len(added.stored) == len(texts)
    return None if len(texts) == 3 else "not a memory"


def remember_tool(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    from vecall.tools import Remember

    tool = Remember(memory, "hotel", "alice")
    answers = [asyncio.run(tool.call({"text": text})) for text in said(turn)]
    assert all("id" in each for each in answers)
    return None if len(answers) == 3 else "not a memory"


def mcp_tool(memory: MemoryService, turn: AwkwardTurn, _: Path) -> str | None:
    from helpers.mcp_tools import Client

    client = Client(memory, WHO)
    answers = [client.call("add_memory", text=text) for text in said(turn)]
    assert all("id" in each for each in answers)
    return None if len(answers) == 3 else "not a memory"


def import_lines(memory: MemoryService, turn: AwkwardTurn, folder: Path) -> str | None:
    """From a service whose limits let it store texts of any length."""
    from vecall import Limits

    limits = Limits(max_text_bytes=10_000_000)
    with MemoryService(embedder=None, limits=limits) as other:
        added = other.sync.add_session_to_memory(session_of(turn))
        other.sync.admin.export_jsonl(folder / "out.jsonl")
    memory.sync.admin.import_jsonl(folder / "out.jsonl")
    return reason_in(added)


def said(turn: AwkwardTurn) -> list[str]:
    """The texts that an application would hand over as facts."""
    texts = []
    for each in conversation(turn):
        content = each.get("content")
        if isinstance(content, list):
            content = content[0]["text"]
        if content and each["role"] in ("user", "assistant"):
            texts.append(content)
    return texts


OWN_DOORS: dict[str, Door] = {
    "`add_events_to_memory`": add_events,
    "`add_session_to_memory`": add_session,
    "`observe_session`": observe_session,
    "`add_memory`": facts,
    "tool `remember`": remember_tool,
    "MCP `add_memory`": mcp_tool,
    "`POST .../events`": http_events,
    "`PATCH .../memory`": http_session,
    "`POST .../observe`": http_observe,
    "google-adk: callback, by hand": adk_by_hand,
    "google-adk: `add_events_to_memory`": adk_delta,
    "google-adk: plugin": adk_plugin,
    "hook `retain`": retain_hook,
    "import": import_lines,
}
"""The doors by their names in the table."""


def outcome_of(
    memory: MemoryService,
    turn: AwkwardTurn,
    reason: str | None,
    who: dict[str, str] = WHO,
) -> str:
    """Return what became of a turn; its neighbours are stored and found.

    It is the word in the table of the documentation.
    """
    stored = memory.sync.list_memories(**who, limit=1_000)
    texts = [each.text for each in stored]
    for query, text in NEIGHBOURS.items():
        assert texts.count(text) == 1, "a neighbour is stored once"
        found = memory.sync.search_memory(**who, query=query).memories
        assert any(each.text == text for each in found), "a neighbour is found"
    own = texts[texts.index(BEFORE) + 1 : texts.index(AFTER)]
    if reason is not None:
        assert own == []
        return reason
    if not own:
        return "left out"
    if turn.text is not None and "".join(own) != _mended(turn.text):
        (text,) = own
        assert (text[:9], text[-9:]) == (turn.text[:9], turn.text[-9:])
        return "beginning and end"
    if turn.finds is not None:
        query, part = turn.finds
        best = memory.sync.search_memory(**who, query=query).memories[0]
        assert part in best.text
    return "stored" if len(own) == 1 else "passages"


def _mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
