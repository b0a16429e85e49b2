"""Opens the storage of a path: a file, or the URL of a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vecall.clock import Clock
from vecall.errors import ConfigError
from vecall.store.file.database import MIN_FREE_BYTES, Durability, kind_of_database
from vecall.store.results import Finding
from vecall.store.sqlite import SqliteStorage
from vecall.store.storage import Storage


def open_storage(
    path: Path | str | None,
    durability: Durability,
    *,
    read_only: bool = False,
    min_free_bytes: int = MIN_FREE_BYTES,
    allow_network_filesystem: bool = False,
    clock: Clock | None = None,
    max_staleness: float = 0.0,
) -> Storage:
    """Open or create the storage of a path.

    Args:
        path: A file; a text is the URL of a PostgreSQL database; None is a storage in
            memory.
        durability: What an acknowledged write survives.
        read_only: Open read-only. This also opens files that cannot be written.
        min_free_bytes: Free disk space, in bytes, below which writes are refused. A
            database ignores it.
        allow_network_filesystem: Also open files on a network file system.
        clock: The source of the time; default: the machine's clock.
        max_staleness: A search may miss writes of other servers to a database for so
            many seconds.

    Raises:
        ConfigError: The folder does not exist, or the path is a folder or a symbolic
            link; the database refuses access, or has no schema of vecall.
        NetworkFilesystemError: The file is on a network file system.
        StorageError: The file cannot be opened or written; the database cannot be
            reached.
        IncompatibleFileError: The file is another program's, or has a newer schema.
        CorruptFileError: The file is damaged.
        ImportError: The packages for databases are missing.
    """
    if isinstance(path, str):
        with needing_psycopg():
            from vecall.store.postgres.storage import open_postgres
        return open_postgres(
            path,
            durability,
            read_only=read_only,
            clock=clock,
            max_staleness=max_staleness,
        )
    if max_staleness:
        msg = "storage.max_staleness: is for a database; a file is always current"
        raise ConfigError(msg)
    database = kind_of_database(path, read_only=read_only)(
        path,
        durability,
        min_free_bytes=min_free_bytes,
        allow_network_filesystem=allow_network_filesystem,
        clock=clock,
    )
    try:
        return SqliteStorage(database)
    except BaseException:
        database.close()
        raise


# Tools for the URL of a database: create its schema, migrate it, examine it.


@contextmanager
def needing_psycopg() -> Iterator[None]:
    """Say which packages are missing, if this block cannot import them."""
    try:
        yield
    except ImportError as error:
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

    The role of the URL may become `vecall_owner`. The errors are those of
    `initialize_database`.
    """
    with needing_psycopg():
        from vecall.store.postgres.schema import NEWEST, migrate
        from vecall.store.postgres.url import parse_url
    return migrate(parse_url(url)), NEWEST


def examine_database(url: str) -> list[Finding]:
    """Check a database with the URL that servers use; change nothing."""
    with needing_psycopg():
        from vecall.store.postgres.doctor import examine_url
        from vecall.store.postgres.url import parse_url
    return examine_url(parse_url(url))


def public_url(url: str) -> str:
    """Return a URL without user, password and options."""
    with needing_psycopg():
        from vecall.store.postgres.url import parse_url
    return str(parse_url(url))
