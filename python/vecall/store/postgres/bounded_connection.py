"""A connection whose waits end, also if the server acknowledges and never answers."""

from __future__ import annotations

import select
from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

from vecall.store.postgres.errors import NoAnswerError

_Result = TypeVar("_Result")
_MOST_AGE_S = 1_800.0


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Ends a wait for the server after a time. The connection is then closed.

    The server's own time limits (`statement_timeout`) do not help against a network
    that swallows packets, nor against a proxy that has lost its server.

    Attributes:
        generation: A number of the borrower; connections of an older one are lost.
        warned: Whether the server has sent a warning.
        settings: What each transaction sets for itself, because a pooler is between;
            None without one.
    """

    generation = 0
    warned = False
    settings: dict[str, str] | None = None
    _opened_at = 0.0
    _left = float("inf")  # seconds
    _is_each = True

    def allow(self, seconds: float, *, each: bool) -> None:
        """Set how long it may wait for the server.

        Args:
            seconds: The time.
            each: Whether it is for each wait, or for all until the next call.
        """
        self._left = seconds
        self._is_each = each

    def begin_life(self, generation: int) -> None:
        """Record that it has just been opened."""
        self.generation = generation
        self._opened_at = monotonic()
        self.add_notice_handler(self.note_warning)

    def is_usable(self, generation: int) -> bool:
        """Whether it can be borrowed: not lost, nor old, nor ended by the server."""
        if self.closed or self.generation != generation:
            return False
        if monotonic() - self._opened_at > _MOST_AGE_S:
            return False
        # An idle connection has nothing to read but its end.
        asked = select.poll()
        asked.register(self.pgconn.socket, select.POLLIN)
        return not asked.poll(0)

    def wait(
        self,
        gen: Generator[Any, Any, _Result],
        *args: Any,
        **kwargs: Any,
    ) -> _Result:
        """Wait for the server.

        Raises:
            NoAnswerError: The time is over. The connection is closed.
        """
        begin = monotonic()
        try:
            return super().wait(self._until(gen, begin + self._left), *args, **kwargs)
        finally:
            if not self._is_each:
                self._left -= monotonic() - begin

    def note_warning(self, notice: psycopg.errors.Diagnostic) -> None:
        """Record a warning of the server."""
        self.warned |= notice.severity_nonlocalized == "WARNING"

    def _until(
        self, gen: Generator[Any, Any, _Result], deadline: float
    ) -> Generator[Any, Any, _Result]:
        """Pass on what psycopg waits for. It resumes at least ten times a second."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() >= deadline:
                    self.pgconn.finish()
                    msg = "the server did not answer in time"
                    raise NoAnswerError(msg)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _Result = end.value
            return result
