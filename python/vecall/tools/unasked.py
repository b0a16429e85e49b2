"""The floor on memories that come into a model's context without being asked for."""

from __future__ import annotations

from typing import Any

from vecall.limits import UNASKED_CONFIDENCE
from vecall.ranking.options import Ranking
from vecall.tools.any_service import limits_of, takes
from vecall.tools.fallback import search_with_fallback
from vecall.types import MemoryEntry, Unset, check_share

UnaskedFloor = float | Unset | None
"""The `min_confidence` of what recalls memories by itself, such as `PreloadMemory`.

UNSET, the default, is the `min_confidence` of the service, or 0.2 if the service has
none. None is the service's alone, a number replaces both, and 0 lets everything pass.
"""


def checked_floor(floor: UnaskedFloor) -> UnaskedFloor:
    """Return a floor that is valid.

    Raises:
        InvalidArgumentError: A number outside [0, 1].
    """
    if isinstance(floor, Unset) or floor is None:
        return floor
    return check_share(floor, "min_confidence")


async def search_unasked(
    memory: Any, floor: UnaskedFloor, **arguments: Any
) -> list[MemoryEntry]:
    """Return the memories for a text with which nobody asked for memories.

    A floor also holds for services whose search takes none. There, and with the default
    floor, a memory without a confidence passes, as one of another library.

    Args:
        memory: The memory service, of vecall or another library.
        floor: The floor on the confidence.
        **arguments: The other arguments of vecall's `search_memory`.

    Raises:
        ConfigError: The service's search does not support the filter.
    """
    least = None if isinstance(floor, Unset) else floor
    most = arguments.get("top_k")
    own = getattr(memory, "min_confidence", None)
    if isinstance(floor, Unset) and own is None:
        least = UNASKED_CONFIDENCE
        ranking = getattr(memory, "ranking", None)
        if most and isinstance(ranking, Ranking) and not ranking.is_plain:
            # Sure memories may be far down; those below the floor take no place.
            depth = min(ranking.depth, limits_of(memory).max_top_k)
            arguments["top_k"] = max(most, depth)
    elif least is not None and takes(memory.search_memory, "min_confidence"):
        arguments["min_confidence"], least = floor, None
    found, _ = await search_with_fallback(memory, **arguments)
    passing = [
        each
        for each in found.memories
        if least is None or each.confidence is None or each.confidence >= least
    ]
    return passing[:most]
