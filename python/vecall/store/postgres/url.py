"""Parses the URL of a database; its password never appears in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from vecall.errors import ConfigError

SCHEMES = ("postgresql", "postgres")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MOST_CONNECTIONS = 64
_LOCAL = ("localhost", "127.0.0.1", "::1")


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
    """

    conninfo: str = field(repr=False)
    schema: str = "vecall"
    writers: int = 4
    readers: int = 4
    keeper: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return the URL without user and password."""
        parts = urlsplit(self.conninfo)
        where = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, where, parts.path, "", ""))

    @property
    def is_checked(self) -> bool:
        """Whether a connection is local, or verifies the server's certificate."""
        parts = urlsplit(self.conninfo)
        options = dict(parse_qsl(parts.query))
        try:
            host = parts.hostname or options.get("host", "")
        except ValueError:
            host = ""
        local = not host or host.startswith("/") or host in _LOCAL
        return local or options.get("sslmode") == "verify-full"


def parse_url(url: str) -> DatabaseUrl:
    """Parse a URL.

    Args:
        url: "postgresql://user:password@host/database"; options of libpq, and
            `schema`, `writers`, `readers` and `keeper_url`, follow a question mark.

    Raises:
        ConfigError: The URL is malformed, or an option has a wrong value.
    """
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=False)
        parts.port  # noqa: B018 -- raises ValueError
    except ValueError:
        msg = "path: the URL of the database is malformed"
        raise ConfigError(msg) from None
    own = {
        name: value
        for name, value in options
        if name in ("schema", "writers", "readers", "keeper_url")
    }
    rest = [(name, value) for name, value in options if name not in own]
    schema = own.get("schema", "vecall")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        msg = (
            "path: schema: expected a name of lower-case letters, digits and _, at "
            "most 63, not beginning with pg_"
        )
        raise ConfigError(msg)
    keeper = own.get("keeper_url")
    if keeper is not None and not is_url(keeper):
        msg = "path: keeper_url: expected the URL of a database"
        raise ConfigError(msg)
    conninfo = urlunsplit(
        ("postgresql", parts.netloc, parts.path, urlencode(rest), parts.fragment)
    )
    return DatabaseUrl(
        conninfo,
        schema,
        _count(own, "writers"),
        _count(own, "readers"),
        keeper,
    )


def _count(options: dict[str, str], name: str) -> int:
    value = options.get(name, "4")
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 64:
        msg = f"path: {name}: expected a number from 1 to {_MOST_CONNECTIONS}"
        raise ConfigError(msg)
    return int(value)
