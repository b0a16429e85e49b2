"""No connection crosses a fork.

SQLite keeps a table of the locks that this process has on each file. A fork copies the
table, but not the kernel's locks: a child would believe that it has what it has not,
its parent would delete the log under it, and acknowledged writes would be lost, even
those through a connection that the child made itself. So at a fork all connections are
closed, which clears the table, and parent and child connect again when they need to.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

_PATIENCE_S = 5.0


class ForkAware(Protocol):
    """A database that can do without connections for a while."""

    closed_before_fork: bool

    def close_for_fork(self, timeout_s: float) -> bool:
        """Close all connections and let no thread connect; False if one is in use."""
        ...

    def reopen(self) -> None:
        """Let all threads connect again."""
        ...


_open: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_frozen: list[ForkAware] = []


def close_before_fork(database: ForkAware) -> None:
    """Take care of a database whenever this process forks."""
    _open.add(database)


def _before() -> None:
    for database in list(_open):
        if database.close_for_fork(_PATIENCE_S):
            _frozen.append(database)


def _after_in_parent() -> None:
    while _frozen:
        _frozen.pop().reopen()


def _after_in_child() -> None:
    for database in _frozen:
        database.closed_before_fork = True
    _after_in_parent()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
