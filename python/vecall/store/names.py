"""The names of apps and users: their partitions, and how an erased name is hidden."""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from vecall.errors import CorruptFileError
from vecall.store import transaction
from vecall.store.rows import PartitionState, Version
from vecall.store.values import require_whole_numbers

# Keyed digests that replace the names and ids of deleted data.
#
# A purge replaces the ids of deleted memories by digests under a random key of their
# user. It replaces the names of a user without memories by digests under a random
# secret of the file. A later ingest still skips deleted turns, and the file contains
# neither their text nor their user's name. Both keys are in the file: a reader of the
# file who guesses a name, or all parts of an id, can verify the guess.

HIDDEN_APP = ""
"""The app of users whose names are digests. Callers cannot use this name."""

Why = Literal["expired", "evicted"]
"""Why vecall deleted a memory. A fact that is added again is stored. A session turn
that is ingested again is not."""

_MARK = "\0"  # the prefix of digests; no caller's id starts with it
_KEY_MARK = "\0!"  # the prefix of keys in `tomb`; sorts before all digests
_KEY_END = '\0"'
IS_KEY = "(id >= char(0, 33) AND id < char(0, 34))"
"""The SQL condition that a row of `tomb` holds a key."""

_KEY_BYTES = 16
_ID_BYTES = 12  # length of an id's digest; collisions within one user are negligible
_NAME_BYTES = 16
_KEY = re.compile(_KEY_MARK + f"[0-9a-f]{{{2 * _KEY_BYTES}}}", re.ASCII)
_ID = re.compile(_MARK + f"[0-9A-Za-z_-]{{{_ID_BYTES * 4 // 3}}}", re.ASCII)
_MOST_KEYS = 16  # keys of one user: the user's own, and one of each import


def is_hidden_id(id_: str) -> bool:
    """Whether an id of the file is a digest or a key, not a caller's id."""
    return id_.startswith(_MARK)


def is_digest_key(id_: str) -> bool:
    """Whether an id of `tomb` is a key."""
    return id_.startswith(_KEY_MARK)


def is_well_formed_digest(id_: str) -> bool:
    """Whether a digest or a key has the format that vecall writes."""
    return (_KEY if is_digest_key(id_) else _ID).fullmatch(id_) is not None


def hide_name(key: bytes, name: str) -> str:
    """Return the digest that replaces an id or another name."""
    digest = blake2b(name.encode(), digest_size=_ID_BYTES, key=key).digest()
    return _MARK + urlsafe_b64encode(digest).decode("ascii")


def digest_keys_statement(part: int) -> transaction.Statement:
    """Return the query of `digest_keys`."""
    query = "SELECT id FROM tomb WHERE part = ? AND id >= ? AND id < ? LIMIT ?"
    return query, (part, _KEY_MARK, _KEY_END, _MOST_KEYS)


def digest_keys(connection: transaction.Transaction, part: int) -> list[bytes]:
    """Return the keys of a user's digests; most users have no key."""
    found = connection.execute(*digest_keys_statement(part)).fetchall()
    return [bytes.fromhex(id_[len(_KEY_MARK) :]) for (id_,) in found] if found else []


def make_hide_key(connection: transaction.Transaction, part: int, now: float) -> bytes:
    """Return a key of a user; create it if the user has none."""
    for key in digest_keys(connection, part):
        return key
    key = secrets.token_bytes(_KEY_BYTES)
    connection.execute(
        "INSERT INTO tomb (part, id, at) VALUES (?, ?, ?)",
        (part, _KEY_MARK + key.hex(), now),
    )
    return key


def add_digest_key(
    connection: transaction.Transaction, part: int, id_: str, at: float
) -> None:
    """Add a key from another file, unless the user has `_MOST_KEYS` keys."""
    if len(digest_keys(connection, part)) < _MOST_KEYS:
        connection.execute(
            "INSERT INTO tomb (part, id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (part, id_, at),
        )


