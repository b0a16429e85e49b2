"""Requests go on in turns by token, a few of each in a round of the event loop.

All requests that arrive together are ready in the same round. Without turns a request
would wait until each that came before it is answered, which takes a millisecond each.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

_EACH = 4  # requests of one token in a round


class Turns:
    """Lets requests of each token go on, a few in a round."""

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._begin_on(None)

    def _begin_on(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._went: Counter[str] = Counter()  # in this round
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def turn(self, token: str) -> None:
        """Wait for a turn of a token; the first requests of a round do not wait.

        Args:
            token: The id of the token; "" where a request has none.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._begin_on(loop)
        if self._went[token] < _EACH and token not in self._waiting:
            self._go(loop, token)
            return
        granted = loop.create_future()
        self._waiting.setdefault(token, deque()).append(granted)
        await granted

    def _go(self, loop: asyncio.AbstractEventLoop, token: str) -> None:
        if not self._went:
            loop.call_soon(self._next_round, loop)
        self._went[token] += 1

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        self._went.clear()
        for token, queue in list(self._waiting.items()):
            while queue and self._went[token] < _EACH:
                granted = queue.popleft()
                if not granted.done():  # its request was not cancelled
                    granted.set_result(None)
                    self._go(loop, token)
            if not queue:
                del self._waiting[token]
