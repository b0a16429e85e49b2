"""Answers the requests of the protocol as plain JSON values.

A result has the field names of the protocol, so it fits every version of the SDK. The
resources belong to one user.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from urllib.parse import unquote

from vecall.concurrency.join import await_within
from vecall.errors import InvalidArgumentError, VecallError
from vecall.mcp import tools
from vecall.mcp.tools import Access, Desk
from vecall.prompts.render import render
from vecall.service.items import in_pages
from vecall.tools import base, output
from vecall.types import MemoryEntry, Page

Result = dict[str, Any]

RECENT = "memory://recent"
PROFILE = "memory://profile"
ONE = "memory://memories/"
_COUNT = 50
_PAGE = 1_000
_FRAME = 100  # tokens of a block besides its memories
_OF_PROFILE = {"kind": ("fact", "preference", "decision", "summary")}


def _text_resource(name: str, title: str, description: str, **uri: str) -> Result:
    about = {"name": name, "title": title, "description": description}
    return {**uri, **about, "mimeType": "text/plain"}


LISTED = [
    _text_resource(
        "recent", "Recent memories", "The newest memories of the user", uri=RECENT
    ),
    _text_resource(
        "profile",
        "Profile of the user",
        "The newest facts, preferences, decisions and summaries",
        uri=PROFILE,
    ),
]
"""The resources with a fixed URI."""

TEMPLATES = [
    _text_resource(
        "memory", "One memory", "A memory by its id", uriTemplate=ONE + "{id}"
    )
]
"""The resources with an id in their URI."""


INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_log = logging.getLogger("vecall.mcp")
_READING: tuple[type[tools.DeskTool], ...] = (
    tools.SearchMemory,
    tools.GetMemory,
    tools.ListMemories,
)
_WRITING: tuple[type[tools.DeskTool], ...] = (
    tools.AddMemory,
    tools.UpdateMemory,
    tools.DeleteMemory,
)

_PROMPT: dict[str, Any] = {
    "name": "recall",
    "title": "Recall",
    "description": "What is remembered of a topic",
    "arguments": [
        {"name": "topic", "description": "What to search for", "required": True}
    ],
}

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

    An answer has at most `max_tokens`, and a tool or a resource so many seconds. None
    is unlimited, and admits every call.
    """

    def __init__(
        self,
        memory: Any,
        access: Access,
        *,
        max_tokens: int | None = output.DEFAULT_MAX_TOKENS,
        seconds: float | None = None,
        admit: Admit | None = None,
    ) -> None:
        """Create the tools of one user."""
        memory = base.restrict_service(memory, access.rights)
        self._desk = Desk(memory, access, output.checked_look_options(max_tokens))
        kinds = (*_READING, *_WRITING) if access.write else _READING
        self._tools = {kind.name: kind(self._desk) for kind in kinds}
        self._seconds = seconds
        self._admit = admit
        offered = self._tools.values()
        self._declared = [tool.declaration_of_protocol() for tool in offered]

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
        """Return the content of a resource, or raise ProtocolError.

        `unknown` is the code of an unknown URI.
        """
        try:
            found: Result | None = await self._do_in_time(
                False, lambda: self._read_resource_content(uri)
            )
        except VecallError as error:
            raise ProtocolError(INTERNAL_ERROR, str(error)) from None
        if found is None:
            raise ProtocolError(unknown, "There is no such resource.", {"uri": uri})
        return found

    def list_prompts(self) -> Result:
        """Return the prompts that a person may choose."""
        return {"prompts": [_PROMPT]}

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None) -> Result:
        """Return a prompt, which asks the model to search, or raise ProtocolError."""
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
        """Return the answer of a tool; an error of a tool that exists has `isError`."""
        tool = self._tools.get(name)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, "There is no such tool.")
        given = {} if arguments is None else arguments
        writes = not tool.hints["readOnlyHint"]
        try:
            answer = await self._do_in_time(writes, lambda: tool.call(given))
        except VecallError as error:
            return _tool_error_result(str(error))
        if "error" in answer:
            return _tool_error_result(answer["error"])
        text = output.json_text(answer)
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": answer,
            "isError": False,
        }

    async def _read_resource_content(self, uri: str) -> dict[str, Any] | None:
        """Return the content of a resource; None for an unknown URI.

        The text is a block of `render`, which declares itself data. Copies of it are
        not stored.
        """
        if uri in (RECENT, PROFILE):
            entries = await self._newest_memories({} if uri == RECENT else _OF_PROFILE)
        elif uri.startswith(ONE):
            try:
                id_ = unquote(uri.removeprefix(ONE), errors="strict")
                entries = [await self._desk.get_readable_memory(id_)]
            except (InvalidArgumentError, UnicodeDecodeError):
                return None
        else:
            return None
        text = await asyncio.to_thread(self._render_fitting, entries)
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}

    def _render_fitting(self, entries: list[MemoryEntry]) -> str:
        """Return the first memories that fit as one block; long texts are cut."""
        if not entries:
            return "Nothing is remembered of this user."
        look = self._desk.look
        if look.max_tokens is None:
            return render(entries, "secure", scores=False)
        cost, left, shown = output.token_cost(look), look.max_tokens - _FRAME, []
        for piece in output.cut_output_to_limit(entries, "", left, cost):
            left -= cost(piece)
            if left < 0:
                break
            shown.append(output.with_part_notes(piece))
        return render(shown, "secure", scores=False)

    async def _newest_memories(self, condition: Mapping[str, Any]) -> list[MemoryEntry]:
        """Return the newest memories that pass a filter."""
        desk = self._desk

        def read(cursor: str | None, limit: int) -> Awaitable[Page[MemoryEntry]]:
            page: Awaitable[Page[MemoryEntry]] = desk.memory.list_memories(
                **desk.owner, cursor=cursor, limit=limit, filter=condition or None
            )
            return page

        newest: list[tuple[float, int, MemoryEntry]] = []
        number = 0
        async for page in in_pages(read, min(_PAGE, desk.limits.max_top_k)):
            for each in page:
                number += 1
                item = (output.time_of_memory(each) or 0.0, number, each)
                push = heapq.heappush if len(newest) < _COUNT else heapq.heappushpop
                push(newest, item)
        return [entry for *_, entry in sorted(newest, reverse=True)]

    async def _do_in_time(
        self, writes: bool, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Do a work that is admitted, or raise VecallError with what to tell of it."""
        try:
            async with nullcontext() if self._admit is None else self._admit(writes):
                return await await_within(self._seconds, work())
        except VecallError:
            raise
        except TimeoutError:
            msg = (
                f"There was no answer within {self._seconds:g} s; a write may come yet."
            )
            raise VecallError(msg) from None
        except Exception as error:  # its message may hold texts of memories
            _log.error("a request failed: %s", type(error).__name__)
            raise VecallError("The memory failed to answer.") from None


def _tool_error_result(message: str) -> Result:
    return {"content": [{"type": "text", "text": message}], "isError": True}
