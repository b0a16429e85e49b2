"""`vecall eval --fit-map`: fits a map on query vectors and measures its gain."""

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
    embed_queries = getattr(embedder, "embed_queries", embedder.embed)
    found = []
    for conversation in conversations:
        texts, ids = [], []
        for session in conversation.sessions:
            for event in session.events:
                texts.append(embedded_text(event.author, str(event.content)))
                ids.append(str(event.id))
        for memory in conversation.memories:
            texts.append(embedded_text(memory.author, memory.text))
            ids.append(str(memory.id))
        answerable = [
            question for question in conversation.questions if question.evidence
        ]
        if not answerable:
            continue
        row = {name: i for i, name in enumerate(ids)}
        evidence = [[row[id_] for id_ in question.evidence] for question in answerable]
        queries = _vectors(embed_queries, [question.text for question in answerable])
        found.append(Example(_vectors(embedder.embed, texts), queries, evidence))
    return found


def _vectors(embed: Any, texts: Sequence[str]) -> Vectors:
    async def awaited() -> Any:
        return await embed(texts)

    vectors = asyncio.run(awaited()) if is_async(embed) else embed(texts)
    return cast("Vectors", np.asarray(vectors, np.float32))


def fitted_map(examples: Sequence[Example]) -> tuple[QueryMap, dict[str, Any]]:
    """Fit a map on all users, and measure it by cross-validation over users.

    Returns:
        The map, and the recall@10 and MRR of a search by cosine, without a map and with
        a map fitted on other users. Both are None with less than two users.

    Raises:
        ConfigError: No question has evidence.
    """
    everything = fit(examples)
    count = sum(len(example.questions) for example in examples)
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
        others = [example for i, example in enumerate(examples) if i % folds != fold]
        query_map = fit(others)
        for example in apart:
            without += _ranks(example, example.questions)
            mapped += _ranks(example, query_map(example.questions))
    return everything, {
        "questions": count,
        "without": _shares(without),
        "with": _shares(mapped),
    }


def _ranks(example: Example, questions: Vectors) -> list[tuple[float, float]]:
    order = np.argsort(-(questions @ example.memories.T), axis=1, kind="stable")
    found = []
    for ranked, evidence in zip(order[:, :20], example.evidence, strict=True):
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
