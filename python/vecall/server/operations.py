"""What each request does: translate, ask the memory service, translate back."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from starlette.responses import Response

from vecall._duck import read
from vecall.config import check_name
from vecall.server.answers import NO_LOADER, NO_SESSION, HttpError, json_response
from vecall.server.metrics import as_text
from vecall.server.routing import Call
from vecall.server.streams import FileStream
from vecall.types import Filter, MemoryEntry

DEFAULT_K = 5
DEFAULT_PAGE = 100

_DUMPED_AT_ONCE = 32  # memories: more of them are written on another thread


async def ingest_session(call: Call) -> Response:
    """Remember the turns of a session that the loader finds."""
    memory = call.memory
    if call.door.load_session is None:
        raise HttpError(400, "not_configured", NO_LOADER)
    wanted = call.body.get("sessionId", call.body.get("session_id"))
    expected = (*call.whose.values(), wanted)
    for name, value in zip(("app", "user", "sessionId"), expected, strict=True):
        check_name(value, name, memory.limits)
    session = await _loaded(call, wanted)
    # What belongs to somebody else is not there, whatever the loader found.
    if session is None or _head(session) != expected:
        raise HttpError(404, "not_found", NO_SESSION)
    return json_response({"ids": await memory.add_session_to_memory(session)})


async def _loaded(call: Call, session_id: object) -> object:
    assert call.door.load_session is not None
    try:
        return await call.door.load_session(**call.whose, session_id=session_id)
    except Exception as error:
        msg = "The session loader failed."
        raise HttpError(503, "session_loader", msg) from error


def _head(session: object) -> tuple[object, object, object]:
    id_ = read(session, "id")
    if id_ is None:
        id_ = read(session, "session_id")
    return read(session, "app_name"), read(session, "user_id"), id_


async def add_memories(call: Call) -> Response:
    """Remember what was learned."""
    ids = await call.memory.add_memory(**call.whose, **call.body)
    return json_response({"ids": ids}, 201)


async def add_events(call: Call) -> Response:
    """Remember some turns."""
    ids = await call.memory.add_events_to_memory(**call.whose, **call.body)
    return json_response({"ids": ids}, 201)


async def search(call: Call) -> Response:
    """Find what the past says about a query."""
    body = call.body
    asked = body.get("filter")
    found = await call.memory.search_memory(
        **call.whose,
        query=body["query"],
        top_k=int(body.get("k", DEFAULT_K)),
        min_score=body.get("min_score"),
        min_confidence=body.get("min_confidence"),
        filter=None if asked is None else Filter(**asked),
        explain=body.get("explain", False),
    )
    return await _memories(found.memories)


async def list_memories(call: Call) -> Response:
    """Return a page of memories in the order of their making."""
    limit = min(DEFAULT_PAGE, call.memory.limits.max_top_k)
    query = {"limit": limit, **call.query}
    return await _memories(await call.memory.list_memories(**call.whose, **query))


async def get_memory(call: Call) -> Response:
    """Return one memory."""
    entry = await call.memory.get_memory(**call.whose, memory_id=call.names["id"])
    return json_response(_shown(entry))


async def delete_memory(call: Call) -> Response:
    """Delete one memory; one that is not there is gone already."""
    await call.memory.delete_memory(**call.whose, memory_id=call.names["id"])
    return Response(status_code=204)


async def delete_session(call: Call) -> Response:
    """Delete what was remembered of one session."""
    session_id = call.names["session"]
    count = await call.memory.delete_session(**call.whose, session_id=session_id)
    return json_response({"deleted": count})


async def delete_user(call: Call) -> Response:
    """Delete all memories of a user."""
    return json_response(
        {"deleted": await call.memory.delete_user(**call.whose, **call.query)}
    )


async def export_user(call: Call) -> Response:
    """Stream a user's memories as JSON lines, all of one state of the file."""
    for name, value in call.whose.items():
        check_name(value, name, call.memory.limits)
    async with call.door.exports:
        file = await _exported(call)
    return FileStream(file, "application/x-ndjson")


async def _exported(call: Call) -> BinaryIO:
    """The export as an open file that has no name any more, so that none stays."""
    with tempfile.TemporaryDirectory(prefix="vecall-") as folder:
        path = Path(folder) / "export.jsonl"
        vectors = call.query.get("vectors", False)
        await call.memory.export(path, vectors=vectors, **call.whose)
        return path.open("rb")


async def health(_: Call) -> Response:
    """Say that the server answers."""
    return json_response({"status": "ok"})


async def metrics(call: Call) -> Response:
    """Show counts in the text format of Prometheus."""
    text = as_text(await call.memory.stats(), call.door.answered)
    return Response(text, media_type="text/plain; version=0.0.4")


async def document(call: Call) -> Response:
    """Show the OpenAPI document."""
    return json_response(call.door.document)


async def _memories(entries: list[MemoryEntry]) -> Response:
    def written() -> Response:
        return json_response({"memories": [_shown(entry) for entry in entries]})

    if len(entries) <= _DUMPED_AT_ONCE:
        return written()
    return await asyncio.to_thread(written)


def _shown(entry: MemoryEntry) -> dict[str, Any]:
    """A memory as JSON, without what it does not have."""
    fields = dataclasses.fields(entry)
    told = {field.name: getattr(entry, field.name) for field in fields}
    return {name: value for name, value in told.items() if value not in (None, {})}
