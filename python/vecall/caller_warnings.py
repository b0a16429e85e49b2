"""Warnings that point at the line of a program that called vecall."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


class RawTurnsWarning(UserWarning):
    """Turns are embedded as they are, since the service has no summarizer.

    Python ignores it, as it ignores a DeprecationWarning, unless a filter selects it:
    `warnings.simplefilter("default", vecall.RawTurnsWarning)`.
    """


warnings.simplefilter("ignore", RawTurnsWarning, append=True)  # the program's go first


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost call that is not of this package.

    Args:
        message: The text.
        category: The class of the warning.
    """
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_own(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == _PACKAGE
