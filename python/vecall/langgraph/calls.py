"""Calls items and the embedding function, blocking or awaiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from vecall.errors import ConfigError
from vecall.service._items_sync import SyncItems
from vecall.service.items import Items


class Blocking:
    """Calls items and the embedding function, and blocks."""

    def __init__(
        self, items: SyncItems, owner: dict[str, str], embeddings: Any
    ) -> None:
        """Call the items of an owner."""
        self._items = items
        self._embeddings = embeddings
        self._owner = owner

    async def items(self, method: str, *args: Any, **named: Any) -> Any:
        """Call a method of the items."""
        return getattr(self._items, method)(*args, **named, **self._owner)

    async def apart(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that takes long."""
        return function(*args)

    async def embed_documents(self, texts: list[str]) -> Any:
        """Call the embedding function."""
        return self._embeddings.embed_documents(texts)

    async def embed_query(self, text: str) -> Any:
        """Call the embedding function."""
        return self._embeddings.embed_query(text)


class Awaiting:
    """Calls items and the embedding function, and awaits them."""

    def __init__(self, items: Items, owner: dict[str, str], embeddings: Any) -> None:
        """Call the items of an owner."""
        self._items = items
        self._embeddings = embeddings
        self._owner = owner

    async def items(self, method: str, *args: Any, **named: Any) -> Any:
        """Call a method of the items."""
        return await getattr(self._items, method)(*args, **named, **self._owner)

    async def apart(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that takes long, on another thread."""
        return await asyncio.to_thread(function, *args)

    async def embed_documents(self, texts: list[str]) -> Any:
        """Call the embedding function."""
        return await self._embeddings.aembed_documents(texts)

    async def embed_query(self, text: str) -> Any:
        """Call the embedding function."""
        return await self._embeddings.aembed_query(text)


def finished(steps: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """Run a coroutine that never waits."""
    try:
        steps.send(None)
    except StopIteration as stop:
        result: list[Any] = stop.value
        return result
    finally:
        steps.close()
    msg = "embed: an asynchronous function needs the asynchronous methods of the store"
    raise ConfigError(msg)
