"""The data of the micro benchmarks: one user with about 600 memories."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything loads a BLAS

import numpy as np
import pytest
from vecall.demo import load_conversations
from vecall.evaluation.datasets import Conversation, Question, read_locomo
from vecall.types import Event, Session

APP = "bench"


@pytest.fixture(scope="session")
def conversation() -> Conversation:
    """The third LoCoMo conversation (663 turns) if VECALL_LOCOMO names the file.

    Otherwise as many turns made of the words of the demo's conversations, which
    measures the same code on less natural text.
    """
    path = os.environ.get("VECALL_LOCOMO")
    if path:
        return read_locomo(Path(path), APP)[2]
    told = load_conversations()
    words = [
        word
        for session in told["sessions"]
        for event in session["events"]
        for word in event["text"].split()
    ]
    random = np.random.default_rng(7)
    sessions = [
        Session(
            APP,
            "user",
            f"s{number}",
            [
                Event(
                    " ".join(random.choice(words, random.integers(5, 40))),
                    "user",
                    1.7e9 + 86_400 * number + 60 * turn,
                    f"{number}-{turn}",
                )
                for turn in range(20)
            ],
        )
        for number in range(33)
    ]
    questions = [
        Question(asked["question"], "1", frozenset()) for asked in told["questions"]
    ]
    return Conversation("user", sessions, questions)
