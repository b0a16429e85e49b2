"""Moves a file to another embedding model while it is in use; can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from vecall.embedders import Embedder
from vecall.index.embedding import EmbeddingQueue, embedded_text, model_of
from vecall.store import (
    Change,
    EmbeddingModel,
    MoveVectors,
    PutNextVectors,
    Storage,
    SwitchModels,
)

_BATCH = 64

Moving = Callable[[Callable[[], bool]], AbstractContextManager[None]]
"""`Loader.moving` of what serves the model before."""


class Reembedding:
    """A migration to another model; `run` performs it."""

    def __init__(self, storage: Storage, embedder: Embedder) -> None:
        """Prepare to move the file to `embedder`."""
        self._storage = storage
        self._embedder = embedder

    def run(
        self,
        switched: Callable[[EmbeddingModel], None],
        moving: Moving,
        stopping: Callable[[], bool],
    ) -> int:
        """Embed all memories with the new model and make it the file's.

        Vectors that wait to be moved to their rows, and rows without one, are left to
        the backfill.

        Args:
            switched: Is called once the new model is the file's.
            moving: Has what reads the file meanwhile ask whether the new model is the
                file's. Between the commit that makes it so and `switched`, what is read
                has no vectors of the model before.
            stopping: Whether to leave the rest to another call.

        Returns:
            How many memories were embedded.

        Raises:
            EmbedderError: The embedder failed; another call goes on from there.
            ConflictError: Somebody began to move the file to yet another model.
        """
        candidate = model_of(self._embedder)
        self._finish_last()
        model = self._storage.begin_migration(candidate)
        if model is None:  # there was none, or it is the same: nothing to prepare
            with self._storage.read() as reads:
                model = reads.active_model()
            assert model is not None
            switched(model)
            return 0
        count = 0
        embedding = EmbeddingQueue(self._embedder)
        try:
            with moving(partial(self._moved, model, switched)):
                while not stopping():
                    count += self._prepare(embedding, model, stopping)
                    if self._switch(model, switched):
                        break
        finally:
            embedding.close()
        return count

    def _moved(
        self, model: EmbeddingModel, switched: Callable[[EmbeddingModel], None]
    ) -> bool:
        """Return whether the file has the new model; if so, serve it."""
        with self._storage.read() as reads:
            active = reads.active_model()
        # Another process may have finished the move, which is on its way here, too.
        return (
            active is not None
            and active.id == model.id
            and self._switch(model, switched)
        )

    def _switch(
        self, model: EmbeddingModel, switched: Callable[[EmbeddingModel], None]
    ) -> bool:
        job = SwitchModels(model)

        def then(_: Change) -> None:
            # On the writer's thread: a write refused because the model has changed then
            # finds this service changed already, and is repeated.
            if job.done:
                switched(model)

        self._storage.submit(job, then).result()
        return job.done

    def _finish_last(self) -> None:
        """Move what another change of the model, cut short by a crash, left unmoved.

        Nobody else leaves any: a change begins when there is none.
        """
        while True:
            with self._storage.read() as reads:
                if not reads.unmoved_vectors():
                    return
            self._storage.submit(MoveVectors()).result()

    def _prepare(
        self,
        embedding: EmbeddingQueue,
        model: EmbeddingModel,
        stopping: Callable[[], bool],
    ) -> int:
        count = 0
        while not stopping():
            with self._storage.read() as reads:
                active = reads.active_model()
                if active is not None and active.id == model.id:
                    break  # another process has finished it
                reads.require_migrating(model.id)
                rows, cursor = reads.to_be_embedded(_BATCH)
            if not rows and cursor is None:
                break
            vectors: list[bytes] = []
            if rows:
                vectors = embedding.embed_now(
                    [embedded_text(row.author, row.text) for row, *_ in rows]
                )
            job = PutNextVectors(model.id, rows, vectors, cursor)
            self._storage.submit(job).result()
            count += len(rows)
        return count
