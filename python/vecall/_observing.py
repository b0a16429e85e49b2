"""Sessions that are observed, and the memories that a trigger makes of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vecall._duck import read
from vecall._embedding import Wait
from vecall._ingest import session_head
from vecall._memory import How, Memory
from vecall._model_thread import ModelThread
from vecall._telemetry import observed
from vecall.config import check_name
from vecall.embedders.base import is_async
from vecall.errors import ClosedError, ConfigError, SummaryError, VecallError
from vecall.lifecycle.remembering import lowest_trust, summary_drafts
from vecall.lifecycle.triggers import Compaction, Inactivity, MessageCount, Trigger
from vecall.slices import in_slices
from vecall.store import (
    Change,
    ClaimSession,
    Draft,
    DueSession,
    KeepTurns,
    PostponeSession,
    Turn,
    due_sessions,
    memory_id,
    told_ids,
    waiting_turns,
)
from vecall.summaries import (
    SessionSummary,
    SummaryProvider,
    checked_summaries,
    compaction_of,
)

_log = logging.getLogger("vecall")

_LEASE_S = 600.0  # for whoever makes the memories of a session
_FIRST_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 3_600.0


class Observing:
    """Keeps what is told of sessions until memories are made of it."""

    def __init__(
        self,
        memory: Memory,
        trigger: Trigger | None,
        summarizer: SummaryProvider | None,
    ) -> None:
        """Make memories when the trigger says, by the summarizer or as they are."""
        self._memory = memory
        self.telemetry = memory.telemetry
        self.trigger = trigger
        self.summarizer = summarizer
        self._thread = ModelThread("vecall-summarizer")
        self.kept: Callable[[], None] = lambda: None
        """Is called when something was kept that may be due soon."""

    def restart(self) -> None:
        """Begin with a thread of its own in a forked child."""
        self._thread = ModelThread("vecall-summarizer")

    def close(self) -> None:
        """Finish what runs and end the thread."""
        self._thread.close()

    @observed("observe_session", len)
    async def observe(self, wait: Wait, session: object) -> list[str]:
        """Keep what is new in a session; return the ids of memories made of it now."""
        app, user, id_, turns = await self._read(wait, session)
        delay, count = None, None
        if isinstance(self.trigger, Inactivity):
            delay = self.trigger.inactivity_ms / 1000
        elif isinstance(self.trigger, MessageCount):
            count = self.trigger.message_count
        await self._keep(wait, KeepTurns(app, user, id_, turns, delay, count))
        if isinstance(self.trigger, Compaction):
            return await self._compacted(wait, DueSession(app, user, id_))
        return []

    async def add_session(
        self, wait: Wait, session: object, how: How, *, replace: bool
    ) -> list[str]:
        """Remember a session: by what a summarizer says of it, or turn by turn."""
        if self.summarizer is None:
            return await self._memory.add_session(wait, session, how, replace=replace)
        if replace or how != How():
            msg = (
                "restore, replace, idempotency_key: are about turns, and this service "
                "remembers summaries"
            )
            raise ConfigError(msg)
        return await self.end(wait, session, None, None, None)

    @observed("end_session", len)
    async def end(
        self,
        wait: Wait,
        session: object,
        app_name: str | None,
        user_id: str | None,
        session_id: str | None,
    ) -> list[str]:
        """Make memories of all that waits of a session; return their ids."""
        if session is not None:
            app, user, id_, turns = await self._read(wait, session)
            await self._keep(wait, KeepTurns(app, user, id_, turns))
        else:
            memory = self._memory
            app, user = memory.key(app_name, user_id, write=True)  # type: ignore[arg-type]
            id_ = check_name(session_id, "session_id", memory.limits)
        due = DueSession(app, user, id_)
        made = []
        if isinstance(self.trigger, Compaction):
            made = await self._compacted(wait, due)
        return made + await self._make(wait, due)

    async def run_due(self, wait: Wait) -> int:
        """Make the memories that are due; return of how many sessions."""
        memory = self._memory
        done = 0
        for each in await wait(memory.serving.loader.submit(self._due)):
            claim = ClaimSession(*each, _LEASE_S)
            had: Change = await wait(memory.writer.submit(claim))
            if not had.ids:
                continue
            try:
                await self._make(wait, each)
                done += 1
            except ClosedError:
                raise
            except VecallError as error:
                _log.warning(
                    "no memories could be made of a session: %s; tried again later",
                    type(error).__name__,
                )
                later = PostponeSession(*each, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
                await wait(memory.writer.submit(later))
        return done

    def _due(self) -> list[DueSession]:
        database = self._memory.database
        with database.snapshot() as connection:
            return due_sessions(connection, database.lifetime.now())

    async def _read(
        self, wait: Wait, session: object
    ) -> tuple[str, str, str, list[Turn]]:
        """The names of a session, and its turns as they are kept."""
        memory = self._memory
        memory.check_open()
        head = session_head(session, memory.limits)
        memory.key(head.app, head.user, write=True)
        drafts = await memory.read_turns(wait, head.events, head.id)
        drafts = await memory.gate.judged(wait, head.app, head.user, drafts)
        turns = [Turn(draft.id, _event_of(draft)) for draft in in_slices(drafts)]
        turns += [
            Turn(_compaction_id(head.id, summary), _compaction_event(summary))
            for event in in_slices(head.events)
            if (summary := compaction_of(event)) is not None
        ]
        return head.app, head.user, head.id, turns

    async def _keep(self, wait: Wait, job: KeepTurns) -> None:
        """Write down what is new, which is nothing most of the time."""
        if not job.turns:
            return
        known = await wait(
            self._memory.serving.loader.submit(
                self._told, job.app, job.user, job.session
            )
        )
        job.turns = [turn for turn in job.turns if turn.id not in known]
        if job.turns:
            await wait(self._memory.writer.submit(job))
            if job.delay is not None or job.count is not None:
                self.kept()

    def _told(self, app: str, user: str, session: str) -> set[str]:
        with self._memory.database.snapshot() as connection:
            return told_ids(connection, app, user, session)

    def _waiting(self, due: DueSession) -> list[Turn]:
        with self._memory.database.snapshot() as connection:
            return waiting_turns(connection, *due)

    async def _compacted(self, wait: Wait, due: DueSession) -> list[str]:
        """Make memories of compactions; what they sum up waits no more."""
        turns = await wait(self._memory.serving.loader.submit(self._waiting, due))
        found = {turn.id: compaction_of(turn.event) for turn in turns}
        made: list[str] = []
        for id_, summary in found.items():
            if summary is None:
                continue
            end = summary.end_timestamp
            covered = [
                turn
                for turn in turns
                if found[turn.id] is None and _is_until(turn.event, end)
            ]
            trust = lowest_trust(turn.event.get("trust") for turn in covered)
            drafts = summary_drafts(
                [summary], due.session, [id_], source="compaction", trust=trust
            )
            done = [id_, *(turn.id for turn in covered)]
            how = How(done=(due.session, done))
            made += await self._memory.add_drafts(wait, due.app, due.user, drafts, how)
        return made

    async def _make(self, wait: Wait, due: DueSession) -> list[str]:
        """Make memories of all that waits of a session."""
        memory = self._memory
        turns = await wait(memory.serving.loader.submit(self._waiting, due))
        how = How(done=(due.session, [turn.id for turn in turns]))
        if self.summarizer is None:
            drafts = await memory.read_turns(
                wait, [turn.event for turn in turns], due.session
            )
        elif turns:
            drafts = await self._summarized(wait, due, turns)
        else:
            drafts = []
        return await memory.add_drafts(wait, due.app, due.user, drafts, how)

    async def _summarized(
        self, wait: Wait, due: DueSession, turns: Sequence[Turn]
    ) -> list[Draft]:
        assert self.summarizer is not None
        summaries = await self.summaries(
            wait,
            self.summarizer,
            {
                "app_name": due.app,
                "user_id": due.user,
                "id": due.session,
                "events": [turn.event for turn in turns],
            },
        )
        return summary_drafts(
            summaries,
            due.session,
            [turn.id for turn in turns],
            source="summarizer",
            trust=lowest_trust(turn.event.get("trust") for turn in turns),
        )

    async def summaries(
        self, wait: Wait, provider: SummaryProvider, session: dict[str, Any]
    ) -> list[SessionSummary]:
        """Ask for summaries, off the event loop.

        Raises:
            SummaryError: The provider failed.
        """
        work = partial(provider.get_summaries, session)
        try:
            found = await wait(
                self._thread.run(work, concurrent=is_async(provider.get_summaries))
            )
        except VecallError:
            raise
        except Exception as error:
            # Its message may quote the session; its type does not.
            msg = f"the summarizer failed with {type(error).__name__}"
            raise SummaryError(msg) from None
        return checked_summaries(found)


def _event_of(draft: Draft) -> dict[str, Any]:
    """A turn as a mapping of which the same draft can be read again."""
    told: dict[str, Any] = {
        "id": draft.event,
        "author": draft.author,
        "timestamp": draft.ts,
        "kind": draft.kind,
        "source": draft.source,
        "trust": draft.trust,
        "importance": draft.importance,
        "content": draft.text if draft.content is None else json.loads(draft.content),
    }
    meta = {} if draft.meta is None else json.loads(draft.meta)
    for name in ("ttl", "revision_ttl"):
        if getattr(draft, name) is not None:
            meta[name] = getattr(draft, name)
    if meta:
        told["custom_metadata"] = meta
    return {name: value for name, value in told.items() if value is not None}


def _compaction_id(session: str, summary: SessionSummary) -> str:
    start, end = summary.start_timestamp, summary.end_timestamp
    return memory_id(session, "compaction", start, end, summary.summary)


def _compaction_event(summary: SessionSummary) -> dict[str, Any]:
    compaction = {
        "start_timestamp": summary.start_timestamp,
        "end_timestamp": summary.end_timestamp,
        "compacted_content": {"parts": [{"text": summary.summary}]},
    }
    return {"actions": {"compaction": compaction}}


def _is_until(event: dict[str, Any], end: float | None) -> bool:
    """Whether an event is not later than a compaction's end."""
    time = read(event, "timestamp")
    return time is None or end is None or time <= end
