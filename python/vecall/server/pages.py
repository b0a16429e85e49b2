"""Returns memories as JSON, in responses of limited size."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from starlette.responses import Response

from vecall.concurrency.time_slices import in_slices
from vecall.server.responses import as_json, json_response, raw_json
from vecall.server.routing import RequestContext
from vecall.types import MemoryEntry, Page, Revision

T = TypeVar("T")

Each = Callable[[Iterable[Any]], Iterable[Any]]
"""Iterates over items: `in_slices`, which yields the thread regularly, or `iter`."""

MANY = 32  # memories: larger responses need a place and are written on a thread
_NAMES = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (MemoryEntry, Revision)
}
_WRITTEN_AT_ONCE = 64 * 1024  # characters of text: under a millisecond of the loop


async def one(entry: MemoryEntry) -> Response:
    """Return one memory."""
    return await _written([entry], lambda _: json_response(shown(entry)))


async def answered(
    call: RequestContext,
    limit: int | None,
    ask: Callable[[], Awaitable[T]],
    write: Callable[[RequestContext, T], Awaitable[Response]],
) -> Response:
    """Search and respond; limit the number of concurrent large responses.

    Args:
        call: The request.
        limit: The maximum number of memories; None: any number.
        ask: Calls the memory service.
        write: Creates the response.
    """
    if limit is not None and limit <= MANY:
        return await write(call, await ask())
    async with call.state.large.place(call.by.id):
        return await write(call, await ask())


async def best(call: RequestContext, entries: list[MemoryEntry]) -> Response:
    """Return the best memories; "truncated" if further ones did not fit."""

    def write(each: Each) -> Response:
        shows = map(shown, each(entries))
        texts = _fitting(shows, call.state.limits.max_answer_bytes)
        return _listed("memories", texts, truncated=len(texts) < len(entries))

    return await _written(entries, write)


async def page(call: RequestContext, entries: Page[MemoryEntry]) -> Response:
    """Return memories in order; "next" is the start of the next page, if any."""

    def write(each: Each) -> Response:
        shows = map(shown, each(entries))
        texts = _fitting(shows, call.state.limits.max_answer_bytes)
        if len(texts) < len(entries):
            return _listed("memories", texts, next=entries[len(texts) - 1].id)
        return _listed("memories", texts, next=entries.next)

    return await _written(entries, write)


async def newest(call: RequestContext, revisions: list[Revision]) -> Response:
    """Return the newest revisions, oldest first; "truncated" as in `best`."""

    def write(each: Each) -> Response:
        backwards = (
            {**_plain(past), "memory": shown(past.memory)}
            for past in each(newest_first)
        )
        texts = _fitting(backwards, call.state.limits.max_answer_bytes)
        cut = len(texts) < len(revisions)
        return _listed("revisions", texts[::-1], truncated=cut)

    newest_first = revisions[::-1]
    return await _written([past.memory for past in newest_first], write)


def shown(entry: MemoryEntry) -> dict[str, Any]:
    """Return the fields of a memory that are not None."""
    return {name: value for name, value in _plain(entry).items() if value != {}}


def _plain(value: MemoryEntry | Revision) -> dict[str, Any]:
    values = {name: getattr(value, name) for name in _NAMES[type(value)]}
    return {name: value for name, value in values.items() if value is not None}


async def _written(
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


def _fitting(values: Iterable[object], limit: int) -> list[str]:
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


def _listed(name: str, texts: list[str], **more: object) -> Response:
    rest = "".join(f",{as_json(key)}:{as_json(more[key])}" for key in more if more[key])
    return raw_json(f"{{{as_json(name)}:[{','.join(texts)}]{rest}}}")
