"""Handlers: each parses a request, calls `MemoryService`, and returns JSON."""

from __future__ import annotations

import asyncio
import platform
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from dataclasses import is_dataclass
from functools import partial
from io import TextIOWrapper
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, cast

from starlette.responses import Response

from vecall import __version__, build_info
from vecall.concurrency.time_slices import in_slices
from vecall.content import get_field
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.filters.rights import Claims
from vecall.ingest.drafts import session_id_of
from vecall.prompts.render import estimate_tokens
from vecall.server.limits import BUCKETS_S, Durations, Pauses
from vecall.server.requests import access_writes
from vecall.server.responses import (
    FileStream,
    HttpError,
    as_json,
    json_response,
    raw_json,
)
from vecall.server.routing import RequestContext
from vecall.server.tokens import Token, token_to_json
from vecall.tools import PreloadMemory
from vecall.tools.output import key_of
from vecall.tools.preload import confidence_floor_of, memories_worth_telling
from vecall.types import (
    UNSET,
    AddedIds,
    AppSummary,
    MemoryEntry,
    Page,
    Revision,
    SearchMemoryResponse,
    UserSummary,
)
from vecall.validation import check_name


def stamp_items(token: Token, body: dict[str, Any]) -> dict[str, Any]:
    """Return the items of a body with the trust, source and author of the token.

    Raises:
        RightsError: An item claims a value that the token does not permit.
    """
    claims = token.claims
    items = {name: body[name] for name in _ITEMS if name in body}
    if claims == Claims():
        return items
    return {
        name: [_stamped_item(claims, item) for item in given]
        for name, given in items.items()
    }


def _stamped_item(claims: Claims, item: Any) -> Any:
    if isinstance(item, InvalidArgumentError):
        return item  # an item that is left out
    return claims.stamp_memory({"content": item} if isinstance(item, str) else item)


# Returns memories as JSON, in responses of limited size.


Each = Callable[[Iterable[Any]], Iterable[Any]]
"""Iterates over items: `in_slices`, which yields the thread regularly, or `iter`."""

MANY = 32  # memories: larger responses need a place and are written on a thread
_MEMORY_FIELDS = tuple(MemoryEntry.__dataclass_fields__)
_OF_MEMORY = attrgetter(*_MEMORY_FIELDS)
_WRITTEN_AT_ONCE = 64 * 1024  # characters of text: under a millisecond of the loop


def memory_as_json(entry: MemoryEntry) -> dict[str, Any]:
    """Return the fields of a memory that are not None."""
    pairs = zip(_MEMORY_FIELDS, _OF_MEMORY(entry), strict=True)
    fields = {name: field for name, field in pairs if field is not None}
    for name in ("content", "custom_metadata", "explanation"):
        if fields.get(name) == {}:
            del fields[name]
    return fields


async def memory_response(_: RequestContext, entry: MemoryEntry) -> Response:
    """Return one memory."""
    return await _write_response(
        [entry], lambda _: json_response(memory_as_json(entry))
    )


async def run_operation(call: RequestContext) -> Response:
    """Call the operation's method and return its result.

    The number of concurrent large responses is limited, and long requests of one user
    follow each other.
    """
    operation = call.operation
    assert operation.answer in _WRITERS, "the result has another form"
    write = _WRITERS[operation.answer]
    limit = call.arguments.get(_LIMITS.get(operation.answer or "", ""), 1)
    async with _place_of_request(call, is_large=_is_long_request(call)):
        if limit <= MANY and operation.answer != "History":
            return await write(call, await call.ask_memory())
        async with call.state.large.place(call.by.id):
            return await write(call, await call.ask_memory())


async def _write_memories(
    call: RequestContext,
    entries: list[MemoryEntry],
    rest: Callable[[int], dict[str, object]],
    show: Callable[[MemoryEntry], dict[str, Any]] = memory_as_json,
) -> Response:
    """Return as many memories as fit, and what `rest` tells of their number."""
    limit = call.state.limits.max_answer_bytes

    def write(each: Each) -> Response:
        texts, count = [], len(entries)
        if each is iter:  # few, which are quicker written together
            texts = [as_json(list(map(show, entries)))[1:-1]]
        if not texts or len(texts[0]) >= limit:
            texts = _json_texts_that_fit(map(show, each(entries)), limit)
            count = len(texts)
        return _list_response("memories", texts, **rest(count))

    return await _write_response(entries, write)


