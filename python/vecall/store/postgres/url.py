"""Parses the URL of a database; its password never appears in a text."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

from vecall.concurrency.executor import free_error_frames
from vecall.errors import (
    BusyError,
    ConfigError,
    CorruptFileError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    VecallError,
)
from vecall.validation import is_database_url

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_LOCAL = ("", "localhost", "127.0.0.1", "::1")
_OWN = ("schema", "writers", "readers", "keeper_url", "timeout", "prepare")
_SHORTEST_S, _LONGEST_S = 0.1, 3600.0


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a database is, and how it is used."""

    conninfo: str = field(repr=False)  # the URL for libpq, without vecall's own options
    schema: str = "vecall"
    writers: int = 4  # the number of connections that write
    readers: int = 4  # the number of connections that read
    # The URL for work across users; None uses `conninfo`.
    keeper: str | None = field(default=None, repr=False)
    # The time, in seconds, that a transaction waits for the database.
    timeout: float = 18.0
    # Statements are prepared, unless a pooler does not allow that.
    prepares: bool = True

    def __str__(self) -> str:
        """Return the URL without user and password."""
        scheme, _, rest = self.conninfo.partition("?")[0].partition("://")
        place, slash, name = rest.partition("/")
        return f"{scheme}://{place.rpartition('@')[2]}{slash}{name}"

    @property
    def is_checked(self) -> bool:
        """Whether a connection is local, or verifies the server's certificate."""
        options = conninfo_to_dict(self.conninfo)
        local = all(
            host.startswith(("/", "@")) or host in _LOCAL
            for host in _url_option_values(options, "host")
        )
        return local or options.get("sslmode") == "verify-full"


def parse_database_url(url: str, *, default_schema: str = "vecall") -> DatabaseUrl:
    """Parse "postgresql://user:password@host/database?options"; else a ConfigError."""
    # The options are libpq's, and `schema` (else the default), `writers`, `readers`,
    # `keeper_url`, `timeout` and `prepare`. Several hosts are separated by commas: the
    # one that accepts writes is used, unless the URL has `target_session_attrs`.
    place, _, query = url.removesuffix("#").partition("?")
    place = f"postgresql://{place.partition('://')[2]}"
    given = [part for part in query.split("&") if part]
    own = {n: value for n, value in map(_decode_url_option, given) if n in _OWN}
    rest = [part for part in given if _decode_url_option(part)[0] not in _OWN]
    try:
        options = conninfo_to_dict(_url_with_query(place, rest))
    except psycopg.ProgrammingError as error:
        raise as_typed(error) from None
    ports = [port for port in _url_option_values(options, "port") if port]
    are_ports = all(_is_count_text(port, 65535) for port in ports)
    # A "?" in a password that is not escaped begins the options here.
    cuts = "@" not in place and "password" in options
    cuts &= "password" not in [_decode_url_option(part)[0] for part in rest]
    if not is_database_url(url) or "#" in url[:-1] or not are_ports or cuts:
        raise ConfigError("path: the URL of the database is malformed")
    several = len(_url_option_values(options, "host")) > 1
    if several and "target_session_attrs" not in options:
        rest.append("target_session_attrs=read-write")
    schema = own.get("schema", default_schema)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(
            "path: schema: expected a name of lower-case letters, digits and _, at "
            "most 63, not beginning with pg_"
        )
    keeper = _keeper_conninfo(own["keeper_url"]) if "keeper_url" in own else None
    return DatabaseUrl(
        _url_with_query(place, rest),
        schema,
        _pool_size_option(own, "writers"),
        _pool_size_option(own, "readers"),
        keeper,
        _checked_url_timeout(own.get("timeout", "18")),
        _is_prepare_auto(own.get("prepare", "auto")),
    )


def _keeper_conninfo(url: str) -> str:
    """Return the URL of the keeper for libpq."""
    options = map(_decode_url_option, url.partition("?")[2].split("&"))
    if not is_database_url(url) or any(name in _OWN for name, _ in options):
        raise ConfigError(
            "path: keeper_url: expected the URL of a database, without "
            f"{', '.join(_OWN)}"
        )
    return parse_database_url(url).conninfo


def _decode_url_option(option: str) -> tuple[str, str]:
    """Decode "name=value" as libpq does, for which "+" is no space."""
    name, _, value = option.partition("=")
    return unquote(name), unquote(value)


