"""The memory of one open file: `Writes` and `Searches` over the same runtime."""

from __future__ import annotations

from vecall.operations.searches import Searches
from vecall.operations.writes import Writes


class WritesAndSearches(Writes, Searches):
    """Adds memories to one open file, and searches the file."""
