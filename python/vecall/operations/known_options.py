"""Makes a constructor list its options in the error for an unknown option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from vecall.errors import ConfigError

P = ParamSpec("P")


def known_options(init: Callable[P, None]) -> Callable[P, None]:
    """Return a constructor that raises ConfigError for an unknown option."""
    names = list(inspect.signature(init).parameters)[1:]  # without self

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        for name in kwargs:
            if name not in names:
                msg = f"{name}: unknown option; options are {', '.join(names)}"
                raise ConfigError(msg)
        init(*args, **kwargs)

    return checked
