"""`Memory`: mem0's blocking interface."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

from vecall.embedders.resolve import AUTO, EmbedderLike
from vecall.mem0.arguments import Extract, checked_config
from vecall.mem0.asynchronous import APP, AsyncMemory
from vecall.service.memory_service import MemoryService
from vecall.types import UNSET

T = TypeVar("T")


class _Blocking(AsyncMemory):
    """Calls the service's blocking methods, so that no method ever waits."""

    async def _call(self, method: str, **arguments: Any) -> Any:
        return getattr(self._memory.sync, method)(app_name=self._app, **arguments)

    async def _delete_app(self) -> None:
        self._memory.sync.admin.delete_app(
            app_name=self._app, confirm=True, forget=True
        )

    async def _extracted(self, messages: list[dict[str, Any]]) -> object:
        found = cast("Extract", self._extract)(messages)
        if inspect.isawaitable(found):
            return asyncio.run(_awaited(found))
        return found


async def _awaited(found: Any) -> object:
    return await found


def _finished(steps: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        steps.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()
    msg = "a blocking call waited"
    raise RuntimeError(msg)


class Memory:
    """mem0's `Memory` over one file; its methods are those of `AsyncMemory`, blocking.

    Args:
        memory: As in `AsyncMemory`.
        app_name: As in `AsyncMemory`.
        embedder: As in `AsyncMemory`.
        extract: As in `AsyncMemory`.

    Raises:
        ConfigError: As in `AsyncMemory`.
        InvalidArgumentError: As in `AsyncMemory`.
    """

    def __init__(
        self,
        memory: MemoryService | str | Path = "memory.db",
        *,
        app_name: str = APP,
        embedder: EmbedderLike = AUTO,
        extract: Extract | None = None,
    ) -> None:
        """Open the file, if a path is given."""
        self._twin = _Blocking(
            memory, app_name=app_name, embedder=embedder, extract=extract
        )

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Memory:
        """Return a memory of a mapping; see `AsyncMemory.from_config`."""
        return cls(**checked_config(config_dict))

    def add(
        self,
        messages: object,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool | None = None,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Store messages, or the facts in them; see `AsyncMemory.add`."""
        return _finished(
            self._twin.add(
                messages,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                metadata=metadata,
                timestamp=timestamp,
                expiration_date=expiration_date,
                infer=infer,
                memory_type=memory_type,
                prompt=prompt,
            )
        )

    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: Mapping[str, Any] | None = None,
        threshold: float = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **names: object,
    ) -> dict[str, Any]:
        """Return relevant memories, best first; see `AsyncMemory.search`."""
        return _finished(
            self._twin.search(
                query,
                top_k=top_k,
                filters=filters,
                threshold=threshold,
                rerank=rerank,
                explain=explain,
                reference_date=reference_date,
                show_expired=show_expired,
                **names,
            )
        )

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """Return one memory; None if there is none with this id."""
        return _finished(self._twin.get(memory_id))

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        **names: object,
    ) -> dict[str, Any]:
        """Return memories in order of creation; see `AsyncMemory.get_all`."""
        return _finished(
            self._twin.get_all(
                filters=filters, top_k=top_k, show_expired=show_expired, **names
            )
        )

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Change a memory; see `AsyncMemory.update`."""
        return _finished(
            self._twin.update(memory_id, text, metadata, expiration_date, data)
        )

    def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory permanently; see `AsyncMemory.delete`."""
        return _finished(self._twin.delete(memory_id))

    def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> dict[str, str]:
        """Delete all memories of a name; see `AsyncMemory.delete_all`."""
        return _finished(self._twin.delete_all(user_id, agent_id, run_id))

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory; see `AsyncMemory.history`."""
        return _finished(self._twin.history(memory_id))

    def reset(self) -> None:
        """Delete all memories of the app permanently."""
        _finished(self._twin.reset())

    def close(self) -> None:
        """Close the file, if this object opened it."""
        self._twin.close()

    def __enter__(self) -> Memory:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
