"""Limits on the size, speed and rate of requests."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import weakref
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import count
from weakref import WeakKeyDictionary

from vecall.errors import RightsError, VecallError
from vecall.limits import HttpLimits
from vecall.server.responses import HttpError
from vecall.service.memory_service import MemoryService


class RateLimiter:
    """Token buckets by token and kind of cost. For one event loop."""

    def __init__(self, limits: HttpLimits) -> None:
        """Start with full buckets."""
        self._rates = {
            "read": limits.reads_per_second,
            "write": limits.writes_per_second,
            "bytes": limits.body_bytes_per_second,
        }
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def seconds_to_wait(self, token: str, kind: str) -> float:
        """Take one request from a bucket, or return the seconds until it has one.

        The kind is "read" or "write"; "bytes" takes one byte, and admits a body.
        """
        left, now = self._left_in_bucket(token, kind)
        if left < 1.0:
            return (1.0 - left) / self._rates[kind]
        self._buckets[token, kind] = left - 1, now
        return 0.0

    def spend_rate(self, token: str, kind: str, amount: int) -> None:
        """Take an amount from a bucket, even more than it holds."""
        left, now = self._left_in_bucket(token, kind)
        self._buckets[token, kind] = left - amount, now

    def _left_in_bucket(self, token: str, kind: str) -> tuple[float, float]:
        rate, now = float(self._rates[kind]), time.monotonic()
        left, then = self._buckets.get((token, kind), (rate, now))
        return min(rate, left + (now - then) * rate), now


class Places:
    """A fair semaphore with a limit by token. For one event loop.

    Waiting requests get places round robin by token, so a token with many requests
    delays another token by at most one of them. A request may take several.
    """

    def __init__(self, total: int, limit: int, seconds: float) -> None:
        """Create free places, some of one token, and a timeout of waiting requests."""
        self._free = total
        self._limit = min(total, limit)
        self._seconds = seconds
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._turns = count()
        # The last turn of each token that has a place or waits.
        self._last_turns: dict[str, int] = {}

    def place(self, token: str, size: int = 1) -> AbstractAsyncContextManager[None]:
        """Return a context that holds places, at most those that one token may have."""
        return _Held(self, token, min(size, self._limit))

    async def take_places(self, token: str, size: int) -> None:
        """Wait for places, as `place` does."""
        if self._waiting or not self._take_free_places(token, size):
            await self._wait_for_places(token, size)

    async def _wait_for_places(self, token: str, size: int) -> None:
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(token, deque()).append((size, granted))
        self._grant_places()
        try:
            if not granted.done():
                await asyncio.wait([granted], timeout=self._seconds)
        except BaseException:
            if granted.done():
                self.give_back_places(token, size)
            raise
        finally:
            if not granted.done():
                granted.cancel()
                self._grant_places()  # the requests that it blocked
        if granted.cancelled():
            raise HttpError("busy", "Too much is under way; come again.")

    def _take_free_places(self, token: str, size: int) -> bool:
        if size > self._free or self._taken[token] + size > self._limit:
            return False
        self._last_turns[token] = next(self._turns)
        self._free -= size
        self._taken[token] += size
        return True

    def give_back_places(self, token: str, size: int) -> None:
        """End what `take_places` began."""
        self._free += size
        self._taken[token] -= size
        if not self._taken[token]:
            del self._taken[token]
            if token not in self._waiting:
                del self._last_turns[token]
        self._grant_places()

    def _grant_places(self) -> None:
        """Grant places, first to the token with the least recent turn."""
        while self._grant_one_place():
            pass

    def _grant_one_place(self) -> bool:
        for token in sorted(
            self._waiting, key=lambda each: self._last_turns.get(each, -1)
        ):
            queue = self._waiting[token]
            while queue and queue[0][1].cancelled():
                queue.popleft()
            if not queue:
                del self._waiting[token]
                if not self._taken[token]:
                    self._last_turns.pop(token, None)
                continue
            size, granted = queue[0]
            if self._taken[token] + size > self._limit:
                continue  # it waits for its own token's places
            if not self._take_free_places(token, size):
                return False  # if other tokens overtook it, it would starve
            queue.popleft()
            granted.set_result(None)
            return True
        return False


class _Held(AbstractAsyncContextManager[None]):
    """Places that are held in a block; a generator would take twice as long."""

    def __init__(self, places: Places, token: str, size: int) -> None:
        self._places, self._token, self._size = places, token, size

    async def __aenter__(self) -> None:
        await self._places.take_places(self._token, self._size)

    async def __aexit__(self, *_: object) -> None:
        self._places.give_back_places(self._token, self._size)


_REQUESTS_PER_ROUND = 4  # small requests of one token in a round
_SMALL = 1024  # bytes of a body; a larger one may take milliseconds to check


class Turns:
    """Admits a few requests of each token in each turn of their event loop.

    Requests that arrive together are ready in the same turn. Otherwise a request would
    wait for all earlier ones, a millisecond for each.
    """

    def __init__(self) -> None:
        """Create the object without requests."""
        self._rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds]
        self._rounds = WeakKeyDictionary()

    async def wait_for_turn(self, token: str, size: int | None = 0) -> None:
        """Wait for a turn of a token; its first requests in a round do not wait.

        A body of a large or unknown size is the last one of a round.
        """
        share = 1 if size is not None and size <= _SMALL else _REQUESTS_PER_ROUND
        loop = asyncio.get_running_loop()
        rounds = self._rounds.get(loop)
        if rounds is None:
            rounds = self._rounds[loop] = _Rounds()
        granted = rounds.ask_for_turn(loop, token, share)
        if granted is not None:
            await granted


class _Rounds:
    """The requests of one event loop. Use it on the loop's thread only."""

    def __init__(self) -> None:
        self._went: Counter[str] = Counter()  # shares of this round
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    def ask_for_turn(
        self, loop: asyncio.AbstractEventLoop, token: str, share: int
    ) -> asyncio.Future[None] | None:
        """Return the future that admits the request; None if admitted already."""
        if self._went[token] < _REQUESTS_PER_ROUND and token not in self._waiting:
            self._go(loop, token, share)
            return None
        granted = loop.create_future()
        self._waiting.setdefault(token, deque()).append((share, granted))
        return granted

    def _go(self, loop: asyncio.AbstractEventLoop, token: str, share: int) -> None:
        if not self._went:
            loop.call_soon(self._next_round, loop)
        self._went[token] += share

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._went.clear()
        for token, queue in list(self._waiting.items()):
            while queue and self._went[token] < _REQUESTS_PER_ROUND:
                share, granted = queue.popleft()
                if not granted.done():  # its request was not cancelled
                    granted.set_result(None)
                    self._go(loop, token, share)
            if not queue:
                del self._waiting[token]


