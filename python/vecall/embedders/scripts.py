"""The scripts that a model supports, and whether a text is written in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from vecall.errors import ConfigError

_LOOKED_AT = 512  # characters; a query's letters are alike


def scripts_of(embedder: object) -> frozenset[str] | None:
    """Return what an embedder's optional attribute `scripts` says.

    Returns:
        Names of scripts, or None: the embedder names none and embeds every query.

    Raises:
        ConfigError: Something else than a collection of names in lower case.
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
    """Whether at least half of a text's letters are of these scripts.

    Args:
        scripts: Names as in Unicode's names of letters; None is all of them.
        text: Any text; one without letters is known.
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
    """Return the first word of a letter's name: latin, greek, cjk, hiragana."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    name = unicodedata.name(plain, "unknown")
    return name.partition(" ")[0].partition("-")[0].lower()
