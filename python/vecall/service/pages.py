"""All memories of a list, page by page, while other callers delete some."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from vecall.errors import NotFoundError
from vecall.types import MemoryEntry, Page

ReadPage = Callable[[str | None, int], Awaitable[Page[MemoryEntry]]]
"""Returns the page after a cursor, given the cursor and the size of the page."""


async def in_pages(
    read: ReadPage, size: int, most: int | None = None
) -> AsyncIterator[list[MemoryEntry]]:
    """Yield memories in order of creation, page by page, each memory once.

    A page begins after the last memory of the page before. If that memory was deleted
    in between, the page begins after an earlier one.

    Args:
        read: Reads a page; raises NotFoundError if the memory of the cursor is gone.
        size: Maximum number of memories of a page.
        most: Maximum number of all memories; None: no maximum.
    """
    ids: list[str] = []
    place: dict[str, int] = {}
    at, step = -1, 1  # the page begins after ids[at]
    while most is None or len(ids) < most:
        left = size if most is None else most - len(ids)
        # After a step back, most of a page may be known.
        limit = min(size, left) if at == len(ids) - 1 else size
        try:
            page = await read(ids[at] if at >= 0 else None, limit)
        except NotFoundError:
            if at < 0:
                raise
            at, step = max(at - step, -1), step * 2
            continue
        new = [each for each in page if each.id not in place][:left]
        for each in new:
            assert each.id is not None
            place[each.id] = len(ids)
            ids.append(each.id)
        if new:
            yield new
        if page.next is None:
            return
        at, step = place.get(page[-1].id or "", len(ids) - 1), 1
