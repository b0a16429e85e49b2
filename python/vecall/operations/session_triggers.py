"""Buffers observed sessions, and makes memories of them when a trigger fires."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

from vecall import errors, store
from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import Paced, in_slices
from vecall.content import text_parts
from vecall.embedders.base import is_async
from vecall.ingest.drafts import parse_session_head, require_some_draft
from vecall.ingest.fields import CallMetadata
from vecall.ingest.passages import SUMMARY, each_draft, lowest_trust, summary_drafts
from vecall.limits import Compaction, Inactivity, MessageCount, Trigger
from vecall.operations.writes import OperationGroup, WriteRequest, Writes
from vecall.store import BufferedTurn, Draft, DueSession
from vecall.summaries import (
    SessionSummary,
    SummaryProvider,
    checked_summaries,
    compaction_of,
)
from vecall.telemetry import observed
from vecall.types import AddedIds
from vecall.validation import check_name

# Buffered turns: their JSON form, and the drafts made of them.

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


def buffered_events(
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


def split_by_compaction(
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
        quarantined=is_quarantined_turn(turn),
        **ttls,
        **labels,
    )


def compaction_id(session: str, summary: SessionSummary) -> str:
    """Return the id of a compaction in its session."""
    start, end = summary.start_timestamp, summary.end_timestamp
    return store.make_memory_id(session, "compaction", start, end, summary.summary)


def compaction_event(summary: SessionSummary) -> dict[str, Any]:
    """Return a compaction as the event that it came from."""
    compaction = {
        "start_timestamp": summary.start_timestamp,
        "end_timestamp": summary.end_timestamp,
        "compacted_content": {"parts": [{"text": summary.summary}]},
    }
    return {"actions": {"compaction": compaction}}


def is_quarantined_turn(turn: BufferedTurn) -> bool:
    """Whether a turn is quarantined and must not be summarized."""
    return "quarantined" in turn.event


def first_compaction(
    turns: Sequence[BufferedTurn], session: str
) -> tuple[list[Draft], list[BufferedTurn]] | None:
    """Return the drafts of the first compaction, and the turns that these replace."""
    # The turns are the compaction and those that it summarizes: up to its end, or
    # before it where the times do not tell. Quarantined turns stay buffered.
    for place, turn in enumerate(turns):
        summary = compaction_of(turn.event)
        if summary is None:
            continue
        replaced, end = [turn], summary.end_timestamp
        for at, other in enumerate(turns):
            time = other.event.get("timestamp")
            precedes = at < place if time is None or end is None else time <= end
            if precedes and "content" in other.event and not is_quarantined_turn(other):
                replaced.append(other)
        drafts = summary_drafts(
            [summary],
            session,
            [turn.id],
            source="compaction",
            trust=None,  # the sources of a compaction are unknown
        )
        return drafts, replaced
    return None


def turns_summarized_before(
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


# Calls a summarizer with buffered turns.

_INLINE = 200  # turns whose drafts take the event loop less than a millisecond


class SummarizerCalls:
    """The thread of one service's summarizers."""

    def __init__(self) -> None:
        """Create the object; the first call starts its thread."""
        self.thread = PluginExecutor("vecall-summarizer")

    def restart_thread(self) -> None:
        """Start a new thread in a forked child."""
        self.thread = PluginExecutor("vecall-summarizer")

    async def drafts(
        self,
        provider: SummaryProvider | None,
        due: DueSession,
        turns: Sequence[BufferedTurn],
    ) -> list[Draft]:
        """Return drafts of summaries; without a provider, drafts of the turns."""
        # Summaries leave out quarantined turns.
        if provider is None:
            return drafts_of(turns, due.session)
        held = [turn for turn in turns if is_quarantined_turn(turn)]
        free = [turn for turn in turns if not is_quarantined_turn(turn)]
        found: list[SessionSummary] = []
        if free:
            found = await self.summaries(provider, due, [turn.event for turn in free])

        def make() -> list[Draft]:
            return drafts_of(held, due.session) + summary_drafts(
                found,
                due.session,
                [turn.id for turn in free],
                source="summarizer",
                trust=lowest_trust(turn.event.get("trust") for turn in free),
            )

        if len(turns) <= _INLINE:
            return make()
        return await Join(self.thread.run(make, concurrent=False))

    async def summaries(
        self, provider: SummaryProvider, place: DueSession, events: list[dict[str, Any]]
    ) -> list[SessionSummary]:
        """Call a summarizer off the event loop; return its summaries."""
        names = dict(zip(("app_name", "user_id", "id"), place, strict=True))
        session = {**names, "events": events}
        found = await self.thread.call_plugin(
            partial(provider.get_summaries, session),
            concurrent=is_async(provider.get_summaries),
            name="the summarizer",
            failed=errors.SummaryError,
            nested="called its own memory service where that asks the summarizer; it "
            "can only call another service",
            passed=errors.VecallError,
        )
        return checked_summaries(found)


