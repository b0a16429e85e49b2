"""Locks by key, and work that several callers share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from vecall.concurrency.executor import InterruptibleFuture
from vecall.errors import EmbedderError

# One lock per key. A lock exists only while a thread holds it or waits for it.

Key = TypeVar("Key", bound=Hashable)


class _Counted:
    lock: threading.Lock
    users = 0  # threads that hold the lock or wait for it


class KeyLocks(Generic[Key]):
    """Locks by key. Not reentrant. Thread-safe."""

    def __init__(self) -> None:
        """Create the object without locks."""
        self._mutex = threading.Lock()
        self._locks: dict[Key, _Counted] = {}

    @contextmanager
    def hold_lock(self, key: Key) -> Iterator[None]:
        """Hold a key's lock in the block; wait for the lock first."""
        counted = self._add_user(key)
        try:
            with counted.lock:
                yield
        finally:
            self._remove_lock_user(key, counted)

    @contextmanager
    def hold_lock_if_free(self, key: Key) -> Iterator[bool]:
        """Hold a key's lock in the block if it is free; yield whether it is."""
        counted = self._add_user(key)
        try:
            free = counted.lock.acquire(blocking=False)
            try:
                yield free
            finally:
                if free:
                    counted.lock.release()
        finally:
            self._remove_lock_user(key, counted)

    def __len__(self) -> int:
        """Return the number of keys that have a lock now."""
        return len(self._locks)

    def _add_user(self, key: Key) -> _Counted:
        with self._mutex:
            counted = self._locks.get(key)
            if counted is None:
                counted = self._locks[key] = _Counted()
                counted.lock = threading.Lock()
            counted.users += 1
            return counted

    def _remove_lock_user(self, key: Key, counted: _Counted) -> None:
        with self._mutex:
            counted.users -= 1
            if not counted.users:
                del self._locks[key]


# Single flight of embeddings: concurrent calls embed the same text only once.

FlightKey = tuple[str, str, bytes]
"""App, user and the identifier of a text."""


class Claim:
    """The right and the duty of one caller to embed a text.

    It has no promise while no other caller waits: most texts have one caller.
    """

    __slots__ = ("promise",)

    def __init__(self) -> None:
        """Create a claim for whose text no other caller waits."""
        self.promise: Future[bytes | None] | None = None

    def await_claim(self) -> Future[bytes | None]:
        """Return the future of the vector. The caller holds the lock."""
        if self.promise is None:
            promise: Future[bytes | None] = InterruptibleFuture()
            # A running future cannot be cancelled by one of its waiters.
            promise.set_running_or_notify_cancel()
            self.promise = promise
        return self.promise


