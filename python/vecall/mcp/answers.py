"""Answers the requests of the protocol as plain JSON values.

A result has the field names of the protocol, so it fits every version of the SDK. The
tools and the resources belong to one user.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from urllib.parse import unquote

from vecall.errors import InvalidArgumentError, VecallError
from vecall.mcp.tools import (
    ANSWERS,
    HINTS,
    TITLES,
    Access,
    AddMemory,
    DeleteMemory,
    Desk,
    GetMemory,
    ListMemories,
    SearchMemory,
    UpdateMemory,
)
from vecall.prompts.render import render
from vecall.service.items import in_pages
from vecall.tools.base import MemoryTool, limits_of, restricted
from vecall.tools.output import (
    DEFAULT_MAX_TOKENS,
    bounded,
    checked_look,
    cost_of,
    marked,
)
from vecall.types import MemoryEntry, Page

# The resources of a user: the newest memories, the profile, and each memory.


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
    """Reads the resources of one user."""

    def __init__(self, desk: Desk) -> None:
        """Read the memories of one user."""
        self._desk = desk

    async def read(self, uri: str) -> dict[str, Any] | None:
        """Return the content of a resource; None for an unknown URI.

        The text is a block of `render`, which declares itself data. Copies of it are
        not stored.
        """
        if uri == RECENT:
            return await self._block_content(uri, await self._newest_memories({}))
        if uri == PROFILE:
            return await self._block_content(
                uri, await self._newest_memories(_OF_PROFILE)
            )
        if not uri.startswith(ONE):
            return None
        try:
            id_ = unquote(uri.removeprefix(ONE), errors="strict")
            entry = await self._desk.get(id_)
        except (InvalidArgumentError, UnicodeDecodeError):
            return None
        return await self._block_content(uri, [entry])

    async def _block_content(
        self, uri: str, entries: Iterable[MemoryEntry]
    ) -> dict[str, Any]:
        text = await asyncio.to_thread(self._render_fitting, list(entries))
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}

    def _render_fitting(self, entries: list[MemoryEntry]) -> str:
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

    async def _newest_memories(self, condition: Mapping[str, Any]) -> list[MemoryEntry]:
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


INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_log = logging.getLogger("vecall.mcp")
_READING = (SearchMemory, GetMemory, ListMemories)
_WRITING = (AddMemory, UpdateMemory, DeleteMemory)
_LATE = "There was no answer within {:g} s; a write may come yet."
_FAILED = "The memory failed to answer."

_PROMPT: dict[str, Any] = {
    "name": "recall",
    "title": "Recall",
    "description": "What is remembered of a topic",
    "arguments": [
        {"name": "topic", "description": "What to search for", "required": True}
    ],
}

Result = dict[str, Any]
Admit = Callable[[bool], AbstractAsyncContextManager[object]]
"""Called before a tool runs, with whether it writes. It returns a context that holds
while the tool runs. A VecallError that it raises is the answer of the tool."""


class ProtocolError(Exception):
    """An error of the protocol, not of a tool: a code of JSON-RPC and a sentence."""

    def __init__(
        self, code: int, message: str, data: Mapping[str, str] | None = None
    ) -> None:
        """Set the parts."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = None if data is None else dict(data)


