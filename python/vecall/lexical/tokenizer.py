"""Splits text into words: Unicode normalisation, word boundaries, unspaced scripts.

A word is a run of letters, digits and combining marks. The text is NFKC-normalised and
case-folded first (`vecall.text`). Latin letters lose their accents, so that "Café",
"CAFÉ" and "cafe" are the same word. `with_tones` keeps the accents for Vietnamese,
whose words differ in them. A single letter keeps the signs after it: C++, C#, A+.

Scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, which
attaches particles to words, become overlapping pairs of characters. Two texts then
share a pair wherever they share two neighbouring characters. `symbol_words` returns
what is no word and is found nevertheless: single characters and emoji.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from vecall.lexical.languages import APOSTROPHES, cut_elisions
from vecall.text import MARKS, lazy_pattern, normalise

# Splits identifiers into words: `OpenAIEmbedder`, `iPhone15`, `30min`.
#
# An identifier is indexed as a whole and by its parts. The tokenizer already splits at
# underscores and hyphens. This module splits where no separator is: at a capital inside
# a word, and between letters and digits.


# A capital after a small letter, or several capitals before two small letters.
_MAY_BE_CAMEL = lazy_pattern(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_PLAIN_WORD = lazy_pattern(r"[^\W_]+")
_CAMEL_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DIGIT = lazy_pattern(r"\d")
ORDINALS = ("st", "nd", "rd", "th")
UNITS = (*ORDINALS, "am", "pm")  # after a number, they are no part
_MIXED = lazy_pattern(
    rf"\b(?:([^\W\d_]{{3,}})(\d+)|(\d+)(?!(?:{'|'.join(UNITS)})\b)([^\W\d_]{{2,}}))\b"
)
_NO_DIGITS = {ord(digit): " " for digit in "0123456789"}
_MOST_PARTS = 6  # of one identifier, for `joined_identifier_parts`
_LONGEST_IDENTIFIER = 100  # characters of an identifier; longer runs are ignored


def _identifiers_in_text(text: str) -> Iterator[str]:
    """Yield the words with a capital inside."""
    if _MAY_BE_CAMEL.search(text):
        for word in _PLAIN_WORD.findall(text):
            if len(word) > _LONGEST_IDENTIFIER or not word.isascii():
                continue
            if _MAY_BE_CAMEL.search(word):
                yield word


def identifier_parts(text: str, folded: str) -> list[str]:
    """Return the parts of the identifiers in a text, normalised, with repeats."""
    parts: list[str] = []
    for word in _identifiers_in_text(text):
        found = _CAMEL_PART.findall(word)
        parts += [part.casefold() for part in found if len(part) > 1]
    if _DIGIT.search(folded):
        for match in _MIXED.finditer(folded):
            parts += [part for part in match.groups() if part]
    return parts


def joined_identifier_parts(text: str) -> list[str]:
    """Join neighbouring parts of a text's identifiers: OpenAIEmbedder gives openai."""
    joined: dict[str, None] = {}
    for word in _identifiers_in_text(text):
        parts = _CAMEL_PART.findall(word.translate(_NO_DIGITS))[:_MOST_PARTS]
        for begin in range(len(parts)):
            for end in range(begin + 2, len(parts) + 1):
                joined["".join(parts[begin:end]).casefold()] = None
    return list(joined)


def joined_numbers(words: Sequence[str]) -> list[str]:
    """Join each word and the number next to it: "iphone 15" gives iphone15."""
    found = []
    for one, other in itertools.pairwise(words):
        if (one.isalpha() and other.isdigit()) or (one.isdigit() and other.isalpha()):
            found.append(one + other)
    return found


# Parts of German compounds: `Zahnarzt` and `Termin` both find `Zahnarzttermin`.
#
# The method needs no dictionary. A memory is indexed under each prefix and each suffix
# of its long words. These parts have a separate space of hashes, in which the words of
# a query are looked up too. A long word of a query is cut in the same way. A part of it
# counts only if it is a word, or a part of a word, in the searched memories.

_SHORTEST_PART = 4  # letters; shorter parts are affixes (ver-, -ung, -heit)
SHORTEST_COMPOUND = 2 * _SHORTEST_PART
"""The minimum length, in letters, of a word that is cut."""