async def search_response(call: RequestContext, hits: SearchMemoryResponse) -> Response:
    """Return the best memories; "truncated" if further ones did not fit."""
    entries = hits.memories
    return await _write_memories(
        call, entries, lambda count: {"truncated": count < len(entries) or None}
    )


async def page_response(call: RequestContext, entries: Page[MemoryEntry]) -> Response:
    """Return memories in order; "next" is the start of the next page, if any."""

    def rest(count: int) -> dict[str, object]:
        is_whole = count == len(entries)
        return {"next": entries.next if is_whole else entries[count - 1].id}

    return await _write_memories(call, entries, rest)


async def history_response(call: RequestContext, revisions: list[Revision]) -> Response:
    """Return the newest revisions, oldest first; "truncated" as `search_response`."""

    def write(each: Each) -> Response:
        backwards = (
            {**_fields_not_none(past), "memory": memory_as_json(past.memory)}
            for past in each(newest_first)
        )
        texts = _json_texts_that_fit(backwards, call.state.limits.max_answer_bytes)
        cut = len(texts) < len(revisions)
        return _list_response("revisions", texts[::-1], truncated=cut or None)

    newest_first = revisions[::-1]
    return await _write_response([past.memory for past in newest_first], write)


def writer_of_summaries(name: str) -> _Writer:
    """Return a writer of apps, users or sessions; "next" as in `page_response`."""

    async def write(_: RequestContext, found: Page[Any]) -> Response:
        def written(each: Each) -> Response:
            texts = [as_json(_fields_not_none(value)) for value in each(found)]
            return _list_response(name, texts, next=found.next)

        if len(found) <= MANY:
            return written(iter)
        return await asyncio.to_thread(written, partial(in_slices, gives_way=True))

    return write


def _make_response_writer(*names: str, is_whole: bool = False) -> _Writer:
    """Return a writer of a value under a name, or else of the fields of a record.

    A record that is not whole is written without the fields that are None.
    """

    async def write(_: RequestContext, value: Any) -> Response:
        if names:
            fields = dict.fromkeys(names, value)
        else:
            fields = _fields_of(value) if is_whole else _fields_not_none(value)

        def written(each: Each) -> Response:
            return json_response(
                {name: _json_values(fields[name], each) for name in fields}
            )

        return await _write_response(list(_memories_in([*fields.values()])), written)

    return write


def _memories_in(value: Any) -> Iterator[MemoryEntry]:
    """Yield the memories of records and lists."""
    if isinstance(value, MemoryEntry):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _memories_in(item)
    elif is_dataclass(value):
        yield from _memories_in([*_fields_of(value).values()])


def _json_values(value: Any, each: Each = iter) -> Any:
    """Return memories, records and lists of them as JSON values."""
    if isinstance(value, MemoryEntry):
        return memory_as_json(value)
    if isinstance(value, list | tuple):
        return [_json_values(item) for item in each(value)]
    if is_dataclass(value):
        return {name: _json_values(field) for name, field in _fields_of(value).items()}
    return value


async def _empty_response(_: RequestContext, __: object) -> Response:
    return Response(status_code=204)


_Writer = Callable[[RequestContext, Any], Awaitable[Response]]
_WRITERS: dict[str | None, _Writer] = {
    None: _empty_response,
    "Memory": memory_response,
    "Found": search_response,
    "Page": page_response,
    "Apps": writer_of_summaries("apps"),
    "Users": writer_of_summaries("users"),
    "Sessions": writer_of_summaries("sessions"),
    "History": history_response,
    "Consolidation": _make_response_writer(is_whole=True),
    **dict.fromkeys(("Proposal", "Explanation", "Figures"), _make_response_writer()),
    "Conflicts": _make_response_writer("conflicts"),
    "Ids": _make_response_writer("ids"),
    "Counted": _make_response_writer("count"),
    "Touched": _make_response_writer("touched"),
    "Marked": _make_response_writer("marked"),
    "Deleted": _make_response_writer("deleted"),
}
_LIMITS = {
    "Found": "top_k",
    "Proposal": "top_k",
    **dict.fromkeys(("Conflicts", "Page", "Apps", "Users", "Sessions"), "limit"),
}
"""The argument that is the maximum number of memories in a response."""


def _fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _fields_not_none(value: Any) -> dict[str, Any]:
    fields = _fields_of(value)
    return {name: field for name, field in fields.items() if field is not None}


