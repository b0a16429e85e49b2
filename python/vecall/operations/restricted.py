"""An open file as callers with fewer rights see it."""

from __future__ import annotations

from typing import Any

from vecall.errors import ReadOnlyError
from vecall.filters.rights import Rights
from vecall.operations.writes_and_searches import WritesAndSearches


def restricted(whole: WritesAndSearches, rights: Rights) -> RestrictedRuntime:
    """Return an open file for callers with fewer rights."""
    return _kind_of(type(whole))(whole, rights)


def _kind_of(kind: type[WritesAndSearches]) -> type[RestrictedRuntime]:
    """Return the class that restricts a class and keeps what that class overrides."""
    if issubclass(kind, RestrictedRuntime):
        return kind
    if kind is WritesAndSearches:
        return RestrictedRuntime
    return type(f"Restricted{kind.__name__}", (RestrictedRuntime, kind), {})


class RestrictedRuntime(WritesAndSearches):
    """The operations of an open file, under rights.

    All state is that of the open file, also after a fork or a change of its model.

    Args:
        whole: The open file.
        rights: The rights of the callers.
    """

    def __init__(self, whole: WritesAndSearches, rights: Rights) -> None:
        """Restrict an open file."""
        self._whole = whole
        self.rights = whole.rights.with_limits_of(rights)
        self.read_only = whole.read_only or self.rights.read_only

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the open file."""
        return getattr(self._whole, name)

    def check_open(self) -> None:
        """Raise ClosedError after `close`; in a forked child, reopen the file."""
        self._whole.check_open()

    def check_writable(self) -> None:
        """Raise ReadOnlyError if the rights or the service are read-only."""
        if self.rights.read_only:
            msg = "this memory may only be read"
            raise ReadOnlyError(msg)
        self._whole.check_writable()

    def close(self) -> None:
        """Close the open file."""
        self._whole.close()