_LONGEST_COMPOUND = 40  # letters; a longer string is not a word
_MOST_WORDS = 64  # of a text, to limit the number of parts
COMPOUND_ENDINGS = ("ungen", "keit", "heit", "schaft", "lich", "isch", "chen", "lein")


def may_be_compound(word: str) -> bool:
    """Return whether a normalised word has 8 to 40 letters, all of them Latin."""
    return (
        SHORTEST_COMPOUND <= len(word) <= _LONGEST_COMPOUND
        and word.isalpha()
        and (word.isascii() or all(char <= "\u024f" for char in word))
    )


def compound_parts(words: Sequence[str]) -> list[str]:
    """Return the prefixes and suffixes of the first 64 long words of a German text."""
    # A part and the rest of its word have at least four letters each.
    found: dict[str, None] = {}
    long_words = [word for word in dict.fromkeys(words) if may_be_compound(word)]
    for word in long_words[:_MOST_WORDS]:
        for cut in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
            found[word[:cut]] = None
            end = word[cut:]
            if end not in COMPOUND_ENDINGS:
                found[end] = None
    return list(found)


# Turkish suffixes after an apostrophe: `İstanbul'da` contains the name `İstanbul`.
#
# Turkish separates a name from its suffixes by an apostrophe. The suffixes are removed
# in texts of any language: no other language has these endings after an apostrophe. A
# suffix that begins with a vowel must follow a consonant. A suffix that begins with a
# buffer consonant must follow a vowel. So Hawai'i does not change. Memories are also
# indexed under the whole word.

_CASES = "[dt][ae](?:n|ki)?|[dt][iu]r|l[ae](?:r(?:[iu]n?|[ae]|[dt][ae]n?)?)?"
_AFTER_CONSONANT = (
    rf"(?<=\w[b-df-hj-np-tv-z0-9])[{APOSTROPHES}](?:{_CASES}|[aeiu]|[iu]n)"
)
_AFTER_VOWEL = (
    rf"(?<=\w[aeiou0-9])[{APOSTROPHES}]"
    rf"(?:{_CASES}|y[aeiu]|yl[ae]|n[iu]n?|nd[ae]n?|n[ae]|s[iu](?:n[iuae]|n[dt][ae]n?)?)"
)
_SUFFIX = lazy_pattern(rf"(?:{_AFTER_CONSONANT}|{_AFTER_VOWEL})(?!\w)")
_ONE_APOSTROPHE = lazy_pattern(rf"[{APOSTROPHES}]")
_WORD_END = lazy_pattern(r"\w+\Z")
_LONGEST_NAME = 40  # letters of a name; longer ones are truncated


def cut_suffixes(folded: str) -> str:
    """Return a normalised text without the suffixes after its apostrophes."""
    return _SUFFIX.sub("", folded)


def suffixed_words(folded: str) -> list[str]:
    """Return a text's words with such a suffix: "İstanbul'da" gives istanbulda."""
    if not _ONE_APOSTROPHE.search(folded):
        return []  # a fast path for most texts
    found = []
    for match in _SUFFIX.finditer(folded):
        before = folded[max(match.start() - _LONGEST_NAME, 0) : match.start()]
        name = _WORD_END.search(before)
        if name:
            found.append(name.group() + match.group()[1:])
    return found