class Answers:
    """Answers the requests of the clients of one user.

    Args:
        memory: The memory service.
        access: The user, and the permissions.
        max_tokens: The most tokens of an answer, at least 64; None is unlimited.
        seconds: The timeout of a tool or a resource; None is unlimited.
        admit: As in `Admit`; None admits every call.

    Raises:
        InvalidArgumentError: A name or `max_tokens` is invalid.
        ConfigError: The service lacks a method that a tool needs, or cannot apply the
            floor on trust.
    """

    def __init__(
        self,
        memory: Any,
        access: Access,
        *,
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        seconds: float | None = None,
        admit: Admit | None = None,
    ) -> None:
        """Create the tools of one user."""
        memory = restricted(memory, access.rights)
        desk = Desk(memory, access, limits_of(memory), checked_look(max_tokens))
        offered: list[MemoryTool] = [make(desk) for make in _READING]
        if access.write:
            offered += [make(desk) for make in _WRITING]
        self._tools = {tool.name: tool for tool in offered}
        self._resources = Resources(desk)
        self._seconds = seconds
        self._admit = admit
        self._declared = [_tool_declaration(tool) for tool in offered]

    def list_tools(self) -> Result:
        """Return the declarations of the tools."""
        return {"tools": self._declared}

    def has_tool(self, name: object) -> bool:
        """Whether `list_tools` declares a tool."""
        return isinstance(name, str) and name in self._tools

    def list_resources(self) -> Result:
        """Return the resources with a fixed URI."""
        return {"resources": LISTED}

    def list_resource_templates(self) -> Result:
        """Return the resources with an id in their URI."""
        return {"resourceTemplates": TEMPLATES}

    async def read_resource(self, uri: str, unknown: int) -> Result:
        """Return the content of a resource; `unknown` is the code of an unknown URI.

        Raises:
            ProtocolError: The URI is unknown, or the memory failed.
        """
        try:
            found: Result | None = await self._in_time(
                False, lambda: self._resources.read(uri)
            )
        except VecallError as error:
            raise ProtocolError(INTERNAL_ERROR, str(error)) from None
        except TimeoutError:
            raise ProtocolError(INTERNAL_ERROR, self._late_message) from None
        except Exception as error:
            _log_failure(error)
            raise ProtocolError(INTERNAL_ERROR, _FAILED) from None
        if found is None:
            raise ProtocolError(unknown, "There is no such resource.", {"uri": uri})
        return found

    def list_prompts(self) -> Result:
        """Return the prompts that a person may choose."""
        return {"prompts": [_PROMPT]}

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None) -> Result:
        """Return a prompt: it asks the model to search.

        Raises:
            ProtocolError: There is no such prompt, or it lacks its argument.
        """
        topic = (arguments or {}).get("topic", "").strip()
        if name != _PROMPT["name"]:
            raise ProtocolError(INVALID_PARAMS, "There is no such prompt.")
        if not topic:
            raise ProtocolError(INVALID_PARAMS, "topic: must not be blank")
        text = f"Search memory for this, and tell me what you find: {topic}"
        content = {"type": "text", "text": text}
        return {
            "description": _PROMPT["description"],
            "messages": [{"role": "user", "content": content}],
        }

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None) -> Result:
        """Return the answer of a tool; an error of the tool has `isError`.

        Raises:
            ProtocolError: There is no such tool.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, "There is no such tool.")
        given = {} if arguments is None else arguments
        writes = not HINTS[name]["readOnlyHint"]
        try:
            answer = await self._in_time(writes, lambda: tool.call(given))
        except VecallError as error:
            return _error_result(str(error))
        except TimeoutError:
            return _error_result(self._late_message)
        except Exception as error:
            _log_failure(error)
            return _error_result(_FAILED)
        if "error" in answer:
            return _error_result(answer["error"])
        text = json.dumps(answer, ensure_ascii=False)
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": answer,
            "isError": False,
        }

    async def _in_time(
        self, writes: bool, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        async with nullcontext() if self._admit is None else self._admit(writes):
            async with asyncio.timeout(self._seconds):
                return await work()

    @property
    def _late_message(self) -> str:
        return _LATE.format(self._seconds)


def _tool_declaration(tool: MemoryTool) -> Result:
    title = TITLES[tool.name]
    return {
        "name": tool.name,
        "title": title,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "outputSchema": ANSWERS[tool.name],
        "annotations": {"title": title, **HINTS[tool.name]},
    }


def _error_result(message: str) -> Result:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _log_failure(error: Exception) -> None:
    """Log the type of an unexpected error, not its message, which may hold text."""
    _log.error("a request failed: %s", type(error).__name__)
