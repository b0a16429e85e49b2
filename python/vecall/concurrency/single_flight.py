"""Single flight of embeddings: concurrent calls embed the same text only once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.errors import EmbedderError

Key = tuple[str, str, bytes]
"""App, user and the identifier of a text."""


class SingleFlight:
    """Shares the embedding of a text between concurrent callers. Thread-safe.

    A caller claims the texts that no other caller is embedding, and waits for the rest.
    """

    def __init__(self) -> None:
        """Create the object without claims."""
        self._coming: dict[Key, Future[bytes | None]] = {}
        self._lock = threading.Lock()

    def claim(
        self, keys: Sequence[Key], mine: dict[int, Future[bytes | None]]
    ) -> dict[int, Future[bytes | None]]:
        """Claim the texts that no other caller is embedding.

        Args:
            keys: The keys of the texts.
            mine: Receives the futures of the claimed texts, by index in `keys`. The
                caller must embed these texts, then pass their keys to `sent` or
                `dropped`. On any interrupt, even one before this call returns, it must
                pass `mine` to `abandoned`.

        Returns:
            The futures of the texts that other callers are embedding, by index in
            `keys`.
        """
        others: dict[int, Future[bytes | None]] = {}
        with self._lock:
            for at, key in enumerate(keys):
                if key in self._coming:
                    others[at] = self._coming[key]
                    continue
                promise: Future[bytes | None] = InterruptibleFuture()
                # A running future cannot be cancelled by one of its waiters.
                promise.set_running_or_notify_cancel()
                mine[at] = promise
                self._coming[key] = promise
        return others

    def sent(self, keys: Sequence[Key], batch: Future[NDArray[np.float32]]) -> None:
        """Resolve the futures of claimed texts when their batch is done.

        A done callback does this, so it does not depend on the caller's event loop,
        which may be blocked meanwhile.

        Args:
            keys: The keys of the batch's texts, in order.
            batch: The future of the vectors, float32 (len(keys), dim).
        """
        batch.add_done_callback(lambda done: self._arrived(keys, done))

    def dropped(self, keys: Sequence[Key]) -> None:
        """Give up claims: the futures of these keys fail with `EmbedderError`."""
        for key in keys:
            promise = self._take(key)
            if promise is not None:
                promise.set_exception(_failed())

    def abandoned(
        self, keys: Sequence[Key], claimed: Mapping[int, Future[bytes | None]]
    ) -> None:
        """Give up the unresolved claims of a caller that was interrupted.

        Args:
            keys: The keys of the texts, as in `claim`.
            claimed: The `mine` of that call.
        """
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
            data = vector.astype("<f4", copy=False).tobytes() if vector.any() else None
            promise.set_result(data)  # a zero vector has no direction

    def _take(self, key: Key) -> Future[bytes | None] | None:
        with self._lock:
            return self._coming.pop(key, None)


def _failed() -> EmbedderError:
    return EmbedderError("another call that embedded the same text failed")
