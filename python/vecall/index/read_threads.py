"""The threads that read a service's file: one pool per kind of work.

With a pool per kind, a short read of one user does not wait for a scan or a load of
another user's rows. Scans take turns by user. At most one large partition is loaded at
a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

from vecall.concurrency.fair_pool import FairPool
from vecall.concurrency.freed_frames import freeing_frames
from vecall.concurrency.interruptible import Pool
from vecall.errors import ClosedError

P = ParamSpec("P")
T = TypeVar("T")

_SHORT = 2  # reads of single rows and pages: a millisecond each
_PAGE = 200  # rows of a short read
_LONG = 2  # scans at once: the rows of one user, or totals of the file
_USERS = 6  # whose scans are under way, in turn


class ReadThreads:
    """Runs work that reads the file. Threads start when they are needed."""

    def __init__(self, *, in_memory: bool = False) -> None:
        """Start with no thread.

        Args:
            in_memory: A database in memory has one connection. A scan that waits for
                its turn would keep it.
        """
        self._short = Pool(_SHORT, thread_name_prefix="vecall-reads")
        users = _LONG if in_memory else _USERS
        self._long = FairPool(users, _LONG, thread_name_prefix="vecall-scans")
        self._small = Pool(1, thread_name_prefix="vecall-loader-small")
        self._large = Pool(1, thread_name_prefix="vecall-loader-large")

    def short(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that reads single rows or a page of them.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._short.submit, work, *args, **kwargs)

    def long(
        self, owner: Hashable, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that may read all rows of a user, or of the file.

        Users take turns. The work ends early if its future is cancelled.

        Args:
            owner: The app and the user; None for work on the file.
            work: Its loops must use `vecall.concurrency.time_slices`.
            *args: The arguments of `work`.
            **kwargs: Those by name.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(partial(self._long.submit, owner), work, *args, **kwargs)

    def page(
        self,
        owner: Hashable,
        rows: int,
        work: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]:
        """Run work that reads up to a number of a user's rows: `short` or `long`."""
        if rows <= _PAGE:
            return self.short(work, *args, **kwargs)
        return self.long(owner, work, *args, **kwargs)

    def small_load(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that loads a small partition into the engine.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._small.submit, work, *args, **kwargs)

    def large_load(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that loads a large partition into the engine, one at a time.

        Raises:
            ClosedError: The service was closed.
        """
        return _submit(self._large.submit, work, *args, **kwargs)

    def close(self) -> None:
        """Finish queued work and end the threads."""
        # A small load may hand itself over to the thread for large ones.
        for pool in (self._small, self._large):
            pool.shutdown(wait=True)
        self._long.shutdown()
        self._short.shutdown(wait=True)


def _submit(
    submit: Callable[..., Future[T]],
    work: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Future[T]:
    try:
        return submit(freeing_frames(work), *args, **kwargs)
    except RuntimeError:
        msg = "the memory service is closed"
        raise ClosedError(msg) from None
