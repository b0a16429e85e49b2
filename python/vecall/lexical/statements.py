"""Whether two statements say the same, or an earlier and a later version of it.

The rule was fitted to labelled pairs of statements in four of eight languages
(`bench.recall.updates`). It proposes; nothing is changed because of it.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from vecall.lexical.terms import terms_of_two_texts
from vecall.lexical.tokenizer import words
from vecall.text import few_marks, lazy_pattern

_NUMBER = lazy_pattern(r"\d+(?:[.,:]\d+)*")
# Negations invert the meaning of a sentence but hardly change its cosine.
_NEGATIONS = frozenset(
    """
    no not never none nothing neither nor without cannot
    cant couldnt didnt doesnt dont hadnt hasnt havent isnt mustnt shouldnt wasnt werent
    wont wouldnt arent aint hardly
    nicht nichts nie niemals kein keine keinen keinem keiner ohne
    nunca sin jamas tampoco pas jamais sans aucun non mai senza nao sem
    \u043d\u0435 \u043d\u0438 \u043d\u0435\u0442 \u0431\u0435\u0437
    \u043d\u0438\u043a\u043e\u0433\u0434\u0430 \u0644\u0627 \u0644\u0645 \u0644\u0646
    \u0644\u064a\u0633
    """.split()
)
_NEGATIONS_UNSPACED = lazy_pattern(
    "[\u4e0d\u6ca1\u6c92\u672a\u65e0\u7121]|\u306a\u3044|\u307e\u305b\u3093|\u306a\u304b"
    "|\uc54a|\uc5c6|\ubabb|\uc548 "
)

_UNEQUAL = lazy_pattern(r"!=|\u2260|!(?=\w)")


def statement_key(text: str) -> tuple[object, ...]:
    """Return a key that two texts must share to count as near-duplicates."""
    safe = few_marks(text)
    split = words(safe)
    negations = sum(word in _NEGATIONS for word in split)
    negations += len(_NEGATIONS_UNSPACED.findall(safe)) + len(_UNEQUAL.findall(safe))
    asks = safe.rstrip().endswith(("?", "\uff1f", "\u061f"))
    return tuple(sorted(_NUMBER.findall(safe))), negations % 2, asks


def has_reordered_words(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two texts have the same words in another order."""
    return one != other and sorted(one) == sorted(other)


Says = Literal["same", "update"]
"""How a statement relates to an earlier one: "same": it says the same in other words;
"update": it may be a later version of it, or contradict it."""

OFFERED = 0.5
"""The least likeness of a statement that a write may replace."""

PROPOSED = 0.75
"""The least likeness of two stored statements that may contradict each other."""

_LONGEST = 1_000  # characters; a longer text makes more than one statement
_SAME_WORDS = 0.6  # of the words of two statements that say the same
_SAME_COSINE = 0.86


class Likeness(NamedTuple):
    """How much two texts look like versions of one statement."""

    score: float  # the probability that they are, in [0, 1]
    says: Says  # whether the later one changes what is said


def text_likeness(one: str, other: str, cosine: float | None = None) -> Likeness:
    """Compare two texts.

    What a statement is about is named first in most languages. So statements about
    other people or things differ in their first word, versions of one in later words.
    Numbers are no words here: where they differ, more words must be shared. The cosine
    is that of the local model; without it, words are compared.
    """
    if max(len(one), len(other)) > _LONGEST:
        return Likeness(float(one == other), "same")
    first, second = terms_of_two_texts(one, other)
    said, again = set(first), set(second)
    shared = len(said & again)
    share = shared / max(min(len(said), len(again)), 1)
    begins = [first[0] in again, second[0] in said] if first and second else [False]
    starts, both = any(begins), all(begins) and shared > 1
    if cosine is None:
        differ = sorted(_NUMBER.findall(one)) != sorted(_NUMBER.findall(other))
        logit = 3.8 * share + 1.6 * starts + 0.5 * both - differ - 2.8
        is_same = shared >= _SAME_WORDS * len(said | again) > 0
    else:
        logit = 0.7 * share + 1.8 * starts + 8.3 * cosine - 6.2
        is_same = cosine >= _SAME_COSINE
    score = 1.0 / (1.0 + math.exp(-logit))
    is_same = (
        is_same
        and statement_key(one) == statement_key(other)
        and not has_reordered_words(*(tuple(words(few_marks(t))) for t in (one, other)))
    )
    return Likeness(score, "same" if is_same else "update")
