"""Finds messages that ask nothing of a memory: thanks, "write it shorter", code, sums.

small_talk.txt has the words that people say about the conversation, and not about
their lives ("said"), in twelve languages and some of others; words that make a sum of a
text with numbers, and those that may be beside them ("operations", "units"); "mine", as
"my list" is something to remember and "the list" is not; words of questions about
"somebody", as "what did I say?"; what names nothing "unasked", as in "I like it", and
the words with which "questions" begin; words of "parting", beside which a time is none,
as in "see you on Friday"; and "names": stop words of one language that name something
in another, as "car". Stop words are not repeated there.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from vecall.lexical.features import TIME_WORDS
from vecall.lexical.languages import ALL_STOP_WORDS
from vecall.lexical.tokenizer import words
from vecall.text import lazy_pattern, normalise, strip_combining_marks

_READ = 2_000  # characters; what comes later changes nothing
_ARABIC = str.maketrans("\u0629\u0649", "\u0647\u064a")
_CALCULATES = lazy_pattern(r"\d\s*[-+*/^=×÷%!]|[%=]\s*\d|\bsqrt\b|√")
_CODE = lazy_pattern(
    r"[{}<>\[\]|\\_$&]|[=!+*:-]=|[=-]>|::|//|[a-z]\(|\)\s*[:{]|[)\w\"'];\s*$"
    r"|^\s*[#@/-]|\w=\S|\b[a-z_]+\.[a-z]\w*\(|\b\w+\.(?:py|js|ts|json|yml|cpp|java)\b"
    r"|(?<!\S)--?[a-z]|^\s*\w+:$|\b(?:def|const|import|SELECT|ALTER|INSERT|FROM|WHERE"
    r"|Traceback|\w*[a-z]Error|\w*Exception|ERR|error:|core dumped)"
    r"|^ *(?:while|for|if|elif|else)\b[^\n]{0,99}:\n +"
    r"|^ +(?:break|continue|pass|return)\b",
    re.MULTILINE | re.ASCII,
)
_REPORT = lazy_pattern(
    r"\s*(?:error|warning|fatal|panic)\b[^\s:]{0,40}:", re.IGNORECASE
)
_ASKS = lazy_pattern("[?\uff1f\u061f]")
_MOST = 4
_LONGEST_PARTING = 4  # words
_CODE_SHARE = 0.2  # signs of code per word


class Asking(NamedTuple):
    """What a message asks, by its words alone."""

    nothing: bool  # whether it asks nothing of a memory
    telling: int  # words, at most 4, that may name something; a person counts as two
    keywords: bool  # whether it has only such words, as typed into a search box


def asking_of_message(text: str) -> Asking:
    """Return what a message asks of a memory."""
    read = text[:_READ]
    talk, operations, units, mine, somebody, *more, stopped = _small_talk_words()
    unasked, questions, parting = more
    said = list(map(_bare, words(read)))
    asks = _ASKS.search(read) is not None
    if not asks and len(said) > 1 and said[0] not in questions:
        talk |= unasked
        if len(said) <= _LONGEST_PARTING and not parting.isdisjoint(said):
            talk |= TIME_WORDS | parting
    left = [word for word in said if word not in stopped and word not in talk]
    telling = [word for word in left if not word.isdigit()]
    found, keywords = len(telling), len(telling) == len(said)
    signs = len(_CODE.findall(read))
    if _REPORT.match(read) or signs >= _CODE_SHARE * max(len(read.split()), 1):
        return Asking(nothing=True, telling=min(found, _MOST), keywords=False)
    if not mine.isdisjoint(said) or (asks and not somebody.isdisjoint(said)):
        return Asking(nothing=False, telling=min(found + 2, _MOST), keywords=False)
    found = min(found, _MOST)
    if len(telling) == len(left):
        return Asking(nothing=not left, telling=found, keywords=keywords)
    is_sum = _CALCULATES.search(read) or not operations.isdisjoint(said)
    others = [w for w in telling if len(w) > 1 and w not in operations | units]
    nothing = bool(is_sum) and not others
    return Asking(nothing=nothing, telling=found, keywords=False)


def _bare(word: str) -> str:
    """Return a word without accents, and Arabic letters without their variants."""
    return word if word.isascii() else strip_combining_marks(word).translate(_ARABIC)


@lru_cache(1)
def _small_talk_words() -> tuple[frozenset[str], ...]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    said, *lists, names = [
        frozenset(map(_bare, words(part.partition("]")[2])))
        for part in text.split("[")[1:]
    ]
    stopped = {word for each in ALL_STOP_WORDS.values() for word in each}
    return said, *lists, frozenset(_bare(normalise(each)) for each in stopped) - names
