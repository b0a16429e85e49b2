"""Reads across users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from vecall.owner_summaries import AppSummary, UserSummary
from vecall.store.partition_copy import PartitionCopy, PartitionNames
from vecall.store.results import DueSession, EmbeddingModel
from vecall.store.rows import Row, RowWithVector


class OwnerReads(Protocol):
    """Reads of users and sessions that need work, and totals."""

    def list_apps(self, after: str, limit: int) -> list[AppSummary]:
        """Return the apps that have memories, in order of their names.

        Args:
            after: Only apps with a greater name.
            limit: Maximum number of apps.
        """
        ...

    def list_users(
        self, app: str, prefix: str, after: str, limit: int
    ) -> list[UserSummary]:
        """Return the users of an app who have memories, in order of their names.

        Args:
            app: The app.
            prefix: The beginning of the names.
            after: Only users with a greater name.
            limit: Maximum number of users.
        """
        ...

    def users_of(self, app: str) -> list[str]:
        """Return the users of an app."""
        ...

    def hidden_in_app(self, app: str) -> list[str]:
        """Return the digests that purges stored instead of an app's user names.

        The partitions of these users belong to the app `HIDDEN_APP`.
        """
        ...

    def due_users(self, now: float) -> list[tuple[str, str]]:
        """Return (app, user) of the users who have expired data."""
        ...

    def due_sessions(self, now: float) -> list[DueSession]:
        """Return the sessions whose buffered turns are due, earliest due time first."""
        ...

    def next_due(self) -> float | None:
        """Return the earliest due time of a session, in seconds; None if none."""
        ...

    def totals(self) -> dict[str, int]:
        """Return counts by name over all users whose names a purge did not hide."""
        ...


class ModelReads(Protocol):
    """Reads of the embedding model and of rows that need a vector."""

    def active_model(self) -> EmbeddingModel | None:
        """Return the model of the stored vectors; None if none is on record."""
        ...

    def has_memories(self) -> bool:
        """Whether the storage has a memory in any state."""
        ...

    def without_vector(self, after: int, limit: int) -> list[RowWithVector]:
        """Return live rows without a vector, in order of row number.

        Args:
            after: Only rows with a larger number.
            limit: Maximum number of rows.
        """
        ...

    def unmoved_vectors(self) -> bool:
        """Whether `MoveVectors` still has vectors of the active model to move."""
        ...

    def require_migrating(self, model: int) -> None:
        """Check that the migration to a model is still running.

        Raises:
            ConflictError: It is not.
        """
        ...

    def to_be_embedded(self, limit: int) -> tuple[list[RowWithVector], int | None]:
        """Return rows that still need a vector of the migrating model.

        The rows come in order of row number. After the last row of this pass come the
        rows that changed behind its cursor.

        Returns:
            At most `limit` rows, and the new cursor: once these rows are embedded, all
            rows up to it are done. The cursor is None after the pass.
        """
        ...


class ConsolidationReads(Protocol):
    """Reads for consolidation."""

    def facts_of(self, app: str, user: str, now: float) -> list[RowWithVector]:
        """Return a user's live memories that are not turns, with their vectors."""
        ...

    def old_facts(self, app: str, user: str, before: float, now: float) -> list[Row]:
        """Return live facts and summaries from before a time, oldest first.

        Memories with a TTL or a `valid_until` are left out.
        """
        ...

    def changed_users(self, since: float | None) -> list[tuple[str, str]]:
        """Return (app, user) of the users with live memories written since a time."""
        ...

    def last_consolidation(self) -> float | None:
        """Return when a scheduled run was last claimed, in seconds since 1970."""
        ...


class ExportReads(Protocol):
    """Reads of the contents as plain values, for export."""

    def export_header(self, vectors: bool) -> dict[str, Any]:
        """Return the first line of an export."""
        ...

    def export_partitions(
        self, app: str | None, user: str | None
    ) -> list[tuple[int, str, str, float]]:
        """Return number, app, user and creation time of partitions.

        Users whose names a purge hid are left out.

        Args:
            app: Only this app; None is every app.
            user: Only this user; None is every user.
        """
        ...

    def export_lines(
        self, part: int, model: int | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield kind and values of each export line of a partition, memories first.

        Args:
            part: The partition.
            model: Include the vectors of the model with this number; None includes no
                vectors.
        """
        ...


class CopyReads(Protocol):
    """Reads of all rows of a user, for a copy in another storage."""

    def partitions_after(self, after: int, limit: int) -> list[PartitionNames]:
        """Return the partitions with a greater number, in order.

        Args:
            after: The number.
            limit: Maximum number of partitions.
        """
        ...

    def partition_copy(
        self, names: PartitionNames, expiry_now: float
    ) -> PartitionCopy | None:
        """Return all rows of a partition; None if there is none with its number.

        Args:
            names: The partition.
            expiry_now: The reading of the storage's expiry clock.
        """
        ...

    def is_changing_model(self) -> bool:
        """Whether the storage is being moved to another embedding model."""
        ...

    def identity_facts(self) -> dict[str, str]:
        """Return the seed of the engines, and the key that hides names, if any."""
        ...
