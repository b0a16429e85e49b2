"""The interface of mem0's open-source `Memory`, for those who come from there.

It needs no extra and no model. `docs/guide/mem0.md` says what differs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, cast

from vecall.clock import end_of_day_utc
from vecall.concurrency.closing import ClosesBlocking, ClosesOnExit
from vecall.concurrency.join import run_sync
from vecall.embedders.resolve import AUTO, EmbedderLike
from vecall.errors import (
    ConfigError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
)
from vecall.item_collections import opened
from vecall.mem0 import entries
from vecall.mem0.entries import EXPIRES, Extract, MemoryIdError, MemoryNotFoundError
from vecall.service.items import in_pages
from vecall.service.memory_service import MemoryService
from vecall.types import UNSET, Filter, MemoryEntry, Page, Unset

__all__ = ["AsyncMemory", "Memory", "MemoryIdError", "MemoryNotFoundError"]

APP = "mem0"
_PAGE = 1_000
_ATTEMPTS = 100  # of an update, before it gives up


class AsyncMemory(ClosesOnExit):
    """mem0's `AsyncMemory` over one file.

    A memory belongs to its user; without a user to its agent; without both to its run.
    The ids of results hold the owner. Arguments that are invalid or not supported raise
    `InvalidArgumentError`.

    Args:
        memory: The memory service, or the path of a file, which `close` then closes.
        app_name: The app of all memories.
        embedder: As in `MemoryService`, for a path.
        extract: Extracts facts from messages, for `add` with `infer`. It may be a
            coroutine function; another one runs on a thread.

    Raises:
        ConfigError: `extract` is not a function, or an error of the service.
        InvalidArgumentError: An invalid name of the app; no file is opened.
    """

    _awaits = True

    def __init__(
        self,
        memory: MemoryService | str | Path = "memory.db",
        *,
        app_name: str = APP,
        embedder: EmbedderLike = AUTO,
        extract: Extract | None = None,
    ) -> None:
        """Open the file, if a path is given."""
        given: object = extract
        if given is not None and not callable(given):
            raise ConfigError("extract: expected a function from messages to facts")
        self._memory, self._owned = opened(memory, app_name, "any", embedder=embedder)
        self._service: Any = self._memory if self._awaits else self._memory.sync
        self._app = app_name
        self._extract = extract

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> AsyncMemory:
        """Return a memory of a mapping with the arguments of the class.

        Raises:
            ConfigError: A key that is no argument, such as mem0's "vector_store".
        """
        return cls(**entries.checked_mem0_config(config_dict))

    async def add(
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
        """Store messages, or the facts in them, in one transaction.

        Args:
            messages: A text, a message with role and content, or a list of messages.
            user_id: The user.
            agent_id: The agent.
            run_id: The run.
            metadata: JSON values by name.
            timestamp: When it was said, as in `MemoryEntry`; it is then the memory's
                `created_at`. A time without an offset is UTC; so is a date.
            expiration_date: The last day on which it is there: YYYY-MM-DD, UTC.
            infer: True stores the facts that `extract` returns; False stores the
                messages. None is True with `extract` and False without.
            memory_type: Not supported.
            prompt: Not supported; `extract` has its own.

        Returns:
            {"results": [{"id", "memory", "event": "ADD", "actor_id", "role"}, ...]}.

        Raises:
            ConfigError: infer=True without `extract`, memory_type or prompt.
            InvalidArgumentError: An invalid argument; nothing was stored.
        """
        if memory_type is not None or prompt is not None:
            raise ConfigError("memory_type and prompt are not supported; see extract")
        names = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        scope = entries.scope_of_names(names, "add")
        expires = entries.checked_expiration_date(expiration_date)
        given = entries.messages_of_input(messages)
        if infer or (infer is None and self._extract is not None):
            given = await self._told_facts(given)
        own = {} if metadata is None else metadata
        new = [entries.entry_of(each, scope, own, timestamp, expires) for each in given]
        ids = await self._call_user(scope.owner, "add", new, verbatim=True)
        return {
            "results": [
                {
                    "id": entries.pack_memory_id(scope.owner, memory_id),
                    "memory": message.text,
                    "event": "ADD",
                    "actor_id": message.actor,
                    "role": message.role,
                }
                for memory_id, message in zip(ids, given, strict=True)
                if memory_id is not None
            ]
        }

    async def search(
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
        """Return the memories that are relevant to a query, best first.

        Args:
            query: The question.
            top_k: The most memories; 0 returns none.
            filters: user_id, agent_id or run_id, and conditions on metadata, on
                `created_at` and on `updated_at`.
            threshold: The least score; a score is vecall's confidence, in [0, 1].
            rerank: Not supported; see the service's ranking.
            explain: Whether each memory has its "score_details".
            reference_date: Not supported.
            show_expired: Not supported.
            **names: Refused: names are in `filters`.
        """
        entries.refuse_unsupported(names, rerank, reference_date, show_expired)
        scope, wanted = entries.scope_and_filter(filters)
        asked: object = query
        if not isinstance(asked, str) or not asked.strip():
            raise InvalidArgumentError("query: must not be blank")
        if entries.checked_top_k(top_k) == 0:
            return {"results": []}
        found = await self._call_user(
            scope.owner,
            "search",
            query,
            top_k=top_k,
            min_confidence=threshold,
            explain=explain,
            filter=wanted,
        )
        return {
            "results": [
                entries.shown(each, scope.owner, explain=explain) for each in found
            ]
        }

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """Return one memory; None if there is none with this id."""
        try:
            owner, own = entries.unpack_memory_id(memory_id)
        except MemoryIdError:
            return None
        found = await self._find_memory(owner, own)
        return None if found is None else entries.shown(found, owner)

    async def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        **names: object,
    ) -> dict[str, Any]:
        """Return memories in the order in which they were added.

        Args:
            filters: As in `search`.
            top_k: The most memories.
            show_expired: Not supported.
            **names: Refused: names are in `filters`.
        """
        entries.refuse_unsupported(names, False, None, show_expired)
        scope, wanted = entries.scope_and_filter(filters)
        most = entries.checked_top_k(top_k)
        found = await self._matching_memories(scope.owner, wanted, most)
        return {"results": [entries.shown(each, scope.owner) for each in found]}

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Change a memory. Concurrent updates lose none of their values.

        Args:
            memory_id: Its id.
            text: The new text.
            metadata: Values to add to the metadata, or to replace.
            expiration_date: As in `add`; None removes it.
            data: Another name for `text`.

        Raises:
            MemoryNotFoundError: There is none with this id.
            InvalidArgumentError: Nothing to change, or an invalid value.
            ConflictError: Other updates changed it meanwhile, 100 times.
        """
        owner, own = entries.unpack_memory_id(memory_id)
        new = data if text is None else text
        set_expiry = not isinstance(expiration_date, Unset)
        if new is None and metadata is None and not set_expiry:
            msg = "update: expected text, metadata or expiration_date"
            raise InvalidArgumentError(msg)
        changed: dict[str, Any] = {} if new is None else {"content": new}
        expires = None
        if set_expiry:
            expires = entries.checked_expiration_date(expiration_date)
            changed["valid_until"] = expires and end_of_day_utc(expires, EXPIRES)
        for attempt in range(1, _ATTEMPTS + 1):
            entry = await self._find_memory(owner, own)
            if entry is None:
                raise entries.not_found_error()
            if metadata is not None or set_expiry:
                changed["custom_metadata"] = entries.changed_metadata(
                    entry, metadata, expires, set_expiry
                )
            try:
                changed["if_version"] = entry.version
                await self._call_user(owner, "update", own, verbatim=True, **changed)
                break
            except NotFoundError:
                raise entries.not_found_error() from None
            except ConflictError:  # of another update; its values are merged next
                if attempt == _ATTEMPTS:
                    raise
        return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory permanently.

        Raises:
            MemoryNotFoundError: There is none with this id.
        """
        owner, own = entries.unpack_memory_id(memory_id)
        if not await self._call_user(owner, "delete", own):
            raise entries.not_found_error()
        return {"message": "Memory deleted successfully!"}

    async def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> dict[str, str]:
        """Delete all memories of a user, an agent or a run permanently.

        At least one name is required.
        """
        names = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        scope, wanted = entries.scope_and_filter(
            {name: value for name, value in names.items() if value is not None}
        )
        if wanted is None or scope.owner.kind == "run_id":
            await self._call_user(scope.owner, "delete_all", forget=True)
        else:
            await self._call_user(scope.owner, "delete_where", wanted)
        return {"message": "Memories deleted successfully!"}

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory, oldest first; none of a deleted one."""
        try:
            owner, own = entries.unpack_memory_id(memory_id)
            found = await self._call_user(owner, "history", own)
        except (NotFoundError, MemoryIdError):
            return []
        return entries.to_history(found, memory_id)

    async def reset(self) -> None:
        """Delete all memories of the app permanently."""
        delete_app = self._service.admin.delete_app
        await self._finish(delete_app(app_name=self._app, confirm=True, forget=True))

    def close(self) -> None:
        """Close the file, if this object opened it."""
        if self._owned:
            self._memory.close()

    async def _call_user(
        self, owner: entries.Owner, method: str, *args: Any, **options: Any
    ) -> Any:
        user = self._service.user(self._app, owner.user_id)
        return await self._finish(getattr(user, method)(*args, **options))

    async def _finish(self, answer: Any) -> Any:
        return await answer if self._awaits else answer

    async def _extract_facts(self, messages: list[dict[str, Any]]) -> object:
        extract = cast("Extract", self._extract)
        if inspect.iscoroutinefunction(extract):
            return await extract(messages)
        found = await asyncio.to_thread(extract, messages)
        return await found if inspect.isawaitable(found) else found

    async def _find_memory(self, owner: entries.Owner, own: str) -> MemoryEntry | None:
        (found,) = await self._call_user(owner, "get_many", [own])
        return cast("MemoryEntry | None", found)

    async def _matching_memories(
        self, owner: entries.Owner, wanted: Filter | None, most: int
    ) -> list[MemoryEntry]:
        def page(cursor: str | None, limit: int) -> Awaitable[Page[MemoryEntry]]:
            return self._call_user(
                owner, "list", cursor=cursor, limit=limit, filter=wanted
            )

        return [each async for new in in_pages(page, _PAGE, most) for each in new]

    async def _told_facts(self, given: list[entries.Message]) -> list[entries.Message]:
        if self._extract is None:
            raise ConfigError(
                "infer: needs a model; give extract=, a function from messages to "
                "facts, or infer=False to store the messages"
            )
        messages = [{"role": each.role, "content": each.text} for each in given]
        role = given[0].role if given else "user"
        found = entries.checked_extracted_facts(await self._extract_facts(messages))
        return [entries.Message(role, fact) for fact in found]


