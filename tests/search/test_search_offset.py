"""Pages of a search: the memories after the best ones."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    InMemoryMemoryService,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
    Ranking,
    Scopes,
    VectorMemoryService,
)

WORDS = "zebra lion duck heron otter badger".split()
MAKERS: list[Any] = [
    lambda: MemoryService(embedder=None),
    lambda: MemoryService(embedder=Recorder()),
    lambda: VectorMemoryService(Recorder()),
    lambda: InMemoryMemoryService("words"),
    lambda: InMemoryMemoryService("substring"),
]
OPTIONS = st.sampled_from(
    [
        {},
        {"filter": {"kind": "fact"}},
        {"filter": {"metadata": {"n": {"$lt": 9}}}},
        {"filter": {"not_id": ["m1", "m3"]}},
        {"min_confidence": 0.2},
    ]
)


def ids(service: MemoryService, **options: Any) -> list[str | None]:
    answer = service.sync.search_memory(**{**ALICE, "query": "zebra lion", **options})
    return [memory.id for memory in answer.memories]


@settings(max_examples=20, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
        min_size=1,
        max_size=25,
    ),
    make=st.sampled_from(MAKERS),
    options=OPTIONS,
    size=st.integers(1, 7),
)
def test_pages_are_the_parts_of_one_search(texts, make, options, size):
    """In every service, with ties, filters and a floor on the confidence."""
    with make() as service:
        told = [
            MemoryEntry(
                " ".join(words),
                id=f"m{n}",
                kind="fact" if n % 2 else None,
                timestamp=float(n % 3),
                custom_metadata={"n": n},
            )
            for n, words in enumerate(texts)
        ]
        service.sync.add_memory(**ALICE, memories=told)
        for offset in range(0, len(texts) + size, size):
            whole = ids(service, top_k=offset + size, **options)
            assert ids(service, top_k=size, offset=offset, **options) == whole[offset:]
        assert ids(service, offset=len(texts), **options) == []


def test_pages_go_over_scopes_and_orders(open_service):
    both = Scopes(read={"shared"}, write={"shared"})
    service = open_service(embedder=Recorder(), scopes=both)
    for scope in ("user", "shared"):
        told = [f"zebra {WORDS[n % 6]} {n} {scope}" for n in range(9)]
        service.sync.add_memory(**ALICE, memories=told, scope=scope)
    service.sync.add_memory(**BOB, memories=["zebra lion of Bob"])
    for ranking in (None, Ranking(fusion="rrf"), Ranking(diversity=0.3)):
        whole = ids(service, top_k=18, ranking=ranking)
        pages = [ids(service, top_k=5, offset=n, ranking=ranking) for n in (0, 5, 10)]
        assert list(chain(*pages)) == whole[:15]
        assert len(set(whole)) == 18


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (-1, InvalidArgumentError),
        (10_001, InvalidArgumentError),
        ("1", InvalidTypeError),
        (1.0, InvalidTypeError),
        (True, InvalidTypeError),
        (None, InvalidTypeError),
    ],
)
def test_an_offset_that_cannot_be_is_refused(open_service, wrong, kind):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    with pytest.raises(kind, match="offset"):
        ids(service, offset=wrong)
    assert ids(service, offset=10_000) == []
