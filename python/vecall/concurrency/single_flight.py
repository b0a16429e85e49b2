"""Single flight of embeddings: a text that is being embedded is not sent again."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.errors import EmbedderError

Key = tuple[str, str, bytes]
"""App, user, and what names a text."""


class SingleFlight:
    """Lets concurrent callers share the embedding of a text. Thread-safe."""

    def __init__(self) -> None:
        """Create the object without claims."""
        self._coming: dict[Key, Future[bytes]] = {}
        self._lock = threading.Lock()

    def claim(
        self, keys: Sequence[Key], mine: dict[int, Future[bytes]]
    ) -> dict[int, Future[bytes]]:
        """Claim those of some texts that are not being embedded.

        Args:
            keys: What names the texts.
            mine: Takes the places of those that the caller has to embed, and has to
                hand to `sent` or `dropped`, or to `abandoned` on any interrupt:
                also if that happens before this call returns.

        Returns:
            The places of the others, and what to wait for.
        """
        others: dict[int, Future[bytes]] = {}
        with self._lock:
            for at, key in enumerate(keys):
                if key in self._coming:
                    others[at] = self._coming[key]
                    continue
                promise: Future[bytes] = InterruptibleFuture()
                # Running, so that one who stops waiting cannot cancel it for others.
                promise.set_running_or_notify_cancel()
                mine[at] = promise
                self._coming[key] = promise
        return others

    def sent(self, keys: Sequence[Key], batch: Future[NDArray[np.float32]]) -> None:
        """Tell those who wait for claimed texts when their batch is done.

        It does not take the caller, whose event loop may stand still meanwhile.
        """
        batch.add_done_callback(lambda done: self._arrived(keys, done))

    def dropped(self, keys: Sequence[Key]) -> None:
        """Give up what was claimed."""
        for key in keys:
            promise = self._take(key)
            if promise is not None:
                promise.set_exception(_failed())

    def abandoned(
        self, keys: Sequence[Key], claimed: Mapping[int, Future[bytes]]
    ) -> None:
        """Give up what is left of a claim whose caller was interrupted."""
        for at, promise in claimed.items():
            with self._lock:
                if self._coming.get(keys[at]) is promise:
                    del self._coming[keys[at]]
            if not promise.done():
                promise.set_exception(_failed())

    def _arrived(self, keys: Sequence[Key], done: Future[NDArray[np.float32]]) -> None:
        if done.cancelled() or done.exception() is not None:
            self.dropped(keys)
            return
        for key, vector in zip(keys, done.result(), strict=True):
            promise = self._take(key)
            if promise is None:
                continue
            if vector.any():
                promise.set_result(vector.astype("<f4", copy=False).tobytes())
            else:
                promise.set_exception(_failed())

    def _take(self, key: Key) -> Future[bytes] | None:
        with self._lock:
            return self._coming.pop(key, None)


def _failed() -> EmbedderError:
    return EmbedderError("another call that embedded the same text failed")
