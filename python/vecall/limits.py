"""Maximum sizes of requests, and the quota of each user."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypedDict, get_args

from vecall.errors import ConfigError
from vecall.scalars import Shown, exact, make_fields_exact

Eviction = Literal["reject", "oldest", "lru", "lowest_value"]
"""The eviction policy of a quota."""

UNASKED_RELEVANCE = 0.2
"""The least relevance of a query with which nobody asked for memories. It also is the
least confidence of a memory of services that know no relevance."""

IRRELEVANT = 0.02
"""If no memory has a word of the query, a search finds nothing below this relevance."""

MOST_OFFSET = 10_000
"""Maximum of the offset of a search."""


# The kinds of numbers that methods take, with their bounds. Schemas are made of them.


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Within(Shown):
    """The bounds of a number, inclusive; a name is that of a field of `Limits`."""

    low: float
    high: float | str


Share = Annotated[float, Within(0, 1)]
"""A share, such as a confidence."""

Cosine = Annotated[float, Within(-1, 1)]
"""A cosine similarity."""

Count = Annotated[int, Within(1, "max_top_k")]
"""A number of results."""

Offset = Annotated[int, Within(0, MOST_OFFSET)]
"""A number of results to leave out."""

_DEEPEST = 200  # Python's own limit is 1,000 calls, those of the caller included


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Limits(Shown):
    """Maximum sizes of the parts of a request.

    Attributes:
        max_text_bytes: Bytes of one memory's text in UTF-8.
        max_metadata_bytes: Bytes of one memory's custom_metadata as JSON.
        max_metadata_depth: Nesting depth of that JSON, at most 200.
        max_name_bytes: Bytes of an app name, or of a user, session, event or memory id,
            in UTF-8.
        max_top_k: Memories in one search result.
        max_item_bytes: Bytes of an item's value as JSON.
        max_item_outline_bytes: Bytes of that JSON without strings of more than 16,384
            characters.
        max_item_name_bytes: Bytes of an item's key, or of all labels of its namespace,
            in UTF-8.
        max_query_chars: Characters of a query; a longer query is cut, not refused.

    Raises:
        ConfigError: A limit is not an integer of at least 1, or the depth above 200.
    """

    max_text_bytes: int = 262_144
    max_metadata_bytes: int = 16_384
    max_metadata_depth: int = 8
    max_name_bytes: int = 512
    max_top_k: int = 1_000
    max_query_chars: int = 32_768
    max_item_bytes: int = 33_554_432
    max_item_outline_bytes: int = 1_048_576
    max_item_name_bytes: int = 4_096

    def __post_init__(self) -> None:
        """Check that every limit is a number of at least 1."""
        make_fields_exact(self)
        for field in fields(self):
            check_limit_count(getattr(self, field.name), f"limits.{field.name}")
        if self.max_metadata_depth > _DEEPEST:
            raise ConfigError(f"limits.max_metadata_depth: must be at most {_DEEPEST}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Quota(Shown):
    """How much each user may store. Buffered turns count, too.

    Attributes:
        memories: Maximum number of live memories and buffered turns; None is no limit.
        bytes: Maximum bytes of the text (UTF-8) of live memories and of the JSON of
            buffered turns; None is no limit.
        eviction: What a write over the quota does. "reject" refuses the write. The
            others delete older memories: "oldest" by timestamp, "lru" by last write or
            use, "lowest_value" by importance.

    Raises:
        ConfigError: A number is not an integer of at least 1, or the eviction is
            unknown.
    """

    memories: int | None = None
    bytes: int | None = None
    eviction: Eviction = "reject"

    def __post_init__(self) -> None:
        """Check both numbers and the eviction."""
        make_fields_exact(self)
        for name in ("memories", "bytes"):
            if (value := getattr(self, name)) is not None:
                check_limit_count(value, f"quota.{name}")
        eviction: object = self.eviction
        if type(eviction) is not str or eviction not in get_args(Eviction):
            msg = f"quota.eviction: must be one of {', '.join(get_args(Eviction))}"
            raise ConfigError(msg)


def check_limit_count(value: object, name: str) -> None:
    """Refuse what is not an integer of at least 1."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}: must be an integer of at least 1")


# Scopes: memories shared between the apps of a user, or the users of an app.
#
# (app, user) pairs are isolated from each other. Besides a user's own memories there
# are two more scopes, each a partition of its own:
#
# - "shared": memories of one user for all apps;
# - "app": memories of one app for all its users, such as a handbook.
#
# Both are off by default. Reading and writing are enabled separately. The two names of
# these partitions in the file are reserved: no app and no user may have them.

Scope = Literal["user", "shared", "app"]
"""The user's own memories, those of the user for all apps, or those of the app."""

SHARED_APP = "\x01vecall shared\x01"
APP_WIDE = "\x01vecall app\x01"
RESERVED = (SHARED_APP, APP_WIDE)


class Owner(TypedDict):
    """App and user, as the methods of a memory service take them."""

    app_name: str
    user_id: str


@dataclass(frozen=True, repr=False, eq=False)
class Scopes(Shown):
    """Which scopes besides a user's own memories may be read and written.

    Attributes:
        read: "shared", "app" or both; searches include them.
        write: "shared", "app" or both.
    """

    read: frozenset[Scope] = frozenset()
    write: frozenset[Scope] = frozenset()

    def __init__(
        self, *, read: Iterable[Scope] = (), write: Iterable[Scope] = ()
    ) -> None:
        """Enable scopes.

        Raises:
            ConfigError: A value other than "shared" and "app".
        """
        for given, name in ((read, "read"), (write, "write")):
            named: frozenset[Scope] | None
            try:
                named = frozenset(map(exact, given))
            except TypeError:
                named = None
            places = {"shared", "app"}
            if isinstance(given, str) or named is None or not named <= places:
                raise ConfigError(f'scopes.{name}: expected some of "shared" and "app"')
            object.__setattr__(self, name, named)


