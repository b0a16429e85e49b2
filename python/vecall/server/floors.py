"""Limits the memories that a token may read, by a minimum tier of trust."""

from __future__ import annotations

from typing import Any

from vecall.errors import NotFoundError
from vecall.filters.trust import exceeds, reaches
from vecall.server.responses import HttpError
from vecall.server.tokens import Token
from vecall.types import MemoryEntry


def floored(token: Token, condition: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a filter that also applies the trust floor of a token."""
    if token.min_trust is None:
        return condition
    tier = (condition or {}).get("min_trust", token.min_trust)
    floor = tier if exceeds(tier, token.min_trust) else token.min_trust
    return {**(condition or {}), "min_trust": floor}


def may_read(token: Token, entry: MemoryEntry) -> bool:
    """Whether a memory is at or above the trust floor of a token."""
    return token.min_trust is None or reaches(entry.trust, token.min_trust)


def readable(token: Token, entry: MemoryEntry) -> MemoryEntry:
    """Return a memory if it is at or above the trust floor of a token.

    Raises:
        NotFoundError: The memory is below the floor, so the token must not learn that
            it exists.
    """
    if not may_read(token, entry):
        msg = "memory_id: this user has no such memory"
        raise NotFoundError(msg)
    return entry


def check_floorless(token: Token) -> None:
    """Refuse a token with a trust floor for an operation that cannot apply it.

    Raises:
        HttpError: 403.
    """
    if token.min_trust is not None:
        msg = "This needs a token without a floor on trust."
        raise HttpError(403, "trust", msg)
