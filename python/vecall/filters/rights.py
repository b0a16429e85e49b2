"""Which memories of a user a caller may see and change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vecall.errors import InvalidArgumentError, InvalidTypeError, Right, RightsError
from vecall.scalars import Shown, exact, make_fields_exact
from vecall.types import Filter, as_names

# The trust tiers and their order.

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


def check_trust_tier(tier: object, name: str) -> str:
    """Return a tier if it is one of `TRUST_TIERS`."""
    tier = exact(tier)
    if not isinstance(tier, str) or tier not in _RANKS:
        raise InvalidArgumentError(f"{name}: must be one of {', '.join(TRUST_TIERS)}")
    return tier


def reaches(tier: str | None, floor: str) -> bool:
    """Whether a tier ranks at least as high; one of your own, or none, is "unknown"."""
    return _RANKS.get(tier or "", 0) >= _RANKS[floor]


def tiers_from(floor: str) -> tuple[str, ...]:
    """Return the tiers that rank at least as high as one of `TRUST_TIERS`."""
    return tuple(tier for tier in TRUST_TIERS if reaches(tier, floor))


def tier_exceeds(tier: str | None, ceiling: str) -> bool:
    """Whether a tier ranks above another one; None ranks as "unknown"."""
    return _RANKS.get(tier or "", 0) > _RANKS[ceiling]


def cap_trust_tier(tier: str | None, ceiling: str | None) -> str | None:
    """Return a tier that ranks no higher than a ceiling; None lowers nothing."""
    # A tier of your own becomes the ceiling, because its rank is unknown.
    if tier is None or ceiling is None:
        return tier
    return ceiling if tier not in _RANKS or tier_exceeds(tier, ceiling) else tier


def may_correct_tier(tier: str | None, own: str | None) -> bool:
    """Whether a writer whose memories have the tier `own` may correct a memory."""
    return tier in (None, TRUST_TIERS[-1], own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a writer may say about the memories that it writes."""

    # The highest tier, of `TRUST_TIERS`, which a memory without one gets; None: any.
    max_trust: str | None = None
    source: str | None = None  # of all of them; None: the writer chooses
    author: str | None = None  # of all of them; None: the writer chooses

    def check_claimed_names(self, told: Mapping[str, Any]) -> None:
        """Refuse another source or author than the writer's."""
        bound: tuple[tuple[Right, str | None, tuple[str, ...]], ...] = (
            ("source", self.source, ("source",)),
            ("author", self.author, ("author", "role")),
        )
        for right, name, fields in bound:
            if name and any(told.get(each, name) != name for each in fields):
                msg = f"This caller is bound to another {right}; leave it out."
                raise RightsError(msg, right)

    def stamp_memory(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return a memory with the trust, source and author that it is stored with.

        Raises:
            RightsError: It claims a value that the writer may not give.
        """
        self.check_claimed_names(told)
        made = dict(told)
        if self.max_trust is not None:
            tier = made.setdefault("trust", self.max_trust)
            if tier not in _RANKS or tier_exceeds(tier, self.max_trust):
                below = TRUST_TIERS[TRUST_TIERS.index(self.max_trust) :]
                msg = f"For this caller trust must be one of {', '.join(below)}."
                raise RightsError(msg, "trust")
        if self.source is not None:
            made["source"] = self.source
        if self.author is not None:
            made.pop("role", None)
            made["author"] = self.author
        return made


QUARANTINED = "quarantined"


@dataclass(frozen=True, kw_only=True, repr=False)
class Rights(Shown):
    """The rights of a caller; `MemoryService.restricted` takes them.

    A memory is hidden if its trust is below `min_trust`, or if it is quarantined and
    `review` is False. A hidden memory does not exist for the caller: no call returns,
    counts, changes or deletes it, and it is no cursor. Exceptions:

    - A write of the id of a memory below `min_trust` is left out as "taken", unless it
      says the same. A write of the id of a quarantined memory is stored as a new one;
      the former text stays in the history.
    - The scores of a search depend on the words of all live memories of the user, and
      so does which neighbours of a match it adds.
    - Quotas count all memories of the user.
    - `delete_user` also deletes quarantined memories, without counting them.

    With `min_trust`, exports, consolidation and `delete_user(forget=True)` are refused.
    Without full rights, `admin` only lists apps and users, with what the caller sees,
    exports single users and loads them.

    Attributes:
        min_trust: The lowest tier, of `TRUST_TIERS`, of memories that the caller sees
            and changes; None: any.
        review: Whether the caller sees quarantined memories, and may release them.
        read_only: Whether every write is refused.

    Raises:
        InvalidArgumentError: An unknown tier.
        InvalidTypeError: A flag is not a bool.
    """

    min_trust: str | None = None
    review: bool = True
    read_only: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        make_fields_exact(self)
        if self.min_trust is not None:
            check_trust_tier(self.min_trust, "min_trust")
        for name in ("review", "read_only"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidTypeError(f"{name}: expected True or False")

    @property
    def is_full(self) -> bool:
        """Whether nothing is hidden and everything may be done."""
        return self == FULL

    @property
    def has_floor(self) -> bool:
        """Whether some tiers are hidden; every memory reaches the lowest one."""
        return self.min_trust not in (None, TRUST_TIERS[-1])

    def trusts(self, tier: str | None) -> bool:
        """Whether a tier of trust is not below the floor."""
        return self.min_trust is None or reaches(tier, self.min_trust)

    def sees(self, tier: str | None, state: str) -> bool:
        """Whether a memory of this trust and state exists for the caller."""
        return (self.review or state != QUARANTINED) and self.trusts(tier)

    def narrowed(self, conditions: Filter | None) -> Filter | None:
        """Return a filter that also excludes what is below the floor.

        Args:
            conditions: A filter that `check_filter` returned, or None.

        Returns:
            The filter; None if no memory can pass it.
        """
        if self.min_trust is None or not self.has_floor:
            return conditions or Filter()
        if conditions is None or conditions.trust is None:
            tiers = tiers_from(self.min_trust)
        else:
            tiers = tuple(filter(self.trusts, as_names(conditions.trust)))
        return replace(conditions or Filter(), trust=tiers) if tiers else None

    def with_limits_of(self, other: Rights) -> Rights:
        """Return what both allow."""
        floor = self.min_trust
        if other.min_trust is not None and (
            floor is None or tier_exceeds(other.min_trust, floor)
        ):
            floor = other.min_trust
        return Rights(
            min_trust=floor,
            review=self.review and other.review,
            read_only=self.read_only or other.read_only,
        )

    def require_all(self) -> None:
        """Refuse a call that concerns all memories; see the other two."""
        self.require_all_tiers()
        self.require_review()

    def require_all_tiers(self) -> None:
        """Refuse a call that concerns memories of every trust.

        Raises:
            RightsError: There is a floor.
        """
        if self.has_floor:
            raise RightsError("This needs rights without a floor on trust.", "trust")

    def require_review(self) -> None:
        """Refuse a call that shows or releases quarantined memories.

        Raises:
            RightsError: `review` is False.
        """
        if not self.review:
            raise RightsError("This needs the right to review.", "review")


FULL = Rights()
"""The rights of the program that opened the memory: nothing is hidden."""


def checked_rights(rights: object) -> Rights:
    """Return rights."""
    if not isinstance(rights, Rights):
        raise InvalidTypeError("rights: expected a vecall.Rights")
    return rights
