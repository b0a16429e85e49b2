"""Texts that are being embedded right now, so that nobody embeds them a second time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from vecall.embedders import Vectors
from vecall.errors import EmbedderError

Key = tuple[str, str, bytes]
"""App, user, and what names a text."""


class InFlight:
    """What several callers who embed the same texts know of each other. Thread-safe."""

    def __init__(self) -> None:
        """Begin with nothing on its way."""
        self._coming: dict[Key, Future[bytes]] = {}
        self._lock = threading.Lock()

    def claim(self, keys: Sequence[Key]) -> tuple[list[int], dict[int, Future[bytes]]]:
        """Claim those of some texts that nobody embeds.

        Returns:
            The places of those that the caller has to embed, and has to hand to
            `sent` or `dropped`; and of the others, what to wait for.
        """
        mine: list[int] = []
        others: dict[int, Future[bytes]] = {}
        with self._lock:
            for at, key in enumerate(keys):
                if key in self._coming:
                    others[at] = self._coming[key]
                    continue
                promise: Future[bytes] = Future()
                # Running, so that one who stops waiting cannot cancel it for others.
                promise.set_running_or_notify_cancel()
                self._coming[key] = promise
                mine.append(at)
        return mine, others

    def sent(self, keys: Sequence[Key], batch: Future[Vectors]) -> None:
        """Tell those who wait for claimed texts when their batch is done.

        It does not take the caller, whose event loop may stand still meanwhile.
        """
        batch.add_done_callback(lambda done: self._arrived(keys, done))

    def dropped(self, keys: Sequence[Key]) -> None:
        """Give up what was claimed."""
        for promise in self._taken(keys):
            promise.set_exception(_failed())

    def _arrived(self, keys: Sequence[Key], done: Future[Vectors]) -> None:
        if done.cancelled() or done.exception() is not None:
            self.dropped(keys)
            return
        for promise, vector in zip(self._taken(keys), done.result(), strict=True):
            if vector.any():
                promise.set_result(vector.astype("<f4", copy=False).tobytes())
            else:
                promise.set_exception(_failed())

    def _taken(self, keys: Sequence[Key]) -> list[Future[bytes]]:
        with self._lock:
            return [self._coming.pop(key) for key in keys]


def _failed() -> EmbedderError:
    return EmbedderError("another call that embedded the same text failed")