_log = logging.getLogger("vecall")

_Part = tuple[list[Draft], SessionSummary | None]
"""Turns in order, and the compaction after them, if any."""

_LEASE_S = 600.0  # of the process that makes memories of a claimed session
_FIRST_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 3_600.0


class SessionObserver(OperationGroup):
    """Buffers the turns of sessions until memories are made of them."""

    def __init__(
        self,
        memory: Writes,
        trigger: Trigger | None,
        summarizer: SummaryProvider | None,
    ) -> None:
        """Create an observer for an open file."""
        super().__init__(memory)
        self.trigger = trigger
        self.summarizer = summarizer
        self.summarizing = SummarizerCalls()
        self.on_buffered: Callable[[], None] = lambda: None
        """Called after new turns were buffered; a session may now be due sooner."""

    def with_rights(self, memory: Writes) -> Self:
        """Return the same observer for callers with fewer rights."""
        observer = super().with_rights(memory)
        observer.on_buffered = lambda: self.on_buffered()
        return observer

    @observed("observe_session", len)
    async def observe_session(self, session: object) -> list[str]:
        """Buffer the new turns of a session; return the ids of memories made now."""
        due, parts = await self._read_session(session)
        await self._buffer_turns(due, parts)
        return await self._remember_compactions(due)

    async def add_session(
        self, session: object, request: WriteRequest, *, replace: bool
    ) -> AddedIds:
        """Store the summaries of a session, or its turns without a summarizer."""
        if self.summarizer is None and not isinstance(self.trigger, Compaction):
            return await self.memory.add_session(session, request, replace=replace)
        if replace or request != WriteRequest():
            raise errors.ConfigError(
                "restore, replace, idempotency_key: are about turns, and this service "
                "remembers summaries or compactions"
            )
        return AddedIds(await self.end(session, None, None, None))

    @observed("end_session", len)
    async def end(
        self, session: object, app: str | None, user: str | None, session_id: str | None
    ) -> list[str]:
        """Make memories of all buffered turns of a session; return their ids."""
        # The new turns of `session` are buffered first. Without it, the names tell
        # which.
        if session is not None:
            due, parts = await self._read_session(session)
            await self._buffer_turns(due, parts, ends=True)
        else:
            memory = self.memory
            key = memory.key(app, user, write=True)  # type: ignore[arg-type]
            id_ = check_name(session_id, "session_id", memory.limits)
            due = DueSession(*key, id_)
        made = await self._remember_compactions(due)
        return made + await self._remember_buffered_turns(due)

    async def run_due(self) -> None:
        """Make memories of the sessions that are due."""
        memory = self.memory
        listed: list[DueSession] = []
        if memory.storage.claims is None:
            listed = await memory.read_storage(
                None, lambda reads, now: reads.due_sessions(now), short=True
            )
            listed.reverse()
        while (session := await self._claim_due_session(listed)) is not None:
            try:
                await self._remember_buffered_turns(session)
            except errors.ClosedError:
                raise
            except errors.VecallError as error:
                _log.warning(
                    "no memories could be made of a session: %s; tried again later",
                    type(error).__name__,
                )
                later = store.PostponeSession(
                    *session, _FIRST_PAUSE_S, _LONGEST_PAUSE_S
                )
                with suppress(errors.BusyError):  # it stays claimed for a while
                    await Join(memory.storage.submit(later))

    async def _claim_due_session(self, listed: list[DueSession]) -> DueSession | None:
        """Claim a due session for this process; None if none is left."""
        # A storage without claims takes it from the end of `listed`.
        storage = self.memory.storage
        if storage.claims is not None:
            claim = partial(storage.claims.claim_session, _LEASE_S)
            return await Join(self.memory.threads.short(claim))
        while listed:
            session = listed.pop()
            claiming = storage.submit(store.ClaimSession(*session, _LEASE_S))
            if (await Join(claiming)).ids:
                return session
        return None

    async def _read_session(self, session: object) -> tuple[DueSession, list[_Part]]:
        """Return the keys of a session, and its turns and compactions in order."""
        memory = self.memory
        memory.check_open()
        head = parse_session_head(session, memory.limits)
        key = memory.key(head.app, head.user, write=True)
        counted = await memory.drop_rewound(key, head.events, head.id)
        parts = await memory.parse_items(split_by_compaction, counted)
        scope = CallMetadata({}, app=head.app, user=head.user)
        read = [
            ((await memory.parse_turns(each, head.id, scope)).given, summary)
            for each, summary in parts
        ]
        require_some_draft([item for given, _ in read for item in given])
        due = DueSession(*key, head.id)
        return due, [(each_draft(given), summary) for given, summary in read]

    async def _buffer_turns(
        self, due: DueSession, parts: list[_Part], *, ends: bool = False
    ) -> None:
        """Store the new turns in the buffer. Most calls have none."""
        trigger = None if ends else self.trigger
        if not any(drafts or summary for drafts, summary in parts):
            return
        threads = self.memory.threads
        new, drafts = await Join(threads.short(self._find_new_turns, due, parts))
        if not new:
            return
        reviewed = await self.memory.gate.review_drafts((due.app, due.user), drafts)
        ids = {id_ for id_, _ in new}  # a text that the hook made too long has more
        new += [(draft.id, draft) for draft in reviewed if draft.id not in ids]
        turns = await self.memory.parse_items(buffered_events, new, reviewed)
        delay = count = None
        if isinstance(trigger, Inactivity):
            delay = trigger.inactivity_ms / 1000
        elif isinstance(trigger, MessageCount):
            count = trigger.message_count
        quota = self.memory.quota
        keep = store.BufferTurns(
            *due, turns, delay, count, quota, ends, self.memory.rights
        )
        await Join(self.memory.storage.submit(keep))
        self.on_buffered()

    def _find_new_turns(
        self, due: DueSession, parts: list[_Part]
    ) -> tuple[list[tuple[str, Draft | SessionSummary]], list[Draft]]:
        """Return the new turns and compactions by id, and drafts to review."""
        # New are those that the file has not seen, nor a turn of theirs. With a
        # `Compaction` trigger, a late turn, which a known compaction covers, has no
        # draft.
        items: dict[str, Draft | SessionSummary] = {}
        for turns, summary in parts:
            items.update({draft.id: draft for draft in in_slices(turns)})
            if summary is not None:
                items[compaction_id(due.session, summary)] = summary
        with self.memory.storage.read(due.app, due.user) as reads:
            known = reads.seen_turn_ids(*due, list(items))
        new = [
            (id_, each)
            for id_, each in in_slices(items.items())
            if id_ not in known and getattr(each, "passage_of", None) not in known
        ]
        late = set()
        if new and isinstance(self.trigger, Compaction):
            late = turns_summarized_before(items, known)
        drafts = [
            each
            if isinstance(each, Draft)
            else Draft(id_, each.summary, session=due.session, kind=SUMMARY)
            for id_, each in in_slices(new)
            if id_ not in late
        ]
        return new, drafts

    async def _buffered_turns(self, due: DueSession) -> list[BufferedTurn]:
        return await self.memory.read_storage(
            (due.app, due.user), lambda reads, _: reads.buffered_turns(*due), short=True
        )

    async def _remember_compactions(self, due: DueSession) -> list[str]:
        """Store compactions as memories, if they are; remove what they summarize."""
        made: list[str] = []
        if not isinstance(self.trigger, Compaction):
            return made
        while found := first_compaction(await self._buffered_turns(due), due.session):
            with suppress(errors.ConflictError):  # another process made this memory
                made += await self._write_memories(due, *found)
        return made

    async def _remember_buffered_turns(self, due: DueSession) -> list[str]:
        """Make memories of all buffered turns of a session."""
        while turns := await self._buffered_turns(due):
            if self.summarizer is None:
                drafts = await self.memory.parse_items(drafts_of, turns, due.session)
            else:
                drafts = await self.summarizing.drafts(self.summarizer, due, turns)
            with suppress(errors.ConflictError):  # another call stored or deleted some
                return await self._write_memories(due, drafts, turns)
        return []

    async def _write_memories(
        self, due: DueSession, drafts: list[Draft], turns: Sequence[BufferedTurn]
    ) -> list[str]:
        """Write drafts made of turns; remove the turns from the buffer."""
        # Turns were reviewed when they were buffered.
        reviewed = all(draft.ordered for draft in drafts)
        request = WriteRequest(
            reviewed=reviewed, consumed_turns=(due.session, [turn.id for turn in turns])
        )
        return (
            await self.memory.write_drafts((due.app, due.user), drafts, request)
        ).ids
