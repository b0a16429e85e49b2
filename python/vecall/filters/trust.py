"""The trust tiers and their order."""

from __future__ import annotations

from vecall.errors import InvalidArgumentError
from vecall.scalars import exact

TRUST_TIERS = (
    "first-party",
    "third-party-private",
    "third-party-public",
    "unverified",
    "unknown",
)
"""The tiers that vecall ranks, highest first. A tier of your own, or none, ranks as
"unknown"."""

_RANKS = {tier: rank for rank, tier in enumerate(reversed(TRUST_TIERS))}


def check_tier(tier: object, name: str) -> str:
    """Return a tier if it is one of `TRUST_TIERS`.

    Raises:
        InvalidArgumentError: Another value.
    """
    tier = exact(tier)
    if not isinstance(tier, str) or tier not in _RANKS:
        msg = f"{name}: must be one of {', '.join(TRUST_TIERS)}"
        raise InvalidArgumentError(msg)
    return tier


def reaches(tier: str | None, floor: str) -> bool:
    """Whether a tier ranks at least as high as another one.

    Args:
        tier: The tier; a tier of your own, or None, ranks as "unknown".
        floor: One of `TRUST_TIERS`.
    """
    return _RANKS.get(tier or "", 0) >= _RANKS[floor]


def tiers_from(floor: str) -> tuple[str, ...]:
    """Return the tiers that rank at least as high as one of `TRUST_TIERS`."""
    return tuple(tier for tier in TRUST_TIERS if reaches(tier, floor))


def exceeds(tier: str | None, ceiling: str) -> bool:
    """Whether a tier ranks above another one; None ranks as "unknown"."""
    return _RANKS.get(tier or "", 0) > _RANKS[ceiling]


def at_most(tier: str | None, ceiling: str | None) -> str | None:
    """Return a tier that ranks no higher than a ceiling.

    Args:
        tier: The tier. A tier of your own becomes the ceiling, because its rank is
            unknown. None stays None.
        ceiling: One of `TRUST_TIERS`; None lowers nothing.
    """
    if tier is None or ceiling is None:
        return tier
    return ceiling if tier not in _RANKS or exceeds(tier, ceiling) else tier
