"""Objects that a forked child must not share with its parent."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """One object for each process: connections and locks do not survive a fork.

    A child process holds what it inherited and never uses it: to drop a client would
    close the connections of its parent.

    Args:
        make: Makes the thing; called at once, and once more in every child.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Make the thing of this process."""
        self._make = make
        self._made = {os.getpid(): make()}

    def __call__(self) -> T:
        """Return the thing of this process."""
        pid = os.getpid()
        mine = self._made.get(pid)
        return self._made.setdefault(pid, self._make()) if mine is None else mine
