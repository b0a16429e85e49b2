"""Sets the vectors of drafts before they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.index.embedding import embedded_text
from vecall.search.search_index import SearchIndex
from vecall.store import Draft, DraftLookup, ExistingMemories, Storage

_AT_ONCE = 1_024  # texts per batch: blocks the event loop for less than 1 ms


class Looked(NamedTuple):
    """What a look-up of drafts found.

    Attributes:
        is_repeat: The idempotency key was used before.
        part: The number of the user's partition, as far as it is known.
    """

    is_repeat: bool
    part: int | None


async def give_vectors(
    search_index: SearchIndex,
    storage: Storage,
    app: str,
    user: str,
    drafts: Sequence[Draft],
    restore: bool,
    again: bool,
    key: str | None,
) -> Looked:
    """Set `vec` of each draft that the write stores with a new text or author.

    The vector comes from the file if the file has one for the same text and author.
    Otherwise the embedder computes it.

    Args:
        search_index: The search index, with the model and its embedder.
        storage: The file.
        app: The app.
        user: The user.
        drafts: The drafts.
        restore: Include memories that were deleted or overwritten by a correction.
        again: Include deleted facts.
        key: The idempotency key. If it was used before, nothing is embedded.

    Returns:
        What the look-up found.

    Raises:
        EmbedderError: The embedder failed.
    """
    assert search_index.embedding is not None
    assert search_index.model is not None
    model = search_index.model.id

    loaded = search_index.partitions.version_of((app, user))
    part = None if loaded is None else loaded[0]

    def look() -> tuple[Looked, dict[str, list[Draft]]]:
        ids = [draft.id for draft in drafts]
        texts = [(draft.hash, draft.author) for draft in in_slices(drafts)]
        asked = DraftLookup(app, user, ids, texts, model, key, part)
        known = storage.lookup_existing(asked)
        if known is None:
            return Looked(True, part), {}
        return Looked(False, known.part), _to_embed(known, drafts, restore, again)

    found: tuple[Looked, dict[str, list[Draft]]] = await Join(
        search_index.partitions.submit(look)
    )
    looked, new = found
    texts = list(new)
    for start in range(0, len(texts), _AT_ONCE):
        batch = texts[start : start + _AT_ONCE]
        vectors = await search_index.embedding.embed_texts(app, user, batch)
        for text, vec in zip(batch, vectors, strict=True):
            for draft in new[text]:
                draft.vec = vec
    return looked


def _to_embed(
    known: ExistingMemories, drafts: Sequence[Draft], restore: bool, again: bool
) -> dict[str, list[Draft]]:
    """Set the vectors that the file has; return the other drafts by text.

    The function hashes every text, so it runs off the event loop.
    """
    new: dict[str, list[Draft]] = {}
    for draft in in_slices(drafts):
        if draft.has_own_vector:
            continue
        if not known.needs_vector(draft, restore=restore, again=again):
            continue
        draft.vec = None
        if known.vectors:
            draft.vec = known.vectors.get((draft.hash, draft.author))
        if draft.vec is None:
            text = embedded_text(draft.author, draft.text)
            new.setdefault(text, []).append(draft)
    return new
