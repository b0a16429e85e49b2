"""Write hooks: a callback that reviews every memory before it is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from vecall.errors import InvalidArgumentError
from vecall.filters.rights import check_trust_tier
from vecall.scalars import Shown, make_fields_exact
from vecall.types import MemoryEntry


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PendingWrite(Shown):
    """A memory that is about to be written.

    Attributes:
        app_name: The app.
        user_id: The user.
        memory: The memory.
    """

    app_name: str
    user_id: str
    memory: MemoryEntry


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Verdict(Shown):
    """The result of a review.

    Attributes:
        outcome: "allow" writes the memory. "redact" writes `text` in its place.
            "quarantine" hides it from searches until `release_memory` releases it.
            "reject" does not write it.
        text: The replacement text of "redact"; a blank one writes nothing.
        trust: Upper bound of the memory's trust, one of `vecall.TRUST_TIERS`. Lowers
            the trust, never raises it. None does not change it.
    """

    outcome: Literal["allow", "redact", "quarantine", "reject"]
    text: str | None = None
    trust: str | None = None

    def __post_init__(self) -> None:
        """Check that "redact", and no other outcome, has a text."""
        make_fields_exact(self)
        outcome: object = self.outcome
        known = ("allow", "redact", "quarantine", "reject")
        if type(outcome) is not str or outcome not in known:
            msg = "outcome: must be allow, redact, quarantine or reject"
            raise InvalidArgumentError(msg)
        if isinstance(self.text, str) != (self.outcome == "redact"):
            msg = "text: must be a string for redact, and None for other outcomes"
            raise InvalidArgumentError(msg)
        if self.trust is not None:
            check_trust_tier(self.trust, "trust")


ALLOW = Verdict("allow")
QUARANTINE = Verdict("quarantine")
REJECT = Verdict("reject")


def redact(text: str) -> Verdict:
    """Return a verdict that replaces a memory's text."""
    return Verdict("redact", text)


WriteHook = Callable[[PendingWrite], Verdict | Awaitable[Verdict]]
"""Reviews a write; a function or coroutine function. It runs off the event loop. If it
fails, the call writes nothing.

A hook may search the service that calls it, and write to other services. A write to its
own service would deadlock, so it raises `ReentrantCallError`. If the hook does not
catch that, its own write fails with `WriteHookError`. Calls from threads that a hook
starts are recognised only if they run in a copy of the hook's context, as with
`asyncio.to_thread`."""
