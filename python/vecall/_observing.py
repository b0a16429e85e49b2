"""Sessions that are observed, and the memories that a trigger makes of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from vecall._embedding import Wait
from vecall._how import How
from vecall._ingest import session_head
from vecall._memory import Memory
from vecall._model_thread import ModelThread
from vecall._telemetry import observed
from vecall.added import AddedIds
from vecall.config import check_name
from vecall.embedders.base import is_async
from vecall.errors import (
    ClosedError,
    ConfigError,
    ConflictError,
    ReentrantCallError,
    SummaryError,
    VecallError,
)
from vecall.lifecycle.remembering import SUMMARY, lowest_trust, summary_drafts
from vecall.lifecycle.triggers import Compaction, Inactivity, MessageCount, Trigger
from vecall.lifecycle.waiting import (
    compaction_event,
    compaction_id,
    drafts_of,
    event_of,
    is_covered,
    is_held,
)
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

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError where the summarizer is the caller."""
        self._thread.refuse_nested()

    def close(self) -> None:
        """Finish what runs and end the thread."""
        self._thread.close()

    @observed("observe_session", len)
    async def observe(self, wait: Wait, session: object) -> list[str]:
        """Keep what is new in a session; return the ids of memories made of it now."""
        due, told = await self._read(wait, session)
        delay, count = None, None
        if isinstance(self.trigger, Inactivity):
            delay = self.trigger.inactivity_ms / 1000
        elif isinstance(self.trigger, MessageCount):
            count = self.trigger.message_count
        await self._keep(wait, due, told, delay, count)
        if isinstance(self.trigger, Compaction):
            return await self._compacted(wait, due)
        return []

    async def add_session(
        self, wait: Wait, session: object, how: How, *, replace: bool
    ) -> AddedIds:
        """Remember a session: by what a summarizer says of it, or turn by turn."""
        if self.summarizer is None and not isinstance(self.trigger, Compaction):
            return await self._memory.add_session(wait, session, how, replace=replace)
        if replace or how != How():
            msg = (
                "restore, replace, idempotency_key: are about turns, and this service "
                "remembers summaries or compactions"
            )
            raise ConfigError(msg)
        return AddedIds(await self.end(wait, session, None, None, None))

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
            due, told = await self._read(wait, session)
            await self._keep(wait, due, told)
        else:
            memory = self._memory
            key = memory.key(app_name, user_id, write=True)  # type: ignore[arg-type]
            id_ = check_name(session_id, "session_id", memory.limits)
            due = DueSession(*key, id_)
        made = []
        if isinstance(self.trigger, Compaction):
            made = await self._compacted(wait, due)
        return made + await self._make(wait, due)

    async def run_due(self, wait: Wait) -> int:
        """Make the memories that are due; return of how many sessions."""
        memory = self._memory
        done = 0
        due: list[DueSession] = await wait(memory.serving.loader.submit(self._due))
        for each in due:
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
    ) -> tuple[DueSession, dict[str, Draft | SessionSummary]]:
        """A session's names, and its turns and compactions in order, by their ids."""
        memory = self._memory
        memory.check_open()
        head = session_head(session, memory.limits)
        due = DueSession(*memory.key(head.app, head.user, write=True), head.id)
        told: dict[str, Draft | SessionSummary] = {}
        events: list[Any] = []
        key = (due.app, due.user)
        counted = await memory.counted(wait, key, head.events, head.id)
        for event in in_slices(counted):
            events.append(event)
            summary = compaction_of(event)
            if summary is not None:
                drafts = await memory.read_turns(wait, events, head)
                told.update({draft.id: draft for draft in drafts})
                told[compaction_id(head.id, summary)] = summary
                events = []
        drafts = await memory.read_turns(wait, events, head)
        told.update({draft.id: draft for draft in drafts})
        return due, told

    async def _keep(
        self,
        wait: Wait,
        due: DueSession,
        told: dict[str, Draft | SessionSummary],
        delay: float | None = None,
        count: int | None = None,
    ) -> None:
        """Write down what is new, which is nothing most of the time."""
        if not told:
            return
        known = await wait(self._memory.serving.loader.submit(self._told, due))
        new = {id_: each for id_, each in told.items() if id_ not in known}
        if not new:
            return
        end = self._compacted_until(told[id_] for id_ in told if id_ in known)
        late = {
            id_
            for id_, each in new.items()
            if isinstance(each, Draft) and each.ts is not None and each.ts <= end
        }
        drafts = [
            each
            if isinstance(each, Draft)
            else Draft(id_, each.summary, session=due.session, kind=SUMMARY)
            for id_, each in new.items()
            if id_ not in late
        ]
        judged = await self._memory.gate.judged(wait, due.app, due.user, drafts)
        passed = {draft.id: draft for draft in judged}
        turns: dict[str, dict[str, Any] | None] = {}
        for id_, each in new.items():
            draft = passed.get(id_)
            if draft is None:
                turns[id_] = None
            elif isinstance(each, SessionSummary):
                turns[id_] = compaction_event(replace(each, summary=draft.text))
            else:
                turns[id_] = event_of(draft)
        await wait(self._memory.writer.submit(KeepTurns(*due, turns, delay, count)))
        self.kept()

    def _compacted_until(self, told: Iterable[Draft | SessionSummary]) -> float:
        """When the last of the compactions ends that are remembered already."""
        if not isinstance(self.trigger, Compaction):
            return -math.inf
        summaries = (each for each in told if isinstance(each, SessionSummary))
        ends = (each.end_timestamp for each in summaries)
        return max((end for end in ends if end is not None), default=-math.inf)

    def _told(self, due: DueSession) -> set[str]:
        with self._memory.database.snapshot() as connection:
            return told_ids(connection, *due)

    def _waiting(self, due: DueSession) -> list[Turn]:
        with self._memory.database.snapshot() as connection:
            return waiting_turns(connection, *due)

    async def _compacted(self, wait: Wait, due: DueSession) -> list[str]:
        """Make memories of compactions; what they sum up waits no more."""
        made: list[str] = []
        while True:
            turns = await wait(self._memory.serving.loader.submit(self._waiting, due))
            found = (compaction_of(turn.event) for turn in turns)
            place, summary = next(
                ((at, each) for at, each in enumerate(found) if each), (0, None)
            )
            if summary is None:
                return made
            compaction = turns[place]
            covered = [
                turn
                for at, turn in enumerate(turns)
                if not is_held(turn)
                and is_covered(turn, summary, stands_before=at < place)
            ]
            drafts = summary_drafts(
                [summary],
                due.session,
                [compaction.id],
                source="compaction",
                trust=None,  # nobody knows all that went into it
            )
            done = [compaction, *covered]
            with suppress(ConflictError):  # others were faster
                made += await self._remember(wait, due, drafts, done)

    async def _make(self, wait: Wait, due: DueSession) -> list[str]:
        """Make memories of all that waits of a session."""
        while True:
            turns = await wait(self._memory.serving.loader.submit(self._waiting, due))
            if not turns:
                return []
            if self.summarizer is None:
                drafts = drafts_of(turns, due.session)
            else:
                held = [turn for turn in turns if is_held(turn)]
                free = [turn for turn in turns if not is_held(turn)]
                drafts = drafts_of(held, due.session)
                if free:
                    drafts += await self._summarized(wait, due, free)
            with suppress(ConflictError):  # others remembered or deleted some of it
                return await self._remember(wait, due, drafts, turns)

    async def _remember(
        self, wait: Wait, due: DueSession, drafts: list[Draft], turns: Sequence[Turn]
    ) -> list[str]:
        """Write what was made of turns, which wait no more then."""
        judged = all(
            draft.ordered for draft in drafts
        )  # turns were when they were kept
        how = How(judged=judged, done=(due.session, [turn.id for turn in turns]))
        return await self._memory.add_drafts(wait, due.app, due.user, drafts, how)

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
            ReentrantCallError: The provider itself is the caller.
        """
        self.refuse_nested()
        work = partial(provider.get_summaries, session)
        try:
            found = await wait(
                self._thread.run(work, concurrent=is_async(provider.get_summaries))
            )
        except ReentrantCallError:
            msg = (
                "the summarizer called its own memory service where that asks the "
                "summarizer; it can only call another service"
            )
            raise SummaryError(msg) from None
        except VecallError:
            raise
        except Exception as error:
            # Its message may quote the session; its type does not.
            msg = f"the summarizer failed with {type(error).__name__}"
            raise SummaryError(msg) from None
        return checked_summaries(found)
