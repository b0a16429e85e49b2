"""The rows of one user: vectors in the engine, other fields in dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.vector_store.validation import Key, PartitionScope

_NEVER = np.iinfo(np.int64).max
_NO_SESSION = 0

Hit = tuple[int, float]
"""Row number and cosine."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row without its vector; its metadata is JSON."""

    id: str
    session: str | None
    micros: int
    metadata: str


@dataclass(slots=True)
class _Session:
    """A session's number in the engine, and the numbers of its rows."""

    number: int
    rows: set[int] = field(default_factory=set)


class Partition:
    """One user's rows, by numbers that are never reused.

    The engine also knows sessions by numbers, not by hashes, so two sessions never
    collide. `find` needs no lock; all other methods need the caller's lock.
    """

    def __init__(self, engine: Engine, key: Key) -> None:
        """Create an empty partition."""
        self.rows: dict[int, Row] = {}
        self._engine = engine
        self._key = key
        self._numbers: dict[str, int] = {}  # of rows, by id
        self._sessions: dict[str, _Session] = {}

    def number_of(self, id: str) -> int | None:
        """Return the number of the row with this id."""
        return self._numbers.get(id)

    def candidates(self, scope: PartitionScope) -> list[tuple[int, Row]]:
        """Return the rows of the scope's session, or all rows; ignores times."""
        if scope.session is None:
            return list(self.rows.items())
        session = self._sessions.get(scope.session)
        numbers = () if session is None else session.rows
        return [(number, self.rows[number]) for number in numbers]

    def add(self, number: int, row: Row, vector: NDArray[np.float32]) -> None:
        """Add a row under a new number; an error changes nothing."""
        session = None
        if row.session is not None:
            session = self._sessions.get(row.session) or _Session(number)
        label = _NO_SESSION if session is None else session.number
        self._engine.add_rows(
            self._key,
            np.array([number], np.int64),
            np.array([row.micros], np.int64),
            np.array([_NEVER], np.int64),
            np.array([label], np.uint64),
            np.zeros(1, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(2, np.int64),
            vector[None],
        )
        self.rows[number] = row
        self._numbers[row.id] = number
        if session is not None and row.session is not None:
            session.rows.add(number)
            self._sessions[row.session] = session

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove rows; the engine removes all of them atomically."""
        self._engine.remove(self._key, np.array(numbers, np.int64))
        for number in numbers:
            row = self.rows.pop(number)
            if self._numbers[row.id] == number:  # else it was replaced
                del self._numbers[row.id]
            if row.session is None:
                continue
            session = self._sessions[row.session]
            session.rows.discard(number)
            if not session.rows:
                del self._sessions[row.session]

    def drop(self) -> None:
        """Free the partition's memory in the engine."""
        self._engine.drop(self._key)

    def options(self, scope: PartitionScope) -> dict[str, Any] | None:
        """Return the engine's options for a filter; None if no row passes it."""
        options: dict[str, Any] = {}
        if scope.session is not None:
            session = self._sessions.get(scope.session)
            if session is None:
                return None
            options["session"] = session.number
        if scope.after is not None:
            options["after"] = scope.after
        if scope.before is not None:
            options["before"] = scope.before
        return options

    def find(
        self, vector: NDArray[np.float32], top_k: int, options: Mapping[str, Any]
    ) -> list[Hit]:
        """Return the best rows, best first, and all that tie with the last one.

        The engine breaks ties of score and time by number, the store by id.
        """
        wanted = top_k + 1
        while True:
            ids, scores = self._engine.search(
                self._key, vector, wanted, exact=True, **options
            )
            hits: list[Hit] = list(zip(ids.tolist(), scores.tolist(), strict=True))
            if len(hits) < wanted or not self._tie(hits[top_k - 1], hits[-1]):
                return hits
            wanted *= 4

    def _tie(self, first_hit: Hit, second_hit: Hit) -> bool:
        """Whether two hits tie; False if one was removed, which the caller detects."""
        first, second = self.rows.get(first_hit[0]), self.rows.get(second_hit[0])
        if first is None or second is None:
            return False
        return first_hit[1] == second_hit[1] and first.micros == second.micros
