"""Sets the vectors of drafts before they are written."""

from __future__ import annotations

from collections.abc import Sequence

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.index.embedding import embedded_text
from vecall.search.search_index import SearchIndex
from vecall.store import Draft, Storage

_AT_ONCE = 1_024  # texts per batch: blocks the event loop for less than 1 ms


async def give_vectors(
    search_index: SearchIndex,
    storage: Storage,
    app: str,
    user: str,
    drafts: Sequence[Draft],
    restore: bool,
    again: bool,
    key: str | None,
) -> bool:
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
        Whether the key was used before.

    Raises:
        EmbedderError: The embedder failed.
    """
    assert search_index.embedding is not None
    assert search_index.model is not None
    model = search_index.model.id

    loaded = search_index.partitions.version_of((app, user))
    part = None if loaded is None else loaded[0]

    def look() -> dict[str, list[Draft]] | None:
        return _to_embed(storage, app, user, drafts, model, restore, again, key, part)

    new: dict[str, list[Draft]] | None = await Join(
        search_index.partitions.submit(look)
    )
    if new is None:
        return True
    texts = list(new)
    for start in range(0, len(texts), _AT_ONCE):
        batch = texts[start : start + _AT_ONCE]
        vectors = await search_index.embedding.embed_texts(app, user, batch)
        for text, vec in zip(batch, vectors, strict=True):
            for draft in new[text]:
                draft.vec = vec
    return False


def _to_embed(
    storage: Storage,
    app: str,
    user: str,
    drafts: Sequence[Draft],
    model: int,
    restore: bool,
    again: bool,
    key: str | None,
    part: int | None,
) -> dict[str, list[Draft]] | None:
    """Set the vectors that the file has; return the other drafts by text.

    Returns None if the key was used before. The function hashes every text, so it runs
    off the event loop.
    """
    now = storage.expiry_clock.now()
    with storage.read(app, user) as reads:
        if key is not None and reads.is_used(app, user, key):
            return None
        known = reads.lookup_existing(app, user, drafts, now, model, part)
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
