"""`vecall eval --fit-map`: a map on the vectors of queries, and what it is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from vecall.embedders import Embedder, Vectors
from vecall.embedders.base import is_async
from vecall.embedders.local import LocalEmbedder
from vecall.embedders.query_map import Example, QueryMap, fit
from vecall.evaluation import metrics
from vecall.evaluation.datasets import Conversation
from vecall.index.embedding import embedded_text

_FOLDS = 5
_DEPTH = 10


def examples_of(
    conversations: Sequence[Conversation], embedder: Embedder
) -> list[Example]:
    """Embed every user's memories and the questions that have an answer."""
    if isinstance(embedder, LocalEmbedder):
        embedder = LocalEmbedder(query_map=None)
    ask = getattr(embedder, "embed_queries", embedder.embed)
    found = []
    for told in conversations:
        texts, ids = [], []
        for session in told.sessions:
            for event in session.events:
                texts.append(embedded_text(event.author, str(event.content)))
                ids.append(str(event.id))
        for memory in told.memories:
            texts.append(embedded_text(memory.author, memory.text))
            ids.append(str(memory.id))
        asked = [question for question in told.questions if question.evidence]
        if not asked:
            continue
        row = {name: i for i, name in enumerate(ids)}
        evidence = [[row[name] for name in one.evidence] for one in asked]
        questions = _vectors(ask, [one.text for one in asked])
        found.append(Example(_vectors(embedder.embed, texts), questions, evidence))
    return found


def _vectors(embed: Any, texts: Sequence[str]) -> Vectors:
    async def awaited() -> Any:
        return await embed(texts)

    given = asyncio.run(awaited()) if is_async(embed) else embed(texts)
    return cast("Vectors", np.asarray(given, np.float32))


def fitted_map(examples: Sequence[Example]) -> tuple[QueryMap, dict[str, Any]]:
    """Fit a map on everything, and judge it on users that it was not fitted on.

    Returns:
        The map, and recall@10 and MRR by the cosine alone without it and with maps that
        were fitted on other users; None with less than two users.

    Raises:
        ConfigError: No question has an answer.
    """
    everything = fit(examples)
    count = sum(len(one.questions) for one in examples)
    folds = min(_FOLDS, len(examples))
    if folds < 2:
        return everything, {
            "questions": count,
            "without": None,
            "with": None,
        }
    without, mapped = [], []
    for fold in range(folds):
        apart = list(examples[fold::folds])
        others = [one for i, one in enumerate(examples) if i % folds != fold]
        query_map = fit(others)
        for one in apart:
            without += _ranks(one, one.questions)
            mapped += _ranks(one, query_map(one.questions))
    return everything, {
        "questions": count,
        "without": _shares(without),
        "with": _shares(mapped),
    }


def _ranks(one: Example, questions: Vectors) -> list[tuple[float, float]]:
    order = np.argsort(-(questions @ one.memories.T), axis=1, kind="stable")
    found = []
    for ranked, evidence in zip(order[:, :20], one.evidence, strict=True):
        names = list(map(str, ranked))
        pieces = [{str(row)} for row in evidence]
        found.append(
            (
                metrics.recall_at(names, pieces, _DEPTH),
                metrics.reciprocal_rank(names, pieces),
            )
        )
    return found


def _shares(ranks: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    recall, reciprocal = zip(*ranks, strict=True)
    return {"recall@10": metrics.mean(recall), "mrr": metrics.mean(reciprocal)}
