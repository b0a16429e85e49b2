"""What calls that add memories return: an id for each item, or how many there were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LeftOutReason = Literal[
    "partial", "no_text", "rewound", "deleted", "expired", "evicted", "rejected"
]
"""Why an item of a call is not stored."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One item that was given and is not stored.

    Attributes:
        index: Its place in the call, from 0.
        reason: "partial": a piece of a streamed turn, which follows as a whole;
            "no_text": it has no text of its own; "rewound": a later rewind of the
            session takes it back; "deleted": it was deleted, and
            `restore=True` stores it again; "expired": its time to live was over
            before; "evicted": it had to make room for others before; "rejected":
            `on_write` refused it.
    """

    index: int
    reason: LeftOutReason


class AddedIds(list["str | None"]):
    """The ids of what a call stored or found stored, aligned with what it was given.

    Attributes:
        left_out: What is not stored, in order; at these places the list has None.
    """

    left_out: tuple[LeftOut, ...]

    def __init__(
        self, ids: Iterable[str | None] = (), left_out: Iterable[LeftOut] = ()
    ) -> None:
        """Hold the ids, and why there are none for some items."""
        super().__init__(ids)
        self.left_out = tuple(left_out)

    @property
    def stored(self) -> list[str]:
        """The ids without the gaps, each once."""
        return list(dict.fromkeys(id_ for id_ in self if id_ is not None))


class Imported(int):
    """How many memories an import wrote.

    Attributes:
        rejected: Memories, former versions and waiting turns that `on_write` refused;
            0 unless the import was judged.
        quarantined: Those of them that it quarantined, and that were not before.
    """

    rejected: int
    quarantined: int

    def __new__(cls, written: int, rejected: int = 0, quarantined: int = 0) -> Imported:
        """Hold the counts."""
        made = super().__new__(cls, written)
        made.rejected, made.quarantined = rejected, quarantined
        return made
