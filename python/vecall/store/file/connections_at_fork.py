"""Closes all connections before a fork.

SQLite has a table of the locks that this process holds on each file. A fork copies the
table, but not the kernel's locks. So a child would assume locks that it does not hold,
its parent could delete the WAL, and acknowledged writes would be lost, even those of a
connection that the child opened itself. Closing all connections clears the table.
Parent and child reconnect when necessary.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

_PATIENCE_S = 5.0


class ForkAware(Protocol):
    """A database that can close its connections for a fork."""

    closed_before_fork: bool

    def close_for_fork(self, timeout_s: float) -> bool:
        """Close all connections and block new ones; False if one is in use."""
        ...

    def reopen(self) -> None:
        """Let all threads connect again."""
        ...


_open: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_frozen: list[ForkAware] = []


def close_before_fork(database: ForkAware) -> None:
    """Close a database's connections whenever this process forks."""
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