def hidden_forms_of(
    connection: transaction.Transaction,
    part: int,
    names: Iterable[str],
    keys: Sequence[bytes] | None = None,
) -> dict[str, str]:
    """Return the names by their forms in the file: the name itself and its digests."""
    # `keys` are what `digest_keys` returned in this transaction; None asks the file.
    names = list(names)
    forms = dict(zip(names, names, strict=True))
    for key in digest_keys(connection, part) if keys is None else keys:
        forms |= {hide_name(key, name): name for name in names}
    return forms


_TOMBSTONES = "SELECT id, why FROM tomb WHERE part = ? AND id IN"


def announce_tombstone_reads(
    connection: transaction.Transaction, part: int, ids: Sequence[str]
) -> Iterator[transaction.Statement]:
    """Yield what `read_tombstones` reads if no purge has hidden an id of the user."""
    if ids:
        yield digest_keys_statement(part)
        different = list(dict.fromkeys(ids))
        yield from transaction.in_statements(connection, _TOMBSTONES, [part], different)


def read_tombstones(
    connection: transaction.Transaction,
    part: int,
    ids: Sequence[str],
    keys: Sequence[bytes] | None = None,
) -> Iterator[tuple[str, str, Why | None]]:
    """Yield the ids that have a tombstone, with their form in the file, and why."""
    # The reason is None if a caller deleted the memory. `keys` as in `hidden_forms_of`.
    if not ids:
        return
    forms = hidden_forms_of(connection, part, ids, keys)
    for form, why in transaction.select_in(
        connection, _TOMBSTONES, [part], list(forms)
    ):
        yield forms[form], form, why


def _read_digest_secret(connection: transaction.Transaction) -> bytes | None:
    found = connection.execute("SELECT value FROM meta WHERE key = 'secret'").fetchone()
    return None if found is None else str(found[0]).encode()[:64]


def make_digest_secret(connection: transaction.Transaction) -> None:
    """Create the file's secret for digests of names, if it has none."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('secret', ?) ON CONFLICT DO NOTHING",
        (secrets.token_hex(_KEY_BYTES),),
    )


def copy_digest_secret(
    source: transaction.Transaction, target: transaction.Transaction
) -> None:
    """Copy the secret of the source, so that its digests of names stay valid."""
    secret = _read_digest_secret(source)
    if secret is not None:
        transaction.set_fact(target, "secret", secret.decode())


def _name_digest(secret: bytes, name: str) -> str:
    return blake2b(name.encode(), digest_size=_NAME_BYTES, key=secret).hexdigest()


def hidden_user(connection: transaction.Transaction, app: str, user: str) -> str | None:
    """Return the digest of a user's names; None if the file has no secret."""
    secret = _read_digest_secret(connection)
    return None if secret is None else hidden_user_under(secret, app, user)


def hidden_user_under(secret: bytes, app: str, user: str) -> str | None:
    """Return the digest of a user's names under a secret; None for a digest."""
    if app == HIDDEN_APP:
        return None
    return _name_digest(secret, f"app {app}") + _name_digest(secret, f"user {user}")


def require_hidden(
    connection: transaction.Transaction, names: tuple[str, str], app: str, user: str
) -> None:
    """Check that the names of a partition are the digest of a user's names."""
    if names != (HIDDEN_APP, hidden_user(connection, app, user)):
        raise CorruptFileError(WRONG_USER)


USERS_PART = "SELECT id FROM part WHERE app = ? AND user = ? LIMIT 1"
"""The first query of `part_of`, and no other one: what a database knows of the user of
its transaction answers it."""


def part_of(connection: transaction.Transaction, app: str, user: str) -> int | None:
    """Return the number of a user's partition, even if its names are digests."""
    found = connection.execute(USERS_PART, (app, user)).fetchone()
    if found is None:
        hidden = hidden_user(connection, app, user)
        found = connection.execute(USERS_PART, (HIDDEN_APP, hidden)).fetchone()
    return None if found is None else int(found[0])


