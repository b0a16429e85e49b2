"""The rows of one partition that pass what the engine cannot see of a filter."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vecall.store import Database, partition_state
from vecall.store.reads.metadata_filter import likely_rows, passing
from vecall.types import Filter


def passing_rows(
    database: Database, key: tuple[str, str], conditions: Filter
) -> NDArray[np.int64]:
    """Return the numbers of the live rows whose labels and metadata pass a filter.

    Args:
        database: The file.
        key: The names of the partition.
        conditions: A filter that `check_filter` returned.

    Raises:
        CorruptFileError: The metadata of a row are not a JSON object.
    """
    target = database.partition(*key)
    if target is None:
        return np.empty(0, np.int64)
    part = target[0]
    with database.read_transaction() as connection:
        if partition_state(connection, part, *key) is None:
            return np.empty(0, np.int64)  # forgotten meanwhile
        rows: Iterable[tuple[int, str | None]] = likely_rows(
            connection, part, conditions
        )
        if database.path is not None:
            return np.fromiter(passing(rows, conditions.metadata), np.int64)
        rows = list(rows)  # in memory no other process reads or writes meanwhile
    return np.fromiter(passing(rows, conditions.metadata), np.int64)