async def _write_response(
    entries: list[MemoryEntry], write: Callable[[Each], Response]
) -> Response:
    """Write few memories on the event loop, many in slices on another thread."""
    little = len(entries) <= MANY
    if little and sum(len(entry.text) for entry in entries) <= _WRITTEN_AT_ONCE:
        return write(iter)

    def write_and_free() -> Response:
        response = write(partial(in_slices, gives_way=True))
        entries.clear()  # freeing many memories would hold up the event loop
        return response

    return await asyncio.to_thread(write_and_free)


def _json_texts_that_fit(values: Iterable[object], limit: int) -> list[str]:
    """Return the first values as JSON: as many as fit, but at least one."""
    texts: list[str] = []
    size = 0
    for value in values:
        text = as_json(value)
        size += len(text) + 1
        if texts and size > limit:
            break
        texts.append(text)
    return texts


def _list_response(name: str, texts: list[str], **more: object) -> Response:
    known = {key: value for key, value in more.items() if value is not None}
    rest = "".join(f",{as_json(key)}:{as_json(value)}" for key, value in known.items())
    return raw_json(f"{{{as_json(name)}:[{','.join(texts)}]{rest}}}")


async def preload_memories(call: RequestContext) -> Response:
    """Return the block of memories that an agent gets with a message."""
    memory, options = call.memory, {**call.body}
    query, floor = options.pop("query"), options.get("min_confidence", UNSET)
    for name in ("max_entries", "max_tokens"):
        if name in options:
            options[name] = int(options[name])
    app, user = call.names["app"], call.names["user"]
    tool = PreloadMemory(memory, app, user, **options)
    most = min(max(2 * options.get("max_entries", 0), MANY), memory.limits.max_top_k)
    async with _place_of_request(call, is_large=_is_long_request(call)):
        found = await memory.search_memory(
            **call.whose, query=query, top_k=most, min_confidence=0.0
        )
        block = await tool.block(query, turn=app)
    given = tool.turns.already_recalled((app, user), app)
    least, entries = confidence_floor_of(memory, floor), found.memories
    sure = set(map(key_of, memories_worth_telling(memory, query, found, floor)))

    def fate(entry: MemoryEntry) -> str:
        if key_of(entry) in given:
            return "shown"
        return "no_room" if key_of(entry) in sure else "unsure"

    def told(entry: MemoryEntry) -> dict[str, Any]:
        return {"memory": memory_as_json(entry), "fate": fate(entry)}

    rest = {"block": block, "tokens": estimate_tokens(block), "floor": least}
    async with call.state.large.place(call.by.id):
        return await _write_memories(call, entries, lambda _: rest, told)


_LONG_QUERY = 4096  # characters, which take a millisecond
_OF_ALL = ("Conflicts", "Consolidation")  # answers that compare all of a user

_TURNS = {"events", "messages"}
_ITEMS = (*_TURNS, "memories")

_BUFFER = 256 * 1024  # bytes, of an export in progress
_MAX_EXPORTS = 16  # at the same time; more would fill the disk


async def ingest_session(call: RequestContext) -> Response:
    """Store the turns of a session that the session loader returns."""
    memory = call.memory
    wanted = call.body.get("sessionId", call.body.get("session_id"))
    async with _place_of_write(call):
        session = await _load_session(call, "sessionId", wanted)
        return _added_ids_response(await memory.add_session_to_memory(session), 200)


async def observe_session(call: RequestContext) -> Response:
    """Buffer new turns until the trigger fires."""
    async with _place_of_write(call):
        ids = await call.memory.observe_session(await _session_to_write(call))
    return json_response({"ids": ids})


async def end_session(call: RequestContext) -> Response:
    """Make memories of the buffered turns of a session."""
    async with _place_of_write(call):
        if call.body.keys() & _TURNS or call.state.load_session is not None:
            ids = await call.memory.end_session(await _session_to_write(call))
        else:
            session_id = call.names["session"]
            ids = await call.memory.end_session(**call.whose, session_id=session_id)
    return json_response({"ids": ids})


async def _session_to_write(call: RequestContext) -> object:
    """Return a session with the turns in the body, or else the loader's session."""
    id_ = call.names["session"]
    if call.body.keys() & _TURNS:
        return {**call.whose, "id": id_, **stamp_items(call.by, call.body)}
    return await _load_session(call, "session", id_)


async def _load_session(call: RequestContext, field: str, session_id: object) -> object:
    """Return the session of the loader, if it belongs to this user."""
    if call.state.load_session is None:
        raise HttpError("not_configured", "Session loader is not configured.")
    expected = (*call.whose.values(), session_id)
    for name, value in zip(("app", "user", field), expected, strict=True):
        check_name(value, name, call.memory.limits)
    try:
        session = await call.state.load_session(**call.whose, session_id=session_id)
    except Exception as error:
        raise HttpError("session_loader", "The session loader failed.") from error
    # A session of another user is not found, even if the loader returns it.
    owner = [get_field(session, name) for name in ("app_name", "user_id")]
    if session is None or (*owner, session_id_of(session)) != expected:
        raise HttpError("not_found", "Session not found")
    return session


