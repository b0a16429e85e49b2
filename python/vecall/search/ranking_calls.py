"""Calls the functions of a `Ranking`: query rewriters and rerankers."""

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
    *arguments: object,
) -> Any:
    """Return the result of a function of the ranking.

    Args:
        thread: The thread that runs the function.
        name: The option that holds the function.
        failed: The class of the error to raise if the function fails.
        function: The function, or coroutine function.
        arguments: Its arguments.

    Raises:
        ClosedError: The service was closed.
        ReentrantCallError: The caller is itself such a function.
    """
    thread.refuse_nested()
    work = partial(function, *arguments)
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
        # The error's message may contain a memory's text; its type does not.
        msg = f"{name} failed with {type(error).__name__}"
        raise failed(msg) from None
