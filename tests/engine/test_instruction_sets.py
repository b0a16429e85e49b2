"""Whatever instruction set a processor has, the answers are the same bits.

A process uses one set. Each set has one process here, which answers for all tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers.paths import TESTS
from vecall import Index, build_info

ISAS = build_info()["runnable_isas"]
PROGRAM = "from engine import test_instruction_sets as t; t.say()"


def random_rows() -> str:
    rng = np.random.default_rng(5)
    answers = hashlib.sha256()
    for dim in (33, 64, 100, 128, 384, 1000):
        for codec in ("int4", "int4+8", "int4+8+4"):
            for kind in ("flat", "hnsw"):
                index = Index(dim, kind, codec=codec, m=4, ef_construction=20)
                vectors = rng.standard_normal((300, dim)).astype(np.float32)
                index.add(np.arange(300), vectors)
                index.build()
                for query in rng.standard_normal((5, dim)).astype(np.float32):
                    for column in index.search(query, 20, 30):
                        answers.update(column.tobytes())
    return answers.hexdigest()


def rows_with_signs() -> str:
    """So many that a scan rules rows out by their signs; one by one and together."""
    rng = np.random.default_rng(6)
    answers = hashlib.sha256()
    for dim in (130, 384):
        topics = rng.standard_normal((30, dim))
        vectors = topics[rng.integers(30, size=5_000)]
        vectors = (vectors + rng.standard_normal(vectors.shape)).astype(np.float32)
        queries = (topics[:9] + rng.standard_normal((9, dim))).astype(np.float32)
        index = Index(dim, "flat")
        index.add(np.arange(5_000), vectors)
        together = index.search_batch(queries, 20)
        for row, query in enumerate(queries):
            for column, batch in zip(index.search(query, 20), together, strict=True):
                assert column.tobytes() == batch[row].tobytes()
                answers.update(column.tobytes())
    return answers.hexdigest()


def an_answer() -> list[float]:
    index = Index(3)
    index.add(np.array([7]), np.array([[3, 4, 0]], np.float32))
    ids, cosines = index.search(np.array([0, 2, 0], np.float32), 1)
    return [*ids.tolist(), *cosines.tolist()]


def say() -> None:
    """Print what this process's instruction set answers."""
    from engine import (
        test_encoder,
        test_graph_islands,
        test_linear_map,
        test_tight_scan,
    )

    said = {
        "random rows": random_rows(),
        "rows with signs": rows_with_signs(),
        "tight rows": test_tight_scan.answers_digest(),
        "rows of topics": test_graph_islands.answers_digest(),
        "products of a linear map": test_linear_map.answers_digest(),
        "vectors of texts": test_encoder.answers_digest(),
        "an answer": an_answer(),
        "active": build_info()["active_isa"],
    }
    print(json.dumps(said))  # noqa: T201


@pytest.fixture(scope="module")
def said() -> list[dict[str, Any]]:
    """The answers of all instruction sets."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={
                **os.environ,
                "VECALL_ISA": isa,
                "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for isa in ISAS
    ]
    answers = [each.communicate(timeout=120)[0] for each in running]
    assert [each.returncode for each in running] == [0] * len(ISAS)
    return [json.loads(each) for each in answers]


def test_vecall_isa_forces_one_instruction_set(said):
    assert [each["active"] for each in said] == ISAS
    for each in said:
        assert each["an answer"] == pytest.approx([7, 0.8], abs=1e-6)


@pytest.mark.parametrize(
    "what",
    [
        "random rows",
        "rows with signs",
        "tight rows",
        "rows of topics",
        "products of a linear map",
        "vectors of texts",
    ],
)
def test_every_instruction_set_gives_the_same_bits(said, what):
    assert len({each[what] for each in said}) == 1
