"""Whose memories a run reads and writes."""

from __future__ import annotations

from collections.abc import Callable

Name = str | Callable[[str | None], str]
"""A name, or a function from the id of a session to a name."""