def _url_with_query(place: str, options: list[str]) -> str:
    return f"{place}?{'&'.join(options)}" if options else place


def _url_option_values(options: Mapping[str, Any], name: str) -> list[str]:
    """Return the values of an option of libpq, one for each host."""
    return str(options.get(name) or "").split(",")


def _is_count_text(text: str, most: int) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= 5
    return is_number and 1 <= int(text) <= most


def _checked_url_timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        msg = f"path: timeout: expected seconds from {_SHORTEST_S:g} to {_LONGEST_S:g}"
        raise ConfigError(msg)
    return seconds


def _is_prepare_auto(text: str) -> bool:
    if text not in ("auto", "never"):
        raise ConfigError("path: prepare: expected auto or never")
    return text == "auto"


def _pool_size_option(options: dict[str, str], name: str) -> int:
    value = options.get(name, "4")
    if not _is_count_text(value, 64):
        msg = f"path: {name}: expected a number from 1 to 64"
        raise ConfigError(msg)
    return int(value)


# Finds a pooler between vecall and its database, and what must not be relied on then.
#
# A pooler in transaction mode may run each transaction in another server process. What
# belongs to a session is then lost, or is found by others: its settings, and its
# prepared statements, unless the pooler gives them names of its own (pgbouncer 1.21 or
# later with `max_prepared_statements`).

Connection = psycopg.Connection[tuple[Any, ...]]

_SETTING = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\\\s])*)")
_NAMES_OF_PSYCOPG = "_pg3_"
_REFUSALS = (
    "unsupported startup parameter: options",
    "unsupported startup parameter in options",
    "unsupported options startup parameter",
)


def is_behind_pooler(connection: Connection) -> bool:
    """Whether the server process is another one than the connection began with."""
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    pid: int = row[0]
    return pid != connection.info.backend_pid


def pooler_renames_statements(connection: Connection) -> bool:
    """Whether the pooler gives prepared statements names of its own."""
    # Otherwise the statement that a name means depends on the server process. The
    # connection is for this question only.
    mark = secrets.token_hex(8)
    with connection.transaction():
        rows = connection.execute(
            f"SELECT name FROM pg_prepared_statements WHERE strpos(statement, '{mark}')"
            " > 0".encode(),
            prepare=True,
        ).fetchall()
        own = [name for (name,) in rows if name.startswith(_NAMES_OF_PSYCOPG)]
        for name in own:  # the process goes on to serve others
            connection.execute(
                sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)), prepare=False
            )
    return not own


def use_own_statement_names(connection: Connection) -> None:
    """Let no two connections give prepared statements the same names."""
    # psycopg counts from 0. A name that reached the process of another connection would
    # mean another statement there; now it means none, which is an error.
    connection._prepared._prepared_idx = secrets.randbits(48) << 14


def pooler_refuses_options(error: psycopg.Error) -> bool:
    """Whether a pooler refused the startup parameter `options`, or a part of it."""
    return any(each in str(error) for each in _REFUSALS)


def startup_settings_in(options: str) -> dict[str, str]:
    """Return the settings in the startup parameter `options`; ValueError if more."""
    if _SETTING.sub("", options).strip():
        raise ValueError
    return {
        name.replace("-", "_"): re.sub(r"\\(.)", r"\1", value)
        for name, value in _SETTING.findall(options)
    }


def set_for_transaction(settings: Mapping[str, str]) -> bytes:
    """Return a statement that sets something until the transaction ends."""
    return _set_for_transaction(tuple(settings.items()))


@lru_cache(maxsize=64)  # composing it takes as long as the server takes to execute it
def _set_for_transaction(settings: tuple[tuple[str, str], ...]) -> bytes:
    calls = [
        sql.SQL("set_config({}, {}, true)").format(name, value)
        for name, value in settings
    ]
    return (sql.SQL("SELECT ") + sql.SQL(", ").join(calls)).as_bytes()


# Turns psycopg's errors into vecall's.


class NoAnswerError(psycopg.OperationalError):
    """The server did not answer in time; the connection is closed."""


class NoConnectionFreeError(psycopg.OperationalError):
    """All connections of the process were in use for too long."""


