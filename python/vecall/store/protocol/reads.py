"""All read operations of the storage protocol."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from vecall.filters.metadata import EVERY
from vecall.filters.rights import FULL, Rights
from vecall.store.results import (
    BufferedTurn,
    ChangedRows,
    DueSession,
    EmbeddingModel,
    PartitionState,
    RevisionRow,
    Said,
    Version,
)
from vecall.store.rows import PartitionCopy, PartitionNames, Row, RowWithVector
from vecall.store.values import ItemRow, ItemState, ItemVectors
from vecall.types import (
    AppSummary,
    Filter,
    ListedSession,
    MemoryFigures,
    UserSummary,
)

# Reads of items: JSON documents under a namespace and a key.


class ItemReads(Protocol):
    """Reads of the items of one (app, user).

    The row number of an item is `part << 32 | version`. Every write takes the next
    version of its partition, and none is used twice, so a row number stands for one
    content for ever. A reader that knows all versions up to one finds later writes by
    their larger numbers. It finds deletions because the row numbers are missing. The
    pieces of a large value have the versions before that of its item; no read returns
    them as items.

    Expired items are still returned, except where `now` is an argument. Ranges of
    namespaces are in code point order, as `namespace_range` returns them.
    """

    def item_state(self, app: str, user: str) -> ItemState | None:
        """Return what is known about a user's items; None if the user has none."""
        ...

    def items_at(
        self, part: int, places: Sequence[tuple[str, str]], *, pieces: bool = True
    ) -> list[ItemRow | None]:
        """Return the item of each (namespace, key), without vectors.

        Args:
            part: The partition.
            places: Namespaces and keys.
            pieces: Whether the pieces of large values are read.
        """
        ...

    def items_by_number(self, part: int, rids: Sequence[int]) -> list[ItemRow]:
        """Return the items that still exist of some row numbers, with vectors."""
        ...

    def newest_items(
        self,
        part: int,
        low: str,
        high: str | None,
        first: int = 16,
        before: int | None = None,
    ) -> Iterator[ItemRow]:
        """Yield the items of a range of namespaces, latest write first.

        Args:
            part: The partition.
            low: The lowest namespace.
            high: The lowest namespace above the range; None is no upper bound.
            first: The number of items that are read at once at the beginning.
            before: Only versions below this one; None is no bound.
        """
        ...

    def item_vectors(
        self, part: int, namespace: str | None, after: int
    ) -> Iterator[ItemVectors]:
        """Yield items with their vectors; b"" for an item without vectors.

        Args:
            part: The partition.
            namespace: Only this namespace; None is every namespace.
            after: Only versions above this one.
        """
        ...

    def item_namespaces(
        self, part: int, low: str, high: str | None, now: float
    ) -> list[str]:
        """Return the namespaces of a range that have an item, in code point order."""
        ...

    def count_items(self, part: int, low: str, high: str | None, now: float) -> int:
        """Return the number of items in a range of namespaces."""
        ...

    def export_items(self, part: int, vectors: bool) -> Iterator[dict[str, Any]]:
        """Yield the values of each item's export line, in order of their versions."""
        ...


# Reads of one user's data.


class PartitionReads(Protocol):
    """Reads that load a partition into the engine and keep it current."""

    def version(self, app: str, user: str) -> Version | None:
        """Return what `Storage.version` returns, for the state of this block."""
        ...

    def partition_state(self, part: int, app: str, user: str) -> PartitionState | None:
        """Return the state of a partition, and check that it belongs to (app, user).

        Returns:
            The state; None if the partition was deleted, or a purge hid its names.

        Raises:
            CorruptFileError: The partition belongs to another user.
        """
        ...

    def require_gone(self, app: str, user: str) -> None:
        """Check that no index has an entry of a user whose partition is missing.

        Raises:
            CorruptFileError: An index has an entry of the user.
        """
        ...

    def partition_names(self, part: int) -> tuple[str, str] | None:
        """Return app and user of a partition; None if it does not exist."""
        ...

    def changed_since(self, part: int, seq: int, head: int) -> ChangedRows | None:
        """Return the rows that changed after a change, including deleted ones.

        Args:
            part: The partition.
            seq: The change, older than the partition's newest one.
            head: Its random bits.

        Returns:
            The row numbers, without duplicates; None if the change log no longer
            reaches back to the change, or has another one of this number.
        """
        ...

    def load_partition(self, part: int) -> Generator[RowWithVector, None, None]:
        """Yield the live memories of a partition in order of row number.

        The caller closes the generator unless it reads it to the end.
        """
        ...

    def load_rows(
        self, rids: Iterable[int], *, any_state: bool = False
    ) -> list[RowWithVector]:
        """Return the rows that exist and are live, in any order.

        With `any_state`, archived and quarantined rows are included. Rows that a
        repair set aside as damaged are not.
        """
        ...

    def likely_rows(
        self, part: int, conditions: Filter
    ) -> Iterator[tuple[int, float, float, str | None]]:
        """Yield the live rows of a partition that may pass a filter.

        Every row that passes is yielded. The labels of yielded rows match the filter.
        The caller must still check their metadata.

        Args:
            part: The partition.
            conditions: The filter; only its labels and metadata are used.

        Yields:
            The row number, the time and the time of the last change in seconds, and
            the metadata as JSON. The latter are None if the row has no metadata or the
            filter has no condition on metadata; then the times mean nothing.
        """
        ...

    def passing(
        self, app: str, user: str, conditions: Filter
    ) -> dict[str, float | None]:
        """Return the memories of a user that pass a filter, in any state.

        Args:
            app: The app.
            user: The user.
            conditions: A filter that `check_filter` returned, with metadata.

        Returns:
            The `updated_at` of each, by id.

        Raises:
            LimitExceededError: The filter takes too many comparisons.
        """
        ...

    def rows_of_ids(self, part: int, ids: Sequence[str]) -> list[int]:
        """Return the numbers of a partition's rows with these ids, in any state."""
        ...


