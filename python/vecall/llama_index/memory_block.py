"""VecallMemoryBlock: long-term memory of one user for LlamaIndex's `Memory`."""

from __future__ import annotations

import re
import time
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock

from vecall.errors import VecallError
from vecall.prompts.budget import estimate_tokens
from vecall.service.memory_service import MemoryService
from vecall.tools import PreloadMemory, UnaskedFloor
from vecall.types import UNSET, Event

_ROLES = ("user", "assistant")
_BULLET = re.compile(r"\n(?=- )")


class VecallMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory of one user as a block of LlamaIndex's `Memory`.

    Reading searches for the last user message and returns the memories as bullets;
    a failing search is logged without content and returns "". Messages that leave the
    short-term memory are stored, durably, as turns of their session; messages of other
    roles than user and assistant are not. Recalled text is not stored again.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        name: The name of the block.
        description: What the block holds.
        priority: 0 is never truncated.
        max_entries: Maximum number of memories in the block.
        max_tokens: Maximum number of tokens of the block.
        min_confidence: The least confidence of a memory, in [0, 1]; default: that of
            the service, or 0.2. See `vecall.tools.PreloadMemory`.

    Raises:
        InvalidArgumentError: A name or a number is invalid.
    """

    _user: Any = PrivateAttr()
    _preload: Any = PrivateAttr()

    def __init__(
        self,
        memory: MemoryService,
        app_name: str,
        user_id: str,
        *,
        name: str = "long_term_memory",
        description: str | None = "Long-term memories of the user.",
        priority: int = 1,
        max_entries: int = 5,
        max_tokens: int = 1_000,
        min_confidence: UnaskedFloor = UNSET,
    ) -> None:
        """Bind the block to one user."""
        super().__init__(name=name, description=description, priority=priority)
        self._user = memory.user(app_name, user_id)
        self._preload = PreloadMemory(
            memory,
            app_name,
            user_id,
            max_entries=max_entries,
            max_tokens=max_tokens,
            min_confidence=min_confidence,
            format="bullets",
        )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> VecallMemoryBlock:
        """Return a copy that shares the service."""
        del memo
        copied: VecallMemoryBlock = self.__copy__()
        return copied

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> str:
        """Return the memories for the last user message; "" without one."""
        del block_kwargs  # options of other blocks
        for message in reversed(messages or []):
            if message.role.value == "user" and (message.content or "").strip():
                block: str = await self._preload.block(message.content)
                return block
        return ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store the texts of user and assistant messages as turns of their session.

        Raises:
            VecallError: The turns could not be stored.
        """
        now = time.time()
        by_session: dict[str | None, list[Event]] = {}
        for at, message in enumerate(messages):
            text = message.content or ""
            if message.role.value in _ROLES and text.strip():
                session = message.additional_kwargs.get("session_id")
                event = Event(text, author=message.role.value, timestamp=now + at / 1e6)
                by_session.setdefault(session, []).append(event)
        failure: VecallError | None = None
        for session, events in by_session.items():
            try:
                await self._user.add_events(events, session_id=session)
            except VecallError as error:  # the other sessions do not pay for it
                failure = failure or error
        if failure is not None:
            raise failure

    async def atruncate(self, content: Any, tokens_to_truncate: int) -> Any:
        """Drop the last bullets until so many tokens are saved.

        Args:
            content: The block: a text, or LlamaIndex's content blocks.
            tokens_to_truncate: Number of tokens to save.

        Returns:
            The shorter block, of the same type; None if no bullet is left.
        """
        is_text = isinstance(content, str)
        text = (
            content if is_text else "\n".join(getattr(b, "text", "") for b in content)
        )
        most = estimate_tokens(text) - tokens_to_truncate
        bullets = _BULLET.split(text)
        while len(bullets) > 1:
            bullets.pop()
            shorter = "\n".join(bullets)
            if len(bullets) > 1 and estimate_tokens(shorter) <= most:
                return shorter if is_text else [TextBlock(text=shorter)]
        return None
