"""The resources of a user: the newest memories, the profile, and each memory."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from vecall.errors import InvalidArgumentError
from vecall.mcp.base_tool import Desk
from vecall.prompts.render import render
from vecall.service.pages import in_pages
from vecall.tools.json_output import cost_of
from vecall.tools.snippets import bounded, marked
from vecall.types import MemoryEntry, Page

RECENT = "memory://recent"
PROFILE = "memory://profile"
ONE = "memory://memories/"
_COUNT = 50
_PAGE = 1_000
_FRAME = 100  # tokens of a block besides its memories
_NOTHING = "Nothing is remembered of this user."
_OF_PROFILE = {"kind": ("fact", "preference", "decision", "summary")}

LISTED: list[dict[str, Any]] = [
    {
        "uri": RECENT,
        "name": "recent",
        "title": "Recent memories",
        "description": "The newest memories of the user",
        "mimeType": "text/plain",
    },
    {
        "uri": PROFILE,
        "name": "profile",
        "title": "Profile of the user",
        "description": "The newest facts, preferences, decisions and summaries",
        "mimeType": "text/plain",
    },
]
"""The resources with a fixed URI."""

TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": ONE + "{id}",
        "name": "memory",
        "title": "One memory",
        "description": "A memory by its id",
        "mimeType": "text/plain",
    }
]
"""The resources with an id in their URI."""


class Resources:
    """Reads the resources of one user.

    Args:
        desk: What the tools of the server share.
    """

    def __init__(self, desk: Desk) -> None:
        """Read the memories of one user."""
        self._desk = desk

    async def read(self, uri: str) -> dict[str, Any] | None:
        """Return the content of a resource; None for an unknown URI.

        The text is a block of `render`, which declares itself data. Copies of it are
        not stored.
        """
        if uri == RECENT:
            return await self._block(uri, await self._newest({}))
        if uri == PROFILE:
            return await self._block(uri, await self._newest(_OF_PROFILE))
        if not uri.startswith(ONE):
            return None
        try:
            id_ = unquote(uri.removeprefix(ONE), errors="strict")
            entry = await self._desk.get(id_)
        except (InvalidArgumentError, UnicodeDecodeError):
            return None
        return await self._block(uri, [entry])

    async def _block(self, uri: str, entries: Iterable[MemoryEntry]) -> dict[str, Any]:
        text = await asyncio.to_thread(self._rendered, list(entries))
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}

    def _rendered(self, entries: list[MemoryEntry]) -> str:
        """Return the first memories that fit as one block; long texts are cut."""
        if not entries:
            return _NOTHING
        look = self._desk.look
        if look.max_tokens is None:
            return render(entries, "secure", scores=False)
        cost, left, shown = cost_of(look), look.max_tokens - _FRAME, []
        for piece in bounded(entries, "", left, cost):
            left -= cost(piece)
            if left < 0:
                break
            shown.append(marked(piece))
        return render(shown, "secure", scores=False)

    async def _newest(self, condition: Mapping[str, Any]) -> list[MemoryEntry]:
        """Return the newest memories that pass a filter."""
        desk = self._desk

        def read(cursor: str | None, limit: int) -> Awaitable[Page[MemoryEntry]]:
            page: Awaitable[Page[MemoryEntry]] = desk.memory.list_memories(
                **desk.owner,
                cursor=cursor,
                limit=limit,
                filter=condition or None,
            )
            return page

        newest: list[tuple[float, int, MemoryEntry]] = []
        number = 0
        async for page in in_pages(read, min(_PAGE, desk.limits.max_top_k)):
            for each in page:
                number += 1
                item = (_time_of(each), number, each)
                push = heapq.heappush if len(newest) < _COUNT else heapq.heappushpop
                push(newest, item)
        return [entry for *_, entry in sorted(newest, reverse=True)]


def _time_of(entry: MemoryEntry) -> float:
    return entry.timestamp or entry.created_at or 0.0
