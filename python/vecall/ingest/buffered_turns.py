"""Buffered turns: their JSON form, and the drafts that are made of them."""

from __future__ import annotations

import json
import math
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from vecall.content import text_parts
from vecall.store import BufferedTurn, Draft, memory_id
from vecall.summaries import SessionSummary, compaction_of

T = TypeVar("T")
Paced = Callable[[Iterable[T]], Iterator[T]]
"""Goes through some items, pausing where others have to be let in."""

_SAME = {
    "id": "event",
    "author": "author",
    "timestamp": "ts",
    "kind": "kind",
    "source": "source",
    "trust": "trust",
    "importance": "importance",
}
"""What an event calls the fields of a draft."""


def event_of(draft: Draft) -> dict[str, Any]:
    """Return a turn as a mapping, of which `drafts_of` makes the same draft again."""
    event: dict[str, Any] = {name: getattr(draft, own) for name, own in _SAME.items()}
    event["content"] = (
        draft.text if draft.content is None else json.loads(draft.content)
    )
    meta = {} if draft.meta is None else json.loads(draft.meta)
    for name in ("ttl", "revision_ttl"):
        if getattr(draft, name) is not None:
            meta[name] = getattr(draft, name)
    event["custom_metadata"] = meta or None
    event["quarantined"] = draft.quarantined or None
    return {name: value for name, value in event.items() if value is not None}


def events_of(
    new: Iterable[tuple[str, Draft | SessionSummary]],
    judged: Iterable[Draft],
    paced: Paced[tuple[str, Draft | SessionSummary]] = iter,
) -> dict[str, dict[str, Any] | None]:
    """Return turns and compactions in the form that is buffered.

    Args:
        new: The turns and compactions, each with its id.
        judged: Those of them that may be remembered, as they are to be.
        paced: Goes through them, pausing where others have to be let in.

    Returns:
        By id each as a mapping; None where it may not be remembered.
    """
    passed = {draft.id: draft for draft in judged}
    events: dict[str, dict[str, Any] | None] = {}
    for id_, item in paced(new):
        draft = passed.get(id_)
        if draft is None:
            events[id_] = None
        elif isinstance(item, SessionSummary):
            events[id_] = compaction_event(replace(item, summary=draft.text))
        else:
            events[id_] = event_of(draft)
    return events


def parted_by_compaction(
    events: Iterable[object], paced: Paced[object] = iter
) -> list[tuple[list[object], SessionSummary | None]]:
    """Return the parts of a session that end with a compaction, and what is left."""
    parts: list[tuple[list[object], SessionSummary | None]] = []
    some: list[object] = []
    for event in paced(events):
        some.append(event)
        summary = compaction_of(event)
        if summary is not None:
            parts.append((some, summary))
            some = []
    return [*parts, (some, None)]


def drafts_of(
    turns: Iterable[BufferedTurn], session: str, paced: Paced[BufferedTurn] = iter
) -> list[Draft]:
    """Return the drafts of what was said, without compactions."""
    return [_draft(turn, session) for turn in paced(turns) if "content" in turn.event]


def _draft(turn: BufferedTurn, session: str) -> Draft:
    event = turn.event
    content = event["content"]
    meta = dict(event.get("custom_metadata", {}))
    ttls = {name: meta.pop(name, None) for name in ("ttl", "revision_ttl")}
    several = isinstance(content, Mapping)
    return Draft(
        turn.id,
        "\n".join(text_parts(content)) if several else content,
        session=session,
        content=json.dumps(content, ensure_ascii=False) if several else None,
        meta=json.dumps(meta, sort_keys=True) if meta else None,
        ordered=True,
        quarantined=is_held(turn),
        **ttls,
        **{own: event.get(name) for name, own in _SAME.items()},
    )


def compaction_id(session: str, summary: SessionSummary) -> str:
    """Return what names a compaction in its session."""
    start, end = summary.start_timestamp, summary.end_timestamp
    return memory_id(session, "compaction", start, end, summary.summary)


def compaction_event(summary: SessionSummary) -> dict[str, Any]:
    """Return a compaction as the event that it came from."""
    compaction = {
        "start_timestamp": summary.start_timestamp,
        "end_timestamp": summary.end_timestamp,
        "compacted_content": {"parts": [{"text": summary.summary}]},
    }
    return {"actions": {"compaction": compaction}}


def is_held(turn: BufferedTurn) -> bool:
    """Whether a turn is in quarantine and must not be summarized."""
    return "quarantined" in turn.event


def is_covered(turn: BufferedTurn, summary: SessionSummary, *, precedes: bool) -> bool:
    """Whether a compaction sums a turn up.

    Args:
        turn: The turn.
        summary: What the compaction says.
        precedes: Whether the turn came before the compaction, which decides
            where one of them has no time.
    """
    time, end = turn.event.get("timestamp"), summary.end_timestamp
    if "content" not in turn.event:
        return False
    return precedes if time is None or end is None else bool(time <= end)


class FirstCompaction(NamedTuple):
    """The first compaction among turns that wait.

    Attributes:
        summary: What it says.
        turns: The compaction itself, and then the turns that it sums up.
    """

    summary: SessionSummary
    turns: list[BufferedTurn]


def first_compaction(turns: Sequence[BufferedTurn]) -> FirstCompaction | None:
    """Return the first compaction with what it sums up; turns in quarantine wait on."""
    for place, turn in enumerate(turns):
        summary = compaction_of(turn.event)
        if summary is not None:
            covered = [
                other
                for at, other in enumerate(turns)
                if not is_held(other)
                and is_covered(other, summary, precedes=at < place)
            ]
            return FirstCompaction(summary, [turn, *covered])
    return None


def covered_before(
    items: Mapping[str, Draft | SessionSummary], known: Collection[str]
) -> set[str]:
    """Return the ids of new turns that a compaction known already sums up.

    Args:
        items: The turns and compactions of a session, by id.
        known: The ids of those that an earlier call brought.
    """
    summaries = (items[id_] for id_ in items if id_ in known)
    ends = (
        each.end_timestamp for each in summaries if isinstance(each, SessionSummary)
    )
    end = max((end for end in ends if end is not None), default=-math.inf)
    return {
        id_
        for id_, each in items.items()
        if id_ not in known
        and isinstance(each, Draft)
        and each.ts is not None
        and each.ts <= end
    }
