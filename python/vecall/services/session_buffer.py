"""Buffers the turns of observed sessions in RAM, until memories are made of them.

The buffer is lost when the process ends. It has limits per user and in total; a call
that would exceed a limit fails. The buffer also keeps the ids of removed turns, so
that observing a session again is cheap. It evicts those ids by session, the least
recently observed session first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vecall.errors import LimitExceededError
from vecall.store import BufferedTurn, DueSession, passages_among

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
        """Buffer the new turns of a session.

        Args:
            due: The session.
            turns: Its turns by id, in order. The value None marks a turn that makes no
                memory.
            now: The time in seconds.
            delay: Seconds until the session is due; None does not change that time.
            count: The session is due now if at least this many turns are buffered.

        Raises:
            LimitExceededError: The buffer would exceed a limit; nothing was buffered.
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
        """Remove turns that became memories.

        Args:
            due: The session.
            ids: The ids of the turns.

        Returns:
            True; False, without a change, if one of the turns is no longer buffered.
        """
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
        """Discard buffered turns of a user; return the number discarded.

        Args:
            app: The app.
            user: The user.
            ids: The ids of the turns; None selects all.
            name: The session; None selects every session.
        """
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
            msg = (
                f"observe_session: the buffer holds at most {MAX_USER_TURNS} turns of "
                f"a user and {MAX_TURNS} in all ({MAX_USER_BYTES >> 20} and "
                f"{MAX_BYTES >> 20} MiB); end_session makes memories of them"
            )
            raise LimitExceededError(msg)

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
