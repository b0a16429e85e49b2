"""What a service over a vector store has in RAM: buffered turns, and proposals.

Both end with the process, and their number is limited.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vecall.concurrency.time_slices import in_slices
from vecall.errors import InvalidArgumentError, LimitExceededError, NotFoundError
from vecall.ingest.drafts import SessionHead, drafts_of_turns
from vecall.ingest.fields import CallMetadata
from vecall.limits import Inactivity, Limits, MessageCount, Trigger
from vecall.operations.session_triggers import compaction_event, compaction_id, event_of
from vecall.store import BufferedTurn, Draft, DueSession, passages_of_turns
from vecall.summaries import SessionSummary, compaction_of

SessionContent = dict[str, Draft | SessionSummary]

# Turns of observed sessions, until memories are made of them.
#
# A call that would exceed a limit fails. The buffer also keeps the ids of removed
# turns, so that observing a session again is cheap. It evicts those ids by session, the
# least recently observed session first.

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

    def add_turns(self, turns: Collection[BufferedTurn], sign: int = 1) -> None:
        self.turns += sign * len(turns)
        self.size += sign * sum(
            _TURN_OVERHEAD_BYTES + 2 * len(str(turn.event)) for turn in turns
        )


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

    def known_turn_ids(self, due: DueSession, ids: Collection[str]) -> set[str]:
        """Return those ids that an earlier call observed in the session."""
        with self._lock:
            session = self._sessions.get(due)
            return set() if session is None else session.seen.intersection(ids)

    def buffer_turns(
        self,
        due: DueSession,
        turns: Mapping[str, dict[str, Any] | None],
        now: float,
        due_by: Trigger | None,
    ) -> None:
        """Buffer the new turns of a session, by id and in order."""
        # A turn that is None makes no memory. Without a trigger that has a time or a
        # number of turns, it does not change when the session is due.
        with self._lock:
            session = self._sessions.get(due) or _Session()
            new = {id_: turns[id_] for id_ in turns if id_ not in session.seen}
            if not new:
                return
            more = [BufferedTurn(id_, event) for id_, event in new.items() if event]
            own = self._of_user.get(due[:2]) or _Sum()
            self._check_buffer_room(own, more)
            self._sessions[due] = session
            self._sessions.move_to_end(due)
            if more:
                self._of_user[due[:2]] = own
                own.sessions.add(due)
            own.add_turns(more)
            self._all.add_turns(more)
            session.waiting.update({turn.id: turn for turn in more})
            delay = None
            if isinstance(due_by, Inactivity):
                delay = due_by.inactivity_ms / 1000
            elif isinstance(due_by, MessageCount):
                delay = 0.0 if len(session.waiting) >= due_by.message_count else None
            if delay is not None and more:
                at = now + delay
                # After a failure, new turns do not bring the next attempt forward.
                if session.failures:
                    at = max(at, self._due.get(due, at))
                self._due[due] = at
            self._ids += len(new)
            # Last, so that a call interrupted by a signal can be repeated.
            session.seen.update(new)
            self._drop_oldest_sessions()

    def buffered_turns(self, due: DueSession) -> list[BufferedTurn]:
        """Return the buffered turns of a session, in order."""
        with self._lock:
            session = self._sessions.get(due)
            return [] if session is None else list(session.waiting.values())

    def remove_done_turns(self, due: DueSession, ids: Sequence[str]) -> bool:
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

    def drop_turns(
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
                    gone += passages_of_turns(waiting, ids or ())
                    self._remove(due, session, gone)
                    dropped += len(gone)
            return dropped

    def postpone_session(self, due: DueSession, now: float) -> None:
        """Postpone a session, with exponential backoff."""
        with self._lock:
            session = self._sessions.get(due)
            if session is not None and session.waiting:
                pause = _FIRST_PAUSE_S * 2 ** min(session.failures, 16)
                self._due[due] = now + min(pause, _MAX_PAUSE_S)
                session.failures += 1

    def due_sessions(self, now: float) -> list[DueSession]:
        """Return the sessions that are due."""
        with self._lock:
            return [due for due, at in self._due.items() if at <= now]

    def next_due(self) -> float | None:
        """Return the time at which the next session is due."""
        with self._lock:
            return min(self._due.values(), default=None)

    def count_turns(self) -> int:
        """Return the number of buffered turns."""
        return self._all.turns

    def _remove(self, due: DueSession, session: _Session, ids: Collection[str]) -> None:
        gone = [session.waiting.pop(id_) for id_ in ids]
        own = self._of_user[due[:2]]
        own.add_turns(gone, -1)
        self._all.add_turns(gone, -1)
        if not session.waiting:
            self._due.pop(due, None)
            own.sessions.discard(due)
        if not own.turns:
            del self._of_user[due[:2]]

    def _check_buffer_room(self, own: _Sum, more: Sequence[BufferedTurn]) -> None:
        after = _Sum()
        after.add_turns(more)
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

    def _drop_oldest_sessions(self) -> None:
        """Evict the ids of sessions without buffered turns."""
        if self._ids <= MAX_IDS:
            return
        for due, session in list(self._sessions.items())[:-1]:
            if self._ids <= MAX_IDS * 0.9:
                return
            if not session.waiting:
                self._ids -= len(session.seen)
                del self._sessions[due]


def session_content(
    events: list[object], head: SessionHead, limits: Limits, include: frozenset[str]
) -> SessionContent:
    """Return the turns and compactions of a session in order, by their ids."""
    content: SessionContent = {}
    scope = CallMetadata({}, app=head.app, user=head.user, include=include)
    some: list[object] = []

    def read() -> None:
        drafts = drafts_of_turns(some, head.id, scope, limits, in_slices).drafts
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


def event_as_buffered(each: Draft | SessionSummary) -> dict[str, Any]:
    """Return a turn or a compaction as it is buffered."""
    return event_of(each) if isinstance(each, Draft) else compaction_event(each)


# Proposals to forget memories, until they are confirmed.

_MAX_USER_PROPOSALS = 20
_MAX_PROPOSALS = 1_000


@dataclass(frozen=True, slots=True)
class Proposal:
    """The memories that a user was shown, and until when they can be confirmed."""

    owner: tuple[str, str]
    shown: dict[str, str]  # texts by id
    expires_at: float


class ForgetProposals:
    """The proposals of one service, by their tokens. Thread-safe."""

    def __init__(self) -> None:
        """Create an object without proposals."""
        self._lock = threading.Lock()
        self._proposals: OrderedDict[str, Proposal] = OrderedDict()

    def add_forget_proposal(self, proposal: Proposal, now: float) -> str:
        """Store a proposal, drop old ones, and return its token."""
        token = secrets.token_urlsafe(9)
        with self._lock:
            self._proposals[token] = proposal
            for old in [t for t, p in self._proposals.items() if p.expires_at <= now]:
                del self._proposals[old]
            known = self._proposals.items()
            own = [each for each, p in known if p.owner == proposal.owner]
            for old in own[:-_MAX_USER_PROPOSALS]:
                del self._proposals[old]
            while len(self._proposals) > _MAX_PROPOSALS:
                self._proposals.popitem(last=False)
        return token

    def take_forget_proposal(
        self,
        owner: tuple[str, str],
        token: str,
        chosen: Sequence[str] | None,
        now: float,
    ) -> Proposal:
        """Remove and return a user's proposal, which has the chosen ids."""
        with self._lock:
            proposal = self._proposals.get(token)
            is_own = proposal is not None and proposal.owner == owner
            if proposal is None or not is_own or proposal.expires_at <= now:
                msg = "token: confirms nothing, or no longer; propose it again"
                raise NotFoundError(msg)
            if chosen is not None and not proposal.shown.keys() >= set(chosen):
                msg = "ids: expected ids of the memories that were proposed"
                raise InvalidArgumentError(msg)
            return self._proposals.pop(token)

    def put_back_forget_proposal(self, token: str, proposal: Proposal) -> None:
        """Store a proposal again under its token, as the oldest one."""
        with self._lock:
            self._proposals[token] = proposal
            self._proposals.move_to_end(token, last=False)

    def drop_outdated(self, owner: tuple[str, str], drafts: Sequence[Draft]) -> None:
        """Drop a user's proposals whose shown texts differ from written ones."""
        texts = {draft.id: draft.text for draft in drafts}
        with self._lock:
            for token, proposal in list(self._proposals.items()):
                shown = proposal.shown.items()
                if proposal.owner == owner and any(
                    texts.get(id_, text) != text for id_, text in shown
                ):
                    del self._proposals[token]