# Scripts without spaces between words, and Hangul, which attaches particles to words.
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3\u3041-\u3096\u30a1-\u30fa"
    "\u30fc\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3"
    "\U00020000-\U0003ffff"
)
_WORD = lazy_pattern(rf"(?:[^\W_]|[{MARKS}])+")
_ASCII_WORD = lazy_pattern("[A-Za-z0-9]+")  # faster, for ASCII text
_UNSPACED_RUN = lazy_pattern(
    rf"(?<![{MARKS}])[{MARKS}]*[{_UNSPACED}][{_UNSPACED}{MARKS}]*"
)
# A letter alone with its signs; a possessive s after them belongs to no word.
_SIGNED = lazy_pattern(
    rf"(?<![^\W_{_UNSPACED}])([a-z](?:\+\+|[+#](?!\+|[^\W_{_UNSPACED}])))"
    r"(?:['\u2018\u2019\u02bc]s\b)?"
)
# Without skin tones, which would find every emoji that has the same.
_PICTURES = (
    "\u2194-\u21aa\u231a-\u23ff\u25aa-\u27bf\u2934-\u2b55\u3030\u303d"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"  # a flag is two of them
_EMOJI = lazy_pattern(rf"[{_PICTURES}]|[{_FLAG_LETTERS}]{{2}}")
_SYMBOL = lazy_pattern(rf"[{_UNSPACED}{_PICTURES}]|[{_FLAG_LETTERS}]{{2}}")
# One class is faster than the choice above: most texts with accents have none of these.
_MAY_HAVE_SYMBOLS = lazy_pattern("[\u0e00-\u1dff\u2194-\U0003ffff]")
_WORD_OR_EMOJI = lazy_pattern(rf"[^\W_]|[{MARKS}{_PICTURES}{_FLAG_LETTERS}]")
# The apostrophe comes first: a pattern with the lookbehind first is many times slower.
_APOSTROPHE = lazy_pattern(r"['\u2018\u2019\u02bc](?<=\w.)(?=\w)")
_POSSESSIVE = lazy_pattern(r"['\u2018\u2019\u02bc](?<=\w.)s\b")


def words(text: str) -> list[str]:
    """Split any text into normalised words, in order, with repeats.

    "Nate's dog isn't" gives nate, dog, isnt; "l'école" gives ecole; "İstanbul'da" gives
    istanbul; "C++" stays c++. Lone surrogates and control characters separate words.
    """
    return split_words(normalise(text))


def split_words(folded: str) -> list[str]:
    """Split a normalised text into words, as `words` does."""
    if "+" in folded or "#" in folded:
        return _split_words_with_signs(folded)
    is_ascii = folded.isascii()
    if ("'" in folded or not is_ascii) and _APOSTROPHE.search(folded):
        folded = cut_elisions(folded)
        folded = _POSSESSIVE.sub("", folded)
        folded = cut_suffixes(folded)
        folded = _APOSTROPHE.sub("", folded)
    if is_ascii:
        return _ASCII_WORD.findall(folded)
    found: list[str] = _WORD.findall(folded)
    split: list[str] = []
    for word in found:
        if word.isascii():
            split.append(word)
        else:
            split.extend(_split_word_at_scripts(word))
    return split


def base_letters(words: Sequence[str]) -> list[str]:
    """Return the letters of the words with signs: C++ gives c."""
    return [word[0] for word in words if word[-1] in "+#"]


def symbol_words(folded: str) -> set[str]:
    """Return the emoji and the characters of unspaced scripts in a normalised text."""
    if not _MAY_HAVE_SYMBOLS.search(folded):
        return set()
    return set(_SYMBOL.findall(folded))


def emoji_words(folded: str) -> list[str]:
    """Return the emoji of a normalised text, once each."""
    # An emoji of several characters, such as a family or a thumb with a skin tone,
    # gives its parts without the skin tone.
    if not _MAY_HAVE_SYMBOLS.search(folded):
        return []
    return list(dict.fromkeys(_EMOJI.findall(folded)))


def _split_words_with_signs(folded: str) -> list[str]:
    """Split a text that may have words with signs."""
    found: list[str] = []
    for place, piece in enumerate(_SIGNED.split(folded)):
        if place % 2:
            found.append(piece)
        else:
            found += split_words(piece.replace("+", " ").replace("#", " "))
    return found


def _split_word_at_scripts(word: str) -> list[str]:
    """Split a word at borders of unspaced scripts, and their runs into pairs."""
    parts: list[str] = []
    end = 0
    for run in _UNSPACED_RUN.finditer(word):
        if run.start() > end:
            parts.append(word[end : run.start()])
        parts.extend(_character_pairs(run.group()))
        end = run.end()
    if end < len(word):
        parts.append(word[end:])
    return parts


def _character_pairs(run: str) -> list[str]:
    """Return the overlapping pairs of characters; a single character stays alone."""
    if len(run) < 2:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def has_word_or_emoji(text: str) -> bool:
    """Return whether `text` has a word or an emoji, and not only punctuation."""
    return text[:1].isalnum() or _WORD_OR_EMOJI.search(text) is not None
