"""Memory as a component of AutoGen. Needs vecall[autogen]."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from vecall.embedders.resolve import AUTO, EmbedderLike
from vecall.errors import ConfigError, InvalidTypeError, needs_extra
from vecall.item_collections import opened
from vecall.prompts.render import render, token_counter
from vecall.service.memory_service import MemoryService
from vecall.tools.base import at_least_one
from vecall.tools.output import shown_pieces, with_part_notes
from vecall.tools.preload import UnaskedFloor, checked_floor, search_unasked
from vecall.types import UNSET, FilterLike, MemoryEntry, Unset

with needs_extra(__name__, "autogen-core", "autogen"):
    from autogen_core import CancellationToken, Component
    from autogen_core.memory import (
        Memory,
        MemoryContent,
        MemoryMimeType,
        MemoryQueryResult,
        UpdateContextResult,
    )
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import SystemMessage, UserMessage
    from pydantic import BaseModel

__all__ = ["VecallMemory", "VecallMemoryConfig"]

T = TypeVar("T")

_log = logging.getLogger("vecall")
_OURS = "autogen"
_MIME_TYPE = "mime_type"
_JSON = "application/json"
_NONE = "none"
_TEXTS = ("text/plain", "text/markdown")


class VecallMemoryConfig(BaseModel):
    """The configuration of a `VecallMemory` over a file.

    Attributes:
        path: The file.
        app_name: The app.
        user_id: The user.
        embedder: A name that `MemoryService` takes; "none" searches by words. (AutoGen
            leaves None out of a configuration.)
        top_k: The most memories of a query.
        min_confidence: The least confidence of a memory; None is the default.
        max_tokens: The most tokens that `update_context` adds.
    """

    path: str
    app_name: str
    user_id: str
    embedder: str = AUTO
    top_k: int = 5
    min_confidence: float | None = None
    max_tokens: int = 1_000


class VecallMemory(Memory, Component[VecallMemoryConfig]):
    """The memory of one user, for an agent of AutoGen.

    It stores texts, Markdown and JSON objects with their metadata. A content that is
    added twice is two memories.

    Args:
        memory: The memory service, or the path of a file, which `close` then closes.
        app_name: The app.
        user_id: The user.
        embedder: As in `MemoryService`, for a path.
        top_k: The most memories of a query, at least 1.
        min_confidence: The least confidence of a memory, in [0, 1]. Default: that of
            the service; in `update_context`, which nobody asks, see
            `vecall.tools.PreloadMemory`.
        max_tokens: The most tokens that `update_context` adds, at least 1.

    Raises:
        InvalidArgumentError: A name or a number is invalid.
    """

    component_type = "memory"
    component_provider_override = "vecall.autogen.VecallMemory"
    component_config_schema = VecallMemoryConfig

    def __init__(
        self,
        memory: MemoryService | str | Path,
        app_name: str,
        user_id: str,
        *,
        embedder: EmbedderLike = AUTO,
        top_k: int = 5,
        min_confidence: UnaskedFloor = UNSET,
        max_tokens: int = 1_000,
    ) -> None:
        """Bind the memory to one user; open the file, if a path is given."""
        self._top_k = at_least_one(top_k, "top_k")
        self._max_tokens = at_least_one(max_tokens, "max_tokens")
        self._min_confidence = checked_floor(min_confidence)
        self._path = None if isinstance(memory, MemoryService) else str(memory)
        self._embedder = embedder
        self._memory, _ = opened(memory, app_name, user_id, embedder=embedder)
        self._user = self._memory.user(app_name, user_id)

    @property
    def name(self) -> str:
        """The name of the memory."""
        return "vecall"

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: CancellationToken | None = None,
    ) -> None:
        """Store a content, durably.

        Raises:
            InvalidTypeError: Neither a text, Markdown nor a JSON object.
            InvalidArgumentError: A blank text, or metadata that are not JSON.
        """
        text, mime_type = _text_of_autogen_content(content)
        own: dict[str, Any] = {_MIME_TYPE: mime_type}
        if content.metadata is not None:
            own[_OURS] = dict(content.metadata)
        entry = MemoryEntry(text, id=uuid4().hex, author="agent", custom_metadata=own)
        work = self._user.add([entry], verbatim=True)
        await _await_cancellable(work, cancellation_token)

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        *,
        top_k: int | None = None,
        min_confidence: float | None = None,
        filter: FilterLike | None = None,
        **unknown: Any,
    ) -> MemoryQueryResult:
        """Return the memories that are relevant to a query, best first.

        Args:
            query: A text, or a content with one.
            cancellation_token: Ends the query.
            top_k: The most memories; default: that of the memory.
            min_confidence: The least confidence; default: that of the memory.
            filter: Which memories may be returned, as in `MemoryService`.
            **unknown: Refused.

        Returns:
            The contents as they were added. Their metadata also have "id" and "score",
            the confidence, unless they have such keys of their own.

        Raises:
            InvalidArgumentError: An invalid number or filter.
            InvalidTypeError: An unknown argument, or a query without text.
        """
        if unknown:
            msg = "query: arguments are top_k, min_confidence and filter"
            raise InvalidTypeError(msg)
        text = query if isinstance(query, str) else _text_of_autogen_content(query)[0]
        least = self._min_confidence if min_confidence is None else min_confidence
        search = self._user.search(
            text,
            top_k=self._top_k if top_k is None else top_k,
            min_confidence=None if isinstance(least, Unset) else least,
            filter=filter,
        )
        found = await _await_cancellable(search, cancellation_token)
        return MemoryQueryResult(results=[_to_autogen_content(each) for each in found])

    async def update_context(
        self, model_context: ChatCompletionContext
    ) -> UpdateContextResult:
        """Add the memories for the last message of the user to a context.

        They come as one system message in the format "secure" of `vecall.render`. A
        memory that the context has already is not added again. If the search fails,
        nothing is added, and the logger "vecall" has a warning without content.

        Returns:
            The memories that were added.
        """
        messages = await model_context.get_messages()
        shown: list[MemoryEntry] = []
        try:
            if text := _last_user_message_text(messages):
                found = await search_unasked(
                    self._memory,
                    self._min_confidence,
                    app_name=self._user.app_name,
                    user_id=self._user.user_id,
                    query=text,
                    top_k=self._top_k,
                )
                shown = [each for each in found if not _is_in_context(each, messages)]
        except Exception as error:
            _log.warning("nothing was recalled: %s", type(error).__name__)
        count = token_counter(None)
        while shown:
            block = render([*map(with_part_notes, shown_pieces(shown))], "secure")
            if count(block) <= self._max_tokens:
                await model_context.add_message(SystemMessage(content=block))
                break
            shown.pop()
        results = [_to_autogen_content(each) for each in shown]
        return UpdateContextResult(memories=MemoryQueryResult(results=results))

    async def clear(self) -> None:
        """Delete all memories of the user permanently."""
        await self._user.delete_all(forget=True)

    async def close(self) -> None:
        """Close the file, if this object opened it."""
        if self._path is not None:
            await asyncio.to_thread(self._memory.close)

    @classmethod
    def _from_config(cls, config: VecallMemoryConfig) -> VecallMemory:
        given = config.model_dump(exclude_none=True)
        if config.embedder == _NONE:
            given["embedder"] = None
        return cls(given.pop("path"), **given)

    def _to_config(self) -> VecallMemoryConfig:
        embedder = _NONE if self._embedder is None else self._embedder
        if self._path is None or not isinstance(embedder, str):
            raise ConfigError(
                "a configuration needs a memory that was made with a path, and with "
                "the name of an embedder or None"
            )
        least = self._min_confidence
        return VecallMemoryConfig(
            path=self._path,
            app_name=self._user.app_name,
            user_id=self._user.user_id,
            embedder=embedder,
            top_k=self._top_k,
            min_confidence=None if least is UNSET else least or 0.0,
            max_tokens=self._max_tokens,
        )


async def _await_cancellable(work: Awaitable[T], token: CancellationToken | None) -> T:
    """Await work that a token of AutoGen may cancel."""
    if token is None:
        return await work
    task = asyncio.ensure_future(work)
    token.link_future(task)
    return await task


def _text_of_autogen_content(content: MemoryContent) -> tuple[str, str]:
    """Return the text to store, and the MIME type."""
    given = content.mime_type
    mime_type = given.value if isinstance(given, MemoryMimeType) else str(given)
    if mime_type in _TEXTS and isinstance(content.content, str):
        return content.content, mime_type
    if mime_type == _JSON and isinstance(content.content, Mapping):
        try:
            text = json.dumps(content.content, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidTypeError("content: expected a JSON object") from None
        return text, mime_type
    msg = "content: expected a text, Markdown or a JSON object, with its MIME type"
    raise InvalidTypeError(msg)


def _to_autogen_content(entry: MemoryEntry) -> MemoryContent:
    mime_type = entry.custom_metadata.get(_MIME_TYPE)
    own = entry.custom_metadata.get(_OURS)
    ours = {"id": entry.id, "score": entry.confidence}
    content: Any = entry.text
    if mime_type == _JSON:
        try:
            parsed = json.loads(entry.text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            content = parsed
        else:  # it was corrected by someone else
            mime_type = None
    known = mime_type in (*_TEXTS, _JSON)
    return MemoryContent(
        content=content,
        mime_type=MemoryMimeType(mime_type) if known else MemoryMimeType.TEXT,
        metadata={**ours, **own} if isinstance(own, Mapping) else ours,
    )


def _last_user_message_text(messages: Sequence[Any]) -> str:
    """Return the text of the user's last message; "" without one."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            content = message.content
            parts = [content] if isinstance(content, str) else content
            return "\n".join(part for part in parts if isinstance(part, str)).strip()
    return ""


def _is_in_context(entry: MemoryEntry, messages: Sequence[Any]) -> bool:
    mark = f' id="{entry.id}"'
    return any(
        isinstance(message, SystemMessage) and mark in message.content
        for message in messages
    )