async def store(call: RequestContext) -> Response:
    """Store memories or turns."""
    items = stamp_items(call.by, call.body)
    async with _place_of_write(call):
        return _added_ids_response(await call.ask_memory(**items), 201)


def _place_of_write(call: RequestContext) -> AbstractAsyncContextManager[None]:
    """Return the place of a write: one of many items at a time for each user."""
    given = [len(call.body[name]) for name in _ITEMS if name in call.body]
    return _place_of_request(call, is_large=not given or max(given) > MANY)


def _is_long_request(call: RequestContext) -> bool:
    """Whether it reads a long query or all of a user, or changes by a filter."""
    body, access = call.body, call.operation.access
    if len(body.get("query", "")) > _LONG_QUERY or call.operation.answer in _OF_ALL:
        return True
    return "filter" in body and ("metadata" in body["filter"] or access_writes(access))


def _place_of_request(
    call: RequestContext, *, is_large: bool
) -> AbstractAsyncContextManager[None]:
    """Return the place of a request: one large one at a time for each user."""
    if not is_large:
        return nullcontext()
    return call.state.turns.place(repr((call.names["app"], call.names["user"])))


def _added_ids_response(ids: AddedIds, status: int) -> Response:
    """Return the ids, and reasons for omitted items; 200 if nothing was stored."""
    document: dict[str, object] = {"ids": ids}
    if ids.left_out:
        document["left_out"] = list(map(_fields_not_none, ids.left_out))
    if any(ids.similar):
        document["similar"] = _json_values(ids.similar)
    return json_response(document, status if ids.stored else 200)


async def update_memory(call: RequestContext) -> Response:
    """Correct one memory; its former text stays in its history."""
    call.by.claims.check_claimed_names(call.body)
    return await memory_response(call, await call.ask_memory(max_trust=call.by.ceiling))


async def export_user(call: RequestContext) -> Response:
    """Stream all memories of a user as JSON lines.

    They are one snapshot of the file.
    """
    for name, value in call.whose.items():
        check_name(value, name, call.memory.limits)
    with ExitStack() as place:
        place.enter_context(call.state.export_place(call.by.id, _MAX_EXPORTS))
        async with call.state.making.place(call.by.id):
            file = place.enter_context(await _export_to_unnamed_file(call))
        return FileStream(
            file, "application/x-ndjson", place.pop_all(), call.still_admitted
        )


async def _export_to_unnamed_file(call: RequestContext) -> BinaryIO:
    """Return the export as an open file without a name; a crash leaves no file."""
    with ExitStack() as until_made:
        made = until_made.enter_context(tempfile.TemporaryFile(buffering=_BUFFER))
        file = cast("BinaryIO", made)
        text = TextIOWrapper(file, encoding="utf-8")
        await call.memory.admin.export_jsonl(
            text, vectors=call.query.get("vectors", False), **call.whose
        )
        text.detach()
        file.seek(0)
        until_made.pop_all()
    return file


async def report_alive(_: RequestContext) -> Response:
    """Return that the server is alive."""
    return json_response({"status": "ok"})


async def report_ready(call: RequestContext) -> Response:
    """Return that the storage answers and the server is not about to end."""
    if await call.state.readiness.is_storage_ready():
        return json_response({"status": "ok"})
    msg = "The server is about to end, or its storage does not answer."
    raise HttpError("not_ready", msg)


async def openapi_response(call: RequestContext) -> Response:
    """Return this document."""
    return raw_json(call.state.openapi_document_at(call.mounted_at))


_BUILD = ",".join(
    f'{name}="{value}"'
    for name, value in {
        "version": __version__,
        "python": platform.python_version(),
        "isa": build_info()["active_isa"],
    }.items()
)
_BOUNDS = (*BUCKETS_S, "+Inf")


