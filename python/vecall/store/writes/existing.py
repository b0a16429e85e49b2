"""Looks up drafts in the file before they are embedded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vecall.concurrency.time_slices import in_slices
from vecall.errors import CorruptFileError
from vecall.store.erased_names import part_of, tombstones
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import ExistingMemories, Said
from vecall.store.rows import Draft, text_hash
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.writes.row_diff import corrected

_AT_ONCE = 400  # texts per statement, two values each
_LOOKED_AT = 8  # rows of the same text, newest first, of any author
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
) -> ExistingMemories:
    """Return what the file has on record about the ids and texts of drafts.

    Args:
        connection: The file.
        app: The app.
        user: The user.
        drafts: The memories to add.
        now: The time by which memories expire.
        model: Only vectors of the model with this number are returned.
    """
    known = ExistingMemories()
    ids = [draft.id for draft in drafts]
    number = part_of(connection, app, user)
    if number is None:
        return known
    part = [number]
    for id_, _, why in tombstones(connection, number, ids):
        (known.deleted if why is None else known.let_go).add(id_)
    query = (
        "SELECT id, hash, author, vec IS NOT NULL, coalesce(expires_at, 9e99) FROM mem "
        "WHERE part = ? AND id IN"
    )
    for id_, text, author, embedded, expires_at in select_in(
        connection, query, part, ids
    ):
        if embedded:
            known.texts[id_] = (text, author)
        if expires_at <= now:
            known.let_go.add(id_)
    known.corrected = corrected(connection, number, ids)
    texts = [(draft.hash, draft.author) for draft in in_slices(drafts)]
    said = [
        text
        for draft, text in zip(drafts, texts, strict=True)
        if known.texts.get(draft.id) != text
    ]
    known.vectors = vectors_of(connection, number, said, model)
    return known


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
        batch = wanted[start : start + _AT_ONCE]
        values = ", ".join(["(?, ?)"] * len(batch))
        query = f"WITH said (hash, author) AS (VALUES {values}) {_SAME_TEXT}"
        flat = [value for pair in batch for value in pair]
        found = connection.execute(query, (*flat, part, _LOOKED_AT)).fetchall()
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
