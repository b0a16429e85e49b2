"""A memory service for google-adk's Runner, its web server and its command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
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

from vecall._duck import as_list, read
from vecall.adk.convert import (
    parted_by_rewind,
    session_events,
    to_event,
    to_memories,
    to_metadata,
    to_response,
    to_text,
)
from vecall.errors import ConfigError
from vecall.service import MemoryService
from vecall.store import memory_id as id_of

SCHEME = "vecall"


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
        options: What `vecall.MemoryService` takes, such as `embedder` or `top_k`.

    Raises:
        ConfigError: Arguments that cannot be used together, an unknown option or
            scheme, or a folder that does not exist.
        VecallError: As `vecall.MemoryService` raises when it cannot open the file.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        uri: str | None = None,
        agents_dir: str | Path | None = None,
        memory: MemoryService | None = None,
        **options: Any,
    ) -> None:
        """Open the file, or make it."""
        if sum(given is not None for given in (path, uri, memory)) > 1:
            msg = "path, uri, memory: expected at most one of them"
            raise ConfigError(msg)
        if uri is not None:
            path, from_uri = parse_uri(uri, agents_dir)
            options = {**options, **from_uri}
        _check_options(options)
        if memory is not None and options:
            msg = "memory: a service that exists takes no options"
            raise ConfigError(msg)
        self._owned = memory is None
        self.memory = MemoryService(path, **options) if memory is None else memory
        """The service below, for what google-adk's contract has no argument for."""

    async def add_session_to_memory(self, session: Session | Mapping[str, Any]) -> None:
        """Remember the turns of a session, each once however often it is called.

        Turns without text, thoughts, pieces of a streamed turn, requests for
        credentials or confirmation, and what a rewind took back are left out; what a
        rewind took back after it was remembered is deleted. Turns that are absent from
        this copy of the session stay remembered.

        Args:
            session: A google-adk session, or one as its HTTP API sends it.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was written.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        app_name, user_id = read(session, "app_name"), read(session, "user_id")
        session_id = read(session, "id")
        if session_id is None:
            session_id = read(session, "session_id")
        events, rewound = parted_by_rewind(session_events(session))
        await self.memory.add_session_to_memory(
            {
                "app_name": app_name,
                "user_id": user_id,
                "id": session_id,
                "events": [to_event(event) for event in events],
            }
        )
        await self._forget(app_name, user_id, session_id, rewound)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any]],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some turns, such as those that are new since the last call.

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
        kept, rewound = parted_by_rewind(as_list(events, "events"))
        await self.memory.add_events_to_memory(
            app_name=app_name,
            user_id=user_id,
            events=[to_event(event) for event in kept],
            session_id=session_id,
            custom_metadata=to_metadata(custom_metadata),
        )
        await self._forget(app_name, user_id, session_id, rewound)

    async def _forget(
        self,
        app_name: str,
        user_id: str,
        session_id: str | None,
        events: Sequence[object],
    ) -> None:
        for event in events:
            event_id = read(event, "id")
            if isinstance(event_id, str) and event_id:
                await self.memory.delete_memory(
                    app_name=app_name,
                    user_id=user_id,
                    memory_id=id_of(session_id, event_id),
                )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry | Mapping[str, Any] | str],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember what was learned or decided.

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
        """Find what this user's past says about a query.

        Args:
            app_name: The app; results never cross it.
            user_id: The user; results never cross it.
            query: Any text; one without a word finds nothing and costs nothing.

        Returns:
            At most `top_k` memories, best first. The scores and the session of each are
            in its custom_metadata["vecall"].

        Raises:
            InvalidArgumentError: A bad name.
            EmbedderError: The embedder failed.
            ClosedError: The service was closed.
        """
        # A model may send anything as the argument of its tool.
        found = await self.memory.search_memory(
            app_name=app_name, user_id=user_id, query=to_text(query)
        )
        return to_response(found)

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
        await self.memory.delete_memory(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._owned:
            self.memory.close()


def register(**options: Any) -> bool:
    """Make "vecall://…" known to `adk web`, `adk api_server` and `adk run`.

    Call it in the file services.py of the agents' folder.

    Args:
        options: Given to every `VecallMemoryService` that is made from a URI, for what
            a URI cannot hold, such as an embedder of your own.

    Returns:
        False if this google-adk has no service registry.

    Raises:
        ConfigError: An unknown option.
    """
    _check_options(options)
    try:
        from google.adk.cli.service_registry import get_service_registry
    except ImportError:
        return False

    def make(uri: str, **given: Any) -> VecallMemoryService:
        return VecallMemoryService(uri=uri, **{**options, **given})

    get_service_registry().register_memory_service(SCHEME, make)
    return True


def parse_uri(
    uri: str, agents_dir: str | Path | None = None
) -> tuple[str | Path, dict[str, Any]]:
    """Return the path and the options that a URI names.

    Raises:
        ConfigError: Another scheme, no file, or an option that is not known.
    """
    try:
        parts = urlsplit(uri)
        options = parse_qsl(
            parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)
        )
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(_URI) from None
    if parts.scheme != SCHEME or "://" not in uri or parts.fragment:
        raise ConfigError(_URI)
    # As SQLAlchemy has it, the slash after the host only ends the host.
    host, path = unquote(parts.netloc), unquote(parts.path)
    name = f"{host}{path}" if host else path.removeprefix("/")
    if not name:
        raise ConfigError(_URI)
    chosen: dict[str, Any] = {}
    for key, text in options:
        if key not in _FROM_TEXT or key in chosen:
            msg = f"uri: the options are {', '.join(_FROM_TEXT)}, each once"
            raise ConfigError(msg)
        try:
            chosen[key] = _FROM_TEXT[key](text)
        except (KeyError, ValueError):
            msg = f"uri: the value of {key} cannot be read"
            raise ConfigError(msg) from None
    if name == ":memory:":
        return name, chosen
    return Path(agents_dir or ".") / name, chosen


_URI = (
    "uri: expected vecall://./file, vecall:///file (both relative), "
    "vecall:////folder/file or vecall://:memory:, and options after '?'; "
    "write '#' as %23"
)

_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "durability": str,
    "embedder": str,
    "memory_budget": int,
    "min_score": float,
    "top_k": int,
    "warn_raw": {"true": True, "1": True, "false": False, "0": False}.__getitem__,
}


def _check_options(options: Mapping[str, Any]) -> None:
    known = set(inspect.signature(MemoryService).parameters) - {"path"}
    if not known.issuperset(options):
        msg = f"options: expected some of {', '.join(sorted(known))}"
        raise ConfigError(msg)
