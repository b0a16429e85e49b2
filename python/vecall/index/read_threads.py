"""The threads that read a service's file: one pool per kind of work.

With a pool per kind, a short read of one user does not wait for a scan or a load of
another user's rows. At most one large partition is loaded at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

from vecall.concurrency.freed_frames import freeing_frames
from vecall.concurrency.interruptible import Pool
from vecall.errors import ClosedError

P = ParamSpec("P")
T = TypeVar("T")

_SHORT = 2  # reads of single rows and pages: a millisecond each
_LONG = 2  # scans: the rows of one user, or totals of the file


class ReadThreads:
    """Runs work that reads the file. Threads start when they are needed."""

    def __init__(self) -> None:
        """Start with no thread."""
        self._short = Pool(_SHORT, thread_name_prefix="vecall-reads")
        self._long = Pool(_LONG, thread_name_prefix="vecall-scans")
        self._small = Pool(1, thread_name_prefix="vecall-loader-small")
        self._large = Pool(1, thread_name_prefix="vecall-loader-large")

    def short(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that reads single rows or a page of them.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._short, work, *args, **kwargs)

    def long(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that may read all rows of a user, or of the file.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._long, work, *args, **kwargs)

    def small_load(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that loads a small partition into the engine.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._small, work, *args, **kwargs)

    def large_load(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that loads a large partition into the engine, one at a time.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._large, work, *args, **kwargs)

    def close(self) -> None:
        """Finish queued work and end the threads."""
        # A small load may hand itself over to the thread for large ones.
        for pool in (self._small, self._large, self._long, self._short):
            pool.shutdown(wait=True)


def _submit(
    pool: Pool,
    work: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Future[T]:
    try:
        return pool.submit(freeing_frames(work), *args, **kwargs)
    except RuntimeError:
        msg = "the memory service is closed"
        raise ClosedError(msg) from None
