"""Checks of a vector store's arguments, for any store."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vecall.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError
from vecall.filters.metadata import asks_times
from vecall.limits import Limits
from vecall.scalars import exact
from vecall.timestamps import to_micros, to_seconds
from vecall.types import Filter
from vecall.validation import check_filter, check_name
from vecall.vector_store.base import VectorStoreFilter

Key = tuple[str, str]
"""(app_name, user_id)."""

MAX_DIMENSIONS = 65_536


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """A checked filter; times are in microseconds since 1970."""

    key: Key
    session: str | None = None
    after: int | None = None
    before: int | None = None
    where: Filter | None = None

    def lets_through(self, micros: int) -> bool:
        """Whether a row of this time passes."""
        return (self.after is None or self.after <= micros) and (
            self.before is None or micros < self.before
        )


@dataclass(frozen=True, slots=True)
class Described:
    """Checked metadata: as JSON, and the fields that filters read."""

    text: str
    key: Key
    session: str | None
    micros: int | None


def check_key(app_name: object, user_id: object, where: str, limits: Limits) -> Key:
    """Return the names of an app and a user.

    Args:
        app_name: The app.
        user_id: The user.
        where: The prefix of their names in a message, such as "filter.".
        limits: The maximum length of a name.

    Raises:
        InvalidArgumentError: A name is missing or invalid.
    """
    for value, name in ((app_name, "app_name"), (user_id, "user_id")):
        if value is None:
            msg = f"{where}{name}: required; no call reaches across users"
            raise InvalidArgumentError(msg)
    return (
        check_name(app_name, f"{where}app_name", limits),
        check_name(user_id, f"{where}user_id", limits),
    )


def check_scope(wanted: object, limits: Limits) -> PartitionScope:
    """Return a checked filter.

    Raises:
        InvalidArgumentError: The app or the user is missing, or a value is invalid.
    """
    if wanted is None:
        wanted = VectorStoreFilter()
    if not isinstance(wanted, VectorStoreFilter):
        msg = "filter: expected a VectorStoreFilter"
        raise InvalidTypeError(msg)
    session, after, before = wanted.session_id, wanted.after, wanted.before
    return PartitionScope(
        check_key(wanted.app_name, wanted.user_id, "filter.", limits),
        None if session is None else check_name(session, "filter.session_id", limits),
        None if after is None else to_micros(to_seconds(after, "filter.after")),
        None if before is None else to_micros(to_seconds(before, "filter.before")),
        None if wanted.where is None else _where(wanted.where, limits),
    )


def _where(given: object, limits: Limits) -> Filter:
    """Return conditions on labels and metadata."""
    if not isinstance(given, Filter):
        msg = "filter.where: expected a Filter"
        raise InvalidTypeError(msg)
    wanted = check_filter(given, limits, by_metadata=True)
    if asks_times(wanted.metadata):
        msg = "filter.where: a vector store has no $timestamp and no $updated_at"
        raise InvalidArgumentError(msg)
    if (wanted.session_id, wanted.after, wanted.before) != (None, None, None):
        msg = "filter.where: session and times are fields of the VectorStoreFilter"
        raise InvalidArgumentError(msg)
    return wanted


def check_metadata(given: object, limits: Limits) -> Described:
    """Return metadata as JSON, with the fields that filters read.

    Raises:
        InvalidArgumentError: No app or user, an invalid session or time, or not JSON.
        LimitExceededError: Longer than `max_text_bytes` or deeper than
            `max_metadata_depth`.
    """
    if not isinstance(given, Mapping):
        msg = "metadata: expected a mapping"
        raise InvalidTypeError(msg)
    metadata = dict(given)
    key = check_key(
        metadata.get("app_name"), metadata.get("user_id"), "metadata.", limits
    )
    session, time = metadata.get("session_id"), metadata.get("timestamp")
    if session is not None:
        session = check_name(session, "metadata.session_id", limits)
    micros = None
    if time is not None:
        metadata["timestamp"] = to_seconds(time, "metadata.timestamp")
        micros = to_micros(metadata["timestamp"])
    plain = _plain(metadata, limits.max_metadata_depth)
    try:
        text = json.dumps(plain, ensure_ascii=False)
    except ValueError:  # an integer of thousands of digits
        msg = "metadata: a number is too long"
        raise InvalidArgumentError(msg) from None
    if len(text.encode(errors="surrogatepass")) > limits.max_text_bytes:
        msg = f"metadata: at most max_text_bytes = {limits.max_text_bytes} bytes"
        raise LimitExceededError(msg)
    return Described(text, key, session, micros)


def _plain(value: object, depth: int) -> object:
    """Return a copy made of JSON values; a cycle ends at the depth."""
    value = exact(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            msg = "metadata: NaN and Inf are no JSON values"
            raise InvalidArgumentError(msg)
        return value
    if not isinstance(value, Mapping | list | tuple):
        msg = "metadata: expected JSON values"
        raise InvalidTypeError(msg)
    if depth < 1:
        msg = "metadata: nested deeper than max_metadata_depth"
        raise LimitExceededError(msg)
    if not isinstance(value, Mapping):
        return [_plain(item, depth - 1) for item in value]
    if not all(isinstance(name, str) for name in value):
        msg = "metadata: expected strings as keys"
        raise InvalidTypeError(msg)
    return {exact(name): _plain(item, depth - 1) for name, item in value.items()}


def unit_vector(embedding: object) -> NDArray[np.float32]:
    """Return an embedding as a new float32 vector of norm 1.

    Scaling uses float64, so length and magnitude do not affect the direction.

    Raises:
        InvalidTypeError: Not a vector of real numbers.
        InvalidArgumentError: Empty, too long, zero, or with NaN or Inf.
    """
    try:
        given = np.asarray(embedding)
        if given.dtype.kind not in "fiu" or given.ndim != 1:
            raise TypeError
        values = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = "embedding: expected a vector of real numbers"
        raise InvalidTypeError(msg) from None
    if not 1 <= values.size <= MAX_DIMENSIONS:
        msg = f"embedding: expected 1 to {MAX_DIMENSIONS} numbers"
        raise InvalidArgumentError(msg)
    largest = np.abs(values).max()
    if not 0 < largest < np.inf:  # false for NaN
        msg = "embedding: must be finite and not zero"
        raise InvalidArgumentError(msg)
    values /= largest
    values /= np.linalg.norm(values)
    return values.astype(np.float32)
