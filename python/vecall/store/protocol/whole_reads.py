"""Reads across users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from vecall.store.results import DueSession, EmbeddingModel
from vecall.store.rows import Row, RowWithVector


class OwnerReads(Protocol):
    """Users and sessions for which something is to be done, and totals."""

    def users_of(self, app: str) -> list[str]:
        """Return the users of an app."""
        ...

    def hidden_in_app(self, app: str) -> list[str]:
        """Return the names that a purge has put in place of users' names of an app.

        Their partitions are those of the app `HIDDEN_APP`.
        """
        ...

    def due_users(self, now: float) -> list[tuple[str, str]]:
        """Return app and user of those who have something that expired."""
        ...

    def due_sessions(self, now: float) -> list[DueSession]:
        """Return the sessions of which memories are to be made by now, oldest first."""
        ...

    def next_due(self) -> float | None:
        """Return when the next session is due, in seconds; None if none is."""
        ...

    def totals(self) -> dict[str, int]:
        """Return counts over all users, without those whose names are hidden."""
        ...


class ModelReads(Protocol):
    """The embedding model, and rows whose vectors are missing or to be replaced."""

    def active_model(self) -> EmbeddingModel | None:
        """Return the model of the vectors; None if there is none."""
        ...

    def has_memories(self) -> bool:
        """Whether there is any memory, in any state."""
        ...

    def without_vector(self, after: int, most: int) -> list[RowWithVector]:
        """Return at most so many live rows after row `after` that have no vector.

        In the order of row numbers.
        """
        ...

    def unmoved_vectors(self) -> bool:
        """Whether vectors of the active model wait for `MoveVectors`."""
        ...

    def require_migrating(self, model: int) -> None:
        """Check that the vectors are still being migrated to a model.

        Raises:
            ConflictError: They are not.
        """
        ...

    def to_be_embedded(self, most: int) -> tuple[list[RowWithVector], int | None]:
        """Return rows that still need a vector of the migrating model.

        Returns:
            At most so many rows, and the row number up to which all are done once these
            are; None for the latter if they were written behind the pass.
        """
        ...


class ConsolidationReads(Protocol):
    """What consolidation looks at."""

    def facts_of(self, app: str, user: str, now: float) -> list[RowWithVector]:
        """Return a user's live memories that are no turns, with their vectors."""
        ...

    def old_facts(self, app: str, user: str, before: float, now: float) -> list[Row]:
        """Return live facts and summaries from before a time, oldest first.

        What expires, or is valid until some time only, is not among them.
        """
        ...

    def changed_users(self, since: float | None) -> list[tuple[str, str]]:
        """Return the owners of live memories that were written since a time."""
        ...

    def last_consolidation(self) -> float | None:
        """Return when a scheduled run was claimed last, in seconds since 1970."""
        ...


class ExportReads(Protocol):
    """The contents as plain values."""

    def export_header(self, vectors: bool) -> dict[str, Any]:
        """Return the first line of an export."""
        ...

    def export_partitions(
        self, app: str | None, user: str | None
    ) -> list[tuple[int, str, str, float]]:
        """Return number, app, user and time of making of all or some partitions.

        Users whose names are hidden are not among them.
        """
        ...

    def export_lines(
        self, part: int, model: int | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield kind and values of each line of one partition, memories first.

        Args:
            part: The partition.
            model: Export the vectors of this model; None exports none.
        """
        ...
