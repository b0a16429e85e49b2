"""A memory service for google-adk's Runner, its web server and its command line."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import (
    BaseMemoryService,
    SearchMemoryResponse,
)
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from vecall.adk.events import (
    SessionContent,
    adk_text,
    json_safe_metadata,
    read_adk_events,
    read_adk_memories,
    to_adk_response,
)
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list, get_field, get_list
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.ingest.drafts import session_id_of
from vecall.limits import Limits, trigger_from_text
from vecall.operations.options import StorageOptions, WritePolicy
from vecall.search.searcher import SearchOptions
from vecall.service.memory_service import MemoryService
from vecall.store import make_memory_id as id_of
from vecall.tools import ShownMemories, search_with_fallback
from vecall.tools.base import checked_filter, limits_of_service, require_methods
from vecall.types import Filter, FilterLike
from vecall.validation import check_filter, check_name

SCHEME = "vecall"
"""The scheme of a file."""

DATABASE_SCHEME = "vecall+postgresql"
"""The scheme of a PostgreSQL database."""

SCHEMES = (SCHEME, DATABASE_SCHEME)

_EXPECTED = (
    "uri: expected vecall://./file, vecall:///file (both relative), "
    "vecall:////folder/file, vecall://:memory: or "
    "vecall+postgresql://user@host/database, and options after '?'; "
    "write '#' as %23"
)


def is_vecall_uri(uri: str) -> bool:
    """Whether a URI has one of vecall's schemes."""
    return uri.partition(":")[0] in SCHEMES


def parse_adk_uri(
    uri: str, agents_dir: str | Path | None = None
) -> tuple[str | Path, dict[str, Any]]:
    """Return a file, ":memory:" or the URL of a database; and options of a service."""
    # A relative path is one of `agents_dir`, or else of the current folder. In the URI
    # of a database, options that are not those of a service belong to the database.
    try:
        parts = urlsplit(uri)
        options = parse_qsl(
            parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)
        )
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(_EXPECTED) from None
    if parts.scheme not in SCHEMES or "://" not in uri or parts.fragment:
        raise ConfigError(_EXPECTED)
    if parts.scheme == DATABASE_SCHEME:
        return _parse_database_uri(uri)
    # As in SQLAlchemy, the slash after the host is not part of the path.
    host, path = unquote(parts.netloc), unquote(parts.path)
    name = f"{host}{path}" if host else path.removeprefix("/")
    if not name:
        raise ConfigError(_EXPECTED)
    chosen = _parse_uri_options(options)
    if name == ":memory:":
        return name, chosen
    return Path(agents_dir or ".") / name, chosen


def _parse_database_uri(uri: str) -> tuple[str, dict[str, Any]]:
    address, _, query = uri.removeprefix("vecall+").partition("?")
    parts = [part for part in query.split("&") if part]
    ours = [part for part in parts if part.partition("=")[0] in _OPTIONS]
    rest = [part for part in parts if part not in ours]
    url = f"{address}?{'&'.join(rest)}" if rest else address
    return url, _parse_uri_options(parse_qsl("&".join(ours), keep_blank_values=True))


def _parse_uri_options(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the options of a service, converted from texts."""
    chosen: dict[str, Any] = {}
    for key, text in options:
        if key not in _OPTIONS or key in chosen:
            msg = f"uri: the options are {', '.join(_OPTIONS)}, each once"
            raise ConfigError(msg)
        try:
            chosen[key] = _OPTIONS[key][0](text)
        except (KeyError, ValueError):
            raise ConfigError(f"uri: the value of {key} cannot be read") from None
    return chosen


def with_uri_options(
    options: Mapping[str, Any], from_uri: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a service; those of a URI override them by field."""
    merged = dict(options)
    for key, value in from_uri.items():
        group, _, field = _OPTIONS[key][1].rpartition(".")
        if not group:
            merged[field] = value
            continue
        kind = _GROUPS[group]
        given = kind() if merged.get(group) is None else merged[group]
        if isinstance(given, kind):
            merged[group] = replace(given, **{field: value})
    return merged


_SWITCH = {"true": True, "1": True, "false": False, "0": False}.__getitem__

_GROUPS: dict[str, type[Any]] = {
    "search": SearchOptions,
    "storage": StorageOptions,
    "writes": WritePolicy,
}


def _parse_uri_seconds(text: str) -> str:
    return f"{text.removesuffix('s')}s"


_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "authors": (lambda text: tuple(text.split(",")) if text else (), "search.authors"),
    "durability": (str, "storage.durability"),
    "embedder": (str, "embedder"),
    "history_ttl": (_parse_uri_seconds, "writes.history_ttl"),
    "include": (lambda text: tuple(text.split(",")), "writes.include"),
    "max_staleness": (float, "storage.max_staleness"),
    "memory_budget": (int, "storage.cache_bytes"),
    "min_confidence": (float, "min_confidence"),
    "min_score": (float, "search.min_similarity"),
    "read_only": (_SWITCH, "read_only"),
    "scores": (_SWITCH, "scores"),
    "top_k": (int, "top_k"),
    "trigger": (trigger_from_text, "trigger"),
    "ttl": (_parse_uri_seconds, "ttl"),
}
"""By its name in a URI: how its text is read, and which option it is, after a dot of a
group of options."""

