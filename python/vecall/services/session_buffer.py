"""Turns of observed sessions in the memory of the process, until memories are made.

Nothing here survives the process. What waits is bounded by user and in all, and a call
that would pass a bound is refused. The ids of turns that do not wait any more are kept
so that a session which is observed again costs nothing; of these the oldest sessions
are dropped first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vecall.errors import LimitExceededError
from vecall.store import BufferedTurn, DueSession

MOST_OF_USER = 10_000
MOST_BYTES_OF_USER = 16 << 20
MOST = 100_000
MOST_BYTES = 256 << 20
MOST_IDS = 500_000
"""Ids of turns, waiting or not, of all users."""

_LEAST_BYTES = 500  # of a turn beside its text
_FIRST_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 3_600.0


@dataclass(slots=True)
class _Session:
    told: set[str] = field(default_factory=set)
    waiting: dict[str, BufferedTurn] = field(default_factory=dict)
    failures: int = 0


@dataclass(slots=True)
class _Sum:
    turns: int = 0
    size: int = 0
    sessions: set[DueSession] = field(default_factory=set)  # of one user, that wait

    def add(self, turns: Collection[BufferedTurn], sign: int = 1) -> None:
        self.turns += sign * len(turns)
        self.size += sign * sum(_bytes_of(turn) for turn in turns)


class SessionBuffer:
    """The observed sessions of one service. Thread-safe; no call waits."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._sessions: OrderedDict[DueSession, _Session] = OrderedDict()
        self._of_user: dict[tuple[str, str], _Sum] = {}
        self._all = _Sum()
        self._ids = 0
        self._due: dict[DueSession, float] = {}

    def known(self, due: DueSession, ids: Collection[str]) -> set[str]:
        """Return those ids that were told of a session before."""
        with self._lock:
            session = self._sessions.get(due)
            return set() if session is None else session.told.intersection(ids)

    def keep(
        self,
        due: DueSession,
        turns: Mapping[str, dict[str, Any] | None],
        *,
        now: float,
        delay: float | None,
        count: int | None,
    ) -> None:
        """Keep those turns of a session that were not told before.

        Args:
            due: The session.
            turns: Its turns by id, in order; None is one of which no memory is made.
            now: The time.
            delay: Memories are due in so many seconds; None leaves that as it is.
            count: Memories are due now if so many turns wait.

        Raises:
            LimitExceededError: More would wait than may; nothing was kept.
        """
        with self._lock:
            session = self._sessions.get(due) or _Session()
            new = {id_: turns[id_] for id_ in turns if id_ not in session.told}
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
                # Where it failed before, nothing that is said hastens the next try.
                if session.failures:
                    at = max(at, self._due.get(due, at))
                self._due[due] = at
            self._ids += len(new)
            # Last: a call that a signal interrupts before this can be made again.
            session.told.update(new)
            self._drop_oldest()

    def turns(self, due: DueSession) -> list[BufferedTurn]:
        """Return what waits of a session, in order."""
        with self._lock:
            session = self._sessions.get(due)
            return [] if session is None else list(session.waiting.values())

    def done(self, due: DueSession, ids: Sequence[str]) -> bool:
        """Let turns wait no more; False, and no change, if one was taken away before.

        Args:
            due: The session.
            ids: Of turns of which memories were made.
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
        """Take turns of a user away that wait; return how many.

        Args:
            app: The app.
            user: The user.
            ids: Of the turns; None is all.
            name: Only of this session; None is every session.
        """
        with self._lock:
            own = self._of_user.get((app, user))
            dropped = 0
            for due in list(own.sessions) if own else []:
                if name in (None, due.session):
                    session = self._sessions[due]
                    waiting = session.waiting
                    gone = [id_ for id_ in waiting if ids is None or id_ in ids]
                    self._remove(due, session, gone)
                    dropped += len(gone)
            return dropped

    def postpone(self, due: DueSession, now: float) -> None:
        """Let a session be due later, each time twice as late."""
        with self._lock:
            session = self._sessions.get(due)
            if session is not None and session.waiting:
                pause = _FIRST_PAUSE_S * 2 ** min(session.failures, 16)
                self._due[due] = now + min(pause, _LONGEST_PAUSE_S)
                session.failures += 1

    def due(self, now: float) -> list[DueSession]:
        """Return the sessions that are due."""
        with self._lock:
            return [due for due, at in self._due.items() if at <= now]

    def next_due(self) -> float | None:
        """Return when the next session is due."""
        with self._lock:
            return min(self._due.values(), default=None)

    def count(self) -> int:
        """Return how many turns wait."""
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
            own.turns + after.turns > MOST_OF_USER
            or own.size + after.size > MOST_BYTES_OF_USER
            or self._all.turns + after.turns > MOST
            or self._all.size + after.size > MOST_BYTES
        )
        if more and over:
            msg = (
                f"observe_session: at most {MOST_OF_USER} turns of a user and {MOST} "
                f"in all ({MOST_BYTES_OF_USER >> 20} and {MOST_BYTES >> 20} MiB) wait "
                "in memory; end_session makes memories of those that do"
            )
            raise LimitExceededError(msg)

    def _drop_oldest(self) -> None:
        """Forget the ids of sessions of which nothing waits."""
        if self._ids <= MOST_IDS:
            return
        for due, session in list(self._sessions.items())[:-1]:
            if self._ids <= MOST_IDS * 0.9:
                return
            if not session.waiting:
                self._ids -= len(session.told)
                del self._sessions[due]


def _bytes_of(turn: BufferedTurn) -> int:
    return _LEAST_BYTES + 2 * len(str(turn.event))
