"""Observes the sessions of a service over a vector store; makes memories of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any

from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.concurrency.join import Join, run_sync
from vecall.concurrency.time_slices import in_slices
from vecall.errors import ClosedError
from vecall.ingest.buffered_turns import (
    compaction_event,
    compaction_id,
    covered_before,
    event_of,
    first_compaction,
)
from vecall.ingest.call_metadata import CallMetadata
from vecall.ingest.drafts import SessionHead, session_head, turns_of
from vecall.ingest.summaries import summary_drafts
from vecall.limits import Limits
from vecall.operations.summarizing import SummarizerCalls
from vecall.services.session_buffer import SessionBuffer
from vecall.services.vector_store_memory import VectorStoreMemory
from vecall.store import Draft, DueSession
from vecall.summaries import SessionSummary, SummaryProvider, compaction_of
from vecall.trigger_options import Compaction, Inactivity, MessageCount, Trigger
from vecall.types import AddedIds
from vecall.validation import check_name

_log = logging.getLogger("vecall")

_MAX_CONCURRENT_SESSIONS = 8  # sessions whose memories are made in parallel

SessionContent = dict[str, "Draft | SessionSummary"]


class _AbandonedError(Exception):
    """The caller that began a run was interrupted; a waiting caller begins another."""


class VectorStoreSessions:
    """Buffers new turns of sessions, and makes memories of them on its own threads.

    A session has at most one run at a time. Cancelling a caller that waits for a run
    does not stop the run.
    """

    def __init__(
        self,
        memory: VectorStoreMemory,
        trigger: Trigger | None,
        summarizer: SummaryProvider | None,
    ) -> None:
        """Make memories when the trigger fires.

        The summarizer makes the memories; without one, each turn becomes a memory.
        """
        self._memory = memory
        self.trigger = trigger
        self.summarizer = summarizer
        self._summarizing = SummarizerCalls()
        self._maker = PluginExecutor("vecall-session-maker", _MAX_CONCURRENT_SESSIONS)
        self.waiting = SessionBuffer()
        self._lock = threading.Lock()
        self._runs: dict[DueSession, Future[list[str]]] = {}
        self.on_buffered: Callable[[], None] = lambda: None
        """Called after new turns were buffered; a session may now be due sooner."""

    async def add_session(self, session: object) -> AddedIds:
        """Store the summaries of a session, or its turns without a summarizer."""
        if self.summarizer is not None or isinstance(self.trigger, Compaction):
            return AddedIds(await self.end(session, None, None, None))
        head = session_head(session, self._memory.limits)
        self._memory.check(head.app, head.user)
        scope = CallMetadata({}, app=head.app, user=head.user)
        return await self._memory.add_turns(
            head.app, head.user, head.events, head.id, scope
        )

    async def observe(self, session: object) -> list[str]:
        """Buffer the new turns of a session; return the ids of memories made now."""
        delay, count = None, None
        if isinstance(self.trigger, Inactivity):
            delay = self.trigger.inactivity_ms / 1000
        elif isinstance(self.trigger, MessageCount):
            count = self.trigger.message_count
        due = await self._buffer(session, delay, count)
        self.on_buffered()
        if isinstance(self.trigger, Compaction):
            return await self._made(due, compactions_only=True)
        return []

    async def end(
        self,
        session: object,
        app_name: str | None,
        user_id: str | None,
        session_id: str | None,
    ) -> list[str]:
        """Make memories of all buffered turns of a session; return their ids."""
        if session is not None:
            due = await self._buffer(session, None, None)
        else:
            self._memory.check(app_name, user_id)
            id_ = check_name(session_id, "session_id", self._memory.limits)
            due = DueSession(str(app_name), str(user_id), id_)
        return await self._made(due, compactions_only=False)

    async def run_due(self) -> int:
        """Make memories of the sessions that are due; return the number of sessions."""
        self._memory.check_open()
        expiry_clock = self._memory.expiry_clock
        done = 0
        for due in self.waiting.due(expiry_clock.now()):
            try:
                await self._made(due, compactions_only=False)
                done += 1
            except ClosedError:
                raise
            except Exception as error:
                _log.warning(
                    "no memories could be made of a session: %s; tried again later",
                    type(error).__name__,
                )
                self.waiting.postpone(due, expiry_clock.now())
        return done

    def next_run(self) -> float | None:
        """Run due sessions, blocking; return the seconds until the next, or None."""
        run_sync(self.run_due())
        due = self.waiting.next_due()
        return None if due is None else due - self._memory.expiry_clock.now()

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError if a run is the caller."""
        self._maker.refuse_nested()
        self._summarizing.refuse_nested()

    def close(self, *, quiet: bool) -> None:
        """Finish the runs and end the threads; discard buffered turns.

        Args:
            quiet: Do not log the number of discarded turns.
        """
        self._maker.close()
        self._summarizing.close()
        left = self.waiting.count()
        if left and not quiet:
            _log.warning(
                "%d observed turns waited in memory and are not remembered; "
                "end_session remembers them before the service is closed",
                left,
            )

    async def _buffer(
        self, session: object, delay: float | None, count: int | None
    ) -> DueSession:
        """Buffer the new turns of a session. Most calls have none."""
        memory = self._memory
        head = session_head(session, memory.limits)
        memory.check(head.app, head.user)
        due = DueSession(head.app, head.user, head.id)
        counted, taken_back = await memory.counted(head)
        content: SessionContent = await memory.read(
            session_content, counted, head, memory.limits, memory.include
        )
        known = self.waiting.known(due, content)
        new = {
            id_: each
            for id_, each in content.items()
            if id_ not in known and getattr(each, "passage_of", None) not in known
        }
        memory.check_ttl([each for each in new.values() if isinstance(each, Draft)])
        late = set()
        if isinstance(self.trigger, Compaction):
            late = covered_before(content, known)
        turns: dict[str, dict[str, Any] | None] = {
            id_: None if id_ in late else _event(each) for id_, each in new.items()
        }
        self.waiting.drop(due.app, due.user, set(taken_back), due.session)
        gone = [f"\0{id_}" for id_ in taken_back]  # ids of turns contain no NUL
        new_gone = set(gone) - self.waiting.known(due, gone)
        await memory.take_back(due.app, due.user, [g[1:] for g in new_gone])
        turns |= dict.fromkeys(new_gone)
        now = memory.expiry_clock.now()
        self.waiting.keep(due, turns, now=now, delay=delay, count=count)
        return due

    async def _made(self, due: DueSession, *, compactions_only: bool) -> list[str]:
        """Make memories of a session, after the run in progress."""
        self._memory.check_open()
        self.refuse_nested()
        self._memory.refuse_nested()
        mine: Future[list[str]] = InterruptibleFuture()
        # Mark it as running, so that a cancelled caller cannot cancel it.
        mine.set_running_or_notify_cancel()
        try:
            while True:
                with self._lock:
                    other = self._runs.setdefault(due, mine)
                if other is mine:
                    break
                # The caller of the other run gets its error; this run tries again.
                with suppress(Exception):
                    await Join(other)
            run = partial(self._run, due, mine, compactions_only)
            self._maker.run(run, concurrent=False)
        except BaseException as error:
            self._end_run(due, mine)
            reason = error if isinstance(error, Exception) else _AbandonedError()
            with suppress(InvalidStateError):  # the run has finished
                mine.set_exception(reason)
            raise
        made: list[str] = await Join(mine)
        return made

    def _run(
        self, due: DueSession, promise: Future[list[str]], compactions_only: bool
    ) -> None:
        if promise.done():
            return  # its caller was interrupted
        try:
            ids = run_sync(self._flush(due, compactions_only))
        except BaseException as error:
            self._end_run(due, promise)
            with suppress(InvalidStateError):
                promise.set_exception(error)
        else:
            self._end_run(due, promise)
            with suppress(InvalidStateError):
                promise.set_result(ids)

    def _end_run(self, due: DueSession, promise: Future[list[str]]) -> None:
        with self._lock:
            if self._runs.get(due) is promise:
                del self._runs[due]

    async def _flush(self, due: DueSession, compactions_only: bool) -> list[str]:
        made: list[str] = []
        if isinstance(self.trigger, Compaction):
            while found := first_compaction(self.waiting.turns(due)):
                drafts = summary_drafts(
                    [found.summary],
                    due.session,
                    [found.turns[0].id],
                    source="compaction",
                    trust=None,  # the sources of the summary are unknown
                )
                made += await self._remember(
                    due, drafts, [turn.id for turn in found.turns]
                )
        if compactions_only:
            return made
        while turns := self.waiting.turns(due):
            drafts = await self._summarizing.drafts(self.summarizer, due, turns)
            made += await self._remember(due, drafts, [turn.id for turn in turns])
        return made

    async def _remember(
        self, due: DueSession, drafts: list[Draft], ids: list[str]
    ) -> list[str]:
        """Store drafts made of turns, unless one of the turns was deleted meanwhile."""
        waiting = {turn.id for turn in self.waiting.turns(due)}
        if not waiting.issuperset(ids):
            return []
        written = await self._memory.add_drafts(due.app, due.user, drafts)
        if self.waiting.done(due, ids):
            return written
        await self._memory.take_back(due.app, due.user, written)
        return []


def session_content(
    events: list[object], head: SessionHead, limits: Limits, include: frozenset[str]
) -> SessionContent:
    """Return the turns and compactions of a session in order, by their ids."""
    content: SessionContent = {}
    scope = CallMetadata({}, app=head.app, user=head.user, include=include)
    some: list[object] = []

    def read() -> None:
        drafts = turns_of(some, head.id, scope, limits, in_slices).drafts
        content.update({draft.id: draft for draft in drafts})
        some.clear()

    for event in in_slices(events):
        some.append(event)
        summary = compaction_of(event)
        if summary is not None:
            read()
            content[compaction_id(head.id, summary)] = summary
    read()
    return content


def _event(each: Draft | SessionSummary) -> dict[str, Any]:
    return event_of(each) if isinstance(each, Draft) else compaction_event(each)
