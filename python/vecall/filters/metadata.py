"""Filter conditions on custom_metadata: values, or operators with operands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from vecall.clock import to_seconds
from vecall.errors import InvalidArgumentError, LimitExceededError
from vecall.filters.json_conditions import AROUND, Conditions, Rules, Test, parsed
from vecall.types import Filter, Names, several

MOST_KEYS = 16
"""Maximum number of keys in one mapping of conditions."""
MOST_VALUES = 64
"""Maximum number of values in one list of operands."""

_NAME = "filter.metadata"
_TIME, _UPDATED = "$timestamp", "$updated_at"


def _time_converter(name: str) -> Callable[[Any], float]:
    """Return what converts operands: times are compared by whole microseconds."""
    return lambda given: round(to_seconds(given, f"{_NAME}.{name}"), 6)


TIMES = MappingProxyType({name: _time_converter(name) for name in (_TIME, _UPDATED)})
"""The fields of conditions that are times of the memory, not keys of its metadata."""

_RULES = Rules(_NAME, MOST_KEYS, 1, MOST_VALUES, scalars_only=True, own=TIMES)


def has_values(metadata: Mapping[str, object], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata meets conditions."""
    if not isinstance(wanted, Conditions):
        wanted = parsed(wanted, _RULES)
    return wanted.test(metadata)


def asks_times(wanted: Mapping[str, Any] | None) -> bool:
    """Whether conditions that `check_conditions` returned ask for times."""
    return isinstance(wanted, Conditions) and wanted.asks_own


def with_times(
    metadata: Mapping[str, object], time: float, updated_at: float
) -> dict[str, object]:
    """Return metadata with the times of their memory, for conditions that ask them."""
    return {**metadata, _TIME: round(time, 6), _UPDATED: round(updated_at, 6)}


def scan_of(wanted: Mapping[str, Any], most: int | None = None) -> Test:
    """Return a test of the metadata of one scan; see `Conditions.scan`."""
    if not isinstance(wanted, Conditions):
        wanted = parsed(wanted, _RULES)
    return wanted.scan(most)


def needed(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Yield key, operator, operand of comparisons that a missing key does not meet."""
    for name, condition in wanted.items():
        if name == "$and":
            for part in condition:
                yield from needed(part)
        elif name in AROUND or name in TIMES:
            continue
        elif not isinstance(condition, Mapping):
            yield name, "$eq", condition
        else:
            for operator, operand in condition.items():
                if operator in ("$ne", "$nin", "$not"):
                    continue
                if operator != "$exists" or operand:
                    yield name, operator, operand


def check_conditions(conditions: object, max_bytes: int) -> Conditions:
    """Return a checked copy of conditions on custom_metadata.

    `max_bytes` limits their JSON. `$timestamp` and `$updated_at` are times of the
    memory.
    """
    checked = parsed(conditions, _RULES)
    try:
        size = len(json.dumps(checked))
    except ValueError:  # an integer of thousands of digits
        msg = f"{_NAME}: must not contain numbers too long for JSON"
        raise InvalidArgumentError(msg) from None
    if size > max_bytes:
        raise LimitExceededError(f"{_NAME}: at most max_metadata_bytes = {max_bytes}")
    return checked


# Filter conditions on author, kind, source, trust and custom_metadata.


EVERY = Filter()
"""The filter that every memory passes."""


class Labelled(Protocol):
    """The labels of a row or a memory."""

    @property
    def author(self) -> str | None:
        """The author."""

    @property
    def kind(self) -> str | None:
        """The kind."""

    @property
    def source(self) -> str | None:
        """The source."""

    @property
    def trust(self) -> str | None:
        """The trust tier."""


def has_labels(row: Labelled, conditions: Filter) -> bool:
    """Whether author, kind, source and trust pass a filter."""
    return (
        (conditions.author is None or row.author in several(conditions.author))
        and (conditions.kind is None or row.kind in several(conditions.kind))
        and (conditions.source is None or row.source in several(conditions.source))
        and (conditions.trust is None or row.trust in several(conditions.trust))
        and row.kind not in several(conditions.not_kind)
        and begins_with(row.kind, conditions.kind_prefix)
    )


def begins_with(name: object, prefixes: Names | None) -> bool:
    """Whether a name begins with one of the prefixes, if there are any."""
    if prefixes is None:
        return True
    # The row of a vector store may have anything here.
    return isinstance(name, str) and name.startswith(several(prefixes))


def is_left_out(id_: str, session: str | None, conditions: Filter) -> bool:
    """Whether a filter leaves out a memory by its id or its session."""
    return (
        id_ in several(conditions.not_id)
        or (session is not None and session in several(conditions.not_session_id))
        or not begins_with(session, conditions.session_prefix)
    )


def passes(row: Labelled, metadata: Mapping[str, object], conditions: Filter) -> bool:
    """Whether labels and metadata pass a filter."""
    return has_labels(row, conditions) and (
        conditions.metadata is None or has_values(metadata, conditions.metadata)
    )
