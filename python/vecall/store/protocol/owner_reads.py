"""Reads of one user's data."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Protocol

from vecall.filters.labels import EVERY
from vecall.filters.rights import FULL, Rights
from vecall.store.results import (
    BufferedTurn,
    ChangedRows,
    PartitionState,
    RevisionRow,
    Said,
    Version,
)
from vecall.store.rows import Row, RowWithVector
from vecall.types import Filter


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
