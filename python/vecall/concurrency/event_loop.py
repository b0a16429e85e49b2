"""How the coroutines of a service wait for its threads: on asyncio's event loop."""

from __future__ import annotations

import asyncio
from functools import partial

from vecall.concurrency.join import Wait
from vecall.errors import ConfigError


def on_loop() -> Wait:
    """Return what waits for another thread on the running event loop.

    Call it before any work is begun, so that a refused call has begun nothing.

    Raises:
        ConfigError: Another library than asyncio runs the coroutine.
    """
    return partial(asyncio.wrap_future, loop=running_loop())


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises:
        ConfigError: Another library than asyncio runs the coroutine.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            "the coroutines of this service need asyncio's event loop; nothing was "
            "begun. Elsewhere call the methods of .sync on a thread"
        )
        raise ConfigError(msg) from None