_INLINE_EVENTS = 64  # reading them blocks the event loop for about a millisecond
_FORGET_AT_ONCE = 256


class VecallMemoryService(BaseMemoryService):
    """A google-adk memory service on top of a `vecall.MemoryService`.

    Safe to share between threads and event loops. A write is in the file when its call
    returns, so no data is lost without `close`.

    Args:
        path: The SQLite file; created if it does not exist. None or ":memory:": the
            memories are lost when the process ends.
        uri: The file as a URI, instead of `path`: "vecall://./memory.db" (relative),
            "vecall:////var/lib/memory.db" (absolute) or "vecall://:memory:". Options
            follow after "?", as in "?top_k=10". They override arguments of the same
            name.
        agents_dir: The base folder of a relative path in `uri`; google-adk passes its
            own.
        memory: An open service, instead of a file; `close` does not close it.
        scores: Whether search results carry their scores and their session in
            `custom_metadata["vecall"]`, which google-adk's own tools show to a model.
        filter: The filter of searches: a `vecall.Filter`, or a mapping with its fields.
            It applies to `search_memory`, and to vecall's tools that search or preload
            and have no filter of their own.
        options: Options of `vecall.MemoryService`, such as `embedder` or `top_k`.

    Raises:
        ConfigError: Arguments exclude each other, an option or a scheme is unknown, a
            folder does not exist, or the search of `memory` takes no filter.
        InvalidArgumentError: The filter is not valid.
        VecallError: `vecall.MemoryService` cannot open the file.
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
            raise ConfigError("path, uri, memory: expected at most one of them")
        if uri is not None:
            path, from_uri = parse_adk_uri(uri, agents_dir)
            options = with_uri_options(options, from_uri)
        self._scores = bool(options.pop("scores", scores))
        check_adk_options(options)
        if memory is not None and options:
            raise ConfigError("memory: a service that exists takes no options")
        checked = _check_adk_filter(filter, memory, options.get("limits"))
        self._owned = memory is None
        self.memory = MemoryService(path, **options) if memory is None else memory
        """The `vecall.MemoryService`, for calls that google-adk's contract lacks."""
        self.turns = ShownMemories()
        """The memories shown in recent turns, to show each of them only once."""
        self.filter = checked
        """The filter of all searches; None: no filter."""

    async def add_session_to_memory(self, session: Session | Mapping[str, Any]) -> None:
        """Store the turns of a session. Idempotent.

        These are left out: turns without text, thoughts and calls (except those that
        the option `include` selects), pieces of a streamed turn, requests for
        credentials or confirmation, and turns that a rewind removed. If a rewind
        removed turns that are already stored, they are deleted. Stored turns that are
        absent from `session` are not deleted.

        Args:
            session: A google-adk session, or its JSON from google-adk's HTTP API.

        Raises:
            InvalidArgumentError: A name, id, time or text is not valid; nothing was
                written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        whole, taken_back = await self._read_adk_session(session)
        await self.memory.add_session_to_memory(whole)
        await self._delete_rewound_turns(whole, taken_back)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any]],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store some turns, such as the new ones since the last call.

        Args:
            app_name: The app.
            user_id: The user.
            events: Turns in order, as in `add_session_to_memory`.
            session_id: The session of the turns. Without it, only their ids identify
                the turns: they are other memories than the same turns with a session.
            custom_metadata: Stored with each turn, as JSON; a value that JSON lacks
                becomes its str(). "ttl" (seconds, a timedelta or "30d") sets a TTL.

        Raises:
            InvalidArgumentError: A name, id, time or text is not valid; nothing was
                written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        content = await _read_adk_turns(as_list(events, "events"))
        await self.memory.add_events_to_memory(
            app_name=app_name,
            user_id=user_id,
            events=content.events,
            session_id=session_id,
            custom_metadata=json_safe_metadata(custom_metadata),
        )
        scope = {"app_name": app_name, "user_id": user_id, "id": session_id}
        await self._delete_rewound_turns(scope, content.taken_back)

    async def observe_session(self, session: Session | Mapping[str, Any]) -> None:
        """Buffer the new turns of a session until the service's trigger fires.

        Searches do not find buffered turns. See `vecall.MemoryService.observe_session`.

        Args:
            session: As in `add_session_to_memory`.

        Raises:
            InvalidArgumentError: A name, id, time or text is not valid; nothing was
                buffered.
            StorageFullError: The disk is full; nothing was buffered.
        """
        require_methods(self.memory, "observe_session", "observe_session")
        whole, taken_back = await self._read_adk_session(session)
        await self.memory.observe_session(whole)
        await self._delete_rewound_turns(whole, taken_back)

    async def end_session(
        self,
        session: Session | Mapping[str, Any] | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """Store all buffered turns of a session as memories, with any trigger.

        google-adk does not signal the end of a session. Call this method when your
        application ends a session, such as when the user logs out. See
        `vecall.MemoryService.end_session`.

        Args:
            session: As in `add_session_to_memory`. Turns that were not observed yet are
                included. Default: the session that the other three arguments name.
            app_name: The app.
            user_id: The user.
            session_id: The session's id.

        Raises:
            InvalidArgumentError: A name, id, time or text is not valid; nothing was
                written.
            SummaryError: The summarizer failed; the turns stay buffered.
            EmbedderError: The embedder failed; the turns stay buffered.
        """
        require_methods(self.memory, "end_session", "end_session")
        if session is None:
            await self.memory.end_session(
                app_name=app_name, user_id=user_id, session_id=session_id
            )
            return
        whole, taken_back = await self._read_adk_session(session)
        await self._delete_rewound_turns(whole, taken_back)
        await self.memory.end_session(whole)

    async def _read_adk_session(
        self, session: Session | Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        content = await _read_adk_turns(get_list(session, "events", "session.events"))
        whole = {name: get_field(session, name) for name in ("app_name", "user_id")}
        whole |= {"id": session_id_of(session), "events": content.events}
        return whole, content.taken_back

    async def _delete_rewound_turns(
        self, whole: Mapping[str, Any], taken_back: Sequence[str]
    ) -> None:
        """Delete stored turns that a rewind removed."""
        for start in range(0, len(taken_back), _FORGET_AT_ONCE):
            deletions = (
                self.memory.delete_memory(
                    app_name=whole["app_name"],
                    user_id=whole["user_id"],
                    memory_id=id_of(whole["id"], event_id),
                )
                for event_id in taken_back[start : start + _FORGET_AT_ONCE]
            )
            await asyncio.gather(*deletions)

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
            custom_metadata: As in `add_events_to_memory`; values of an entry override
                it.

        Raises:
            InvalidArgumentError: An entry has no text, or a field is not valid; nothing
                was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        await self.memory.add_memory(
            app_name=app_name,
            user_id=user_id,
            memories=read_adk_memories(memories),
            custom_metadata=json_safe_metadata(custom_metadata),
        )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Search this user's memories.

        Args:
            app_name: The app; results never cross it.
            user_id: The user; results never cross it.
            query: Any text; a text without words finds nothing and costs nothing.

        Returns:
            At most `top_k` memories, best first. If the embedder fails, the search uses
            words alone and logs a warning. With `scores`, the custom_metadata["vecall"]
            of a memory has its scores and its session.

        Raises:
            InvalidArgumentError: A name is not valid.
            ClosedError: The service was closed.
        """
        # A model may send any value as the argument of its tool.
        found, _ = await search_with_fallback(
            self.memory,
            app_name=app_name,
            user_id=user_id,
            query=adk_text(query),
            filter=self.filter,
        )
        return to_adk_response(found, scores=self._scores)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user permanently.

        Ingesting the same turn again does not restore it. An unknown id, or None,
        deletes nothing.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: The `id` of an entry that a search returned.

        Raises:
            InvalidArgumentError: A name is not valid.
        """
        try:
            check_name(memory_id, "memory_id", limits_of_service(self.memory))
        except InvalidArgumentError:
            memory_id = None  # not a valid id
        await self.memory.delete_memory(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._owned:
            self.memory.close()


def _check_adk_filter(
    condition: FilterLike | None, memory: MemoryService | None, limits: object
) -> Filter | None:
    """Check the filter of a service before it opens its file."""
    if condition is None or memory is not None:
        return checked_filter(memory, condition)
    known = limits if isinstance(limits, Limits) else Limits()
    return check_filter(condition, known, by_metadata=True)


async def _read_adk_turns(events: list[object]) -> SessionContent:
    """Read few events on the event loop, many on another thread, from a copied list."""
    if len(events) <= _INLINE_EVENTS:
        return read_adk_events(events)
    return await asyncio.to_thread(read_adk_events, events, in_slices)


def check_adk_options(options: Mapping[str, Any]) -> None:
    """Raise ConfigError if `vecall.MemoryService` lacks one of these options."""
    known = set(inspect.signature(MemoryService).parameters) - {"path"}
    if not known.issuperset(options):
        raise ConfigError(f"options: expected some of {', '.join(sorted(known))}")


def register(**options: Any) -> bool:
    """Register vecall's schemes for `adk web`, `adk api_server` and `adk run`.

    They are "vecall://…" for a file, and "vecall+postgresql://…" for a database.
    Call this in the file services.py of the agents' folder.

    Args:
        options: Arguments of every `VecallMemoryService` created from a URI, for
            options that a URI cannot hold, such as your own embedder.

    Returns:
        False if this version of google-adk has no service registry.

    Raises:
        ConfigError: An option is unknown.
    """
    check_adk_options(options)
    try:
        from google.adk.cli.service_registry import get_service_registry
    except ImportError:
        return False

    def make(uri: str, **given: Any) -> VecallMemoryService:
        return VecallMemoryService(uri=uri, **{**options, **given})

    for scheme in SCHEMES:
        get_service_registry().register_memory_service(scheme, make)
    return True
