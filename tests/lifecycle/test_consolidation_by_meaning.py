"""Facts that mean the same are merged by the file's own vectors, and come back."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.clocks import SettableClock
from helpers.embedders import session
from helpers.lifecycle import add, kept
from helpers.memories import ALICE, BOB
from vecall import (
    ConfigError,
    FunctionEmbedder,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    ReadOnlyError,
    StorageOptions,
)
from vecall.operations import consolidation

VECTORS = {
    "I like tea.": (1.0, 0.0, 0.0),
    "Tea is what I like.": (0.99, 0.141, 0.0),
    "Tea is a favourite of mine.": (0.96, 0.28, 0.0),
    "I like tea, not coffee.": (1.0, 0.01, 0.0),
    "I like 2 teas.": (1.0, 0.02, 0.0),
    "Do I like tea?": (1.0, 0.03, 0.0),
    "like I tea.": (1.0, 0.04, 0.0),
    "I live in Rome.": (0.0, 0.0, 1.0),
}


def embed(texts: list[str]) -> list[tuple[float, ...]]:
    return [VECTORS.get(text.removeprefix("user: "), (0.0, 1.0, 0.0)) for text in texts]


@pytest.fixture
def service(tmp_path):
    embedder = FunctionEmbedder(embed, model_id="three")
    with MemoryService(
        tmp_path / "m.db",
        embedder=embedder,
        storage=StorageOptions(clock=SettableClock(), maintenance_interval=None),
    ) as opened:
        yield opened


def told(service: MemoryService, *texts: str) -> None:
    for number, text in enumerate(texts):
        add(service, text, f"{number}", timestamp=float(number))


def merge(service: MemoryService, similarity: float | None = 0.98, **more):
    return service.sync.consolidate(**ALICE, similarity=similarity, **more)


def test_a_dry_run_shows_the_groups_and_changes_nothing(service):
    told(service, "I like tea.", "Tea is what I like.", "I live in Rome.")
    done = merge(service, dry_run=True)
    assert (done.merged, done.dry_run, done.similarity) == (1, True, 0.98)
    (group,) = done.groups
    assert (group.kept, group.merged) == ("1", ("0",))
    a, b = (np.array(VECTORS[t]) for t in ("I like tea.", "Tea is what I like."))
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert group.similarity == pytest.approx(cosine, abs=1e-6)
    assert len(kept(service)) == 3
    real = merge(service)
    assert real == done  # what it said it would do
    assert real.groups == done.groups
    assert not real.dry_run
    assert kept(service).keys() == {"1", "2"}
    assert kept(service, "archived").keys() == {"0"}


def test_restoring_brings_back_what_was_merged_by_meaning(service):
    told(service, "I like tea.", "Tea is what I like.")
    merge(service)
    (past,) = service.sync.memory_history(**ALICE, memory_id="0")
    assert (past.state, past.why, past.by) == ("archived", "merged", "1")
    service.sync.restore_memory(**ALICE, memory_id="0")
    assert len(kept(service)) == 2


def test_the_threshold_counts_from_the_one_that_stays(service):
    """0 is near 1, and 1 is near 2, but 0 is not near enough to 2."""
    told(service, "I like tea.", "Tea is what I like.", "Tea is a favourite of mine.")
    done = merge(service, 0.97)
    assert [(g.kept, g.merged) for g in done.groups] == [("2", ("1",))]


def test_a_threshold_of_one_merges_what_has_the_same_direction(service):
    told(service, "A cat is mine.", "I own a cat.", "I live in Rome.")
    assert merge(service, 1).merged == 1


@pytest.mark.parametrize(
    "other",
    ["I like tea, not coffee.", "I like 2 teas.", "Do I like tea?", "like I tea."],
)
def test_opposites_questions_numbers_and_orders_are_never_merged(service, other):
    told(service, "I like tea.", other)
    assert merge(service, 0.9, merge=False).merged == 0


@pytest.mark.parametrize("field", ["author", "kind", "trust"])
def test_facts_of_different_origin_stay_apart(service, field):
    add(service, "I like tea.", "a", **{field: "one"})
    add(service, "Tea is what I like.", "b", **{field: "two"})
    assert merge(service).merged == 0


def test_turns_and_other_users_stay_apart(service):
    service.sync.add_session_to_memory(session("I like tea.", "Tea is what I like."))
    service.sync.add_memory(
        **BOB, memories=[MemoryEntry("I like tea."), "Tea is what I like."]
    )
    assert merge(service).merged == 0


def test_what_is_equal_by_words_and_by_meaning_becomes_one_group(service):
    told(service, "I like tea.", "i like TEA", "Tea is what I like.")
    (group,) = merge(service, 0.0001).groups
    assert (group.kept, set(group.merged)) == ("2", {"0", "1"})
    assert kept(service).keys() == {"2"}


def test_what_changed_since_it_was_compared_is_not_merged(service, monkeypatch):
    told(service, "I like tea.", "Tea is what I like.")
    compare = consolidation.find_near_duplicates
    compared = []

    def changed_then(*arguments):
        compared.extend(compare(*arguments))
        service.sync.update_memory(**ALICE, memory_id="0", content="I live in Rome.")
        return compared

    monkeypatch.setattr(consolidation, "find_near_duplicates", changed_then)
    assert merge(service).merged == 0
    assert compared
    assert len(kept(service)) == 2


@pytest.mark.parametrize("bad", [0, -1, 1.01, float("nan"), "0.9", True])
def test_a_threshold_is_a_cosine(service, bad):
    with pytest.raises(InvalidArgumentError, match="similarity: expected"):
        merge(service, bad)


def test_without_vectors_nothing_is_merged_by_meaning():
    with MemoryService(embedder=None) as plain:
        with pytest.raises(ConfigError, match="open the file with an embedder"):
            merge(plain)
        assert merge(plain, None).merged == 0


def test_a_service_that_only_reads_makes_dry_runs(service, tmp_path):
    told(service, "I like tea.", "Tea is what I like.")
    embedder = FunctionEmbedder(embed, model_id="three")
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=embedder, read_only=True) as two:
        assert merge(two, dry_run=True).merged == 1
        with pytest.raises(ReadOnlyError):
            merge(two)


def test_many_facts_are_compared_as_brute_force_does():
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((40, 16))
    data = np.repeat(centres, 30, axis=0) + 0.12 * rng.standard_normal((1200, 16))
    rng.shuffle(data)
    texts = [f"fact {chr(97 + i % 26)} {'x' * (i // 26)}" for i in range(1200)]
    known = dict(zip(texts, data.tolist(), strict=True))
    elsewhere = [1.0] * 16
    embedder = FunctionEmbedder(
        lambda some: [known.get(t, elsewhere) for t in some], model_id="m"
    )
    with MemoryService(embedder=embedder) as service:
        service.sync.add_memory(
            **ALICE,
            memories=[
                MemoryEntry(t, id=str(i), timestamp=float(i))
                for i, t in enumerate(texts)
            ],
        )
        done = merge(service, 0.99, dry_run=True, merge=False)
    unit = data.astype(np.float32).astype(float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    free, expected = [True] * 1200, {}
    for i in range(1199, -1, -1):  # the newest first
        if not free[i]:
            continue
        near = [
            j for j in range(1200) if j != i and free[j] and unit[i] @ unit[j] >= 0.99
        ]
        free[i] = False
        for j in near:
            free[j] = False
        if near:
            expected[str(i)] = {str(j) for j in near}
    assert len(expected) > 20
    assert {g.kept: set(g.merged) for g in done.groups} == expected
