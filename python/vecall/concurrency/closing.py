"""Services that a `with` block closes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

from vecall.concurrency.join import running_loop

if TYPE_CHECKING:
    from typing_extensions import Self


class ClosesOnExit(ABC):
    """Closes itself where a block ends, on a loop without holding it up."""

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
        """Close the service on another thread, so that the event loop goes on."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        """Return the service; leaving the block closes it.

        Raises:
            ConfigError: Another library than asyncio runs the block.
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
    """Closes a service where a block ends, on a thread without an event loop."""

    def __init__(self, service: ClosesOnExit) -> None:
        """Close this service."""
        self._service = service

    def close(self) -> None:
        """Close the service; see its own method."""
        self._service.close()

    def __enter__(self) -> Self:
        """Return this face of the service; leaving the block closes the service."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the service."""
        self._service.close()
