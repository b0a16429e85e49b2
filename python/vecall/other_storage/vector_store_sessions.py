"""Observes the sessions of a service over a vector store; makes memories of them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from vecall.concurrency.executor import InterruptibleFuture, PluginExecutor
from vecall.concurrency.join import Join, run_sync
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list, one_or_more
from vecall.errors import ClosedError, LimitExceededError
from vecall.ingest.drafts import SessionHead, events_of, session_head, turns_of
from vecall.ingest.fields import CallMetadata, GivenMetadata, call_metadata
from vecall.limits import Compaction, Inactivity, Limits, MessageCount, Trigger
from vecall.operations.session_triggers import (
    SummarizerCalls,
    compaction_event,
    compaction_id,
    covered_before,
    event_of,
    first_compaction,
)
from vecall.other_storage.vector_store_memory import (
    VectorStoreForgetting,
    VectorStoreMemory,
)
from vecall.store import BufferedTurn, Draft, DueSession, passages_among
from vecall.summaries import SessionSummary, SummaryProvider, compaction_of
from vecall.types import AddedIds
from vecall.validation import check_name

# Buffers the turns of observed sessions in RAM, until memories are made of them.
#
# The buffer is lost when the process ends. It has limits per user and in total; a call
# that would exceed a limit fails. The buffer also keeps the ids of removed turns, so
# that observing a session again is cheap. It evicts those ids by session, the least
# recently observed session first.

MAX_USER_TURNS = 10_000
MAX_USER_BYTES = 16 << 20
MAX_TURNS = 100_000
MAX_BYTES = 256 << 20
MAX_IDS = 500_000
"""The limit on ids of turns of all users: buffered turns and removed ones."""

_TURN_OVERHEAD_BYTES = 500  # added to the size of a turn's text
_FIRST_PAUSE_S = 30.0
_MAX_PAUSE_S = 3_600.0


@dataclass(slots=True)
class _Session:
    seen: set[str] = field(default_factory=set)  # ids of all turns observed so far
    waiting: dict[str, BufferedTurn] = field(default_factory=dict)
    failures: int = 0


@dataclass(slots=True)
class _Sum:
    turns: int = 0
    size: int = 0
    sessions: set[DueSession] = field(default_factory=set)  # one user's, with turns

    def add(self, turns: Collection[BufferedTurn], sign: int = 1) -> None:
        self.turns += sign * len(turns)
        self.size += sign * sum(_bytes_of(turn) for turn in turns)


class SessionBuffer:
    """The observed sessions of one service. Thread-safe; no call blocks."""

    def __init__(self) -> None:
        """Create an empty buffer."""
        self._lock = threading.Lock()
        self._sessions: OrderedDict[DueSession, _Session] = OrderedDict()
        self._of_user: dict[tuple[str, str], _Sum] = {}
        self._all = _Sum()
        self._ids = 0
        self._due: dict[DueSession, float] = {}

    def known(self, due: DueSession, ids: Collection[str]) -> set[str]:
        """Return those ids that an earlier call observed in the session."""
        with self._lock:
            session = self._sessions.get(due)
            return set() if session is None else session.seen.intersection(ids)

    def keep(
        self,
        due: DueSession,
        turns: Mapping[str, dict[str, Any] | None],
        *,
        now: float,
        delay: float | None,
        count: int | None,
    ) -> None:
        """Buffer the new turns of a session, by id and in order.

        A turn that is None makes no memory. The session is due after `delay` seconds,
        or at once with `count` turns; None does not change that.
        """
        with self._lock:
            session = self._sessions.get(due) or _Session()
            new = {id_: turns[id_] for id_ in turns if id_ not in session.seen}
            if not new:
                return
            more = [
                BufferedTurn(id_, event)
                for id_, event in new.items()
                if event is not None
            ]
            own = self._of_user.get(due[:2]) or _Sum()
            self._check_room(own, more)
            self._sessions[due] = session
            self._sessions.move_to_end(due)
            if more:
                self._of_user[due[:2]] = own
                own.sessions.add(due)
            own.add(more)
            self._all.add(more)
            session.waiting.update({turn.id: turn for turn in more})
            if count is not None and len(session.waiting) >= count:
                delay = 0.0
            if delay is not None and more:
                at = now + delay
                # After a failure, new turns do not bring the next attempt forward.
                if session.failures:
                    at = max(at, self._due.get(due, at))
                self._due[due] = at
            self._ids += len(new)
            # Last, so that a call interrupted by a signal can be repeated.
            session.seen.update(new)
            self._drop_oldest()

    def turns(self, due: DueSession) -> list[BufferedTurn]:
        """Return the buffered turns of a session, in order."""
        with self._lock:
            session = self._sessions.get(due)
            return [] if session is None else list(session.waiting.values())

    def done(self, due: DueSession, ids: Sequence[str]) -> bool:
        """Remove turns that became memories; False if one is no longer buffered."""
        with self._lock:
            session = self._sessions.get(due)
            if session is None or any(id_ not in session.waiting for id_ in ids):
                return False
            if not ids:
                return True
            self._remove(due, session, ids)
            session.failures = 0
            return True

    def drop(
        self, app: str, user: str, ids: Collection[str] | None, name: str | None = None
    ) -> int:
        """Discard a user's turns, of all ids or sessions for None; return how many."""
        with self._lock:
            own = self._of_user.get((app, user))
            dropped = 0
            for due in list(own.sessions) if own else []:
                if name in (None, due.session):
                    session = self._sessions[due]
                    waiting = session.waiting
                    gone = [id_ for id_ in waiting if ids is None or id_ in ids]
                    gone += passages_among(waiting, ids or ())
                    self._remove(due, session, gone)
                    dropped += len(gone)
            return dropped

    def postpone(self, due: DueSession, now: float) -> None:
        """Postpone a session, with exponential backoff."""
        with self._lock:
            session = self._sessions.get(due)
            if session is not None and session.waiting:
                pause = _FIRST_PAUSE_S * 2 ** min(session.failures, 16)
                self._due[due] = now + min(pause, _MAX_PAUSE_S)
                session.failures += 1

    def due(self, now: float) -> list[DueSession]:
        """Return the sessions that are due."""
        with self._lock:
            return [due for due, at in self._due.items() if at <= now]

    def next_due(self) -> float | None:
        """Return the time at which the next session is due."""
        with self._lock:
            return min(self._due.values(), default=None)

    def count(self) -> int:
        """Return the number of buffered turns."""
        return self._all.turns

    def _remove(self, due: DueSession, session: _Session, ids: Collection[str]) -> None:
        gone = [session.waiting.pop(id_) for id_ in ids]
        own = self._of_user[due[:2]]
        own.add(gone, -1)
        self._all.add(gone, -1)
        if not session.waiting:
            self._due.pop(due, None)
            own.sessions.discard(due)
        if not own.turns:
            del self._of_user[due[:2]]

    def _check_room(self, own: _Sum, more: Sequence[BufferedTurn]) -> None:
        after = _Sum()
        after.add(more)
        over = (
            own.turns + after.turns > MAX_USER_TURNS
            or own.size + after.size > MAX_USER_BYTES
            or self._all.turns + after.turns > MAX_TURNS
            or self._all.size + after.size > MAX_BYTES
        )
        if more and over:
            raise LimitExceededError(
                f"observe_session: the buffer holds at most {MAX_USER_TURNS} turns of "
                f"a user and {MAX_TURNS} in all ({MAX_USER_BYTES >> 20} and "
                f"{MAX_BYTES >> 20} MiB); end_session makes memories of them"
            )

    def _drop_oldest(self) -> None:
        """Evict the ids of sessions without buffered turns."""
        if self._ids <= MAX_IDS:
            return
        for due, session in list(self._sessions.items())[:-1]:
            if self._ids <= MAX_IDS * 0.9:
                return
            if not session.waiting:
                self._ids -= len(session.seen)
                del self._sessions[due]


