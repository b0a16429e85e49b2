"""Checks whether a text is written in the scripts that a model supports."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from vecall.errors import ConfigError

_LOOKED_AT = 512  # leading characters that are checked


def scripts_of(embedder: object) -> frozenset[str] | None:
    """Return an embedder's optional attribute `scripts`, validated.

    Returns:
        Names of scripts, or None: the embedder has no such attribute, so every query is
        embedded.

    Raises:
        ConfigError: The attribute is not a collection of lower-case names.
    """
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

    Only the first 512 characters are checked.

    Args:
        scripts: Names of scripts, as in `Embedder`; None means all scripts.
        text: Any text. The result is True for a text without letters.
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
