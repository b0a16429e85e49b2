"""Looks up the partition of an (app, user), and checks it by two indexes."""

from __future__ import annotations

from vecall.errors import CorruptFileError
from vecall.store.erased_names import is_hidden_user
from vecall.store.results import PartitionState, Version
from vecall.store.transaction import Transaction
from vecall.store.values import require_counts

_FIND = "SELECT id, seq, coalesce(head, 0) FROM part WHERE app = ? AND user = ?"


def partition_state(
    connection: Transaction, part: int, app: str, user: str
) -> PartitionState | None:
    """Return the state of a partition, and check that it belongs to (app, user).

    None if the partition was deleted, or a purge hid its names.

    Raises:
        CorruptFileError: The partition belongs to another user: the index that
            returned the number is damaged.
    """
    found = connection.execute(
        "SELECT seq, snap, live, coalesce(head, 0), app, user FROM part WHERE id = ?",
        (part,),
    ).fetchone()
    if found is None:
        return None
    if found[4:] != (app, user):
        if is_hidden_user(connection, found[4:], app, user):
            return None
        raise CorruptFileError(WRONG_USER)
    require_counts(found[0], found[2], found[3])
    return PartitionState(*found[:4])


WRONG_USER = (
    "the file is damaged: a user's index entry does not lead to the user; "
    "`vecall doctor` says more"
)


def require_gone(connection: Transaction, app: str, user: str) -> None:
    """Check that no index has an entry of a user whose partition is missing.

    Raises:
        CorruptFileError: An index has an entry of the user.
    """
    found = connection.execute(
        "SELECT 1 FROM part INDEXED BY sqlite_autoindex_part_1 "
        "WHERE app = ? AND user = ?",
        (app, user),
    ).fetchone()
    if found is not None:
        raise CorruptFileError(WRONG_USER)
    require_absent(connection, app, user)


def find_part(connection: Transaction, app: str, user: str) -> Version | None:
    """Look up a partition in a few microseconds."""
    row: Version | None = connection.execute(_FIND, (app, user)).fetchone()
    row = row or find_surely(connection, app, user)
    require_counts(*(row or ()))
    return row


def find_surely(connection: Transaction, app: str, user: str) -> Version | None:
    """Look up a user that was not found, by both indexes in one transaction.

    Without the transaction, a writer could add the user between the two look-ups, and
    the indexes would seem to differ.
    """
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        row: Version | None = connection.execute(_FIND, (app, user)).fetchone()
        if row is None:
            require_absent(connection, app, user)
    finally:
        if own:
            connection.execute("ROLLBACK")
    return row


def require_absent(connection: Transaction, app: str, user: str) -> None:
    """Check that the second index has no entry of a user either.

    Raises:
        CorruptFileError: It has one, so the two indexes differ.
    """
    found = connection.execute(
        "SELECT 1 FROM part INDEXED BY part_user WHERE user = ? AND app = ?",
        (user, app),
    ).fetchone()
    if found is not None:
        raise CorruptFileError(WRONG_USER)


def partition_names(connection: Transaction, part: int) -> tuple[str, str] | None:
    """Return the app and the user of a partition; None if it does not exist."""
    names: tuple[str, str] | None = connection.execute(
        "SELECT app, user FROM part WHERE id = ?", (part,)
    ).fetchone()
    return names
