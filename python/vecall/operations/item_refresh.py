"""Refreshes the TTL of items that are read, without a reader waiting for a write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic

from vecall.errors import VecallError
from vecall.store import Change, ItemRow, TouchItems

Key = tuple[str, str]

_TOUCH_S = 1.0  # an expiry is moved at most this often
_READ_S = 60.0  # no read takes longer

_NONE: dict[int, float] = {}


class ItemRefresh:
    """New expiries that are still to be written. Thread-safe."""

    def __init__(self, submit: Callable[[TouchItems], Future[Change]]) -> None:
        """Write by `submit`."""
        self._submit = submit
        self._lock = threading.Lock()
        self._touched: dict[Key, dict[int, float]] = {}
        self._in_flight: dict[Key, dict[int, float]] = {}
        # A reader may have read a row before its new expiry was written, and look here
        # afterwards. So what was written stays for one to two periods.
        self._written_now: dict[Key, dict[int, float]] = {}
        self._written_before: dict[Key, dict[int, float]] = {}
        self._period_began = monotonic()
        self._futures: dict[Key, Future[Change]] = {}
        self._is_refused = False

    def current(self, key: Key, row: ItemRow, now: float) -> ItemRow | None:
        """Return an item with its newest expiry; None if it has expired."""
        if row.expires_at is None:
            return row
        for place in (  # in the order in which an expiry passes through them
            self._touched,
            self._in_flight,
            self._written_now,
            self._written_before,
        ):
            expiry = place.get(key, _NONE).get(row.rid, 0.0)
            if expiry > (row.expires_at or 0.0):
                row = row._replace(expires_at=expiry)
        return None if (row.expires_at or 0.0) <= now else row

    def refresh(self, key: Key, rows: Sequence[ItemRow], now: float) -> None:
        """Begin the TTL of items again.

        The write is on its way when the call returns. An item is touched at most once
        a second, and at most ten times in its TTL.
        """
        new: dict[int, float] = {}
        for row in rows:
            if row.ttl is None:
                continue
            known = self.current(key, row, now)
            late = now + row.ttl - min(_TOUCH_S, row.ttl / 10)
            if known is not None and (known.expires_at or 0.0) < late:
                new[row.rid] = now + row.ttl
        if new:
            with self._lock:
                self._touched.setdefault(key, {}).update(new)
            self.flush(key)

    def flush(self, key: Key) -> Future[Change] | None:
        """Write the new expiries of a user, unless such a write is on its way.

        What comes meanwhile is written after it.

        Raises:
            ClosedError: The storage accepts no more writes.
        """
        with self._lock:
            if key in self._in_flight or key not in self._touched:
                return None
            # A reader without the lock finds the expiries in one place or the other.
            self._in_flight[key] = self._touched[key]
            del self._touched[key]
            job = TouchItems(*key, dict(self._in_flight[key]))
        try:
            future = self._submit(job)
        except VecallError:
            self._is_refused = True
            with self._lock:
                self._in_flight.pop(key, None)
            raise
        with self._lock:
            self._futures[key] = future
        future.add_done_callback(lambda done: self._written(key, done))
        return future

    def finish(self) -> None:
        """Wait until all new expiries are written."""
        while True:
            with self._lock:
                keys = list(self._touched)
                writing = list(self._futures.values())
            if not keys and not writing:
                return
            with suppress(VecallError):
                for future in writing:
                    future.result()
                for key in keys:
                    self.flush(key)
            if self._is_refused:
                return

    def _written(self, key: Key, future: Future[Change]) -> None:
        with self._lock:
            if monotonic() - self._period_began > _READ_S:
                self._written_before, self._written_now = self._written_now, {}
                self._period_began = monotonic()
            written = self._in_flight.get(key)
            if written is not None and future.exception() is None:
                self._written_now.setdefault(key, {}).update(written)
            self._in_flight.pop(key, None)
            self._futures.pop(key, None)
        with suppress(VecallError):  # the service is being closed
            self.flush(key)
