"""Connections to a database with pgvector for a vector store, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vecall.caller_warnings import warn_caller
from vecall.embedders.fork_local import PerProcess
from vecall.errors import ClosedError, ConfigError, DimensionError
from vecall.vector_store.remote import closed_error

if TYPE_CHECKING:
    from vecall.store.postgres.bounded_connection import BoundedConnection
    from vecall.store.postgres.url import DatabaseUrl

_UNUSED = ("writers", "readers", "keeper_url")


def require_psycopg() -> None:
    """Check that the package is installed.

    Raises:
        ImportError: It is not.
    """
    try:
        import vecall.store.postgres.connector
        import vecall.store.postgres.pool  # noqa: F401
    except ImportError as error:
        msg = 'PgVectorStore needs psycopg: pip install "vecall[pgvector]"'
        raise ImportError(msg) from error


class PgConnections:
    """Lends connections. Each process has its own. Safe to share between threads."""

    def __init__(
        self, url: DatabaseUrl, connections: int, on_error: Callable[[], None]
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: The database.
            connections: Maximum number of connections.
            on_error: Called when a statement has failed.
        """
        from vecall.store.postgres.connector import Connector
        from vecall.store.postgres.pool import Pool

        self._connector = Connector(url, durable=True)
        self._pools = PerProcess(lambda: Pool(self._connector.connect, connections))
        self._on_error = on_error

    @contextmanager
    def lent(self, seconds: float) -> Iterator[BoundedConnection]:
        """Lend a connection for so many seconds, and raise vecall's errors."""
        import psycopg

        from vecall.store.postgres.errors import MISPLACED, database_errors, is_lost

        pool = self._pools()
        with database_errors(), _own_errors(), pool.borrowed(seconds) as connection:
            connection.allow(seconds, each=False)
            try:
                yield connection
            except psycopg.Error as error:
                if is_lost(error):
                    pool.lose(connection)
                elif isinstance(error, MISPLACED):
                    self._connector.prepares = False
                    pool.lose_all()
                self._on_error()
                raise

    def close(self) -> None:
        """Close them; those in use, when they come back."""
        self._pools().close()


def parsed(url: str, schema: str) -> DatabaseUrl:
    """Return the parts of a URL.

    Args:
        url: The URL of the database.
        schema: The schema of a URL that names none.

    Raises:
        ConfigError: The URL is invalid, or has options of other users of a database.
    """
    from vecall.store.postgres.url import is_url, parse_url

    if not is_url(url):
        msg = "url: expected postgresql://user@host/database"
        raise ConfigError(msg)
    found = parse_url(url, default_schema=schema)
    for name in _UNUSED:
        if f"{name}=" in url.partition("?")[2]:
            msg = f"url: {name} is an option of MemoryService; use connections="
            raise ConfigError(msg)
    if not found.is_checked:
        warn_caller(
            "url: the connection to the database does not verify the server; use "
            "sslmode=verify-full"
        )
    return found


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise errors of this store where those of the database would mislead."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except ClosedError:
        raise closed_error() from None
    except psycopg.Error as error:
        if isinstance(error, errors.UndefinedObject):
            msg = (
                "the database has no type vector in the search_path; an administrator "
                "runs CREATE EXTENSION vector"
            )
            raise ConfigError(msg) from None
        if isinstance(error, errors.DataException) and error.sqlstate == "22000":
            msg = "embedding: the table has vectors of another length"
            raise DimensionError(msg) from None
        raise