def _bytes_of(turn: BufferedTurn) -> int:
    return _TURN_OVERHEAD_BYTES + 2 * len(str(turn.event))


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
        due = await self._buffer_turns(session, delay, count)
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
            due = await self._buffer_turns(session, None, None)
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
        self._summarizing.thread.refuse_nested()

    def close(self, *, quiet: bool) -> None:
        """Finish the runs and end the threads; discard buffered turns."""
        self._maker.close()
        self._summarizing.thread.close()
        left = self.waiting.count()
        if left and not quiet:
            _log.warning(
                "%d observed turns waited in memory and are not remembered; "
                "end_session remembers them before the service is closed",
                left,
            )

    async def _buffer_turns(
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
            id_: None if id_ in late else _event_to_buffer(each)
            for id_, each in new.items()
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
            ids = run_sync(self._flush_turns(due, compactions_only))
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

    async def _flush_turns(self, due: DueSession, compactions_only: bool) -> list[str]:
        made: list[str] = []
        if isinstance(self.trigger, Compaction):
            while found := first_compaction(self.waiting.turns(due), due.session):
                drafts, replaced = found
                made += await self._remember_drafts(
                    due, drafts, [turn.id for turn in replaced]
                )
        if compactions_only:
            return made
        while turns := self.waiting.turns(due):
            drafts = await self._summarizing.drafts(self.summarizer, due, turns)
            made += await self._remember_drafts(
                due, drafts, [turn.id for turn in turns]
            )
        return made

    async def _remember_drafts(
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


def _event_to_buffer(each: Draft | SessionSummary) -> dict[str, Any]:
    return event_of(each) if isinstance(each, Draft) else compaction_event(each)


class VectorStoreOperations:
    """Checks arguments, and keeps store, buffered turns and proposals consistent."""

    def __init__(
        self, memory: VectorStoreMemory, sessions: VectorStoreSessions
    ) -> None:
        """Use a store and its observed sessions."""
        self.memory = memory
        self.sessions = sessions
        self.forgetting = VectorStoreForgetting(memory)
        memory.changed = self.forgetting.changed

    async def add_events(
        self,
        app_name: str,
        user_id: str,
        events: object,
        session_id: str | None,
        metadata: GivenMetadata,
        messages: object,
    ) -> AddedIds:
        """Store turns."""
        memory = self.memory
        memory.check(app_name, user_id)
        if session_id is not None:
            check_name(session_id, "session_id", memory.limits)
        scope = call_metadata(metadata, app_name, user_id)
        turns: list[Any] = as_list(events_of(events, messages), "events")
        return await memory.add_turns(app_name, user_id, turns, session_id, scope)

    async def add_entries(
        self, app_name: str, user_id: str, memories: object, metadata: GivenMetadata
    ) -> AddedIds:
        """Store explicit memories."""
        self.memory.check(app_name, user_id)
        entries = one_or_more(memories, "memories")
        return await self.memory.add_entries(app_name, user_id, entries, metadata)

    async def delete(self, app_name: str, user_id: str, memory_id: str | None) -> None:
        """Delete one memory, and the buffered turn of the same id."""
        memory = self.memory
        memory.check(app_name, user_id)
        if memory_id is None:
            return
        id_ = check_name(memory_id, "memory_id", memory.limits)
        await memory.delete(app_name, user_id, [id_], "delete_memory")
        self.sessions.waiting.drop(app_name, user_id, {id_})

    async def delete_all(
        self, app_name: str, user_id: str, session_id: str | None
    ) -> int:
        """Delete a session or all of a user, including buffered turns."""
        memory = self.memory
        memory.check(app_name, user_id)
        who = "delete_user" if session_id is None else "delete_session"
        if session_id is not None:
            check_name(session_id, "session_id", memory.limits)
        count = await memory.delete_all(app_name, user_id, session_id, who)
        dropped = self.sessions.waiting.drop(app_name, user_id, None, session_id)
        return count + dropped

    async def confirm_forget(
        self, app_name: str, user_id: str, token: str, ids: object
    ) -> int:
        """Delete some or all proposed memories; return the number deleted."""
        count, gone = await self.forgetting.confirm(app_name, user_id, token, ids)
        self.sessions.waiting.drop(app_name, user_id, set(gone))
        return count
