"""French and Italian elision: `l'école` contains the word `école`.

The elided word is an article, a pronoun or a preposition, without meaning for a search.
It is removed before a vowel or an h, in any language. English has such prefixes only in
names (D'Angelo), so memories are indexed under the whole name as well.
"""

from __future__ import annotations

import re

_FRENCH = "l d j m t s n c qu jusqu lorsqu puisqu quoiqu".split()
_ITALIAN = (
    "l d c m t s v n un dell all nell dall sull coll quell quest bell gl anch tutt "
    "mezz quant sant senz dov com".split()
)
_LANGUAGES: dict[str, tuple[str, ...]] = {
    prefix: tuple(
        language
        for language, prefixes in (("french", _FRENCH), ("italian", _ITALIAN))
        if prefix in prefixes
    )
    for prefix in _FRENCH + _ITALIAN
}
_APOSTROPHES = "'\u2018\u2019\u02bc"
_VOWELS = "aeiouh\u00e6\u0153"
_MAY_BE_ELIDED = re.compile(rf"[{_APOSTROPHES}][{_VOWELS}]")  # a fast check
_ELIDED = re.compile(
    rf"(?<![\w{_APOSTROPHES}])({'|'.join(_LANGUAGES)})[{_APOSTROPHES}]"
    rf"(?=[{_VOWELS}]\w)"
)
_WHOLE = re.compile(
    rf"(?<![\w{_APOSTROPHES}])({'|'.join(_LANGUAGES)})[{_APOSTROPHES}]"
    rf"([{_VOWELS}]\w+)"
)


def cut_elisions(folded: str) -> str:
    """Return a normalised text without elided words before vowels and h.

    Args:
        folded: A result of `normalise`.
    """
    return _ELIDED.sub(" ", folded) if _MAY_BE_ELIDED.search(folded) else folded


def elided_words(folded: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the elided words of a normalised text, each with its languages.

    Returns:
        The letters before the apostrophe and the names of the languages with this
        elision, in the order of the text. English names such as D'Angelo count too.
    """
    if "'" not in folded and folded.isascii():
        return []  # a fast path for most texts
    if not _MAY_BE_ELIDED.search(folded):
        return []
    found = _ELIDED.findall(folded)
    return [(prefix, _LANGUAGES[prefix]) for prefix in found]


def joined_words(folded: str) -> list[str]:
    """Return the words with an elided prefix, joined with the prefix.

    Returns:
        The words of a normalised text: "D'Angelo" gives dangelo. Empty if the text has
        no such words.
    """
    return [prefix + rest for prefix, rest in _WHOLE.findall(folded)]
