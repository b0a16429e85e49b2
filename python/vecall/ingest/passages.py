"""Splits a text that is too long for one memory into passages of one turn or fact.

The passages joined are the text. The first one has the id of the turn; the ids of the
others derive from it (`vecall.store.passage_id`).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from vecall.content import to_valid_utf8
from vecall.limits import Limits
from vecall.store import Draft, make_memory_id, passage_id
from vecall.summaries import SessionSummary

PASSAGE_BYTES = 16_384
"""Bytes of a passage in UTF-8, unless `max_text_bytes` is smaller."""

_BORDERS = (b"\n\n", b"\n", b". ", "。".encode(), b" ")
"""Where a text is split: after a paragraph, a line, a sentence or a word."""

_LONGEST_CHARACTER = 64  # code points that one visible character may have
_JOINER = "\u200d"


class Passages(list[Draft]):
    """The drafts of one turn or fact whose text is too long, in order."""


def needs_passages(text: str, limits: Limits) -> bool:
    """Return whether a text is too long for one memory."""
    most, count = limits.max_text_bytes, len(text)
    if 4 * count <= most or (count <= most and text.isascii()):
        return False
    return count > most or len(text.encode()) > most


def split_into_texts(text: str, limits: Limits) -> list[str]:
    """Return the texts of the passages of a text: one, unless it is too long."""
    if not needs_passages(text, limits):
        return [text]
    return split_into_passages(text, min(PASSAGE_BYTES, limits.max_text_bytes))


def in_passages(
    draft: Draft, limits: Limits, *, is_first: bool = False
) -> Draft | Passages:
    """Return a draft unchanged, or its passages if its text is too long."""
    # `is_first` says that the draft is the first of several passages. Of these only the
    # first one supersedes a memory, and none has the parts of the content.
    if not needs_passages(draft.text, limits):
        return draft
    first, *others = split_into_texts(draft.text, limits)
    found = Passages([replace(draft, text=first, content=None)])
    for number, text in enumerate(others, 2):
        # A passage that a hook has made too long has parts of its own.
        own = passage_id(draft.id, 1) if is_first else draft.id
        part = f"{own}.{number}" if is_first or draft.passage_of else None
        found.append(
            replace(
                draft,
                id=part or passage_id(draft.id, number),
                text=text,
                content=None,
                supersedes=None,
                also_supersedes=(),
                passage_of=draft.passage_of or draft.id,
            )
        )
    return found


def each_draft(given: Iterable[object]) -> list[Draft]:
    """Return the drafts among the items of a call, passages one by one."""
    drafts: list[Draft] = []
    for item in given:
        if isinstance(item, Draft):
            drafts.append(item)
        elif isinstance(item, Passages):
            drafts += item
    return drafts


def split_into_passages(text: str, most: int) -> list[str]:
    """Return the passages of a text, of at most `most` bytes in UTF-8 each."""
    # It is split after a paragraph, a line, a sentence or a word in the second half of
    # a passage, or else between two visible characters. Blank passages are left out.
    # The time is linear in the text.
    data = text.encode()
    found = []
    start = 0
    while start < len(data):
        end = _end_of_passage(data, start, most)
        passage = data[start:end].decode()
        if not passage.isspace():
            found.append(passage)
        start = end
    return found


def _end_of_passage(data: bytes, start: int, most: int) -> int:
    """Return where the passage that begins at a byte ends."""
    if len(data) - start <= most:
        return len(data)
    limit = start + most
    for border in _BORDERS:
        at = data.rfind(border, start + most // 2, limit)
        if at >= 0:
            return at + len(border)
    while limit > start and _continues_code_point(data[limit]):
        limit -= 1
    if limit == start:  # one character is longer than `most`
        limit += 1
        while limit < len(data) and _continues_code_point(data[limit]):
            limit += 1
        return limit
    return _end_before_character(data, start, limit)


def _continues_code_point(byte: int) -> bool:
    """Whether a byte continues a code point in UTF-8."""
    return byte & 0xC0 == 0x80


def _end_before_character(data: bytes, start: int, limit: int) -> int:
    """Return the end of the last visible character before `limit`."""
    if data[limit - 1] < 0x80 and data[limit] < 0x80:
        return limit
    near = data[max(start, limit - 4 * _LONGEST_CHARACTER) : limit]
    tail = near.decode(errors="ignore")[-_LONGEST_CHARACTER:]
    following = data[limit : limit + 4].decode(errors="ignore")[:1]
    at = limit
    for before in reversed(tail):
        if not _is_one_visible_character(before, following):
            break
        at -= len(before.encode())
        following = before
    return at if at > start and at > limit - len(near) else limit


def _is_one_visible_character(before: str, after: str) -> bool:
    """Whether two code points next to each other may be one visible character."""
    return (
        _JOINER in (before, after)
        or unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # a tone of skin
    )


# Summaries as memories.

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
    """Return drafts of the summaries of a session."""
    # Their ids derive from the ids they cover, so a retry after an unknown outcome
    # replaces the first summary.
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
                make_memory_id(session, SUMMARY, *names, float(number)),
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


def merged_summary(summaries: Sequence[SessionSummary], turns: int) -> SessionSummary:
    """Merge summaries of a number of turns into one."""
    # Their event counts are not added: they may cover the same turns.
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
