"""Memory tools in use: what they asked the service, and what a model gets to read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from typing import Any

from vecall import MemoryService, SearchMemoryResponse
from vecall.tools import ForgetMemory, LoadMemory, MemoryTool, RecallMemory, Remember

from helpers.memories import ALICE

SCOPE = ("app", "alice")  # as ALICE, by position
ACTIVE = (LoadMemory, RecallMemory, Remember, ForgetMemory)
TOLD = [
    {"id": f"m{n}", "text": f"zebra {word}", "author": "user", "timestamp": 1_000.0 + n}
    for n, word in enumerate("one two three four five six seven eight nine ten".split())
]


class Watched(MemoryService):
    """A memory service that notes what every search asked for."""

    def __init__(self) -> None:
        super().__init__(embedder=None)
        self.searches: list[dict[str, Any]] = []

    async def search_memory(self, **asked: Any) -> SearchMemoryResponse:
        self.searches.append(asked)
        return await super().search_memory(**asked)


def watched_service() -> Iterator[Watched]:
    """For pytest.fixture: a watched service in which Alice has ten memories."""
    with Watched() as service:
        service.sync.add_memory(**ALICE, memories=TOLD)
        yield service


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def call(tool: MemoryTool, arguments: dict[str, Any], **turn: Any) -> dict[str, Any]:
    """Call a tool as a framework does: the answer goes through JSON."""
    answer = run(tool.call(arguments, **turn))
    text = json.dumps(answer, allow_nan=False, ensure_ascii=False)
    text.encode()  # no lone surrogates
    assert json.loads(text) == answer
    return answer


def ids(answer: dict[str, Any]) -> list[str]:
    return [memory["id"] for memory in answer["memories"]]
