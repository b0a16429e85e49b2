"""Freeing what the frames of an error hold, above all open reads of the file."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def free_frames(error: BaseException) -> None:
    """Free what the frames of an error hold, above all cursors.

    Whoever keeps the error would otherwise keep the file open, and the state of it
    that was read. Frames that still run are left as they are.
    """
    traceback.clear_frames(error.__traceback__)


def freeing_frames(work: Callable[P, T]) -> Callable[P, T]:
    """Return work that, where it fails, frees what all of its frames hold.

    The frame that holds a connection still runs when the connection is returned, so
    a cursor in one of its variables is freed only here.
    """

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except BaseException as error:
            free_frames(error)
            raise

    return run
