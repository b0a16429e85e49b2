"""The seed of the rotation: secret for a file, kept with what was made by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.campaigns import unit
from vecall import Index, MemoryService
from vecall._core import Engine
from vecall.errors import (
    IncompatibleFileError,
    InvalidArgumentError,
    InvalidTypeError,
)

DIM, ROWS = 256, 300
IDS = np.arange(ROWS, dtype=np.int64)
DEFAULT = 0x76656361_6C6C0001
KEY = ("app", "user")
USER = {"app_name": "app", "user_id": "user"}


def vectors(seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((ROWS, DIM))
    return rows.astype(np.float32)


def filled(**options: int) -> Index:
    index = Index(DIM, "flat", **options)
    index.add(IDS, vectors())
    return index


def answer(index: Index) -> list[bytes]:
    return [column.tobytes() for column in index.search(vectors(1)[0], 20)]


def signs_of(seed: int, count: int) -> np.ndarray:
    """Signs by splitmix64, from its paper."""
    mask, out = 2**64 - 1, []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(-1.0 if (z ^ (z >> 31)) >> 63 else 1.0)
    return np.array(out)


def rotated_back(wanted: np.ndarray, seed: int) -> np.ndarray:
    """The vector that the rotation of this seed turns into the wanted one."""
    hadamard = np.ones((1, 1))
    while len(hadamard) < DIM:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    hadamard /= np.sqrt(DIM)
    first, second = signs_of(seed, 2 * DIM).reshape(2, DIM)
    return first * (hadamard @ (second * (hadamard @ wanted)))


def worst_score_error(known: int, **options: int) -> float:
    """Of a row that the known seed's rotation makes a spike, and its worst query."""
    row = rotated_back(np.eye(DIM)[5], known)
    query = rotated_back(np.ones(DIM) / np.sqrt(DIM), known)
    index = Index(DIM, "flat", **options)
    index.add(IDS[:1], row[None].astype(np.float32))
    score = float(index.search(query.astype(np.float32), 1)[1][0])
    return abs(score - float(unit(query[None])[0] @ unit(row[None])[0]))


def test_the_same_seed_gives_the_same_answers_and_another_seed_others() -> None:
    assert answer(filled()) == answer(filled(seed=DEFAULT))
    assert answer(filled(seed=7)) == answer(filled(seed=7))
    assert answer(filled(seed=7)) != answer(filled(seed=8))
    found = filled(seed=7).search(vectors(1)[0], 20)
    usual = filled().search(vectors(1)[0], 20)
    np.testing.assert_array_equal(found[0], usual[0])
    np.testing.assert_allclose(found[1], usual[1], atol=3e-4)


def test_vectors_made_for_a_known_seed_do_no_harm_where_it_is_another() -> None:
    assert worst_score_error(DEFAULT) > 1e-3  # what a stranger can do who knows it
    assert worst_score_error(7, seed=7) > 1e-3
    assert worst_score_error(DEFAULT, seed=7) < 3.5e-4


def test_a_saved_index_carries_its_seed(tmp_path: Path) -> None:
    index = filled(seed=2**64 - 1)
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    assert answer(loaded) == answer(index)
    for each in (index, loaded):
        each.add(IDS[:5] + 1000, vectors(2)[:5])
    assert answer(loaded) == answer(index)


def test_an_engine_refuses_the_snapshot_of_another_seed() -> None:
    engine, same, other = (Engine(DIM, seed=seed) for seed in (7, 7, 8))
    engine.add(KEY, IDS, vectors())
    snapshot = engine.snapshot(KEY)
    assert snapshot is not None
    same.restore(KEY, snapshot)
    assert same.size(KEY) == ROWS
    with pytest.raises(IncompatibleFileError, match="another form"):
        other.restore(KEY, snapshot)
    assert other.size(KEY) == 0


@pytest.mark.parametrize("maker", [Index, Engine])
def test_a_seed_is_64_bits(maker: type) -> None:
    maker(8, seed=0)
    maker(8, seed=np.uint64(2**64 - 1))
    for bad in (-1, 2**64):
        with pytest.raises(InvalidArgumentError, match=r"^seed: .* 2\*\*64 - 1"):
            maker(8, seed=bad)
    for wrong in (1.5, "7", None, True):
        with pytest.raises(InvalidTypeError, match=r"^seed: "):
            maker(8, seed=wrong)


def embed(texts: list[str]) -> np.ndarray:
    """Of each text, a vector that hangs on it alone."""
    return np.stack(
        [
            np.random.default_rng(list(text.encode())).standard_normal(DIM)
            for text in texts
        ]
    ).astype(np.float32)


def scores_of(path: Path) -> list[float | None]:
    with MemoryService(path, embedder=embed) as memory:
        if not memory.sync.list_memories(**USER):
            memory.sync.add_memory(**USER, memories=[f"note {n}" for n in range(20)])
        found = memory.sync.search_memory(**USER, query="note 7", top_k=20)
    return [entry.similarity for entry in found.memories]


def test_each_file_has_a_seed_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    first = scores_of(tmp_path / "a.db")
    assert scores_of(tmp_path / "a.db") == first
    second = scores_of(tmp_path / "b.db")
    assert second != first
    assert second == pytest.approx(first, abs=3e-4)