class _Blocking(AsyncMemory):
    """Calls the service's blocking methods, so that no method ever waits."""

    _awaits = False

    async def _extract_facts(self, messages: list[dict[str, Any]]) -> object:
        found = cast("Extract", self._extract)(messages)
        if inspect.isawaitable(found):
            return asyncio.run(_await_facts(found))
        return found


async def _await_facts(found: Any) -> object:
    return await found


class Memory(ClosesBlocking):
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
        super().__init__(self._twin)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Memory:
        """Return a memory of a mapping; see `AsyncMemory.from_config`."""
        return cls(**entries.checked_mem0_config(config_dict))

    # The methods below are generated from the service by .ci/generate_sync.

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
        """Store messages, or the facts in them, in one transaction.

        Args:
            messages: A text, a message with role and content, or a list of messages.
            user_id: The user.
            agent_id: The agent.
            run_id: The run.
            metadata: JSON values by name.
            timestamp: When it was said, as in `MemoryEntry`; it is then the memory's
                `created_at`. A time without an offset is UTC; so is a date.
            expiration_date: The last day on which it is there: YYYY-MM-DD, UTC.
            infer: True stores the facts that `extract` returns; False stores the
                messages. None is True with `extract` and False without.
            memory_type: Not supported.
            prompt: Not supported; `extract` has its own.

        Returns:
            {"results": [{"id", "memory", "event": "ADD", "actor_id", "role"}, ...]}.

        Raises:
            ConfigError: infer=True without `extract`, memory_type or prompt.
            InvalidArgumentError: An invalid argument; nothing was stored.
        """
        return run_sync(
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
        """Return the memories that are relevant to a query, best first.

        Args:
            query: The question.
            top_k: The most memories; 0 returns none.
            filters: user_id, agent_id or run_id, and conditions on metadata, on
                `created_at` and on `updated_at`.
            threshold: The least score; a score is vecall's confidence, in [0, 1].
            rerank: Not supported; see the service's ranking.
            explain: Whether each memory has its "score_details".
            reference_date: Not supported.
            show_expired: Not supported.
            **names: Refused: names are in `filters`.
        """
        return run_sync(
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
        return run_sync(self._twin.get(memory_id))

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        **names: object,
    ) -> dict[str, Any]:
        """Return memories in the order in which they were added.

        Args:
            filters: As in `search`.
            top_k: The most memories.
            show_expired: Not supported.
            **names: Refused: names are in `filters`.
        """
        return run_sync(
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
        """Change a memory. Concurrent updates lose none of their values.

        Args:
            memory_id: Its id.
            text: The new text.
            metadata: Values to add to the metadata, or to replace.
            expiration_date: As in `add`; None removes it.
            data: Another name for `text`.

        Raises:
            MemoryNotFoundError: There is none with this id.
            InvalidArgumentError: Nothing to change, or an invalid value.
            ConflictError: Other updates changed it meanwhile, 100 times.
        """
        return run_sync(
            self._twin.update(memory_id, text, metadata, expiration_date, data)
        )

    def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory permanently.

        Raises:
            MemoryNotFoundError: There is none with this id.
        """
        return run_sync(self._twin.delete(memory_id))

    def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> dict[str, str]:
        """Delete all memories of a user, an agent or a run permanently.

        At least one name is required.
        """
        return run_sync(self._twin.delete_all(user_id, agent_id, run_id))

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory, oldest first; none of a deleted one."""
        return run_sync(self._twin.history(memory_id))

    def reset(self) -> None:
        """Delete all memories of the app permanently."""
        run_sync(self._twin.reset())
