"""Schedules requests round robin by token, a few in each turn of the event loop.

Requests that arrive together are ready in the same turn of the event loop. Without this
schedule a request would wait for all earlier requests, a millisecond for each.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from weakref import WeakKeyDictionary

_REQUESTS_PER_ROUND = 4  # small requests of one token in a round
_SMALL = 1024  # bytes of a body; a larger one may take milliseconds to check


class Turns:
    """Admits a few requests of each token in each turn of their event loop."""

    def __init__(self) -> None:
        """Create the object without requests."""
        self._rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds]
        self._rounds = WeakKeyDictionary()

    async def turn(self, token: str, size: int | None = 0) -> None:
        """Wait for a turn of a token; its first requests in a round do not wait.

        Args:
            token: The id of the token; "" where a request has none.
            size: The bytes of the request's body; None: not known. A large one is the
                last one of a round.
        """
        share = 1 if size is not None and size <= _SMALL else _REQUESTS_PER_ROUND
        loop = asyncio.get_running_loop()
        rounds = self._rounds.get(loop)
        if rounds is None:
            rounds = self._rounds[loop] = _Rounds()
        granted = rounds.ask(loop, token, share)
        if granted is not None:
            await granted


class _Rounds:
    """The requests of one event loop. Use it on the loop's thread only."""

    def __init__(self) -> None:
        self._went: Counter[str] = Counter()  # shares of this round
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    def ask(
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
