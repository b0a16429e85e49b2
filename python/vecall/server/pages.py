"""Memories as JSON, in answers of a bounded size."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from starlette.responses import Response

from vecall.concurrency.time_slices import in_slices
from vecall.server.floors import may_read
from vecall.server.responses import as_json, json_response, raw_json
from vecall.server.routing import RequestContext
from vecall.types import MemoryEntry, Revision

T = TypeVar("T")

Each = Callable[[Iterable[Any]], Iterable[Any]]
"""Yields items, and pauses between them where it may: `in_slices`, or `iter`."""

MANY = 32  # memories: more of them are not written, nor held, as a matter of course
_WRITTEN_AT_ONCE = 64 * 1024  # characters of text: under a millisecond of the loop


async def one(entry: MemoryEntry) -> Response:
    """Return one memory."""
    return await _written([entry], lambda _: json_response(shown(entry)))


async def answered(
    call: RequestContext,
    most: int | None,
    ask: Callable[[], Awaitable[list[T]]],
    write: Callable[[RequestContext, list[T]], Awaitable[Response]],
) -> Response:
    """Ask and answer; a few at a time where many memories may have to be held.

    Args:
        call: The request.
        most: How many there are at most; None is any number.
        ask: Asks the memory service.
        write: Makes the answer.
    """
    if most is not None and most <= MANY:
        return await write(call, await ask())
    async with call.door.large.place(call.by.id):
        return await write(call, await ask())


async def best(call: RequestContext, entries: list[MemoryEntry]) -> Response:
    """Return the best memories; "truncated" says that further ones did not fit."""

    def write(each: Each) -> Response:
        shows = map(shown, each(entries))
        texts = _fitting(shows, call.door.limits.max_answer_bytes)
        return _listed("memories", texts, truncated=len(texts) < len(entries))

    return await _written(entries, write)


async def page(
    call: RequestContext, entries: list[MemoryEntry], limit: int
) -> Response:
    """Return memories in order; "next" is where to go on, unless it was the last."""
    visible = [entry for entry in entries if may_read(call.by, entry)]

    def write(each: Each) -> Response:
        shows = map(shown, each(visible))
        texts = _fitting(shows, call.door.limits.max_answer_bytes)
        if len(texts) < len(visible):
            return _listed("memories", texts, next=visible[len(texts) - 1].id)
        if len(entries) < limit:
            return _listed("memories", texts)
        return _listed("memories", texts, next=entries[-1].id)

    return await _written(entries, write)


async def newest(call: RequestContext, revisions: list[Revision]) -> Response:
    """Return the newest revisions, oldest first; "truncated" as in `best`."""

    def write(each: Each) -> Response:
        backwards = (
            {**_plain(past), "memory": shown(past.memory)} for past in each(told)
        )
        texts = _fitting(backwards, call.door.limits.max_answer_bytes)
        cut = len(texts) < len(revisions)
        return _listed("revisions", texts[::-1], truncated=cut)

    told = revisions[::-1]
    return await _written([past.memory for past in told], write)


def shown(entry: MemoryEntry) -> dict[str, Any]:
    """A memory without what it does not have."""
    return {name: value for name, value in _plain(entry).items() if value != {}}


def _plain(value: MemoryEntry | Revision) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value)]
    told = {name: getattr(value, name) for name in names}
    return {name: value for name, value in told.items() if value is not None}


async def _written(
    entries: list[MemoryEntry], write: Callable[[Each], Response]
) -> Response:
    """Write a little at once, much in slices on another thread."""
    little = len(entries) <= MANY
    if little and sum(len(entry.text) for entry in entries) <= _WRITTEN_AT_ONCE:
        return write(iter)
    return await asyncio.to_thread(write, in_slices)


def _fitting(values: Iterable[object], most: int) -> list[str]:
    """The first values as JSON: as many as fit, but at least one."""
    texts: list[str] = []
    size = 0
    for value in values:
        text = as_json(value)
        size += len(text) + 1
        if texts and size > most:
            break
        texts.append(text)
    return texts


def _listed(name: str, texts: list[str], **more: object) -> Response:
    rest = "".join(f",{as_json(key)}:{as_json(more[key])}" for key in more if more[key])
    return raw_json(f"{{{as_json(name)}:[{','.join(texts)}]{rest}}}")
