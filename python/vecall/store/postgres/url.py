"""Parses the URL of a database; its password never appears in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from vecall.errors import ConfigError

SCHEMES = ("postgresql", "postgres")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MOST_CONNECTIONS = 64
_LOCAL = ("", "localhost", "127.0.0.1", "::1")
_OWN = ("schema", "writers", "readers", "keeper_url", "timeout", "prepare")
_SHORTEST_S, _LONGEST_S = 0.1, 3600.0


# As in RFC 3986, appendix B. `urllib.parse` of some Pythons refuses an IPv6 address
# among several hosts.
_PARTS = re.compile(
    r"(?P<scheme>[a-z]+)://(?P<netloc>[^/?#]*)(?P<path>[^?#]*)"
    r"(\?(?P<query>[^#]*))?(#(?P<fragment>.*))?",
    re.DOTALL,
)


class _Parts(NamedTuple):
    scheme: str
    netloc: str
    path: str
    query: str
    fragment: str


def _split(url: str) -> _Parts:
    """Return the parts of a URL.

    Raises:
        ValueError: It is malformed.
    """
    found = _PARTS.fullmatch(url)
    if found is None or found["netloc"].count("[") != found["netloc"].count("]"):
        msg = "url"
        raise ValueError(msg)
    return _Parts(**found.groupdict(""))


def is_url(path: object) -> bool:
    """Whether a path is the URL of a database."""
    return isinstance(path, str) and path.startswith(
        tuple(f"{scheme}://" for scheme in SCHEMES)
    )


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a database is, and how it is used.

    Attributes:
        conninfo: The URL for libpq, without vecall's own options.
        schema: The schema of vecall's tables.
        writers: The number of connections that write.
        readers: The number of connections that read.
        keeper: The URL for work across users; None uses `conninfo`.
        timeout: The time, in seconds, that a transaction waits for the database.
        prepares: Statements are prepared, unless a pooler does not allow that.
    """

    conninfo: str = field(repr=False)
    schema: str = "vecall"
    writers: int = 4
    readers: int = 4
    keeper: str | None = field(default=None, repr=False)
    timeout: float = 18.0
    prepares: bool = True

    def __str__(self) -> str:
        """Return the URL without user and password."""
        parts = _split(self.conninfo)
        where = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{where}{parts.path}"

    @property
    def is_checked(self) -> bool:
        """Whether a connection is local, or verifies the server's certificate."""
        parts = _split(self.conninfo)
        options = dict(_options(parts.query))
        local = all(
            host.startswith(("/", "@")) or host in _LOCAL
            for host in _hosts(parts.netloc, options)
        )
        return local or options.get("sslmode") == "verify-full"


def parse_url(url: str, *, default_schema: str = "vecall") -> DatabaseUrl:
    """Parse a URL.

    Args:
        url: "postgresql://user:password@host/database"; options of libpq, and
            `schema`, `writers`, `readers`, `keeper_url`, `timeout` and `prepare`,
            follow a question mark.
            Several hosts are separated by commas. The one that accepts writes is
            used, unless the URL has `target_session_attrs`.
        default_schema: The schema of a URL that names none.

    Raises:
        ConfigError: The URL is malformed, or an option has a wrong value.
    """
    try:
        parts = _split(url)
        options = _options(parts.query)
        hosts = _hosts(parts.netloc, dict(options))
        _require_ports(parts.netloc)
        _require_no_fragment(parts.fragment)
    except ValueError:
        msg = "path: the URL of the database is malformed"
        raise ConfigError(msg) from None
    own = {name: value for name, value in options if name in _OWN}
    rest = [
        part
        for part in parts.query.split("&")
        if part and _decoded(part)[0] not in _OWN
    ]
    if len(hosts) > 1 and "target_session_attrs" not in dict(options):
        rest.append("target_session_attrs=read-write")
    schema = own.get("schema", default_schema)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        msg = (
            "path: schema: expected a name of lower-case letters, digits and _, at "
            "most 63, not beginning with pg_"
        )
        raise ConfigError(msg)
    keeper = _keeper(own["keeper_url"]) if "keeper_url" in own else None
    query = f"?{'&'.join(rest)}" if rest else ""
    conninfo = f"postgresql://{parts.netloc}{parts.path}{query}"
    return DatabaseUrl(
        conninfo,
        schema,
        _count(own, "writers"),
        _count(own, "readers"),
        keeper,
        _seconds(own.get("timeout", "18")),
        _prepares(own.get("prepare", "auto")),
    )


def _keeper(url: str) -> str:
    """Return the URL of the keeper for libpq."""
    options = _options(url.partition("?")[2])
    if not is_url(url) or any(name in _OWN for name, _ in options):
        msg = (
            "path: keeper_url: expected the URL of a database, without "
            f"{', '.join(_OWN)}"
        )
        raise ConfigError(msg)
    return parse_url(url).conninfo


def _require_no_fragment(fragment: str) -> None:
    if fragment:
        msg = "fragment"
        raise ValueError(msg)


def _decoded(option: str) -> tuple[str, str]:
    """Decode "name=value" as libpq does, for which "+" is no space."""
    name, _, value = option.partition("=")
    return unquote(name), unquote(value)


def _options(query: str) -> list[tuple[str, str]]:
    return [_decoded(part) for part in query.split("&") if part]


def _places(netloc: str) -> list[tuple[str, str]]:
    """Return host and port of each place; both may be empty."""
    found = []
    for place in netloc.rpartition("@")[2].split(","):
        if place.startswith("["):
            host, _, port = place[1:].partition("]")
            port = port.removeprefix(":")
        else:
            host, _, port = place.partition(":")
        found.append((unquote(host), port))
    return found


def _hosts(netloc: str, options: dict[str, str]) -> list[str]:
    """Return the hosts; the option `host` takes precedence, as with libpq."""
    if "host" in options:
        return options["host"].split(",")
    return [host for host, _ in _places(netloc)]


def _require_ports(netloc: str) -> None:
    for _, port in _places(netloc):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            msg = "port"
            raise ValueError(msg)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        msg = f"path: timeout: expected seconds from {_SHORTEST_S:g} to {_LONGEST_S:g}"
        raise ConfigError(msg)
    return seconds


def _prepares(text: str) -> bool:
    if text not in ("auto", "never"):
        msg = "path: prepare: expected auto or never"
        raise ConfigError(msg)
    return text == "auto"


def _count(options: dict[str, str], name: str) -> int:
    value = options.get(name, "4")
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 64:
        msg = f"path: {name}: expected a number from 1 to {_MOST_CONNECTIONS}"
        raise ConfigError(msg)
    return int(value)
