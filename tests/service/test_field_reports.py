"""What users of other memories suffered, each a test; numbered as in the reports."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, texts
from vecall import FunctionEmbedder

TURNS = [
    {
        "id": f"e{n}",
        "author": ("user", "agent")[n % 2],
        "timestamp": 1_700_000_000.0 + n,
        "text": f"zebra number {n} eats {n * 7} apples",
    }
    for n in range(30)
]


def told(turns):
    return {**ALICE, "id": "s", "events": list(turns)}


def some_copy(rng):
    """The session whole, trimmed, as a delta, reversed, or shuffled."""
    start, end = sorted(rng.sample(range(len(TURNS) + 1), 2))
    turns = TURNS[start:end] if rng.random() < 0.7 else list(TURNS)
    way = rng.randrange(4)
    if way == 0:
        turns = turns[::-1]
    elif way == 1:
        turns = rng.sample(turns, len(turns))
    return told(turns)


def test_a_session_ingested_a_hundred_times_is_there_once(open_service, tmp_path):
    """Pain 15, S4.13: in any order, in parallel; each text embedded once."""
    rng = random.Random(15)
    recorder = Recorder()
    path = tmp_path / "m.db"
    for _ in range(4):
        service = open_service(path, embedder=recorder, durability="process")
        copies = [some_copy(rng) for _ in range(25)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(service.sync.add_session_to_memory, copies))
        service.close()
    service = open_service(path, embedder=recorder)
    service.sync.add_session_to_memory(told(TURNS))
    assert texts(service) == sorted(turn["text"] for turn in TURNS)
    assert service.sync.admin.stats()["memories"] == len(TURNS)
    asked = [text for text in recorder.asked if text.startswith(("user:", "agent:"))]
    assert sorted(asked) == sorted(f"{t['author']}: {t['text']}" for t in TURNS)


@pytest.mark.parametrize("size", [5, 500])
def test_a_rare_id_is_found_first_whatever_the_embedder_says(open_service, size):
    """Pain 9, S4.64: a hit by its words alone is not lost among vectors."""

    def hostile(some):
        """The question is near to all but the one that holds its word."""
        near, far = np.ones(8), -np.ones(8)
        return [far if text.startswith("user: Invoice") else near for text in some]

    embedder = FunctionEmbedder(hostile, dimensions=8, model_id="hostile")
    service = open_service(embedder=embedder)
    noise = [{"author": "user", "content": f"a walk in park {n}"} for n in range(size)]
    rare = {"author": "user", "content": "Invoice QX-7741-ZB was paid"}
    service.sync.add_memory(**ALICE, memories=[*noise, rare])
    found = service.sync.search_memory(**ALICE, query="QX-7741-ZB", top_k=3).memories
    assert found[0].text == rare["content"]


def test_nothing_is_injected_or_written_that_nobody_asked_for(open_service, tmp_path):
    """S4.1, S0.9: opening, searching and reading leave the file as it was."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    before = service.sync.admin.stats()
    for _ in range(3):
        service.sync.search_memory(**ALICE, query="zebra")
        service.sync.list_memories(**ALICE)
    after = service.sync.admin.stats()
    for counts in (before, after):
        del counts["operations"], counts["cached_text_bytes"], counts["loaded_users"]
        del counts["loaded_bytes"]
    assert after == before