# The options of `trigger=`: what makes memories of an observed session.

_LONGEST_MS = 100 * 365 * 86_400_000


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SessionEnd(Shown):
    """Only `end_session` makes memories."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Inactivity(Shown):
    """Make memories of a session after some time without a new turn.

    Attributes:
        inactivity_ms: The time in milliseconds, 1 to 100 years.
    """

    inactivity_ms: int

    def __post_init__(self) -> None:
        """Check the number."""
        make_fields_exact(self)
        _check_trigger_limit(self.inactivity_ms, "inactivity_ms", _LONGEST_MS)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MessageCount(Shown):
    """Make memories after a number of new turns.

    Attributes:
        message_count: The number of turns, 1 to 1,000,000.
    """

    message_count: int

    def __post_init__(self) -> None:
        """Check the number."""
        make_fields_exact(self)
        _check_trigger_limit(self.message_count, "message_count", 1_000_000)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Compaction(Shown):
    """Store the summaries of a framework's compaction; no LLM is called."""


Trigger = SessionEnd | Inactivity | MessageCount | Compaction

_BY_NAME: dict[str, type[Any]] = {
    "session_end": SessionEnd,
    "inactivity": Inactivity,
    "message_count": MessageCount,
    "compaction": Compaction,
}


def session_trigger(given: object) -> Trigger | None:
    """Return a trigger from itself, its name, or a mapping with "type"."""
    if given is None or isinstance(given, Trigger):
        return given
    options: Mapping[str, object] = {}
    name = exact(given)
    if isinstance(given, Mapping):
        options = {key: value for key, value in given.items() if key != "type"}
        name = exact(given.get("type"))
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        msg = f"trigger: expected one of {', '.join(_BY_NAME)}, or their classes"
        raise ConfigError(msg)
    try:
        return kind(**options)  # type: ignore[no-any-return]
    except TypeError:
        msg = f"trigger: {name} needs its number, and takes nothing else"
        raise ConfigError(msg) from None


def trigger_from_text(text: str) -> str | dict[str, object]:
    """Return what `session_trigger` takes, of NAME or NAME:NUMBER."""
    name, colon, number = text.partition(":")
    if not colon:
        return name
    fields = _BY_NAME[name].__match_args__ if name in _BY_NAME else ()
    is_number = number.isascii() and number.isdecimal() and len(number) <= 15
    if not fields or not is_number:
        msg = "trigger: expected a name, or inactivity:NUMBER or message_count:NUMBER"
        raise ConfigError(msg)
    return {"type": name, fields[0]: int(number)}


def _check_trigger_limit(value: object, name: str, limit: int) -> None:
    if type(value) is not int or not 1 <= value <= limit:
        raise ConfigError(f"trigger: {name} must be an integer from 1 to {limit}")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HttpLimits(Shown):
    """The limits on the size, speed and rate of requests.

    The memory service has its own limits on texts, names, metadata and k.

    Attributes:
        max_body_bytes: Bytes of a body that may hold many memories or turns.
        max_text_body_bytes: Bytes of a body that corrects one memory.
        max_small_body_bytes: Bytes of any other body, such as a search's.
        max_json_parts: Fields and items in a body, counted as its characters [ { and
            comma.
        max_held_bytes: Bytes in RAM of all bodies above 16 KiB. One token may use a
            quarter, but at least one body.
        max_batch: Memories or events in one request.
        max_answer_bytes: Bytes of the memories in a response, as JSON. Further memories
            are left out, and the response says so. One memory always fits. Exports have
            no such limit.
        max_header_bytes: Bytes of the request line and the headers together.
        header_seconds: Timeout of the headers, from the first byte on.
        body_seconds: Timeout of the body.
        request_seconds: Timeout of the memory service, and of a client that reads a
            chunk of the response.
        max_connections: Open connections. For one more, the server closes the one that
            has been sending headers longest, or else the one idle longest.
        writes_per_second: Writes of one token; also the size of a burst.
        reads_per_second: Reads of one token; also the size of a burst.
        body_bytes_per_second: Bytes of all bodies of one token; also the size of a
            burst. Above it the server slows the client down.
        requests_at_once: Requests of one token that run at the same time; of all tokens
            four times as many. Other requests wait, round robin by token.
        exports_at_once: Exports of one token that are made or sent at the same time.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    max_text_body_bytes: int = 1024 * 1024
    max_small_body_bytes: int = 256 * 1024
    max_json_parts: int = 100_000
    max_held_bytes: int = 64 * 1024 * 1024
    max_batch: int = 256
    max_answer_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 16 * 1024
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    request_seconds: float = 30.0
    max_connections: int = 256
    writes_per_second: int = 60
    reads_per_second: int = 600
    body_bytes_per_second: int = 8 * 1024 * 1024
    requests_at_once: int = 16
    exports_at_once: int = 4

    def __post_init__(self) -> None:
        """Check that every limit is positive, and that counts are integers."""
        for field in fields(self):
            value = getattr(self, field.name)
            whole = not field.name.endswith("_seconds")
            fits = type(value) is int or (not whole and type(value) is float)
            if not fits or not 0 < value < math.inf:
                kind = "integer of at least 1" if whole else "number above 0"
                raise ConfigError(f"limits.{field.name}: must be a finite {kind}")
