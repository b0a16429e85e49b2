"""Migrates an open file to another embedding model; resumable."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial

from vecall.embedders import Embedder
from vecall.errors import ConflictError, VecallError
from vecall.index.embedding import EmbeddingQueue, embedded_text, model_of
from vecall.store import (
    Change,
    EmbeddingModel,
    MoveVectors,
    PutNextVectors,
    RowWithVector,
    Storage,
    SwitchModels,
)

_BATCH = 64
_LEASE_S = 120.0  # of the process that embeds some rows
_PAUSE_S = 0.1

Moving = Callable[[Callable[[], bool]], AbstractContextManager[None]]
"""`Loader.moving` of the search index with the old model."""


class Reembedding:
    """A migration to another embedding model; `run` performs it."""

    def __init__(self, storage: Storage, embedder: Embedder) -> None:
        """Prepare the migration of the file to the model of `embedder`."""
        self._storage = storage
        self._embedder = embedder

    def run(
        self,
        switched: Callable[[EmbeddingModel], None],
        moving: Moving,
        stopping: Callable[[], bool],
    ) -> int:
        """Embed all memories with the new model, then make it the file's model.

        The backfill handles rows without a vector, and vectors that are not yet copied
        to their rows.

        Args:
            switched: Called after the new model has become the file's model.
            moving: Makes concurrent loads check whether the switch was committed.
                Between that commit and `switched`, a load finds no vectors of the old
                model.
            stopping: Returns True to stop early; another call resumes the migration.

        Returns:
            The number of memories embedded.

        Raises:
            EmbedderError: The embedder failed; another call resumes the migration.
            ConflictError: A migration to a third model has begun.
        """
        candidate = model_of(self._embedder)
        self._finish_last()
        model = self._storage.begin_migration(candidate)
        if model is None:  # no model before, or the same one: nothing to embed
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
        """Return whether the file has the new model; if so, switch to it."""
        with self._storage.read() as reads:
            active = reads.active_model()
        # Another process may have finished the migration.
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
            # Runs on the writer's thread. A write that fails because the model has
            # changed finds the new model here, and is repeated.
            if job.done:
                switched(model)

        self._storage.submit(job, then).result()
        return job.done

    def _finish_last(self) -> None:
        """Move the remaining vectors of an earlier migration that crashed.

        Only a crash leaves such vectors: a migration begins when all are moved.
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
            work = self._next(model)
            if work is None:
                break  # all is done, or another process has finished the migration
            rows, cursor, claimed = work
            try:
                vectors: list[bytes | None] = []
                if rows:
                    vectors = embedding.embed_now(
                        [embedded_text(row.author, row.text) for row, *_ in rows]
                    )
                if rows or cursor is not None:
                    job = PutNextVectors(model.id, rows, vectors, cursor)
                    self._storage.submit(job).result()
            finally:
                self._release(claimed)
            count += len(rows)
        return count

    def _next(
        self, model: EmbeddingModel
    ) -> tuple[list[RowWithVector], int | None, list[int]] | None:
        """Return rows to embed, the new cursor, and the numbers of claimed rows."""
        with self._storage.read() as reads:
            active = reads.active_model()
            if active is not None and active.id == model.id:
                return None
            reads.require_migrating(model.id)
            if self._storage.claims is None:
                rows, cursor = reads.to_be_embedded(_BATCH)
                return (rows, cursor, []) if rows or cursor is not None else None
        try:
            claimed = self._storage.claims.rows_to_embed(model.id, _BATCH, _LEASE_S)
        except ConflictError:
            with self._storage.read() as reads:
                active = reads.active_model()
            if active is not None and active.id == model.id:
                return None
            raise
        if claimed.is_last:
            return None
        if not claimed.rids:
            time.sleep(_PAUSE_S)  # other processes embed the last rows
        return claimed.rows, None, claimed.rids

    def _release(self, claimed: list[int]) -> None:
        """Let other processes claim those of the rows that are not done."""
        if claimed and self._storage.claims is not None:
            with suppress(VecallError):  # the claim ends with its lease
                self._storage.claims.release_rows(claimed)
