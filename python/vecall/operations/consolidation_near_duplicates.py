"""Finds near-duplicate memories by the cosine of their stored vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.time_slices import in_slices
from vecall.lexical.tokenizer import words
from vecall.operations.consolidation_duplicates import origin
from vecall.store import RowWithVector
from vecall.text import few_marks
from vecall.types import DuplicateGroup

_BLOCK = 512  # rows compared at a time: a matrix of 512 x n float32
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
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
_NEGATIONS_UNSPACED = re.compile(
    "[\u4e0d\u6ca1\u6c92\u672a\u65e0\u7121]|\u306a\u3044|\u307e\u305b\u3093|\u306a\u304b"
    "|\uc54a|\uc5c6|\ubabb|\uc548 "
)

_UNEQUAL = re.compile(r"!=|\u2260|!(?=\w)")


def near_duplicates(
    stored: Sequence[RowWithVector], model: int, threshold: float
) -> list[DuplicateGroup]:
    """Return groups of facts with similar vectors.

    The newest fact of a group is kept. Every other fact of the group has at least the
    threshold as its cosine with the kept fact; chains of neighbours do not count. Facts
    of different authors, kinds or trust are never merged. Neither are two facts that
    differ in a number or a negation, of which only one is a question, or that have the
    same words in another order. Turns of a session are never merged.

    Args:
        stored: A user's live memories.
        model: The id of the model; vectors of other models are ignored.
        threshold: The least cosine, in (0, 1].

    Returns:
        The groups, each with its least cosine.
    """
    classes: dict[object, list[RowWithVector]] = {}
    for entry in in_slices(list(stored)):
        row = entry.row
        if row.pos is None and entry.vec and entry.model == model:
            said = (*origin(row), *_opposites(row.text))
            classes.setdefault(said, []).append(entry)
    found: list[DuplicateGroup] = []
    for entries in classes.values():
        if len(entries) > 1:
            entries.sort(key=lambda entry: (-entry.row.time, -entry.row.rid))
            found += _groups(entries, threshold)
    return found


def _opposites(text: str) -> tuple[object, ...]:
    """Return a key that two texts must share to count as near-duplicates."""
    safe = few_marks(text)
    split = words(safe)
    negations = sum(word in _NEGATIONS for word in split)
    negations += len(_NEGATIONS_UNSPACED.findall(safe)) + len(_UNEQUAL.findall(safe))
    asks = safe.rstrip().endswith(("?", "\uff1f", "\u061f"))
    return tuple(sorted(_NUMBER.findall(safe))), negations % 2, asks


def _groups(entries: list[RowWithVector], threshold: float) -> list[DuplicateGroup]:
    vectors = _unit([entry.vec or b"" for entry in entries])
    order = [tuple(words(few_marks(entry.row.text))) for entry in entries]
    free = np.ones(len(entries), bool)
    found = []
    for begin in range(0, len(entries), _BLOCK):
        cosines = vectors[begin : begin + _BLOCK] @ vectors.T
        for at, near in enumerate(cosines, begin):
            if not free[at]:
                continue
            free[at] = False
            candidates = np.flatnonzero(free & (near >= threshold))
            others = [int(i) for i in candidates if not _reordered(order[at], order[i])]
            if others:
                free[others] = False
                found.append(
                    DuplicateGroup(
                        entries[at].row.id,
                        tuple(entries[i].row.id for i in others),
                        float(min(near[i] for i in others)),
                    )
                )
    return found


def _reordered(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two texts have the same words in another order."""
    return one != other and sorted(one) == sorted(other)


def _unit(vectors: list[bytes]) -> NDArray[np.float32]:
    matrix = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0, norms, 1), np.float32)
