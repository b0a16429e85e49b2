"""Limits concurrent work; grants places round robin by token."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from vecall.server.responses import HttpError


class Places:
    """A fair semaphore with a limit by token. For one event loop.

    Waiting requests get places round robin by token, so a token with many requests
    delays another token by at most one of them.

    Args:
        total: The number of places. A request may take several.
        limit: The number of places that one token may have.
        seconds: The timeout of a waiting request.
    """

    def __init__(self, total: int, limit: int, seconds: float) -> None:
        """Create the object with all places free."""
        self._free = total
        self._limit = min(total, limit)
        self._seconds = seconds
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._turns = count()
        self._last_turns: dict[
            str, int
        ] = {}  # the last turn of each token that has a place or waits

    @asynccontextmanager
    async def place(self, token: str, size: int = 1) -> AsyncIterator[None]:
        """Hold places while the block runs.

        Args:
            token: The id of the token.
            size: The number of places; capped at the limit of a token.

        Raises:
            HttpError: 503, not enough places were free before the timeout.
        """
        size = min(size, self._limit)
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(token, deque()).append((size, granted))
        self._grant()
        try:
            await asyncio.wait([granted], timeout=self._seconds)
        except BaseException:
            if granted.done():
                self._give_back(token, size)
            raise
        finally:
            if not granted.done():
                granted.cancel()
                self._grant()  # the requests that it blocked
        if granted.cancelled():
            msg = "Too much is under way; come again."
            raise HttpError(503, "busy", msg, {"Retry-After": "1"})
        try:
            yield
        finally:
            self._give_back(token, size)

    def _give_back(self, token: str, size: int) -> None:
        self._free += size
        self._taken[token] -= size
        if not self._taken[token]:
            del self._taken[token]
            if token not in self._waiting:
                del self._last_turns[token]
        self._grant()

    def _grant(self) -> None:
        """Grant places, first to the token with the least recent turn."""
        while self._grant_one():
            pass

    def _grant_one(self) -> bool:
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
            if size > self._free:
                return False  # if other tokens overtook it, it would starve
            queue.popleft()
            self._last_turns[token] = next(self._turns)
            self._free -= size
            self._taken[token] += size
            granted.set_result(None)
            return True
        return False
