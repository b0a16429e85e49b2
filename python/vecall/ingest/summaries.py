"""Summaries as memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from vecall.content import to_valid_utf8
from vecall.store import Draft, memory_id
from vecall.summaries import SessionSummary

SUMMARY = "summary"
"""The kind of a memory that summarizes others."""


def summary_drafts(
    summaries: Sequence[SessionSummary],
    session: str | None,
    covered: Iterable[str],
    *,
    source: str,
    trust: str | None,
) -> list[Draft]:
    """Return drafts of the summaries of a session.

    Their ids derive from the ids they cover, so a retry after an unknown outcome
    replaces the first summary.

    Args:
        summaries: The summaries.
        session: The session; None for summaries of facts.
        covered: The ids of the summarized turns.
        source: The creator of the summaries.
        trust: The trust tier of the turns.
    """
    names = sorted(covered)
    drafts = []
    for number, summary in enumerate(summaries):
        text = to_valid_utf8("\n".join([summary.summary.strip(), *summary.key_facts]))
        metadata = {
            "topics": [to_valid_utf8(topic) for topic in summary.topics],
            "key_facts": [to_valid_utf8(fact) for fact in summary.key_facts],
            "start_timestamp": summary.start_timestamp,
            "end_timestamp": summary.end_timestamp,
            "event_count": summary.event_count,
        }
        meta = {
            name: value for name, value in metadata.items() if value not in (None, [])
        }
        drafts.append(
            Draft(
                memory_id(session, SUMMARY, *names, float(number)),
                text,
                session=session,
                ts=summary.end_timestamp,
                kind=SUMMARY,
                source=source,
                trust=trust,
                meta=json.dumps(meta, sort_keys=True) if meta else None,
            )
        )
    return drafts


def as_one(summaries: Sequence[SessionSummary], turns: int) -> SessionSummary:
    """Merge summaries of a number of turns into one.

    Their event counts are not added: they may cover the same turns.
    """
    starts = [summary.start_timestamp for summary in summaries]
    ends = [summary.end_timestamp for summary in summaries]
    return SessionSummary(
        "\n".join(summary.summary.strip() for summary in summaries),
        topics=tuple(dict.fromkeys(t for summary in summaries for t in summary.topics)),
        key_facts=tuple(
            dict.fromkeys(f for summary in summaries for f in summary.key_facts)
        ),
        start_timestamp=min((t for t in starts if t is not None), default=None),
        end_timestamp=max((t for t in ends if t is not None), default=None),
        event_count=turns,
    )


def lowest_trust(tiers: Iterable[str | None]) -> str | None:
    """Return the tier that all share; None (unknown) if they differ."""
    found = set(tiers)
    return found.pop() if len(found) == 1 else None
