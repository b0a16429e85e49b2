"""Finds and forgets the names of a user, for `vecall erase`.

The place is a file, or as a text the URL of a PostgreSQL database.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vecall.store.database_tools import needing_psycopg, public_url
from vecall.store.erased_names import UserNames
from vecall.store.maintenance.file_facts import forget_hidden_in_file, names_in_file
from vecall.store.maintenance.name_traces import traces_in_file


def names_of(place: Path | str, user: str, app: str | None) -> UserNames:
    """Return the partitions of a user; change nothing.

    Args:
        place: The file, or the URL of the database.
        user: The user.
        app: Only digests of this app; None: of all apps.

    Raises:
        VecallError: The file or the database cannot be read.
        ImportError: The packages for databases are missing.
    """
    if isinstance(place, Path):
        return names_in_file(place, user, app)
    with needing_psycopg():
        from vecall.store.postgres.erasing import names_in_database
    return names_in_database(place, user, app)


def forget_hidden(place: Path | str, names: Sequence[str]) -> None:
    """Delete all data of users whose names a purge has replaced by digests.

    Args:
        place: The file, or the URL of the database.
        names: The digests.
    """
    if isinstance(place, Path):
        forget_hidden_in_file(place, names)
        return
    with needing_psycopg():
        from vecall.store.postgres.erasing import forget_hidden_in_database
    forget_hidden_in_database(place, names)


def name_traces(
    place: Path | str, name: str, parts: Sequence[int] = ()
) -> list[tuple[Path | str, str]]:
    """Return the places that have a name: the file or the database, and where in it.

    Args:
        place: The file, or the URL of the database.
        name: The name.
        parts: Numbers of partitions; rows that have one of them are told, too.

    Raises:
        VecallError: The file or the database cannot be read.
    """
    if isinstance(place, Path):
        return [*traces_in_file(place, name, parts)]
    with needing_psycopg():
        from vecall.store.postgres.erasing import traces_in_database
    shown = public_url(place)
    return [(shown, each) for each in traces_in_database(place, name, parts)]
