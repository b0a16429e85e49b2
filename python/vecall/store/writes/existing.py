"""Looks up drafts in the file before they are embedded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vecall.errors import CorruptFileError
from vecall.store.erased_names import keys_of, part_of, tombstone_reads, tombstones
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import DraftLookup, ExistingMemories, Said
from vecall.store.rows import text_hash
from vecall.store.sql import given_rows, in_statements, select_in
from vecall.store.transaction import Statement, Transaction, read_ahead
from vecall.store.writes import idempotency
from vecall.store.writes.row_diff import ANY_CORRECTED, corrected

_AT_ONCE = 400  # texts per statement, two values each
_LOOKED_AT = 8  # rows of the same text, newest first, of any author
_OF_IDS = (
    "SELECT id, hash, author, vec IS NOT NULL, coalesce(expires_at, 9e99) FROM mem "
    "WHERE part = ? AND id IN"
)
_SAME_TEXT = """
SELECT hash, author, (
  SELECT rid FROM (
    SELECT rid, author, vec FROM mem WHERE part = ? AND hash = said.hash
    ORDER BY rid DESC LIMIT ?
  ) AS same WHERE author IS said.author AND vec NOTNULL LIMIT 1
) FROM said
"""


def lookup_existing(
    connection: Transaction, asked: DraftLookup, now: float
) -> ExistingMemories | None:
    """Return what the file has on record about the ids and texts of drafts.

    Args:
        connection: The file.
        asked: The drafts.
        now: The time by which memories expire.

    Returns:
        None if the idempotency key was used before.
    """
    part = part_of(connection, asked.app, asked.user)
    if part is None:
        return ExistingMemories()
    asks_all = read_ahead(connection, lambda: first_reads(connection, asked, part))
    return existing_in(connection, part, asked, now, asks_all=asks_all)


def existing_in(
    connection: Transaction,
    part: int,
    asked: DraftLookup,
    now: float,
    *,
    asks_all: bool,
) -> ExistingMemories | None:
    """Return what `lookup_existing` does, of a partition.

    Args:
        connection: The file.
        part: The partition of the user.
        asked: The drafts.
        now: The time by which memories expire.
        asks_all: Ask for the texts of all drafts, as `first_reads` does. Otherwise the
            texts that the memories of the same ids have are left out.
    """
    known = ExistingMemories(part)
    ids = asked.ids
    keys = keys_of(connection, part) if ids or asked.key is not None else []
    if asked.key is not None and idempotency.is_used(connection, part, asked.key, keys):
        return None
    for id_, _, why in tombstones(connection, part, ids, keys):
        (known.deleted if why is None else known.let_go).add(id_)
    for id_, text, author, embedded, expires_at in select_in(
        connection, _OF_IDS, [part], ids
    ):
        if embedded:
            known.texts[id_] = (text, author)
        if expires_at <= now:
            known.let_go.add(id_)
    known.corrected = corrected(connection, part, ids)
    said = zip(ids, asked.texts, strict=True)
    new = [text for id_, text in said if known.texts.get(id_) != text]
    texts = asked.texts if asks_all else new
    rids = _rows_of(connection, part, texts)
    known.vectors = _vectors(connection, [rids.get(text) for text in new], asked.model)
    return known


def first_reads(
    connection: Transaction, asked: DraftLookup, part: int
) -> Iterator[Statement]:
    """Yield what `lookup_existing` reads if the ids and texts are new."""
    if asked.key is not None:
        yield from idempotency.first_reads(part, asked.key)
    yield from tombstone_reads(connection, part, asked.ids)
    yield from in_statements(connection, _OF_IDS, [part], asked.ids)
    yield ANY_CORRECTED, (part,)
    yield from _same_texts(connection, part, asked.texts)


def _same_texts(
    connection: Transaction, part: int, said: Iterable[Said]
) -> Iterator[Statement]:
    """Yield the statements that find memories of the same texts and authors."""
    wanted = list(dict.fromkeys(said))
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        rows, values = given_rows(connection, "said (hash, author)", some)
        yield f"{rows} {_SAME_TEXT}", (*values, part, _LOOKED_AT)


def vectors_of(
    connection: Transaction, part: int, said: Iterable[Said], model: int
) -> dict[Said, bytes]:
    """Return vectors that are already stored in a partition for equal texts.

    Args:
        connection: The file.
        part: The user's partition.
        said: (hash, author) of each text.
        model: Only vectors of the model with this number are returned.
    """
    rids = _rows_of(connection, part, said)
    return _vectors(connection, rids.values(), model)


def _rows_of(
    connection: Transaction, part: int, said: Iterable[Said]
) -> dict[Said, int | None]:
    """Return for each text the number of a row that has it, with a vector."""
    rows: dict[Said, int | None] = {}
    for statement in _same_texts(connection, part, said):
        for text, author, rid in connection.execute(*statement).fetchall():
            rows[text, author] = rid
    return rows


def _vectors(
    connection: Transaction, found: Iterable[int | None], model: int
) -> dict[Said, bytes]:
    rids = [rid for rid in dict.fromkeys(found) if rid is not None]
    if not rids:
        return {}
    try:
        stored = load_rows(connection, rids, any_state=True)
    except CorruptFileError:
        return {}  # the texts are embedded again; a search reports the damage
    return {
        (text_hash(row.text), row.author): vec
        for row, vec, of_model in stored
        if vec is not None and of_model == model
    }
