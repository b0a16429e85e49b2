"""The condition of the memories that exist for a caller, in SQL."""

from __future__ import annotations

from functools import lru_cache

from vecall.filters.rights import FULL, Rights
from vecall.filters.trust import tiers_from


def visible(rights: Rights) -> str:
    """Return a condition on `mem` that the memories meet which a caller sees.

    It is empty if the caller sees all memories; otherwise it begins with AND.
    """
    return "" if rights is FULL else _visible(rights)


@lru_cache(maxsize=32)
def _visible(rights: Rights) -> str:
    condition = above_floor(rights)
    return condition if rights.review else f"{condition} AND mem.state <> 'quarantined'"


def above_floor(rights: Rights) -> str:
    """Return the part of `visible` that concerns trust."""
    if rights.min_trust is None or not rights.has_floor:
        return ""
    tiers = ", ".join(f"'{tier}'" for tier in tiers_from(rights.min_trust))
    return f" AND mem.trust IN ({tiers})"
