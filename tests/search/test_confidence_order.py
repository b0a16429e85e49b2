"""The confidences of a result agree with its order, and are equal for equal scores."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from helpers.campaigns import scaled
from helpers.conversations import ALICE
from vecall import InMemoryMemoryService, MemoryService, VectorMemoryService

FACTS = [
    "The parrot is called Kiwi",
    "The dentist moved to Elm Street",
    "I bought a red bicycle for the summer",
    "Our train to Porto leaves at nine",
]
ALLERGENS = ["peanuts", "shellfish", "pollen", "penicillin", "cats"]


def found(service, query, **asked):
    return service.sync.search_memory(**ALICE, query=query, **asked).memories


class Eye:
    model_id = "mine"
    dimensions = 8

    def embed(self, texts):
        return np.eye(len(texts), 8) + 0.1


def equal_facts(service):
    """Stores five facts that match a question alike, and returns what it finds."""
    texts = [f"Alice is allergic to {each}." for each in ALLERGENS]
    service.sync.add_memory(**ALICE, memories=[*texts, *FACTS])
    return found(service, "What is Alice allergic to?")


def test_facts_that_match_alike_are_equally_probable(open_service):
    """A fact is not less probable because four others are true as well."""
    told = equal_facts(open_service())
    assert len(told) == 5
    assert len({memory.score for memory in told}) == 1
    assert len({memory.confidence for memory in told}) == 1
    assert told[0].confidence > 0.4


def test_facts_that_match_nearly_alike_are_nearly_as_probable(open_service):
    """By vectors no two scores are equal: a small difference is no whole place."""
    told = equal_facts(open_service(embedder=near))
    scores = [memory.score for memory in told]
    assert len(set(scores)) == 5
    assert scores[-1] > 0.95 * scores[0]
    assert told[-1].confidence > 0.5 * told[0].confidence


def near(texts):
    """Vectors of allergies that are a little apart from each other."""
    return np.array(
        [[1.0, 0.002 * len(t), 0.3] if "allergic" in t else [0, 0, 1] for t in texts]
    )


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["words", "vectors", "matches", "cosine"])
def test_a_result_is_sorted_by_what_it_shows(kind):
    """The confidence never rises, and a floor never hides the best memory."""
    random = Random(5)
    words = "parrot dentist red train Kiwi bicycle Porto street summer nine".split()
    makers = {
        "words": lambda: MemoryService(embedder=None),
        "vectors": lambda: MemoryService(embedder=Eye()),
        "matches": lambda: InMemoryMemoryService("words"),
        "cosine": lambda: VectorMemoryService(Eye()),
    }
    for _ in range(scaled(8, 2)):
        with makers[kind]() as memory:
            texts = [
                " ".join(random.choices(words, k=random.choice((2, 3, 9, 200))))
                for _ in range(30)
            ]
            memory.sync.add_memory(**ALICE, memories=texts)
            for _ in range(5):
                query = " ".join(random.sample(words, 3))
                asked = found(memory, query, top_k=8)
                sure = [each.confidence for each in asked]
                assert sure == sorted(sure, reverse=True)
                for one, two in pairwise(asked):
                    assert one.score > two.score or one.confidence == two.confidence
                for k in (1, 3):
                    assert found(memory, query, top_k=k) == asked[:k]
                if kind != "cosine":  # a vector store's search takes no floor
                    best = found(memory, query, top_k=1, min_confidence=sure[0])
                    assert best == asked[:1]
