"""Checksums as vecall computed them of what a caller had given."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from vecall.store.rows import Row
from vecall.store.values import ItemRow

_SUMMED = 16  # columns of a row that are always in its checksum


def _spelled(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return repr(value)


def old_row_checksum(row: Row, vec: bytes | None, numpy_fields: Sequence[str]) -> int:
    """That of a memory whose fields were NumPy's."""
    row = row._replace(**{n: np.float64(getattr(row, n)) for n in numpy_fields})
    summed: list[Any] = list(row[:_SUMMED])
    if row.uses is not None or row.last_used is not None:
        summed += [row.uses, row.last_used]
    if row.valid_until is not None or row.supersedes is not None:
        summed += ["valid", row.valid_until, row.supersedes]
    text = "\0".join(map(_spelled, summed))
    return zlib.crc32(vec or b"", zlib.crc32(text.encode()))


def old_item_checksum(row: ItemRow, numpy_fields: Sequence[str]) -> int:
    """That of an item whose fields were NumPy's."""
    kinds: dict[type, Any] = {str: np.str_, float: np.float64}
    changed = {n: kinds[type(v)](v) for n in numpy_fields if (v := getattr(row, n))}
    return zlib.crc32(repr(row._replace(**changed)[:8]).encode())
