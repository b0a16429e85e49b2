"""Asks the database for versions of partitions: one statement for all who wait."""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic

import psycopg

from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.errors import ClosedError
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.errors import as_typed
from vecall.store.postgres.version_statement import Names, VersionStatement
from vecall.store.results import Version

_Waiting = tuple[Names, "Future[Version | None]"]
_MOST = 1_000  # versions in one statement


class VersionChecker:
    """Answers with states that are no older than the question. Thread-safe.

    `ask` sends questions from a thread: one that comes while a statement runs goes with
    the next one. `ask_here` sends one from the thread of its caller, so that no thread
    has to wake; if another caller does so at that time, it is as `ask`.
    """

    def __init__(self, connections: Connections, max_staleness: float = 0.0) -> None:
        """Start the thread.

        Args:
            connections: The connections.
            max_staleness: An answer of at most this age, in seconds, is given again.
        """
        self._of_thread = VersionStatement(connections)
        self._of_callers = VersionStatement(connections)
        # Has one element, or none while a caller uses it. A caller that is interrupted
        # right after taking it loses it; then all questions go to the thread.
        self._free: queue.SimpleQueue[VersionStatement] = queue.SimpleQueue()
        self._free.put(self._of_callers)
        self._max_staleness = max_staleness
        # Not a dict, which is slow at its beginning where much was removed.
        self._recent: OrderedDict[Names, tuple[float, Version | None]] = OrderedDict()
        # A caller that is interrupted inside a C call leaves no lock behind.
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._noting = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(
            target=self._work, name="vecall-versions", daemon=True
        )
        self._thread.start()

    @property
    def statements(self) -> int:
        """The number of statements that were sent."""
        return self._of_thread.sent + self._of_callers.sent

    def ask_here(self, app: str, user: str) -> Version | None:
        """Return the version of a partition; wait for the database.

        Raises:
            ClosedError: The checker was closed.
            VecallError: The database did not answer.
        """
        names = (app, user)
        known = self._known(names)
        if known is not None:
            return known[1]
        try:
            statement = self._free.get_nowait()
        except queue.Empty:
            return self.ask(app, user).result()
        try:
            if self._closed:
                raise ClosedError(_CLOSED)
            return self._found([names], statement)[names]
        except psycopg.Error as error:
            raise as_typed(error) from error
        finally:
            self._free.put(statement)
            if self._closed:
                _close_free(self._free)

    def ask(self, app: str, user: str) -> Future[Version | None]:
        """Return a future of the version of a partition; None if there is none."""
        future: Future[Version | None] = InterruptibleFuture()
        names = (app, user)
        known = self._known(names)
        if known is not None:
            future.set_result(known[1])
            return future
        with self._closing:
            if self._closed:
                raise ClosedError(_CLOSED)
            self._waiting.put((names, future))
        return future

    def note(self, app: str, user: str, version: Version | None) -> None:
        """Record a version that this process has just written."""
        if self._max_staleness:
            with self._noting:
                self._put((app, user), monotonic(), version)
                self._forget_outdated()

    def close(self) -> None:
        """Answer what waits, and end the thread."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        _close_free(self._free)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> Callable[[], None]:
        """Return a function that ends the thread, not waiting."""
        put, free = self._waiting.put, self._free

        def end() -> None:
            put(None)
            _close_free(free)

        return end

    def _work(self) -> None:
        ending = False
        while not ending:
            taken: list[_Waiting] = []
            first = self._waiting.get()
            while first is not None:
                taken.append(first)
                if len(taken) == _MOST:
                    break
                try:
                    first = self._waiting.get_nowait()
                except queue.Empty:
                    break
            else:
                ending = True
            if taken:
                self._answer(taken)
            first = None
        self._of_thread.close()

    def _answer(self, taken: list[_Waiting]) -> None:
        try:
            asked = list(dict.fromkeys(names for names, _ in taken))
            found = self._found(asked, self._of_thread)
        except BaseException as error:
            typed = as_typed(error) if isinstance(error, psycopg.Error) else error
            for _, future in taken:
                with suppress(Exception):  # the caller was cancelled
                    future.set_exception(typed)
            return
        for names, future in taken:
            if future.set_running_or_notify_cancel():
                future.set_result(found.get(names))

    def _known(self, names: Names) -> tuple[float, Version | None] | None:
        """Return an answer that is recent enough to be given again."""
        if not self._max_staleness:
            return None
        known = self._recent.get(names)
        if known is None or monotonic() - known[0] > self._max_staleness:
            return None
        return known

    def _found(
        self, names: list[Names], statement: VersionStatement
    ) -> dict[Names, Version | None]:
        asked = monotonic()
        found = statement.versions(names)
        if self._max_staleness:
            self._remember(asked, found)
        return found

    def _remember(self, asked: float, found: dict[Names, Version | None]) -> None:
        """Keep answers, except those that a write of this process has overtaken."""
        with self._noting:
            for names, version in found.items():
                known = self._recent.get(names)
                if known is None or known[0] < asked:
                    self._put(names, asked, version)
            self._forget_outdated()

    def _put(self, names: Names, at: float, version: Version | None) -> None:
        self._recent[names] = (at, version)
        self._recent.move_to_end(names)  # so that the order is nearly that of time

    def _forget_outdated(self) -> None:
        """Remove the oldest versions, as far as they are too old to be given again."""
        limit = monotonic() - self._max_staleness
        outdated: list[Names] = []
        for names, (at, _) in self._recent.items():
            if at >= limit or len(outdated) == 2 * _MOST:  # the rest next time
                break
            outdated.append(names)
        for names in outdated:
            del self._recent[names]


def _close_free(free: queue.SimpleQueue[VersionStatement]) -> None:
    """Close the connection of a statement that no caller uses."""
    with suppress(queue.Empty):
        free.get_nowait().close()


_CLOSED = "the memory service is closed"
