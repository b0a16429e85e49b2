"""Remembers what was said in a session, from its transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vecall.coding_agents.recall import Owner
from vecall.coding_agents.transcript import Turn
from vecall.errors import InvalidArgumentError
from vecall.service.memory_service import MemoryService
from vecall.timestamps import to_seconds
from vecall.types import Event

_AT_ONCE = 256


def retain(
    memory: MemoryService,
    owner: Owner,
    session_id: str,
    turns: Sequence[Turn],
    left: Callable[[], float],
) -> tuple[int, int]:
    """Store the turns of a session, as an upsert by id.

    Turns that are stored already cost little. Each transaction has 256 turns, so that
    a long transcript is stored by several hooks if one is ended by its deadline.

    Args:
        memory: The memory service.
        owner: The app and the user.
        session_id: The session.
        turns: The turns in order.
        left: Returns the seconds that are left. At 0.2 no transaction is begun.

    Returns:
        The number of turns that were refused, and of those that no time was left for.
    """
    refused = 0
    for at in range(0, len(turns), _AT_ONCE):
        if left() < 0.2:
            return refused, len(turns) - at
        chunk = [_event(turn) for turn in turns[at : at + _AT_ONCE]]
        try:
            added = memory.sync.add_events_to_memory(
                app_name=owner.app_name,
                user_id=owner.user_id,
                session_id=session_id,
                events=chunk,
            )
        except InvalidArgumentError:
            refused += len(chunk)
        else:
            refused += sum(each.reason == "invalid" for each in added.left_out)
    return refused, 0


def _event(turn: Turn) -> Event:
    return Event(
        turn.text,
        author=turn.author,
        timestamp=_seconds(turn.timestamp),
        id=turn.id,
        custom_metadata=dict(turn.metadata),
    )


def _seconds(moment: str | None) -> float | None:
    """Return a time in seconds since 1970; None for one that is not a time."""
    try:
        return None if moment is None else to_seconds(moment, "timestamp")
    except ValueError:
        return None
