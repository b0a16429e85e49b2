"""Handlers: each parses a request, calls `MemoryService`, and returns JSON."""

from __future__ import annotations

import tempfile
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from dataclasses import asdict
from io import TextIOWrapper
from typing import Any, BinaryIO, cast

from starlette.responses import Response

from vecall.content import get_field
from vecall.server.ceilings import check_names, stamped
from vecall.server.pages import MANY, answered, best, newest, one, page
from vecall.server.responses import (
    NO_LOADER,
    NO_SESSION,
    HttpError,
    json_response,
    raw_json,
)
from vecall.server.routing import RequestContext
from vecall.server.streams import FileStream
from vecall.types import AddedIds, MemoryEntry, Page, Revision
from vecall.validation import check_name

DEFAULT_K = 5
DEFAULT_PAGE = 100

_LONG_QUERY = 4096  # characters, which take a millisecond

_TURNS = {"events", "messages"}
_ITEMS = (*_TURNS, "memories")

_BUFFER = 256 * 1024  # bytes, of an export in progress
_MAX_EXPORTS = 16  # at the same time; more would fill the disk


async def ingest_session(call: RequestContext) -> Response:
    """Store the turns of the session that the loader returns."""
    memory = call.memory
    wanted = call.body.get("sessionId", call.body.get("session_id"))
    async with _turn_to_write(call):
        session = await _loaded(call, "sessionId", wanted)
        return _added(await memory.add_session_to_memory(session), 200)


async def observe_session(call: RequestContext) -> Response:
    """Buffer the new turns of a session until the trigger fires."""
    async with _turn_to_write(call):
        ids = await call.memory.observe_session(await _told(call))
    return json_response({"ids": ids})


async def end_session(call: RequestContext) -> Response:
    """Make memories of the buffered turns of a session."""
    async with _turn_to_write(call):
        if call.body.keys() & _TURNS or call.state.load_session is not None:
            ids = await call.memory.end_session(await _told(call))
        else:
            session_id = call.names["session"]
            ids = await call.user.end_session(session_id)
    return json_response({"ids": ids})


async def _told(call: RequestContext) -> object:
    """Return a session with the turns in the body, or else the loader's session."""
    id_ = call.names["session"]
    if call.body.keys() & _TURNS:
        return {**call.whose, "id": id_, **stamped(call.by, call.body)}
    return await _loaded(call, "session", id_)


async def _loaded(call: RequestContext, field: str, session_id: object) -> object:
    """Return the session of the loader, if it belongs to this user."""
    if call.state.load_session is None:
        raise HttpError(400, "not_configured", NO_LOADER)
    expected = (*call.whose.values(), session_id)
    for name, value in zip(("app", "user", field), expected, strict=True):
        check_name(value, name, call.memory.limits)
    try:
        session = await call.state.load_session(**call.whose, session_id=session_id)
    except Exception as error:
        msg = "The session loader failed."
        raise HttpError(503, "session_loader", msg, {"Retry-After": "1"}) from error
    # A session of another user is not found, even if the loader returns it.
    if session is None or _head(session) != expected:
        raise HttpError(404, "not_found", NO_SESSION)
    return session


def _head(session: object) -> tuple[object, object, object]:
    id_ = get_field(session, "id")
    if id_ is None:
        id_ = get_field(session, "session_id")
    return get_field(session, "app_name"), get_field(session, "user_id"), id_


async def add_memories(call: RequestContext) -> Response:
    """Store memories."""
    body = stamped(call.by, call.body)
    async with _turn_to_write(call):
        return _added(await call.user.add(**body), 201)


async def add_events(call: RequestContext) -> Response:
    """Store turns."""
    body = stamped(call.by, call.body)
    async with _turn_to_write(call):
        return _added(await call.user.add_events(**body), 201)


def _turn_to_write(call: RequestContext) -> AbstractAsyncContextManager[None]:
    """Return the place of a write: one of many items at a time for each user."""
    given = [len(call.body[name]) for name in _ITEMS if name in call.body]
    return _turn(call, is_large=not given or max(given) > MANY)


def _reads_metadata(asked: dict[str, Any]) -> bool:
    """Whether a filter compares the metadata of each row."""
    return "metadata" in asked.get("filter", ())


def _turn(call: RequestContext, *, is_large: bool) -> AbstractAsyncContextManager[None]:
    """Return the place of a request: one large one at a time for each user."""
    if not is_large:
        return nullcontext()
    return call.state.turns.place(repr((call.names["app"], call.names["user"])))


def _added(ids: AddedIds, status: int) -> Response:
    """Return the ids, and reasons for omitted items; 200 if nothing was stored."""
    document: dict[str, object] = {"ids": ids}
    if ids.left_out:
        document["left_out"] = [
            {name: value for name, value in asdict(each).items() if value is not None}
            for each in ids.left_out
        ]
    return json_response(document, status if ids.stored else 200)


async def search(call: RequestContext) -> Response:
    """Search for memories."""
    body = call.body
    k = int(body.get("k", DEFAULT_K))

    async def ask() -> list[MemoryEntry]:
        answer = await call.user.search(
            body["query"],
            top_k=k,
            min_similarity=body.get("min_similarity"),
            min_confidence=body.get("min_confidence"),
            filter=body.get("filter"),
            explain=body.get("explain", False),
            vector=body.get("vector"),
            offset=body.get("offset", 0),
        )
        return answer.memories

    is_long = len(body["query"]) > _LONG_QUERY
    async with _turn(call, is_large=is_long or _reads_metadata(body)):
        return await answered(call, k, ask, best)