class SingleFlight:
    """Shares the embedding of a text between concurrent callers. Thread-safe.

    A caller claims the texts that no other caller is embedding, and waits for the rest.
    """

    def __init__(self) -> None:
        """Create the object without claims."""
        self._coming: dict[FlightKey, Claim] = {}
        self._lock = threading.Lock()

    def claim_keys(
        self, keys: Sequence[FlightKey], mine: dict[int, Claim]
    ) -> dict[int, Future[bytes | None]]:
        """Claim the texts that no one embeds yet; return the futures of the others."""
        # Both are by index in `keys`. The caller must embed the texts that `mine`
        # receives, then call `hand_claims_to_batch` or `drop_claims`. On any interrupt,
        # also before this call returns, it must pass `mine` to `abandon_claims`.
        others: dict[int, Future[bytes | None]] = {}
        with self._lock:
            for at, key in enumerate(keys):
                coming = self._coming.get(key)
                if coming is None:
                    mine[at] = self._coming[key] = Claim()
                else:
                    others[at] = coming.await_claim()
        return others

    def hand_claims_to_batch(
        self, keys: Sequence[FlightKey], batch: Future[list[bytes | None]]
    ) -> None:
        """Give up the claims and resolve their futures when the batch is done."""
        # A done callback does this, so it does not depend on the caller's event loop,
        # which may be blocked meanwhile. A zero vector has no direction: it is None.
        batch.add_done_callback(lambda done: self._resolve_promises(keys, done))

    def drop_claims(self, keys: Sequence[FlightKey]) -> None:
        """Give up claims: the futures of these keys fail with `EmbedderError`."""
        for key in keys:
            promise = self._pop_promise(key)
            if promise is not None:
                promise.set_exception(_shared_call_error())

    def abandon_claims(
        self, keys: Sequence[FlightKey], claimed: Mapping[int, Claim]
    ) -> None:
        """Give up the unresolved claims of a caller that was interrupted."""
        for at, claim in claimed.items():
            with self._lock:
                if self._coming.get(keys[at]) is claim:
                    del self._coming[keys[at]]
            promise = claim.promise  # no caller can begin to wait for it now
            if promise is not None and not promise.done():
                promise.set_exception(_shared_call_error())

    def _resolve_promises(
        self, keys: Sequence[FlightKey], done: Future[list[bytes | None]]
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            self.drop_claims(keys)
            return
        for key, vector in zip(keys, done.result(), strict=True):
            promise = self._pop_promise(key)
            if promise is not None:
                promise.set_result(vector)

    def _pop_promise(self, key: FlightKey) -> Future[bytes | None] | None:
        """Give up a claim; return its future if another caller waits for it."""
        with self._lock:
            claim = self._coming.pop(key, None)
            return None if claim is None else claim.promise


def _shared_call_error() -> EmbedderError:
    return EmbedderError("another call that embedded the same text failed")


# Background work that several callers wait for and that none can cancel.

Done = Callable[["BaseException | None"], None]
"""Ends a run. Takes the error of the run, or None. Idempotent."""


class _Run:
    __slots__ = ("again", "promise")

    def __init__(self) -> None:
        self.again = False
        self.promise: Future[None] = InterruptibleFuture()
        # A running future cannot be cancelled. `asyncio.wrap_future` passes the
        # cancellation of one caller to the future, which other callers share.
        self.promise.set_running_or_notify_cancel()


class SharedWork(Generic[Key]):
    """Runs work at most once at a time for each key. Thread-safe.

    All callers of a key share the future of its run.
    """

    def __init__(self, start: Callable[[Key, Done], None]) -> None:
        """Create the object without runs."""
        # `start` begins the run of a key on another thread, which calls the second
        # argument at its end. It must not block.
        self._start = start
        self._mutex = threading.Lock()
        self._runs: dict[Key, _Run] = {}

    def ask_for_run(self, key: Key, *, afresh: bool = False) -> Future[None]:
        """Return the future of the key's run; start a run if none is in progress."""
        # With `afresh`, one more follows a run in progress, which may have read its
        # input too early. The future is still that of the current run.
        new = _Run()
        try:
            with self._mutex:
                run = self._runs.get(key)
                if run is not None:
                    run.again = run.again or afresh
                    return run.promise
                self._runs[key] = new
            self._start(key, partial(self._end_run, key, new))
        except BaseException as error:
            self._end_run(key, new, error)
            raise
        return new.promise

    def is_key_running(self, key: Key) -> bool:
        """Return whether a key has a run in progress."""
        return key in self._runs

    def running_keys(self) -> set[Key]:
        """Return the keys that have a run in progress."""
        with self._mutex:
            return set(self._runs)

    def _end_run(self, key: Key, run: _Run, error: BaseException | None) -> None:
        if not isinstance(error, Exception):
            # None, or an interrupt (such as Ctrl-C) of the caller that started the run.
            # The other waiters of the future check the partition's state themselves.
            error = None
        following = None
        with self._mutex:
            if self._runs.get(key) is not run:
                return
            del self._runs[key]
            if run.again and error is None:
                following = self._runs[key] = _Run()
        if error is None:
            run.promise.set_result(None)
        else:
            run.promise.set_exception(error)
        if following is not None:
            try:
                self._start(key, partial(self._end_run, key, following))
            except BaseException as interrupt:
                self._end_run(key, following, interrupt)
                if not isinstance(interrupt, Exception):  # else its future has it
                    raise
