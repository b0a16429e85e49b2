"""Turns as they are kept until memories are made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vecall._duck import texts_of
from vecall.store import Draft, Turn, memory_id
from vecall.summaries import SessionSummary

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
    told: dict[str, Any] = {name: getattr(draft, own) for name, own in _SAME.items()}
    told["content"] = draft.text if draft.content is None else json.loads(draft.content)
    meta = {} if draft.meta is None else json.loads(draft.meta)
    for name in ("ttl", "revision_ttl"):
        if getattr(draft, name) is not None:
            meta[name] = getattr(draft, name)
    told["custom_metadata"] = meta or None
    told["quarantined"] = draft.quarantined or None
    return {name: value for name, value in told.items() if value is not None}


def drafts_of(turns: Iterable[Turn], session: str) -> list[Draft]:
    """Return the drafts of what was said, without compactions."""
    return [_draft(turn, session) for turn in turns if "content" in turn.event]


def _draft(turn: Turn, session: str) -> Draft:
    told = turn.event
    content = told["content"]
    meta = dict(told.get("custom_metadata", {}))
    lives = {name: meta.pop(name, None) for name in ("ttl", "revision_ttl")}
    several = isinstance(content, Mapping)
    return Draft(
        turn.id,
        "\n".join(texts_of(content)) if several else content,
        session=session,
        content=json.dumps(content, ensure_ascii=False) if several else None,
        meta=json.dumps(meta, sort_keys=True) if meta else None,
        ordered=True,
        quarantined=is_held(turn),
        **lives,
        **{own: told.get(name) for name, own in _SAME.items()},
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


def is_held(turn: Turn) -> bool:
    """Whether a turn is in quarantine, so that nobody may sum it up."""
    return "quarantined" in turn.event


def is_covered(turn: Turn, summary: SessionSummary, *, stands_before: bool) -> bool:
    """Whether a compaction sums a turn up.

    Args:
        turn: The turn.
        summary: What the compaction says.
        stands_before: Whether the turn was told before the compaction, which decides
            where one of them has no time.
    """
    time, end = turn.event.get("timestamp"), summary.end_timestamp
    if "content" not in turn.event:
        return False
    return stands_before if time is None or end is None else bool(time <= end)