def hidden_names(
    connection: transaction.Transaction, app: str | None, user: str | None = None
) -> list[str]:
    """Return the digests of the names of an app's users, or of a user's names."""
    # None: of all apps, of all users. The app of these partitions is `HIDDEN_APP`.
    secret = _read_digest_secret(connection)
    if secret is None:
        return []
    begin = "" if app is None else _name_digest(secret, f"app {app}")
    end = "" if user is None else _name_digest(secret, f"user {user}")
    found = connection.execute(
        "SELECT user FROM part WHERE app = ? AND user >= ? AND user < ?",
        (HIDDEN_APP, begin, begin + "g"),
    )
    return [digest for (digest,) in found if digest.endswith(end)]


class UserNames(NamedTuple):
    """The partitions of a user."""

    apps: list[str]  # the apps in which the user has one under the user's own name
    hidden: list[str]  # the digests that replaced the user's names in a purge
    parts: list[int]  # the numbers of all of them


def names_of_user(
    connection: transaction.Transaction, user: str, app: str | None
) -> UserNames:
    """Return the partitions of a user, in a transaction that sees all users."""
    # `hidden` has only the digest of `app`; None: of all apps. `apps` has all of them.
    query = "SELECT app, id FROM part WHERE user = ? AND app <> ? ORDER BY app"
    found = connection.execute(query, (user, HIDDEN_APP)).fetchall()
    hidden = hidden_names(connection, app, user)
    parts = [id_ for name, id_ in found if app in (None, name)]
    for each in hidden:
        parts += [id_ for (id_,) in connection.execute(USERS_PART, (HIDDEN_APP, each))]
    return UserNames([name for name, _ in found], hidden, parts)


# Looks up the partition of an (app, user), and checks it by two indexes.

_FIND = "SELECT id, seq, coalesce(head, 0) FROM part WHERE app = ? AND user = ?"


def partition_state(
    connection: transaction.Transaction, part: int, app: str, user: str
) -> PartitionState | None:
    """Return the state of a partition, and check that it belongs to (app, user)."""
    # None if the partition was deleted, or a purge hid its names. CorruptFileError: it
    # is another user's, so the index that returned the number is damaged.
    found = connection.execute(
        "SELECT seq, snap, live, coalesce(head, 0), app, user FROM part WHERE id = ?",
        (part,),
    ).fetchone()
    if found is None:
        return None
    if found[4:] != (app, user):
        require_hidden(connection, found[4:], app, user)
        return None
    require_whole_numbers(found[0], found[2], found[3])
    return PartitionState(*found[:4])


WRONG_USER = (
    "the file is damaged: a user's index entry does not lead to the user; "
    "`vecall doctor` says more"
)


def require_user_gone(connection: transaction.Transaction, app: str, user: str) -> None:
    """Check that no index has an entry of a user whose partition is missing."""
    found = connection.execute(
        "SELECT 1 FROM part INDEXED BY sqlite_autoindex_part_1 "
        "WHERE app = ? AND user = ?",
        (app, user),
    ).fetchone()
    if found is not None:
        raise CorruptFileError(WRONG_USER)
    require_absent(connection, app, user)


def find_part(
    connection: transaction.Transaction, app: str, user: str
) -> Version | None:
    """Look up a partition in a few microseconds."""
    row: Version | None = connection.execute(_FIND, (app, user)).fetchone()
    row = row or find_part_surely(connection, app, user)
    if row is not None:
        require_whole_numbers(*row)
    return row


def find_part_surely(
    connection: transaction.Transaction, app: str, user: str
) -> Version | None:
    """Look up a user that was not found, by both indexes in one transaction."""
    # Without the transaction, a writer could add the user between the two look-ups, and
    # the indexes would seem to differ.
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


def require_absent(connection: transaction.Transaction, app: str, user: str) -> None:
    """Check that the second index has no entry of a user either."""
    found = connection.execute(
        "SELECT 1 FROM part INDEXED BY part_user WHERE user = ? AND app = ?",
        (user, app),
    ).fetchone()
    if found is not None:
        raise CorruptFileError(WRONG_USER)


def partition_names(
    connection: transaction.Transaction, part: int
) -> tuple[str, str] | None:
    """Return the app and the user of a partition; None if it does not exist."""
    names: tuple[str, str] | None = connection.execute(
        "SELECT app, user FROM part WHERE id = ?", (part,)
    ).fetchone()
    return names
