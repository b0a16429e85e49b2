"""Places for what may be done a few times at once, handed out round robin by token."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from vecall.server.responses import HttpError


class Places:
    """A number of places, of which one token has at most a part. For one event loop.

    Who waits gets a place in the order of the tokens, one request of each in turn, so
    that a token with many requests delays another token by at most one of them.

    Args:
        most: How many places there are; a request may take several of them.
        most_each: How many of them one token may have.
        seconds: For how long a request waits.
    """

    def __init__(self, most: int, most_each: int, seconds: float) -> None:
        """Begin with all places free."""
        self._free = most
        self._most_each = min(most, most_each)
        self._seconds = seconds
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._turns = count()
        self._had: dict[
            str, int
        ] = {}  # the last turn of those that have a place or wait

    @asynccontextmanager
    async def place(self, token: str, size: int = 1) -> AsyncIterator[None]:
        """Hold places while the block runs.

        Args:
            token: The id of the token for which they are.
            size: How many; more than one token may have count as that many.

        Raises:
            HttpError: 503, none was free in time.
        """
        size = min(size, self._most_each)
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
                self._grant()  # whom it kept from going on
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
                del self._had[token]
        self._grant()

    def _grant(self) -> None:
        """Let in whoever may go on, the token first that waited its turn longest."""
        while self._grant_one():
            pass

    def _grant_one(self) -> bool:
        for token in sorted(self._waiting, key=lambda each: self._had.get(each, -1)):
            queue = self._waiting[token]
            while queue and queue[0][1].cancelled():
                queue.popleft()
            if not queue:
                del self._waiting[token]
                if not self._taken[token]:
                    self._had.pop(token, None)
                continue
            size, granted = queue[0]
            if self._taken[token] + size > self._most_each:
                continue  # it waits for itself alone
            if size > self._free:
                return False  # nobody overtakes it, or it would wait for ever
            queue.popleft()
            self._had[token] = next(self._turns)
            self._free -= size
            self._taken[token] += size
            granted.set_result(None)
            return True
        return False
