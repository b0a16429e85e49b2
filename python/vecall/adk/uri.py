"""The URI of a memory service for google-adk's command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from vecall.errors import ConfigError
from vecall.operations.options import StorageOptions, WritePolicy
from vecall.search.options import SearchOptions

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


def is_ours(uri: str) -> bool:
    """Whether a URI has one of vecall's schemes."""
    return uri.partition(":")[0] in SCHEMES


def parse_uri(
    uri: str, agents_dir: str | Path | None = None
) -> tuple[str | Path, dict[str, Any]]:
    """Return the path and the options of a URI.

    Args:
        uri: The URI. In that of a database, options that are not those of a service
            belong to the database.
        agents_dir: The base folder of a relative path; default: the current folder.

    Returns:
        A file, ":memory:", or the URL of a database; and options of a service.

    Raises:
        ConfigError: The scheme is not one of vecall's, the file is missing in the URI,
            or an option is unknown.
    """
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
        return _database(uri)
    # As in SQLAlchemy, the slash after the host is not part of the path.
    host, path = unquote(parts.netloc), unquote(parts.path)
    name = f"{host}{path}" if host else path.removeprefix("/")
    if not name:
        raise ConfigError(_EXPECTED)
    chosen = _chosen(options)
    if name == ":memory:":
        return name, chosen
    return Path(agents_dir or ".") / name, chosen


def _database(uri: str) -> tuple[str, dict[str, Any]]:
    address, _, query = uri.removeprefix("vecall+").partition("?")
    parts = [part for part in query.split("&") if part]
    ours = [part for part in parts if part.partition("=")[0] in _FROM_TEXT]
    rest = [part for part in parts if part not in ours]
    url = f"{address}?{'&'.join(rest)}" if rest else address
    return url, _chosen(parse_qsl("&".join(ours), keep_blank_values=True))


def _chosen(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the options of a service, converted from texts."""
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
    return chosen


def with_uri_options(
    options: Mapping[str, Any], from_uri: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a service; options of a URI override them by field.

    Args:
        options: Options of `vecall.MemoryService`.
        from_uri: The options from `parse_uri`.

    Raises:
        ConfigError: A value is not valid.
    """
    merged = dict(options)
    fields: dict[str, dict[str, Any]] = {}
    for key, value in from_uri.items():
        if key in _GROUPED:
            group, name = _GROUPED[key]
            fields.setdefault(group, {})[name] = value
        else:
            merged[key] = value
    for group, values in fields.items():
        given = merged.get(group)
        if given is None:
            merged[group] = _GROUPS[group](**values)
        elif is_dataclass(given) and not isinstance(given, type):
            merged[group] = replace(given, **values)
    return merged


def _seconds(text: str) -> str:
    return text if text.endswith("s") else f"{text}s"


def _trigger(text: str) -> str | Mapping[str, Any]:
    """Read "session_end", "message_count:20", "inactivity:60000"."""
    name, _, number = text.partition(":")
    if not number:
        return name
    counted = {"inactivity": "inactivity_ms", "message_count": "message_count"}
    return {"type": name, counted[name]: int(number)}


_SWITCH = {"true": True, "1": True, "false": False, "0": False}.__getitem__

_GROUPED = {
    "authors": ("search", "authors"),
    "durability": ("storage", "durability"),
    "history_ttl": ("writes", "history_ttl"),
    "include": ("writes", "include"),
    "max_staleness": ("storage", "max_staleness"),
    "memory_budget": ("storage", "cache_bytes"),
    "min_score": ("search", "min_similarity"),
}
"""The keys that are fields of a group of options, with group and field."""

_GROUPS: dict[str, Callable[..., Any]] = {
    "search": SearchOptions,
    "storage": StorageOptions,
    "writes": WritePolicy,
}

_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "authors": lambda text: tuple(text.split(",")) if text else (),
    "durability": str,
    "embedder": str,
    "history_ttl": _seconds,
    "include": lambda text: tuple(text.split(",")),
    "max_staleness": float,
    "memory_budget": int,
    "min_confidence": float,
    "min_score": float,
    "read_only": _SWITCH,
    "scores": _SWITCH,
    "top_k": int,
    "trigger": _trigger,
    "ttl": _seconds,
}
