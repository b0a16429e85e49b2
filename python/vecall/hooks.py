"""What may be remembered: a hook that sees every memory before it is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from vecall.errors import InvalidArgumentError
from vecall.filters.trust import check_tier
from vecall.types import MemoryEntry


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A memory that is about to be written.

    Attributes:
        app_name: The app.
        user_id: The user.
        memory: What is to be remembered.
    """

    app_name: str
    user_id: str
    memory: MemoryEntry


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a write.

    Attributes:
        outcome: "allow" writes it; "redact" writes `text` in its place; "quarantine"
            keeps it where no search finds it until `release_memory` releases it;
            "reject" does not write it.
        text: What is written in place of a redacted text; a blank one writes nothing.
        trust: The highest tier, of `vecall.TRUST_TIERS`, of what is written: its
            trust is lowered to it, and never raised; None leaves it as it is.
    """

    outcome: Literal["allow", "redact", "quarantine", "reject"]
    text: str | None = None
    trust: str | None = None

    def __post_init__(self) -> None:
        """Check that a text is there exactly where one is used."""
        if self.outcome not in ("allow", "redact", "quarantine", "reject"):
            msg = "outcome: must be allow, redact, quarantine or reject"
            raise InvalidArgumentError(msg)
        if isinstance(self.text, str) != (self.outcome == "redact"):
            msg = "text: is what a redacted memory says instead, and for no other"
            raise InvalidArgumentError(msg)
        if self.trust is not None:
            check_tier(self.trust, "trust")


ALLOW = Verdict("allow")
QUARANTINE = Verdict("quarantine")
REJECT = Verdict("reject")


def redact(text: str) -> Verdict:
    """Return the verdict that a memory is written with another text."""
    return Verdict("redact", text)


WriteHook = Callable[[PendingWrite], Verdict | Awaitable[Verdict]]
"""Judges a write; may be a coroutine function. It runs off the event loop. If it fails,
nothing of the call is written.

A hook may search the service that calls it, and write to another service. A write to
its own service would ask the hook again and wait for itself. It is refused with
`ReentrantCallError`; where the hook does not handle that, its own write fails with
`WriteHookError`. Calls from threads that a hook starts itself are recognised only if
they run in a copy of the hook's context, as those of `asyncio.to_thread` do."""
