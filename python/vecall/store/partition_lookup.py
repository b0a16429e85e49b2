"""Looks up the partition of one (app, user), and checks it by two indexes."""

from __future__ import annotations

import sqlite3

from vecall.errors import CorruptFileError
from vecall.store.erased_names import is_hidden_user
from vecall.store.results import PartitionState, Version
from vecall.store.values import require_counts


def partition_state(
    connection: sqlite3.Connection, part: int, app: str, user: str
) -> PartitionState | None:
    """Return the state of a partition that was found by its names.

    None if there is no such partition any more, or its names were hidden.

    Raises:
        CorruptFileError: The number is another user's: the index that gave it is
            damaged.
    """
    found = connection.execute(
        "SELECT seq, snap, live, app, user FROM part WHERE id = ?", (part,)
    ).fetchone()
    if found is None:
        return None
    if found[3:] != (app, user):
        if is_hidden_user(connection, found[3:], app, user):
            return None
        raise CorruptFileError(WRONG_USER)
    require_counts(found[0], found[2])
    return PartitionState(*found[:3])


WRONG_USER = (
    "the file is damaged: a user's index entry does not lead to the user; "
    "`vecall doctor` says more"
)


def require_gone(connection: sqlite3.Connection, app: str, user: str) -> None:
    """Check that a user whose entry led nowhere is indeed forgotten.

    Raises:
        CorruptFileError: An index still has the user.
    """
    found = connection.execute(
        "SELECT 1 FROM part INDEXED BY sqlite_autoindex_part_1 "
        "WHERE app = ? AND user = ?",
        (app, user),
    ).fetchone()
    if found is not None:
        raise CorruptFileError(WRONG_USER)
    require_absent(connection, app, user)


def find_part(connection: sqlite3.Connection, app: str, user: str) -> Version | None:
    """Look for a partition; costs a few microseconds."""
    row: Version | None = connection.execute(
        "SELECT id, seq FROM part WHERE app = ? AND user = ?", (app, user)
    ).fetchone()
    row = row or find_surely(connection, app, user)
    require_counts(*(row or ()))
    return row


def find_surely(connection: sqlite3.Connection, app: str, user: str) -> Version | None:
    """Look once more for a user who was not there, by both indexes at one moment.

    At two moments a writer may make the user in between, which is no damage.
    """
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        row: Version | None = connection.execute(
            "SELECT id, seq FROM part WHERE app = ? AND user = ?", (app, user)
        ).fetchone()
        if row is None:
            require_absent(connection, app, user)
    finally:
        if own:
            connection.execute("ROLLBACK")
    return row


def require_absent(connection: sqlite3.Connection, app: str, user: str) -> None:
    """Check by a second index that a user is unknown, as the first one says.

    Raises:
        CorruptFileError: They do not agree.
    """
    found = connection.execute(
        "SELECT 1 FROM part INDEXED BY part_user WHERE user = ? AND app = ?",
        (user, app),
    ).fetchone()
    if found is not None:
        raise CorruptFileError(WRONG_USER)


def partition_names(
    connection: sqlite3.Connection, part: int
) -> tuple[str, str] | None:
    """Return the app and the user of a partition; None if it is gone."""
    names: tuple[str, str] | None = connection.execute(
        "SELECT app, user FROM part WHERE id = ?", (part,)
    ).fetchone()
    return names
