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

    The fallback keeps an agent's turn working when embedding fails, and logs a warning.
    A search by words has no cosine: the floor on the cosine, of the call or of the
    service, does not apply to it. The floor on the confidence does. If the service's
    search takes no `top_k`, this function cuts the result to `top_k` memories.

    Args:
        memory: The memory service, of vecall or another library.
        arguments: The arguments of vecall's `search_memory`.

    Raises:
        ConfigError: The service's search does not support a floor or the filter.
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
