"""Groups the lines of an import into few large writes, in any order of the lines.

Each write costs a sync of the disk. If only neighbouring lines were grouped, a file
with alternating users would cost a sync for each line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from vecall.content import get_field

LINES_AT_ONCE = 500  # the maximum for one write
_LINES_HELD = 50_000
_BYTES_HELD = 32 * 1024 * 1024

_Group = tuple[object, ...]


class Line(NamedTuple):
    """A line of a JSON Lines file.

    Attributes:
        number: The line number, from 1.
        item: The parsed JSON object.
        size: The length in bytes.
    """

    number: int
    item: dict[str, Any]
    size: int


def is_session(item: dict[str, Any]) -> bool:
    """Whether a line holds a whole session."""
    return "events" in item or "messages" in item


def is_entry(item: dict[str, Any]) -> bool:
    """Whether a line holds a memory, not a turn of a session."""
    return get_field(item, "id") is not None or get_field(item, "session_id") is None


class OwnerBatches:
    """Groups lines by owner and session.

    Lines of one group keep their order. A whole session, and a memory that supersedes
    another one, are written after all earlier lines of the same owner.
    """

    def __init__(self) -> None:
        """Create an empty batch."""
        self._groups: dict[_Group, list[Line]] = {}
        self._lines = 0
        self._bytes = 0

    def add(self, line: Line) -> Iterator[list[Line]]:
        """Add a line; yield the groups of lines to write now, in this order."""
        item = line.item
        owner = (get_field(item, "app_name"), get_field(item, "user_id"))
        if is_session(item) or get_field(item, "supersedes") is not None:
            yield from self._take([key for key in self._groups if key[:2] == owner])
        if is_session(item):
            yield [line]
            return
        key = owner if is_entry(item) else (*owner, get_field(item, "session_id"))
        group = self._groups.setdefault(key, [])
        group.append(line)
        self._lines += 1
        self._bytes += line.size
        if len(group) == LINES_AT_ONCE:
            yield from self._take([key])
        elif self._lines >= _LINES_HELD or self._bytes >= _BYTES_HELD:
            yield from self.rest()

    def rest(self) -> Iterator[list[Line]]:
        """Yield the remaining groups of lines."""
        yield from self._take(list(self._groups))

    def _take(self, keys: list[_Group]) -> Iterator[list[Line]]:
        for key in keys:
            group = self._groups.pop(key)
            self._lines -= len(group)
            self._bytes -= sum(line.size for line in group)
            yield group


def counted_reasons(left_out: Counter[str]) -> str:
    """Return a readable list of how many items were left out and why; "" if none."""
    counts = [f"{count:,} {reason}" for reason, count in sorted(left_out.items())]
    return ", ".join(counts).replace("_", " ")
