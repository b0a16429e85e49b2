"""The rows of one partition that pass those conditions that the engine cannot check.

Conditions on metadata are checked on the JSON as parsed by Python, which is what
callers see. A database may cut texts at a NUL, or convert large integers to floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.time_slices import in_slices
from vecall.store import Storage, passing_metadata
from vecall.types import Condition, Filter, several


def needs_rows(wanted_labels: Filter) -> bool:
    """Whether a filter has more than the engine supports: one author and one kind."""
    return (
        wanted_labels.metadata is not None
        or wanted_labels.trust is not None
        or wanted_labels.source is not None
        or wanted_labels.not_kind is not None
        or wanted_labels.session_prefix is not None
        or wanted_labels.kind_prefix is not None
        or len(several(wanted_labels.author)) > 1
        or len(several(wanted_labels.kind)) > 1
    )


def passing_rows(
    storage: Storage, key: tuple[str, str], conditions: Filter
) -> NDArray[np.int64]:
    """Return the numbers of the live rows whose labels and metadata pass a filter.

    Args:
        storage: The file.
        key: The names of the partition.
        conditions: A filter that `check_filter` returned.

    Raises:
        CorruptFileError: The metadata of a row are not a JSON object.
    """
    target = storage.version(*key)
    if target is None:
        return np.empty(0, np.int64)
    part = target[0]
    with storage.read(*key) as reads:
        if reads.partition_state(part, *key) is None:
            return np.empty(0, np.int64)  # the user was deleted meanwhile
        rows: Iterable[tuple[int, float, float, str | None]] = reads.likely_rows(
            part, conditions
        )
        if not storage.in_memory:
            return np.fromiter(_passing(rows, conditions.metadata), np.int64)
        rows = list(rows)  # a database in memory has no other readers or writers
    return np.fromiter(_passing(rows, conditions.metadata), np.int64)


def left_out_rows(
    storage: Storage, key: tuple[str, str], ids: Sequence[str]
) -> NDArray[np.int64]:
    """Return the numbers of the rows that a search leaves out by their ids."""
    target = storage.version(*key)
    if target is None:
        return np.empty(0, np.int64)
    with storage.read(*key) as reads:
        return np.array(reads.rows_of_ids(target[0], ids), np.int64)


def _passing(
    rows: Iterable[tuple[int, float, float, str | None]],
    wanted: Mapping[str, Condition] | None,
) -> Iterator[int]:
    """Yield the numbers of those rows whose metadata meet all conditions.

    Raises:
        CorruptFileError: The metadata of a row are not a JSON object.
    """
    found = in_slices(rows) if wanted is None else passing_metadata(rows, wanted)
    return (row[0] for row in found)
