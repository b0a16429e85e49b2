"""Frees the local variables in an error's traceback, such as open SQLite cursors."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def free_frames(error: BaseException) -> None:
    """Clear the local variables in the frames of an error's traceback.

    A stored error would otherwise keep cursors alive. An open cursor keeps the file
    open and holds a read snapshot of it. Frames that still run are not cleared.
    """
    traceback.clear_frames(error.__traceback__)


def freeing_frames(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that an error it raises has its frames cleared.

    The frame that uses a connection still runs when the connection is returned. A
    cursor in a variable of that frame can be freed only here.
    """

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except BaseException as error:
            free_frames(error)
            raise

    return run