class MemoryReads(Protocol):
    """Reads of single memories, their history, and pages of memories.

    A memory that `rights` hide is not returned, not counted and no cursor.
    """

    def find(
        self, app: str, user: str, id_: str, now: float, rights: Rights = FULL
    ) -> Row | None:
        """Return a live memory by id; None if `expires_at` or `valid_until` passed."""
        ...

    def find_many(
        self,
        app: str,
        user: str,
        ids: Sequence[str],
        now: float,
        rights: Rights = FULL,
    ) -> list[Row]:
        """Return what `find` returns for each id that has a memory, in any order."""
        ...

    def turns_around(
        self, row: Row, before: int, after: int, now: float, rights: Rights = FULL
    ) -> list[Row]:
        """Return a turn with its neighbours in the session, in order.

        Args:
            row: The turn. Without a session, it is returned alone.
            before: Maximum number of turns before it.
            after: Maximum number of turns after it.
            now: The time by which memories expire. Only live turns that have not
                expired are counted.
            rights: Only turns that the caller sees are counted.
        """
        ...

    def history(
        self, app: str, user: str, id_: str, now: float, rights: Rights = FULL
    ) -> list[RevisionRow]:
        """Return the revisions of a memory and of those it replaced, oldest first."""
        ...

    def listed(
        self,
        app: str,
        user: str,
        state: str,
        cursor: str | None,
        limit: int,
        now: float,
        conditions: Filter = EVERY,
        rights: Rights = FULL,
    ) -> list[Row]:
        """Return a page of a user's memories in one state, in order of creation.

        Args:
            app: The app.
            user: The user.
            state: The state: "live", "archived" or "quarantined".
            cursor: The id of the last memory of the page before; None starts at the
                beginning.
            limit: Maximum number of memories; -1 returns all.
            now: The time by which memories expire.
            conditions: Only memories that pass this filter.
            rights: Only memories that the caller sees.

        Raises:
            NotFoundError: The user has no memory with the id `cursor`.
        """
        ...

    def count_listed(
        self,
        app: str,
        user: str,
        state: str,
        now: float,
        conditions: Filter,
        rights: Rights = FULL,
    ) -> int:
        """Return the number of memories that `listed` returns without a limit."""
        ...

    def memory_figures(
        self, app: str, user: str, state: str, now: float, rights: Rights = FULL
    ) -> MemoryFigures:
        """Count the memories that `listed` returns, by day and by kind."""
        ...

    def list_sessions(
        self,
        app: str,
        user: str,
        prefix: str,
        after: str,
        limit: int,
        now: float,
        rights: Rights = FULL,
    ) -> list[ListedSession]:
        """Return the sessions that have memories, in order of their names.

        Args:
            app: The app.
            user: The user.
            prefix: The beginning of the names.
            after: Only sessions with a greater name.
            limit: Maximum number of sessions.
            now: The time by which memories expire; those that have count nowhere.
            rights: Only memories that the caller sees count.
        """
        ...

    def old_sessions(
        self, app: str, user: str, before: float, now: float
    ) -> list[tuple[str, list[Row]]]:
        """Return the sessions without a turn since `before`, with their live turns.

        Turns with a TTL are left out, unless all turns of the session have one.
        """
        ...


class WriteReads(Protocol):
    """Lookups before a write, which avoid embedding a text again."""

    def vectors_of(
        self, part: int, said: Iterable[Said], model: int
    ) -> dict[Said, bytes]:
        """Return vectors that are already stored in a partition for equal texts.

        Args:
            part: The partition.
            said: (hash, author) of each text.
            model: Only vectors of the model with this number are returned.

        Returns:
            Vectors by (hash, author), float32 little-endian. Texts without a stored
            vector are left out.
        """
        ...


class SessionReads(Protocol):
    """Reads of the turns that are buffered for a session."""

    def buffered_turns(self, app: str, user: str, session: str) -> list[BufferedTurn]:
        """Return the buffered turns of a session, in order."""
        ...

    def seen_turn_ids(
        self, app: str, user: str, session: str, ids: Sequence[str]
    ) -> set[str]:
        """Return those of `ids` that the session has buffered before."""
        ...


# Reads across users.


class OwnerReads(Protocol):
    """Reads of users and sessions that need work, and totals."""

    def list_apps(
        self, prefix: str, after: str, limit: int, rights: Rights = FULL
    ) -> list[AppSummary]:
        """Return the apps that have memories, in order of their names.

        Args:
            prefix: The beginning of the names.
            after: Only apps with a greater name.
            limit: Maximum number of apps.
            rights: Only memories that the caller sees count.
        """
        ...

    def list_users(
        self, app: str, prefix: str, after: str, limit: int, rights: Rights = FULL
    ) -> list[UserSummary]:
        """Return the users of an app who have memories, in order of their names.

        Args:
            app: The app.
            prefix: The beginning of the names.
            after: Only users with a greater name.
            limit: Maximum number of users.
            rights: Only memories that the caller sees count.
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


class StorageReads(
    PartitionReads,
    MemoryReads,
    WriteReads,
    SessionReads,
    OwnerReads,
    ModelReads,
    ConsolidationReads,
    ExportReads,
    CopyReads,
    ItemReads,
    Protocol,
):
    """The read operations on one state; valid inside the block of `Storage.read`.

    `now` is a time of `Storage.expiry_clock`, in seconds since 1970. Memories that
    expired by `now` are left out. Every operation raises CorruptFileError if the data
    that it reads is damaged, and ClosedError after the block.
    """