async def list_memories(call: RequestContext) -> Response:
    """Return a page of memories, in the order in which they were stored."""
    return await _page(call, call.query)


async def list_where(call: RequestContext) -> Response:
    """Return a page of the memories that pass a filter."""
    return await _page(call, call.body)


async def _page(call: RequestContext, asked: dict[str, Any]) -> Response:
    limit = asked.get("limit", min(DEFAULT_PAGE, call.memory.limits.max_top_k))
    asked = {**asked, "limit": int(limit)}

    async def ask() -> Page[MemoryEntry]:
        return await call.user.list(**asked)

    async with _turn(call, is_large=_reads_metadata(asked)):
        return await answered(call, limit, ask, page)


async def count_memories(call: RequestContext) -> Response:
    """Return the number of memories that pass a filter."""
    async with _turn(call, is_large=_reads_metadata(call.body)):
        count = await call.user.count(**call.body)
    return json_response({"count": count})


async def get_memory(call: RequestContext) -> Response:
    """Return one memory."""
    return await one(await call.user.get(call.names["id"]))


async def update_memory(call: RequestContext) -> Response:
    """Correct one memory; its former text stays in its history."""
    memory_id = call.names["id"]
    check_names(call.by, call.body)
    entry = await call.user.update(memory_id, max_trust=call.by.ceiling, **call.body)
    return await one(entry)


async def memory_history(call: RequestContext) -> Response:
    """Return the revisions of a memory, and those of the memories it superseded."""

    async def ask() -> list[Revision]:
        return await call.user.history(call.names["id"])

    return await answered(call, None, ask, newest)


async def archive_memory(call: RequestContext) -> Response:
    """Archive a memory: searches do not return it."""
    await call.user.archive(call.names["id"])
    return Response(status_code=204)


async def restore_memory(call: RequestContext) -> Response:
    """Restore an archived memory."""
    ids = await call.user.restore(call.names["id"])
    return json_response({"ids": ids})


async def release_memory(call: RequestContext) -> Response:
    """Release a quarantined memory."""
    memory_id = call.names["id"]
    ids = await call.user.release(memory_id, **call.body)
    return json_response({"ids": ids})


async def consolidate(call: RequestContext) -> Response:
    """Merge duplicates and summarize old memories; by default a dry run."""
    options = {"dry_run": True, **call.body}
    done = await call.user.consolidate(**options)
    return json_response(asdict(done))


async def mark_used(call: RequestContext) -> Response:
    """Record that memories were used."""
    count = await call.user.mark_used(call.body["ids"])
    return json_response({"marked": count})


async def touch(call: RequestContext) -> Response:
    """Move the expiry of memories."""
    count = await call.user.touch(call.body["ids"], call.body["ttl"])
    return json_response({"touched": count})


async def delete_where(call: RequestContext) -> Response:
    """Delete the memories that match a filter."""
    async with _turn_to_write(call):
        count = await call.user.delete_where(call.body["filter"])
    return json_response({"deleted": count})


async def delete_memory(call: RequestContext) -> Response:
    """Delete one memory. Idempotent."""
    await call.user.delete(call.names["id"], **call.query)
    return Response(status_code=204)


async def delete_session(call: RequestContext) -> Response:
    """Delete the memories of one session."""
    session_id = call.names["session"]
    count = await call.user.delete_session(session_id)
    return json_response({"deleted": count})


async def delete_user(call: RequestContext) -> Response:
    """Delete all memories of a user."""
    forget = call.query.get("forget", False)
    count = await call.user.delete_all(forget=forget)
    return json_response({"deleted": count})


async def export_user(call: RequestContext) -> Response:
    """Stream a user's memories as JSON lines, from one snapshot of the file."""
    for name, value in call.whose.items():
        check_name(value, name, call.memory.limits)
    with ExitStack() as place:
        place.enter_context(call.state.export_place(call.by.id, _MAX_EXPORTS))
        async with call.state.making.place(call.by.id):
            file = place.enter_context(await _exported(call))
        return FileStream(
            file, "application/x-ndjson", place.pop_all(), call.still_admitted
        )


async def _exported(call: RequestContext) -> BinaryIO:
    """Return the export as an open file without a name; a crash leaves no file."""
    with ExitStack() as until_made:
        made = until_made.enter_context(tempfile.TemporaryFile(buffering=_BUFFER))
        file = cast("BinaryIO", made)
        text = TextIOWrapper(file, encoding="utf-8")
        await call.memory.admin.export_jsonl(
            text,
            vectors=call.query.get("vectors", False),
            **call.whose,
        )
        text.detach()
        file.seek(0)
        until_made.pop_all()
    return file


async def health(_: RequestContext) -> Response:
    """Return that the server is alive."""
    return json_response({"status": "ok"})


async def document(call: RequestContext) -> Response:
    """Return the OpenAPI document."""
    return raw_json(call.state.document_at(call.mounted_at))
