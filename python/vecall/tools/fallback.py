"""A search that falls back to words if the embedder fails."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from vecall.errors import ConfigError, EmbedderError
from vecall.service.memory_service import MemoryService
from vecall.tools.any_service import found_by, taken
from vecall.types import SearchMemoryResponse

_log = logging.getLogger("vecall")


async def search_with_fallback(
    memory: Any, **arguments: Any
) -> tuple[SearchMemoryResponse, bool]:
    """Search; if the embedder fails, search by words. Return whether it failed.

    A model's turn is worth more than the better half of an answer. The log says it. A
    floor on the cosine, given here or to the service, does not apply to a search by
    words, which has no cosine; a floor on the confidence does.
    Of a service that takes no `top_k` the best so many are returned.

    Args:
        memory: The memory service, of vecall or another library.
        arguments: The arguments of vecall's `search_memory`.

    Raises:
        ConfigError: A floor or a filter that this service's search does not have.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    known = taken(memory.search_memory, given)
    if missing := given.keys() - known.keys() - {"top_k"}:
        msg = f"{', '.join(sorted(missing))}: this memory service's search has none"
        raise ConfigError(msg)
    try:
        found = found_by(await memory.search_memory(**known))
        return SearchMemoryResponse(found.memories[: arguments.get("top_k")]), False
    except EmbedderError as error:
        if not isinstance(memory, MemoryService):
            raise
        _log.warning("searched by words alone: %s", error)
    words = replace(memory.ranking, fusion="words")
    known.pop("min_similarity", None)
    return await memory.search_memory(**known, ranking=words), True
