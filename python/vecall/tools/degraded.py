"""A search that an embedder's failure does not end."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from vecall.errors import EmbedderError
from vecall.service import MemoryService
from vecall.types import SearchMemoryResponse

_log = logging.getLogger("vecall")


async def search_or_words(
    memory: MemoryService, **asked: Any
) -> tuple[SearchMemoryResponse, bool]:
    """Search, by words alone where the embedder fails, and say whether it came to that.

    A model's turn is worth more than the better half of an answer. The log says it.

    Args:
        memory: The memory service.
        asked: What `search_memory` takes.
    """
    try:
        return await memory.search_memory(**asked), False
    except EmbedderError as error:
        if not isinstance(memory, MemoryService):
            raise
        _log.warning("searched by words alone: %s", error)
    words = replace(memory.ranking, fusion="words")
    return await memory.search_memory(**asked, ranking=words), True
