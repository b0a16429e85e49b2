"""Objects that a forked child must not share with its parent process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """One object per process, for connections and locks, which do not survive a fork.

    A child process keeps the inherited object but never uses it: freeing a client would
    close the parent's connections.

    Args:
        make: Creates the object. Called in the constructor, and at the first use in
            each child process.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Create the object of this process."""
        self._make = make
        self._made = {os.getpid(): make()}

    def __call__(self) -> T:
        """Return the object of this process."""
        pid = os.getpid()
        mine = self._made.get(pid)
        return self._made.setdefault(pid, self._make()) if mine is None else mine
