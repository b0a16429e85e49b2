"""Tools for the URL of a database: create its schema, migrate it, examine it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vecall.store.findings import Finding


@contextmanager
def needing_psycopg() -> Iterator[None]:
    """Say which packages are missing, if this block cannot import them."""
    try:
        yield
    except ModuleNotFoundError as error:
        msg = "a database needs psycopg: pip install 'vecall[postgres]'"
        raise ImportError(msg) from error


def initialize_database(url: str, *, login: str | None = None) -> None:
    """Create vecall's roles and schema, unless they exist, and migrate the schema.

    Args:
        url: The URL of an administrator, who may create roles.
        login: The role that servers log in with; it must exist.

    Raises:
        ConfigError: The URL is malformed, the server is older than 15, or the role has
            too few rights.
        IncompatibleFileError: The schema is newer than this version of vecall.
        StorageError: The database cannot be reached.
        ImportError: The packages for databases are missing.
    """
    with needing_psycopg():
        from vecall.store.postgres.schema import initialize
        from vecall.store.postgres.url import parse_url
    initialize(parse_url(url), login=login)


def migrate_database(url: str) -> tuple[int, int]:
    """Migrate the schema; return its number before and now.

    Args:
        url: The URL of a role that may become `vecall_owner`.

    Raises:
        ConfigError: As `initialize_database`, or there is no schema.
        IncompatibleFileError: The schema is newer than this version of vecall.
        StorageError: The database cannot be reached.
        ImportError: The packages for databases are missing.
    """
    with needing_psycopg():
        from vecall.store.postgres.schema import NEWEST, migrate
        from vecall.store.postgres.url import parse_url
    return migrate(parse_url(url)), NEWEST


def examine_database(url: str) -> list[Finding]:
    """Check a database; change nothing.

    Args:
        url: The URL that servers use.

    Raises:
        ConfigError: The URL is malformed, or the database refuses access.
        StorageError: The database cannot be reached.
        ImportError: The packages for databases are missing.
    """
    with needing_psycopg():
        from vecall.store.postgres.doctor import examine_url
        from vecall.store.postgres.url import parse_url
    return examine_url(parse_url(url))


def public_url(url: str) -> str:
    """Return a URL without user, password and options.

    Raises:
        ConfigError: The URL is malformed.
        ImportError: The packages for databases are missing.
    """
    with needing_psycopg():
        from vecall.store.postgres.url import parse_url
    return str(parse_url(url))
