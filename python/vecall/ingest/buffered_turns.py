"""Buffered turns: their JSON form, and the drafts made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from vecall.content import text_parts
from vecall.store import BufferedTurn, Draft, memory_id
from vecall.summaries import SessionSummary, compaction_of

T = TypeVar("T")
Paced = Callable[[Iterable[T]], Iterator[T]]
"""Iterates over items and yields to other threads."""

_SAME = {
    "id": "event",
    "author": "author",
    "timestamp": "ts",
    "kind": "kind",
    "source": "source",
    "trust": "trust",
    "importance": "importance",
}
"""Fields of a draft by the name of the same field in an event."""


def event_of(draft: Draft) -> dict[str, Any]:
    """Return a draft as a mapping; `drafts_of` reverses it."""
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
    """Return turns and compactions, by id, as buffered; None for what was refused."""
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
    """Split a session after each compaction; the last part has none."""
    parts: list[tuple[list[object], SessionSummary | None]] = []
    part: list[object] = []
    for event in paced(events):
        part.append(event)
        summary = compaction_of(event)
        if summary is not None:
            parts.append((part, summary))
            part = []
    return [*parts, (part, None)]


def drafts_of(
    turns: Iterable[BufferedTurn], session: str, paced: Paced[BufferedTurn] = iter
) -> list[Draft]:
    """Return the drafts of turns; skip compactions."""
    return [
        _draft_of_turn(turn, session)
        for turn in paced(turns)
        if "content" in turn.event
    ]


def _draft_of_turn(turn: BufferedTurn, session: str) -> Draft:
    event = turn.event
    content = event["content"]
    meta = dict(event.get("custom_metadata", {}))
    ttls = {name: meta.pop(name, None) for name in ("ttl", "revision_ttl")}
    labels: dict[str, Any] = {own: event.get(name) for name, own in _SAME.items()}
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
        **labels,
    )


def compaction_id(session: str, summary: SessionSummary) -> str:
    """Return the id of a compaction in its session."""
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
    """Whether a turn is quarantined and must not be summarized."""
    return "quarantined" in turn.event


def is_covered(turn: BufferedTurn, summary: SessionSummary, *, precedes: bool) -> bool:
    """Whether a compaction summarizes a turn; `precedes` decides without a time."""
    time, end = turn.event.get("timestamp"), summary.end_timestamp
    if "content" not in turn.event:
        return False
    return precedes if time is None or end is None else bool(time <= end)


class FirstCompaction(NamedTuple):
    """The first compaction: its summary, and itself with the turns that it covers."""

    summary: SessionSummary
    turns: list[BufferedTurn]


def first_compaction(turns: Sequence[BufferedTurn]) -> FirstCompaction | None:
    """Return the first compaction with its turns; quarantined turns stay buffered."""
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
    """Return the ids of new turns that an earlier compaction summarizes."""
    summaries = (items[id_] for id_ in items if id_ in known)
    ends = (
        item.end_timestamp for item in summaries if isinstance(item, SessionSummary)
    )
    end = max((end for end in ends if end is not None), default=-math.inf)
    return {
        id_
        for id_, item in items.items()
        if id_ not in known
        and isinstance(item, Draft)
        and item.ts is not None
        and item.ts <= end
    }
