"""Embeds, in the background, memories that were stored without an embedder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby

from vecall.errors import BusyError, VecallError
from vecall.index.embedding import EmbeddingQueue, embedded_text
from vecall.store import MoveVectors, RowWithVector, SetVectors, Storage, text_hash

_BATCH = 64


class Backfill:
    """One pass over the rows without vectors, on its own thread.

    Meanwhile searches find the remaining rows by words. The pass stops at the first
    failure of the embedder and starts again when the file is next opened.
    """

    def __init__(
        self,
        storage: Storage,
        embedding: EmbeddingQueue | None,
        model: int | None,
    ) -> None:
        """Start the thread if there are rows to embed.

        Args:
            storage: The file.
            embedding: Embeds with the file's model; None to embed nothing.
            model: The number of the file's model.
        """
        self._storage = storage
        self._embedding = embedding
        self._model = model
        self.filled = 0  # rows that got a vector
        self._stopping = threading.Event()
        self.stop: Callable[[], None] = self._stopping.set
        """Ends the thread after the batch that is being embedded; does not wait."""
        self._thread: threading.Thread | None = None
        if self._has_work():
            self._thread = threading.Thread(
                target=self._work, name="vecall-backfill", daemon=True
            )
            self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the pass; False on timeout."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def close(self) -> None:
        """Stop after the batch that is being embedded."""
        self.stop()
        self.wait()

    def _has_work(self) -> bool:
        with self._storage.read() as reads:
            if reads.unmoved_vectors():
                return True
        return self._embedding is not None and bool(self._next(0, 1))

    def _next(self, after: int, limit: int) -> list[RowWithVector]:
        with self._storage.read() as reads:
            return reads.without_vector(after, limit)

    def _work(self) -> None:
        last = 0
        try:
            self._move()
            while self._embedding is not None and not self._stopping.is_set():
                rows = self._next(last, _BATCH)
                if not rows:
                    return
                last = rows[-1].row.rid
                for part, some in groupby(rows, lambda stored: stored.row.rid >> 32):
                    with suppress(BusyError):  # of a user that is locked
                        self._embed(part, list(some))
        except VecallError:
            return  # the rows stay searchable by words

    def _move(self) -> None:
        """Move the vectors that a model migration has left in `vec_next`."""
        while not self._stopping.is_set():
            with self._storage.read() as reads:
                if not reads.unmoved_vectors():
                    return
            self._storage.submit(MoveVectors()).result()

    def _embed(self, part: int, rows: list[RowWithVector]) -> None:
        assert self._embedding is not None
        assert self._model is not None
        with self._storage.read() as reads:
            names = reads.partition_names(part)
            said = [(text_hash(row.text), row.author) for row, *_ in rows]
            known = reads.vectors_of(part, said, self._model)
        if names is None:
            return  # the user was deleted after the rows were read
        new = {
            each: embedded_text(row.author, row.text)
            for each, (row, *_) in zip(said, rows, strict=True)
            if each not in known
        }
        if new:
            made = self._embedding.embed_now(list(new.values()))
            known |= {
                text: vector
                for text, vector in zip(new, made, strict=True)
                if vector is not None
            }
        done = [
            (row, known[text])
            for row, text in zip(rows, said, strict=True)
            if text in known
        ]
        if not done:
            return
        job = SetVectors(
            *names, [row for row, _ in done], [vec for _, vec in done], self._model
        )
        self._storage.submit(job).result()
        self.filled += len(done)