_TICK_S = 0.02  # a tick costs some 30 us
_WINDOW_S = 60.0


class Pauses:
    """The longest pauses of the interpreter. Thread-safe.

    In a pause one function, such as a regular expression over a long text, holds up
    every request. A thread sleeps 20 ms at a time; how much later it wakes is the
    pause. The thread ends with this object.
    """

    def __init__(self) -> None:
        """Create the object; `begin_measuring` starts its thread."""
        self.longest = 0.0  # since then, in seconds
        self._now = self._before = 0.0  # in this window, and in the last one
        self._window = time.monotonic()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def recent_pause(self) -> float:
        """The longest pause of the last one to two minutes, in seconds."""
        return max(self._now, self._before)

    def begin_measuring(self) -> None:
        """Measure from now on; idempotent."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                self._thread = threading.Thread(
                    target=_measure_event_loop_pauses,
                    args=(weakref.ref(self),),
                    name="vecall-pauses",
                    daemon=True,
                )
                self._thread.start()

    def note_pause(self, seconds: float) -> None:
        """Count a pause."""
        now = time.monotonic()
        if now - self._window > _WINDOW_S:
            self._before, self._now, self._window = self._now, 0.0, now
        self._now = max(self._now, seconds)
        self.longest = max(self.longest, seconds)


def _measure_event_loop_pauses(of: weakref.ref[Pauses]) -> None:
    while True:
        begin = time.perf_counter()
        time.sleep(_TICK_S)
        late = time.perf_counter() - begin - _TICK_S
        pauses = of()
        if pauses is None:
            return
        pauses.note_pause(max(0.0, late))
        del pauses


BUCKETS_S = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
)  # fmt: skip


class Durations:
    """A histogram of the durations of each operation, in seconds."""

    def __init__(self) -> None:
        """Create the object without durations."""
        self.counts: dict[str, list[int]] = {}  # in each of BUCKETS_S, and above
        self.sums: dict[str, float] = {}

    def add_duration(self, operation: str, seconds: float) -> None:
        """Count a duration."""
        counts = self.counts.get(operation)
        if counts is None:
            counts = self.counts[operation] = [0] * (len(BUCKETS_S) + 1)
            self.sums[operation] = 0.0
        counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sums[operation] += seconds


_STALE_S = 1.0
_PATIENCE_S = 2.0


class Readiness:
    """Whether the service answers: it is asked at most once a second."""

    def __init__(
        self, memory: MemoryService | None, accepting: Callable[[], bool]
    ) -> None:
        """Ask nothing yet; None is ready while the server is not about to end."""
        self._memory = memory
        self._accepting = accepting
        self._asked: asyncio.Task[bool] | None = None
        self._until = -math.inf

    async def is_storage_ready(self) -> bool:
        """Ask, or return what was found in the last second."""
        if self._memory is None or not self._accepting():
            return self._accepting()
        asked = self._asked
        if (
            asked is None
            or (asked.done() and time.monotonic() >= self._until)
            or asked.get_loop() is not asyncio.get_running_loop()
        ):
            asked = self._asked = asyncio.ensure_future(self._ask_storage(self._memory))
        await asyncio.wait([asked], timeout=_PATIENCE_S)
        return asked.done() and asked.result()

    async def _ask_storage(self, memory: MemoryService) -> bool:
        try:
            await memory.admin.stats()
        except RightsError:
            return True  # only a whole service can be asked
        except VecallError:
            return False
        finally:
            self._until = time.monotonic() + _STALE_S
        return True
