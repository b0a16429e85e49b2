"""Runs an operation; a test observes its `Join`s."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any


def run_with(wait: Callable[[Any], Any], operation: Coroutine[Any, Any, Any]) -> Any:
    """Run an operation; `wait` takes each future that it waits for."""
    try:
        future = operation.send(None)
        while True:
            try:
                value = wait(future)
            except BaseException as error:
                future = operation.throw(error)
            else:
                future = operation.send(value)
    except StopIteration as finished:
        return finished.value
