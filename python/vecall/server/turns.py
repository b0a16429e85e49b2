"""Schedules requests round robin by token, a few in each turn of the event loop.

Requests that arrive together are ready in the same turn of the event loop. Without this
schedule a request would wait for all earlier requests, a millisecond for each.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from weakref import WeakKeyDictionary

_REQUESTS_PER_ROUND = 4  # requests of one token in a round


class Turns:
    """Admits a few requests of each token in each turn of their event loop."""

    def __init__(self) -> None:
        """Create the object without requests."""
        self._rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds]
        self._rounds = WeakKeyDictionary()

    async def turn(self, token: str) -> None:
        """Wait for a turn of a token; its first requests in a round do not wait.

        Args:
            token: The id of the token; "" where a request has none.
        """
        loop = asyncio.get_running_loop()
        rounds = self._rounds.get(loop)
        if rounds is None:
            rounds = self._rounds[loop] = _Rounds()
        granted = rounds.ask(loop, token)
        if granted is not None:
            await granted


class _Rounds:
    """The requests of one event loop. Use it on the loop's thread only."""

    def __init__(self) -> None:
        self._went: Counter[str] = Counter()  # in this round
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def ask(
        self, loop: asyncio.AbstractEventLoop, token: str
    ) -> asyncio.Future[None] | None:
        """Return the future that admits the request; None if admitted already."""
        if self._went[token] < _REQUESTS_PER_ROUND and token not in self._waiting:
            self._go(loop, token)
            return None
        granted = loop.create_future()
        self._waiting.setdefault(token, deque()).append(granted)
        return granted

    def _go(self, loop: asyncio.AbstractEventLoop, token: str) -> None:
        if not self._went:
            loop.call_soon(self._next_round, loop)
        self._went[token] += 1

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._went.clear()
        for token, queue in list(self._waiting.items()):
            while queue and self._went[token] < _REQUESTS_PER_ROUND:
                granted = queue.popleft()
                if not granted.done():  # its request was not cancelled
                    granted.set_result(None)
                    self._go(loop, token)
            if not queue:
                del self._waiting[token]
