"""Looks up drafts in the file before they are embedded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vecall.concurrency.time_slices import in_slices
from vecall.errors import CorruptFileError
from vecall.store.erased_names import ANY_TOMBSTONE, part_of, tombstones
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import ExistingMemories, Said
from vecall.store.rows import Draft, text_hash
from vecall.store.sql import in_statement, select_in
from vecall.store.transaction import Statement, Transaction, read_ahead
from vecall.store.writes.row_diff import ANY_CORRECTED, corrected

_AT_ONCE = 400  # texts per statement, two values each
_LOOKED_AT = 8  # rows of the same text, newest first, of any author
_OF_IDS = (
    "SELECT id, hash, author, vec IS NOT NULL, coalesce(expires_at, 9e99) FROM mem "
    "WHERE part = ? AND id IN"
)
_SAME_TEXT = """
SELECT (
  SELECT rid FROM (
    SELECT rid, author, vec FROM mem WHERE part = ? AND hash = said.hash
    ORDER BY rid DESC LIMIT ?
  ) AS same WHERE author IS said.author AND vec NOTNULL LIMIT 1
) FROM said
"""


def lookup_existing(
    connection: Transaction,
    app: str,
    user: str,
    drafts: Sequence[Draft],
    now: float,
    model: int,
    likely_part: int | None = None,
) -> ExistingMemories:
    """Return what the file has on record about the ids and texts of drafts.

    Args:
        connection: The file.
        app: The app.
        user: The user.
        drafts: The memories to add.
        now: The time by which memories expire.
        model: Only vectors of the model with this number are returned.
        likely_part: The number of the user's partition, as far as it is known. If it is
            right, a database is asked once and not twice.
    """
    known = ExistingMemories()
    ids = [draft.id for draft in drafts]
    texts = [(draft.hash, draft.author) for draft in in_slices(drafts)]
    if likely_part is not None:
        read_ahead(connection, lambda: _first_reads(likely_part, ids, texts))
    number = part_of(connection, app, user)
    if number is None:
        return known
    if number != likely_part:
        read_ahead(connection, lambda: _first_reads(number, ids, texts))
    part = [number]
    for id_, _, why in tombstones(connection, number, ids):
        (known.deleted if why is None else known.let_go).add(id_)
    for id_, text, author, embedded, expires_at in select_in(
        connection, _OF_IDS, part, ids
    ):
        if embedded:
            known.texts[id_] = (text, author)
        if expires_at <= now:
            known.let_go.add(id_)
    known.corrected = corrected(connection, number, ids)
    said = [
        text
        for draft, text in zip(drafts, texts, strict=True)
        if known.texts.get(draft.id) != text
    ]
    known.vectors = vectors_of(connection, number, said, model)
    return known


def _first_reads(
    part: int, ids: Sequence[str], texts: Iterable[Said]
) -> Iterator[Statement]:
    """Yield what `lookup_existing` reads if the ids and texts are new."""
    of_ids = in_statement(_OF_IDS, [part], ids)
    if of_ids is not None:
        yield ANY_TOMBSTONE, (part,)
        yield of_ids
    yield ANY_CORRECTED, (part,)
    wanted = list(dict.fromkeys(texts))
    if 0 < len(wanted) <= _AT_ONCE:
        yield _same_text(part, wanted)


def _same_text(part: int, wanted: Sequence[Said]) -> Statement:
    """Return the statement that finds memories of the same texts and authors."""
    values = ", ".join(["(?, ?)"] * len(wanted))
    query = f"WITH said (hash, author) AS (VALUES {values}) {_SAME_TEXT}"
    flat = [value for pair in wanted for value in pair]
    return query, (*flat, part, _LOOKED_AT)


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
    wanted = list(dict.fromkeys(said))
    rids: list[int] = []
    for start in range(0, len(wanted), _AT_ONCE):
        query = _same_text(part, wanted[start : start + _AT_ONCE])
        found = connection.execute(*query).fetchall()
        rids += [rid for (rid,) in found if rid is not None]
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
