"""Reads of one user's data."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Protocol

from vecall.store.results import (
    BufferedTurn,
    ChangedRows,
    ExistingMemories,
    PartitionState,
    RevisionRow,
    Said,
    Version,
)
from vecall.store.rows import Draft, Row, RowWithVector
from vecall.types import Filter


class PartitionReads(Protocol):
    """A partition, and what changed in it: what the engine is loaded from."""

    def version(self, app: str, user: str) -> Version | None:
        """Return what `Storage.version` does, of this state."""
        ...

    def partition_state(self, part: int, app: str, user: str) -> PartitionState | None:
        """Return the state of a partition that was found by its names.

        None if it is gone, or its names were hidden by a purge.

        Raises:
            CorruptFileError: The number is another user's.
        """
        ...

    def require_gone(self, app: str, user: str) -> None:
        """Check that a user whose number leads nowhere is indeed forgotten.

        Raises:
            CorruptFileError: An index still has the user.
        """
        ...

    def partition_names(self, part: int) -> tuple[str, str] | None:
        """Return the app and the user of a partition; None if it is gone."""
        ...

    def changed_since(self, part: int, seq: int) -> ChangedRows | None:
        """Return the rows that changed after `seq`, deleted ones included.

        Args:
            part: The partition.
            seq: Older than its newest change.

        Returns:
            Their numbers, each once; None if the log of changes does not reach back.
        """
        ...

    def load_partition(self, part: int) -> Generator[RowWithVector, None, None]:
        """Yield the live memories of a partition by row number.

        To be closed where it is not read to its end.
        """
        ...

    def load_rows(
        self, rids: Iterable[int], *, any_state: bool = False
    ) -> list[RowWithVector]:
        """Return those of the rows that are live, in no particular order.

        With `any_state` also archived and quarantined ones, but for what a repair has
        set aside as damaged.
        """
        ...

    def likely_rows(
        self, part: int, conditions: Filter
    ) -> Iterator[tuple[int, str | None]]:
        """Yield number and metadata of the live rows that may pass a filter.

        All rows that pass are among them. Their labels are what the filter wants; their
        metadata may still fail it.

        Args:
            part: The partition.
            conditions: Of which labels and metadata count.

        Yields:
            The metadata as JSON; None where there are none, or the filter has no
            condition on metadata.
        """
        ...


class MemoryReads(Protocol):
    """Single memories, their history, and pages of them."""

    def find(self, app: str, user: str, id_: str, now: float) -> Row | None:
        """Return a live memory by its id, unless it has expired or is valid no more."""
        ...

    def as_it_stands(self, app: str, user: str, id_: str, now: float) -> Row | None:
        """Return a memory in any state, unless it has expired."""
        ...

    def turns_around(self, row: Row, before: int, after: int, now: float) -> list[Row]:
        """Return a row with the turns before and after it in its session, in order.

        Turns that are gone or have expired are not counted.
        """
        ...

    def history(self, app: str, user: str, id_: str, now: float) -> list[RevisionRow]:
        """Return what is known of a memory and of those it replaced, oldest first."""
        ...

    def listed(
        self,
        app: str,
        user: str,
        state: str,
        cursor: str | None,
        most: int,
        now: float,
    ) -> list[Row]:
        """Return memories of one state in the order of their making.

        Args:
            app: The app.
            user: The user.
            state: Only of this one.
            cursor: Only those made after the one of this id.
            most: At most so many; -1 is all.
            now: The time by which memories expire.

        Raises:
            NotFoundError: `cursor` is none of this user's, or not any more.
        """
        ...

    def old_sessions(
        self, app: str, user: str, before: float, now: float
    ) -> list[tuple[str, list[Row]]]:
        """Return sessions without a turn since `before`, with their live turns.

        Turns that will expire are among them only where all of a session do.
        """
        ...


class WriteReads(Protocol):
    """What is looked up before a write, so that less is embedded."""

    def is_used(self, app: str, user: str, key: str) -> bool:
        """Whether a call of this user had this idempotency key."""
        ...

    def lookup_existing(
        self, app: str, user: str, drafts: Sequence[Draft], now: float, model: int
    ) -> ExistingMemories:
        """Return what is known of memories that are to be added.

        Args:
            app: The app.
            user: The user.
            drafts: The memories.
            now: The time by which memories expire.
            model: The model of the vectors that can be used.
        """
        ...

    def vectors_of(
        self, part: int, said: Iterable[Said], model: int
    ) -> dict[Said, bytes]:
        """Return the vectors that memories of a partition have of some texts.

        Args:
            part: The partition.
            said: Hash and author of each text.
            model: The model of the vectors.
        """
        ...


class SessionReads(Protocol):
    """Turns that wait in a session."""

    def buffered_turns(self, app: str, user: str, session: str) -> list[BufferedTurn]:
        """Return the turns of a session that wait, in order."""
        ...

    def seen_turn_ids(
        self, app: str, user: str, session: str, ids: Sequence[str]
    ) -> set[str]:
        """Return those of some turns that were buffered before."""
        ...