_BUSY = (
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
    errors.TooManyConnections,
    errors.CannotConnectNow,
    NoConnectionFreeError,
)
_FULL = (errors.DiskFull, errors.OutOfMemory)
_DAMAGED = (errors.DataCorrupted, errors.IndexCorrupted)
_SETUP = (
    errors.InsufficientPrivilege,
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
    errors.InvalidSchemaName,
    errors.UndefinedTable,
    errors.UndefinedFunction,
    errors.UndefinedColumn,
)
# libpq gives no SQLSTATE for a connection that fails, only a text. A server with
# another lc_messages sends other texts: the error is then "cannot be reached".
_REFUSED = (
    "password authentication failed",
    "no password supplied",
    "authentication failed",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "requires a valid client certificate",
    "is not permitted to log in",
    "permission denied for database",
    "does not exist",  # the role or the database
    "no such database",  # a pooler's words
    "no such user",
)
_CROWDED = (
    "too many clients",
    "too many connections",
    "remaining connection slots",
    "no more connections allowed",
    "query_wait_timeout",  # of a pooler
)
_STARTING = ("is starting up", "is shutting down", "is in recovery mode")
_UNVERIFIED = (
    (
        "does not match host name",
        "the certificate of the server is for another host name",
    ),
    (
        "certificate verify failed",
        "the certificate of the server is not of an authority in sslrootcert, or has "
        "expired",
    ),
    ("root certificate file", "the file of sslrootcert does not exist"),
    (
        "channel binding",
        "the server offers no channel binding, and channel_binding demands it",
    ),
    ("SSL required", "the pooler demands TLS, and sslmode disables it"),
    ("does not support SSL", "the server has no TLS, and sslmode demands it"),
    ("unsupported startup parameter", "the pooler refuses a startup parameter of the "
     "URL or the environment; see its ignore_startup_parameters"),
)  # fmt: skip
MISPLACED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""Errors of a prepared statement whose name is another server process's."""
AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, *MISPLACED)
"""Errors after which a transaction is repeated: nothing of it was committed."""


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection to the server ended."""
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown):
        return True
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, _BUSY):
        return False
    # A pooler that has lost its server says so with a code of class 08.
    return error.sqlstate is None or error.sqlstate.startswith("08")


def as_typed(error: psycopg.Error) -> VecallError:  # noqa: PLR0911 -- one a kind
    """Return vecall's error for one of psycopg's. It has no value of the statement."""
    code = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    if isinstance(error, errors.LockNotAvailable):
        return BusyError(
            f"the database did not answer in time{code}: another transaction holds a "
            "lock; try again"
        )
    if isinstance(error, (*_BUSY, NoAnswerError)):
        return BusyError(f"the database did not answer in time{code}; try again")
    if isinstance(error, MISPLACED):
        return BusyError(
            f"a pooler lost a prepared statement{code}; try again: from now on "
            "statements are not prepared"
        )
    if isinstance(error, _FULL):
        return StorageFullError(f"the database has no room left{code}")
    if isinstance(error, _DAMAGED):
        return CorruptFileError(f"the database is damaged{code}; restore a backup")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnlyError(
            "the database is read-only: it is a replica, or the service is for reads"
        )
    if isinstance(error, _SETUP):
        return _access_refused_error(code)
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
        return ConfigError(
            "path: the URL of the database is malformed, or has an option or a value "
            "that libpq does not know"
        )
    if is_connection_lost(error):
        known = _error_at_connecting(str(error))
        if known is not None:
            return known
        return StorageError("the database cannot be reached, or ended the connection")
    return StorageError(f"the database refused a statement{code}")


def _access_refused_error(code: str) -> ConfigError:
    return ConfigError(
        f"path: the database refused access{code}; check user, password, database "
        "and schema, and run `vecall pg doctor URL`"
    )


def _error_at_connecting(text: str) -> VecallError | None:
    """Return the error for a text of libpq, which is not repeated; None if unknown."""
    for part, message in _UNVERIFIED:
        if part in text:
            return ConfigError(f"path: {message}")
    if any(part in text for part in _CROWDED):
        return BusyError("the database has no connection free; try again")
    if any(part in text for part in _STARTING):
        return BusyError("the database is starting or stopping; try again")
    if any(part in text for part in _REFUSED):
        return _access_refused_error("")
    return None


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise vecall's errors instead of psycopg's."""
    try:
        yield
    except psycopg.Error as error:
        free_error_frames(error)
        raise as_typed(error) from None
