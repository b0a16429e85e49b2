"""The wall between users: nothing of one is read, changed or felt by another."""

from __future__ import annotations

import itertools
import unicodedata
from typing import Any

import pytest
from vecall import Filter, MemoryEntry, NotFoundError, VecallError

# Pairs that a joined, folded, normalised, escaped or truncated key would confuse.
PAIRS = [
    ("a", "b/c"),
    ("a/b", "c"),
    ("a", "b:c"),
    ("a:b", "c"),
    ("a", "b\x1fc"),
    ("a\x1fb", "c"),
    ("ab", "c"),
    ("a", "bc"),
    ("app", "user"),
    ("app", "User"),
    ("app", "user "),
    ("app", " user"),
    ("app", "%"),
    ("app", "_"),
    ("app", "us%"),
    ("app", "*"),
    ("app", ".."),
    ("app", "../user"),
    ("app", "1"),
    ("app", "01"),
    ("app", "1.0"),
    ("app", "None"),
    ("app", "'; DROP TABLE mem; --"),
    ("app", unicodedata.normalize("NFC", "Zo\u00eb")),
    ("app", unicodedata.normalize("NFD", "Zo\u00eb")),
    ("app", "ss"),
    ("app", "\u00df"),
    ("app", "\U0001f99c"),
    ("app", "x" * 511),
    ("app", "x" * 512),
    ("user", "app"),
]


def scope(pair: tuple[str, str]) -> dict[str, str]:
    return {"app_name": pair[0], "user_id": pair[1]}


def texts(service: Any, pair: tuple[str, str], query: str, **options: Any) -> list[str]:
    found = service.sync.search_memory(**scope(pair), query=query, **options)
    return [memory.text for memory in found.memories]


@pytest.fixture(params=["memory", "file", "reopened"])
def filled(request, open_service, tmp_path):
    """A service in which every pair has a secret, under the same session and ids."""
    path = None if request.param == "memory" else tmp_path / "m.db"
    service = open_service(path)
    for number, pair in enumerate(PAIRS):
        service.sync.add_session_to_memory(
            {
                **scope(pair),
                "id": "s",
                "events": [{"id": "e", "text": f"the shared secret is word{number}"}],
            }
        )
        service.sync.add_memory(
            **scope(pair), memories=[MemoryEntry(f"fact word{number}", id="fact")]
        )
    if request.param == "reopened":
        service.close()
        service = open_service(path)
    return service


def test_a_search_returns_only_the_askers_memories(filled):
    """S0.11, S0.12: (app, user) is compared byte for byte and never joined."""
    for number, pair in enumerate(PAIRS):
        own = [f"fact word{number}", f"the shared secret is word{number}"]
        assert texts(filled, pair, "secret", top_k=1000) == own[1:]
        assert sorted(texts(filled, pair, f"word{number}", top_k=1000)) == own
        other = (number + 1) % len(PAIRS)
        assert texts(filled, pair, f"word{other}", top_k=1000) == []
        shared = Filter(session_id="s")
        assert texts(filled, pair, "secret", top_k=99, filter=shared) == own[1:]


def test_the_same_id_is_another_memory_for_another_user(filled):
    """An id is unique within one partition and says nothing across them."""
    for number, pair in enumerate(PAIRS):
        got = filled.sync.get_memory(**scope(pair), memory_id="fact")
        assert got.text == f"fact word{number}"


def test_deleting_touches_one_user_only(filled):
    """S4.65: forgetting is scoped to app and user."""
    for pair in PAIRS[::2]:
        filled.sync.delete_memory(**scope(pair), memory_id="fact")
    for number, pair in enumerate(PAIRS):
        left = texts(filled, pair, "fact")
        assert left == ([] if number % 2 == 0 else [f"fact word{number}"])


def test_replacing_a_session_touches_one_user_only(filled):
    """S3.12: the session of the same id of another user stays."""
    filled.sync.add_session_to_memory(
        {**scope(PAIRS[0]), "id": "s", "events": []}, replace=True
    )
    for number, pair in enumerate(PAIRS):
        left = texts(filled, pair, "secret")
        assert left == ([] if number == 0 else [f"the shared secret is word{number}"])


def test_anothers_memory_cannot_be_had_by_its_id(open_service):
    service = open_service()
    (id_,) = service.sync.add_memory(**scope(PAIRS[0]), memories=["the secret word"])
    service.sync.add_memory(**scope(PAIRS[1]), memories=["mine"])
    for pair in PAIRS[1:]:
        with pytest.raises(NotFoundError) as caught:
            service.sync.get_memory(**scope(pair), memory_id=id_)
        assert "secret" not in repr(caught.value)
        service.sync.delete_memory(**scope(pair), memory_id=id_)
    assert texts(service, PAIRS[0], "secret") == ["the secret word"]


def test_no_ones_scores_depend_on_what_others_store(open_service):
    """Guarantee 5: another tenant's words do not change results or scores."""
    service = open_service()
    mine, other = ("app", "me"), ("app", "you")
    service.sync.add_memory(
        **scope(mine),
        memories=[
            MemoryEntry("zebra okapi", id="1", timestamp=1.0),
            MemoryEntry("zebra", id="2", timestamp=2.0),
            MemoryEntry("okapi tapir", id="3", timestamp=3.0),
        ],
    )
    before = service.sync.search_memory(**scope(mine), query="zebra okapi")
    for i in range(57):
        service.sync.add_memory(**scope(other), memories=[f"zebra zebra {i}"])
    assert service.sync.search_memory(**scope(mine), query="zebra okapi") == before


def test_no_ones_query_is_answered_from_anothers(open_service):
    """Query vectors are kept for each user: not even timing is shared."""
    calls: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        return [[1.0, 2.0, 3.0] for _ in texts]

    service = open_service(embedder=embed)
    calls.clear()
    for pair in PAIRS[:5]:
        texts(service, pair, "where is the zebra")
        texts(service, pair, "where is the zebra")
    assert calls == [["where is the zebra"]] * 5


def test_vectors_of_another_user_are_never_near(open_service):
    """S0.11: the nearest memory of all is no answer if it is another's."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "zebra" in text else [0.0, 1.0] for text in texts]

    service = open_service(embedder=embed)
    service.sync.add_memory(**scope(PAIRS[0]), memories=["zebra zebra"])
    service.sync.add_memory(**scope(PAIRS[1]), memories=["something else"])
    assert texts(service, PAIRS[1], "zebra") == ["something else"]
    assert texts(service, PAIRS[1], "zebra", min_similarity=0.5) == []


def test_no_error_speaks_of_anything_stored(filled):
    """contracts.md, errors: none carries user text or other tenants' data."""
    asked = [
        lambda: filled.sync.get_memory(**scope(PAIRS[0]), memory_id="nobody's"),
        lambda: filled.sync.search_memory(**scope(PAIRS[0]), query="word1", top_k=0),
        lambda: filled.sync.add_memory(**scope(PAIRS[0]), memories=["word1", ""]),
        lambda: filled.sync.search_memory(app_name="", user_id="word1", query="x"),
    ]
    for ask in asked:
        with pytest.raises(VecallError) as caught:
            ask()
        assert "word" not in str(caught.value)


def test_every_pair_is_a_partition_of_its_own(filled):
    assert len(set(PAIRS)) == len(PAIRS)
    assert filled.sync.admin.stats()["users"] == len(PAIRS)
    for first, second in itertools.pairwise(PAIRS):
        assert texts(filled, first, "fact") != texts(filled, second, "fact")
