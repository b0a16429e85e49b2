"""Context managers that close a service at the end of a `with` block."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

from vecall.concurrency.join import running_loop

if TYPE_CHECKING:
    from typing_extensions import Self


class ClosesOnExit(ABC):
    """A service that a `with` or an `async with` block closes.

    `async with` does not block the event loop.
    """

    @abstractmethod
    def close(self) -> None:
        """Finish the calls in progress and release all resources. Idempotent."""

    def __enter__(self) -> Self:
        """Return the service; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the service."""
        self.close()

    async def aclose(self) -> None:
        """Close the service on another thread, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        """Return the service; leaving the block closes it.

        Raises:
            ConfigError: The block runs on an event loop other than asyncio's.
        """
        running_loop()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the service; see `aclose`."""
        await self.aclose()


class ClosesBlocking:
    """The blocking interface of a service; a `with` block closes the service."""

    def __init__(self, service: ClosesOnExit) -> None:
        """Wrap this service."""
        self._service = service

    def __repr__(self) -> str:
        """Return the wrapped service."""
        return f"<{type(self).__name__} of {self._service!r}>"

    def close(self) -> None:
        """Close the wrapped service with its `close`."""
        self._service.close()

    def __enter__(self) -> Self:
        """Return this object; leaving the block closes the service."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the service."""
        self._service.close()