def metrics_as_text(
    stats: Mapping[str, Any],
    answered: Mapping[tuple[str, int], int],
    durations: Durations,
    pauses: Pauses,
) -> str:
    """Return counts in Prometheus' text format, without names of users and texts.

    `answered` is by operation and status.
    """
    operations = dict(stats["operations"])
    errors = operations.pop("errors")
    lines = ["# TYPE vecall_build_info gauge", f"vecall_build_info{{{_BUILD}}} 1"]
    for name, value in stats.items():
        if isinstance(value, int):
            lines += [f"# TYPE vecall_{name} gauge", f"vecall_{name} {value}"]
    for name, seconds in (("max", pauses.longest), ("recent_max", pauses.recent_pause)):
        gauge = f"vecall_interpreter_pause_seconds_{name}"
        lines += [f"# TYPE {gauge} gauge", f"{gauge} {seconds:.6f}"]
    lines.append("# TYPE vecall_operations_total counter")
    for name, value in operations.items():
        lines.append(f'vecall_operations_total{{operation="{name}"}} {value}')
    lines += ["# TYPE vecall_errors_total counter", f"vecall_errors_total {errors}"]
    lines.append("# TYPE vecall_http_requests_total counter")
    for (name, status), value in sorted(answered.items()):
        labels = f'operation="{name}",status="{status}"'
        lines.append(f"vecall_http_requests_total{{{labels}}} {value}")
    name = "vecall_http_request_duration_seconds"
    lines.append(f"# TYPE {name} histogram")
    for operation, counts in sorted(durations.counts.items()):
        label = f'operation="{operation}"'
        for bound, count in zip(_BOUNDS, accumulate(counts), strict=True):
            lines.append(f'{name}_bucket{{{label},le="{bound}"}} {count}')
        lines.append(f"{name}_sum{{{label}}} {durations.sums[operation]:.6f}")
        lines.append(f"{name}_count{{{label}}} {sum(counts)}")
    return "\n".join(lines) + "\n"


async def metrics(call: RequestContext) -> Response:
    """Return metrics in the text format of Prometheus."""
    pauses = call.state.pauses
    pauses.begin_measuring()
    state = call.state
    stats = await call.memory.admin.stats()
    text = metrics_as_text(stats, state.answered, state.durations, pauses)
    return Response(text, media_type="text/plain; version=0.0.4")


async def make_backup(call: RequestContext) -> Response:
    """Copy the file to the folder of backups.

    The server chooses the name.
    """
    memory, state = call.memory, call.state
    if state.backups is None:
        raise HttpError("not_configured", "No folder of backups is configured.")
    if state.backing_up:
        raise HttpError("conflict", "A backup is being made.", {"Retry-After": "1"})
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"memory-{moment}-{secrets.token_hex(4)}.db"
    target: Path = state.backups / name
    state.backing_up = True
    try:
        await memory.admin.backup(target)
    except ConfigError as error:  # its message contains a path
        raise HttpError("storage", "The folder of backups cannot be used.") from error
    finally:
        state.backing_up = False
    return json_response({"name": name, "bytes": target.stat().st_size}, 201)


_SUMMED = ("memories", "text_bytes", "items", "created_at", "updated_at")


async def list_apps(call: RequestContext) -> Response:
    """List the apps that the token may know; of one user, with this user's figures."""
    token, app, memory = call.by, call.by.app, call.memory
    if token.lists_all:
        return await run_operation(call)
    assert app is not None, "the token is for one app"
    found: list[AppSummary] = []
    if _is_name_on_page(app, call.arguments) and token.user is None:
        apps = await call.ask_memory(prefix=app, after=None, limit=1)
        found = [each for each in apps if each.app_name == app]
    elif _is_name_on_page(app, call.arguments):
        for user in await _own_user(memory, token, app):
            figures = {name: getattr(user, name) for name in _SUMMED}
            found = [AppSummary(app, users=1, **figures)]
    return await writer_of_summaries("apps")(call, Page(found))


async def list_users(call: RequestContext) -> Response:
    """List the users of an app that the token may know."""
    user = call.by.user
    if user is None:
        return await run_operation(call)
    is_listed = _is_name_on_page(user, call.arguments)
    own = await _own_user(call.memory, call.by, call.names["app"]) if is_listed else []
    return await writer_of_summaries("users")(call, Page(own))


async def _own_user(memory: Any, by: Token, app: str) -> list[UserSummary]:
    """Return the figures of the only user of a token, if there are any."""
    name = by.user or ""
    users = await memory.admin.list_users(app_name=app, prefix=name, limit=1)
    return [each for each in users if each.user_id == name]


def _is_name_on_page(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a list with a prefix, after a name, may have this one."""
    return name.startswith(given.get("prefix", "")) and name > given.get("after", "")


async def show_token(call: RequestContext) -> Response:
    """Return what the token permits."""
    fields = token_to_json(call.by)
    del fields["sha256"]
    return json_response(fields)
