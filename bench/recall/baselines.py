"""Baselines on the same sets: ranking must not fall below them.

Each baseline ranks a user's texts for a question by itself: bm25s by words (Lù, 2024;
its own tokens, English stop words and stems), the embedder's cosine alone, the cosine
of each text's best passage, and the sum of the first two after min-max normalisation
with equal weights. A text without a score is not returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from vecall.embedders import Embedder
from vecall.evaluation.datasets import Conversation, Question
from vecall.evaluation.runner import DEEPEST, READ, QuestionResult
from vecall.prompts.render import estimate_tokens
from vecall.types import MemoryEntry

from bench.recall.sets import Set

WORDS = "bm25s"
COSINE = "cosine"
PASSAGES = "cosine, passages"
BOTH = "min-max"
LONGEST = 500  # characters of a passage

_ENDS = re.compile(r"(?<=[.!?\u3002\n])\s+")


def baseline_answers(
    one: Set, embedder: Embedder | None
) -> Iterator[tuple[str, list[QuestionResult]]]:
    """Yield each baseline's name and its answers to a set's questions.

    Without an embedder only words rank.
    """
    found: dict[str, list[QuestionResult]] = {}
    for conversation in one.conversations:
        ids, texts = _texts(conversation)
        questions = [question.text for question in conversation.questions]
        sides = {WORDS: _by_words(texts, questions)}
        if embedder is not None:
            sides[COSINE] = _by_cosine(texts, questions, embedder)
            sides[PASSAGES] = _by_passages(texts, questions, embedder)
            sides[BOTH] = _scaled(sides[WORDS]) + _scaled(sides[COSINE])
        for name, scores in sides.items():
            found.setdefault(name, []).extend(
                _answer(conversation.user_id, question, row, ids, texts)
                for question, row in zip(conversation.questions, scores, strict=True)
            )
    yield from found.items()


def _texts(conversation: Conversation) -> tuple[list[str], list[str]]:
    events = [event for session in conversation.sessions for event in session.events]
    pairs = [(str(event.id), MemoryEntry(event.content).text) for event in events]
    pairs += [(str(memory.id), memory.text) for memory in conversation.memories]
    return [name for name, _ in pairs], [text for _, text in pairs]


def _by_words(texts: list[str], questions: list[str]) -> NDArray[np.float64]:
    """Return BM25 scores, a row a question."""
    import bm25s
    import Stemmer

    stem = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stem, show_progress=False)
    index.index(tokens, show_progress=False)
    question = bm25s.tokenize(
        questions, stopwords="en", stemmer=stem, show_progress=False, return_ids=False
    )
    rows = np.zeros((len(questions), len(texts)))
    for row, words in zip(rows, question, strict=True):
        known = [word for word in words if word in index.vocab_dict]
        if known:
            row[:] = index.get_scores(known)
    return rows


def _by_cosine(
    texts: list[str], questions: list[str], embedder: Embedder
) -> NDArray[np.float64]:
    """Return cosines, a row a question; what scores below 0 has no score."""
    ask = getattr(embedder, "embed_queries", embedder.embed)
    sides = [np.asarray(ask(questions)), np.asarray(embedder.embed(texts))]
    left, right = (
        side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12)
        for side in sides
    )
    return np.maximum(left.astype(np.float64) @ right.astype(np.float64).T, 0.0)


def _by_passages(
    texts: list[str], questions: list[str], embedder: Embedder
) -> NDArray[np.float64]:
    """Return each text's best cosine of a passage, a row a question."""
    cut = [passages(text) for text in texts]
    begins = np.cumsum([0, *(len(each) for each in cut[:-1])])
    flat = [passage for each in cut for passage in each]
    return np.maximum.reduceat(_by_cosine(flat, questions, embedder), begins, axis=1)


def passages(text: str) -> list[str]:
    """Return a text as pieces of whole sentences, of at most `LONGEST` characters."""
    cut = [""]
    for sentence in _ENDS.split(text):
        for begin in range(0, max(len(sentence), 1), LONGEST):
            part = sentence[begin : begin + LONGEST]
            if len(cut[-1]) + 1 + len(part) > LONGEST and cut[-1]:
                cut.append(part)
            else:
                cut[-1] = f"{cut[-1]} {part}".strip()
    return cut


def _scaled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's scores between its least and its greatest, as 0 to 1."""
    least = scores.min(axis=1, keepdims=True)
    span = scores.max(axis=1, keepdims=True) - least
    return np.where(span > 0.0, (scores - least) / np.where(span > 0.0, span, 1.0), 0.0)


def _answer(
    user: str,
    question: Question,
    scores: NDArray[np.float64],
    ids: Sequence[str],
    texts: Sequence[str],
) -> QuestionResult:
    order = np.argsort(-scores, kind="stable")[:DEEPEST]
    best = [int(row) for row in order if scores[row] > 0.0]
    tokens = sum(estimate_tokens(texts[row]) for row in best[:READ])
    return QuestionResult(
        user, question, tuple(ids[row] for row in best), tokens=tokens
    )
