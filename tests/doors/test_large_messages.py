"""A photo of 20 MB in a conversation: kept as it is, and nobody waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from helpers.awkward_turns import AFTER, AwkwardTurn
from helpers.framework_doors import STORES, require
from vecall import LimitExceededError, Limits, MemoryService

CONVERSATIONS = [
    "OpenAI Agents: `VecallSession`",
    "LangChain: `VecallChatMessageHistory`",
    "Agent Framework: `VecallHistoryProvider`",
]
WHO = ("hotel", "alice")


def photo_of(size: int) -> AwkwardTurn:
    parts = [
        {"type": "text", "text": "my photo"},
        {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * (size // 8)},
        },
    ]
    return AwkwardTurn("photo", {"role": "user", "content": parts}, "stored")


@pytest.mark.parametrize("door", CONVERSATIONS)
def test_a_photo_of_20_mb_comes_back_as_it_was(door: str, tmp_path: Path) -> None:
    package, keep = STORES[door]
    require(package)
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        given, found = keep(memory, photo_of(20_000_000))
    assert len(given) == 3
    assert found == given


@pytest.mark.parametrize("door", CONVERSATIONS)
def test_a_message_above_the_limit_costs_itself_alone(door: str) -> None:
    package, keep = STORES[door]
    require(package)
    with MemoryService(embedder=None, limits=Limits(max_item_bytes=100_000)) as memory:
        with pytest.raises(LimitExceededError):
            keep(memory, photo_of(200_000))
        (namespace,) = memory.items.sync.namespaces(app_name=WHO[0], user_id=WHO[1])
        items = memory.items.sync.find(namespace, app_name=WHO[0], user_id=WHO[1])
        assert len(items) == 3  # the neighbours, and the state of the list
        assert any(AFTER in str(item.value) for item in items)


async def longest_step(work: Awaitable[Any]) -> float:
    """The longest CPU time of the loop between two of its turns, in seconds."""
    task = asyncio.ensure_future(work)
    longest = 0.0
    while not task.done():
        begin = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - begin)
    await task
    return longest


def test_no_step_of_an_event_loop_is_long_for_a_photo(tmp_path: Path) -> None:
    """Encoding 20 MB as JSON takes over 50 ms."""
    require("agents")
    from vecall.openai_agents import VecallSession

    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        session = VecallSession("s", memory, *WHO)
        photo = dict(photo_of(20_000_000).message)

        async def steps() -> list[float]:
            return [
                await longest_step(session.add_items([photo])),
                await longest_step(session.get_items()),
                await longest_step(session.pop_item()),
            ]

        assert max(asyncio.run(steps())) < 0.03
