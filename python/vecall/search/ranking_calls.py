"""Calls of the functions that a ranking brings: rewriters of queries and rerankers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.embedders.base import is_async
from vecall.errors import ClosedError, ReentrantCallError, VecallError


async def call_of_ranking(
    thread: PluginExecutor,
    name: str,
    failed: type[VecallError],
    function: Callable[..., Any],
    *given: object,
) -> Any:
    """Return what a function of the ranking returns.

    Args:
        thread: Where the function runs.
        name: The option that holds the function.
        failed: The error that a failure becomes.
        function: The function, or coroutine function.
        given: Its arguments.

    Raises:
        ClosedError: The service was closed.
        ReentrantCallError: The function is the caller.
    """
    thread.refuse_nested()
    work = partial(function, *given)
    try:
        return await Join(thread.run(work, concurrent=is_async(function)))
    except ClosedError:
        raise
    except ReentrantCallError:
        msg = (
            f"{name} searched its own memory service with the same ranking; it can "
            "only search another service"
        )
        raise failed(msg) from None
    except Exception as error:
        # Its message may quote a text; its type does not.
        msg = f"{name} failed with {type(error).__name__}"
        raise failed(msg) from None
