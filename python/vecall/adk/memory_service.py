"""A memory service for google-adk's Runner, its web server and its command line."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import (
    BaseMemoryService,
    SearchMemoryResponse,
)
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from vecall.adk.entries import to_memories
from vecall.adk.event_reader import SessionContent, read_events
from vecall.adk.json_values import to_metadata, to_text
from vecall.adk.responses import to_response
from vecall.adk.uri import parse_uri, with_uri_options
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list, get_field, get_list
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.limits import Limits
from vecall.service.memory_service import MemoryService
from vecall.store import memory_id as id_of
from vecall.tools import ShownMemories, search_with_fallback
from vecall.tools.any_service import checked_filter, limits_of, require
from vecall.types import Filter, FilterLike
from vecall.validation import check_filter, check_name

_INLINE_EVENTS = 64  # reading them blocks the event loop for about a millisecond
_FORGET_AT_ONCE = 256


class VecallMemoryService(BaseMemoryService):
    """google-adk's memory contract over a `vecall.MemoryService`.

    Safe to share between threads and event loops. A write is in the file when its call
    returns, so nothing is lost if `close` is never called.

    Args:
        path: The SQLite file, made if it is not there. Without one, or with ":memory:",
            nothing outlives the process.
        uri: The file as google-adk's command line names it, instead of `path`:
            "vecall://./memory.db" (relative), "vecall:////var/lib/memory.db" (absolute)
            or "vecall://:memory:", with options after "?", as in "?top_k=10". They win
            over the same options given as arguments.
        agents_dir: The folder where a relative path in `uri` starts; google-adk passes
            its own.
        memory: A service to use as it is, instead of a file; `close` leaves it open.
        scores: Whether what a search returns carries its scores and its session in
            `custom_metadata["vecall"]`, which google-adk's own tools show to a model.
        filter: Which memories a search may return: a `vecall.Filter`, or a mapping with
            its fields. It applies to `search_memory`, and to vecall's tools that search
            and preload and have no filter of their own.
        options: What `vecall.MemoryService` takes, such as `embedder` or `top_k`.

    Raises:
        ConfigError: Arguments that cannot be used together, an unknown option or
            scheme, a folder that does not exist, or a filter for a service whose search
            takes none.
        InvalidArgumentError: A filter that cannot be used.
        VecallError: As `vecall.MemoryService` raises when it cannot open the file.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        uri: str | None = None,
        agents_dir: str | Path | None = None,
        memory: MemoryService | None = None,
        scores: bool = True,
        filter: FilterLike | None = None,
        **options: Any,
    ) -> None:
        """Open the file, or create it."""
        if sum(given is not None for given in (path, uri, memory)) > 1:
            msg = "path, uri, memory: expected at most one of them"
            raise ConfigError(msg)
        if uri is not None:
            path, from_uri = parse_uri(uri, agents_dir)
            options = with_uri_options(options, from_uri)
        self._scores = bool(options.pop("scores", scores))
        check_options(options)
        if memory is not None and options:
            msg = "memory: a service that exists takes no options"
            raise ConfigError(msg)
        checked = _checked_filter(filter, memory, options.get("limits"))
        self._owned = memory is None
        self.memory = MemoryService(path, **options) if memory is None else memory
        """The service below, for options that google-adk's contract lacks."""
        self.turns = ShownMemories()
        """The memories shown in recent turns, so that none is shown twice."""
        self.filter = checked
        """The filter of all searches; None: no filter."""

    async def add_session_to_memory(self, session: Session | Mapping[str, Any]) -> None:
        """Store the turns of a session. Idempotent.

        Turns without text, thoughts and calls (unless the option `include` asks for
        them), pieces of a streamed turn, requests for credentials or confirmation, and
        what a rewind took back are left out; what a
        rewind took back after it was remembered is deleted. Turns that are absent from
        this copy of the session stay remembered.

        Args:
            session: A google-adk session, or one as its HTTP API sends it.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        whole, taken_back = await self._read_session(session)
        await self.memory.add_session_to_memory(whole)
        await self._forget(whole, taken_back)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any]],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store some turns, such as those that are new since the last call.

        Args:
            app_name: The app.
            user_id: The user.
            events: Turns in order, as in `add_session_to_memory`.
            session_id: Their session. Without it the turns are known by their ids
                alone, and are other memories than the same turns with a session.
            custom_metadata: Stored with each turn, as JSON; what JSON does not know
                becomes its str(). "ttl" (seconds, a timedelta or "3600s") makes them
                expire.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        content = await _read(as_list(events, "events"))
        await self.memory.add_events_to_memory(
            app_name=app_name,
            user_id=user_id,
            events=content.events,
            session_id=session_id,
            custom_metadata=to_metadata(custom_metadata),
        )
        scope = {"app_name": app_name, "user_id": user_id, "id": session_id}
        await self._forget(scope, content.taken_back)

    async def observe_session(self, session: Session | Mapping[str, Any]) -> None:
        """Buffer the new turns of a session until the service's trigger fires.

        What is waiting is not found by a search yet. See
        `vecall.MemoryService.observe_session`.

        Args:
            session: As in `add_session_to_memory`.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was buffered.
            StorageFullError: The disk is full; nothing was buffered.
        """
        require(self.memory, "observe_session", "observe_session")
        whole, taken_back = await self._read_session(session)
        await self.memory.observe_session(whole)
        await self._forget(whole, taken_back)

    async def end_session(
        self,
        session: Session | Mapping[str, Any] | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """Make memories of all buffered turns of a session, with any trigger.

        google-adk has no end of a session: call it where yours is, such as when the
        user logs out. See `vecall.MemoryService.end_session`.

        Args:
            session: As in `add_session_to_memory`, with turns that were perhaps not
                observed yet. Without it, the three names say which one.
            app_name: The app.
            user_id: The user.
            session_id: The session's id.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was written.
            SummaryError: The summarizer failed; the turns stay buffered.
            EmbedderError: The embedder failed; the turns stay buffered.
        """
        require(self.memory, "end_session", "end_session")
        if session is None:
            await self.memory.end_session(
                app_name=app_name, user_id=user_id, session_id=session_id
            )
            return
        whole, taken_back = await self._read_session(session)
        await self._forget(whole, taken_back)
        await self.memory.end_session(whole)

    async def _read_session(
        self, session: Session | Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        app_name, user_id = (
            get_field(session, "app_name"),
            get_field(session, "user_id"),
        )
        session_id = get_field(session, "id")
        if session_id is None:
            session_id = get_field(session, "session_id")
        content = await _read(get_list(session, "events", "session.events"))
        whole = {
            "app_name": app_name,
            "user_id": user_id,
            "id": session_id,
            "events": content.events,
        }
        return whole, content.taken_back

    async def _forget(
        self, whole: Mapping[str, Any], taken_back: Sequence[str]
    ) -> None:
        """Delete stored turns that a rewind removed."""
        for start in range(0, len(taken_back), _FORGET_AT_ONCE):
            await asyncio.gather(
                *(
                    self.memory.delete_memory(
                        app_name=whole["app_name"],
                        user_id=whole["user_id"],
                        memory_id=id_of(whole["id"], event_id),
                    )
                    for event_id in taken_back[start : start + _FORGET_AT_ONCE]
                )
            )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry | Mapping[str, Any] | str],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store facts and decisions.

        Args:
            app_name: The app.
            user_id: The user.
            memories: Entries, or texts. A timestamp without an offset is local time, as
                google-adk prints it.
            custom_metadata: As in `add_events_to_memory`; an entry's own wins.

        Raises:
            InvalidArgumentError: An entry without text, or a bad field; nothing was
                written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        await self.memory.add_memory(
            app_name=app_name,
            user_id=user_id,
            memories=to_memories(memories),
            custom_metadata=to_metadata(custom_metadata),
        )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Search this user's memories.

        Args:
            app_name: The app; results never cross it.
            user_id: The user; results never cross it.
            query: Any text; one without a word finds nothing and costs nothing.

        Returns:
            At most `top_k` memories, best first; by words alone, with a warning in the
            log, where the embedder fails. The scores and the session of each are
            in its custom_metadata["vecall"].

        Raises:
            InvalidArgumentError: A bad name.
            ClosedError: The service was closed.
        """
        # A model may send any value as the argument of its tool.
        found, _ = await search_with_fallback(
            self.memory,
            app_name=app_name,
            user_id=user_id,
            query=to_text(query),
            filter=self.filter,
        )
        return to_response(found, scores=self._scores)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user for good.

        Adding the same turn again does not bring it back. An unknown id, or None,
        deletes nothing.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: The `id` of an entry that a search returned.

        Raises:
            InvalidArgumentError: A bad name.
        """
        try:
            check_name(memory_id, "memory_id", limits_of(self.memory))
        except InvalidArgumentError:
            memory_id = None  # not a possible id
        await self.memory.delete_memory(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._owned:
            self.memory.close()


def _checked_filter(
    condition: FilterLike | None, memory: MemoryService | None, limits: object
) -> Filter | None:
    """Check the filter of a service before it opens its file."""
    if condition is None or memory is not None:
        return checked_filter(memory, condition)
    known = limits if isinstance(limits, Limits) else Limits()
    return check_filter(condition, known, by_metadata=True)


async def _read(events: list[object]) -> SessionContent:
    """Read few events on the event loop, many on another thread.

    The list is the caller's no more, so it may grow meanwhile; the events in it must
    not change until they are read.
    """
    if len(events) <= _INLINE_EVENTS:
        return read_events(events)
    return await asyncio.to_thread(read_events, events, in_slices)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ConfigError unless `vecall.MemoryService` has all of these options."""
    known = set(inspect.signature(MemoryService).parameters) - {"path"}
    if not known.issuperset(options):
        msg = f"options: expected some of {', '.join(sorted(known))}"
        raise ConfigError(msg)
