"""A search within a session, a time, an author, a kind, and all of them together."""

from __future__ import annotations

import itertools

import pytest
from helpers.memories import ALICE
from vecall import Filter, InvalidArgumentError, MemoryEntry

AUTHORS = ("user", "guide", None)
KINDS = ("fact", "preference", None)
SESSIONS = ("s1", "s2", None)


def entries() -> list[MemoryEntry]:
    made = []
    for n, (author, kind, session) in enumerate(
        itertools.product(AUTHORS, KINDS, SESSIONS)
    ):
        made.append(
            MemoryEntry(
                f"zebra {n}",
                id=f"m{n}",
                author=author,
                kind=kind,
                session_id=session,
                timestamp=1e6 * (n % 5),
            )
        )
    return made


@pytest.mark.parametrize("reopened", [False, True])
def test_every_filter_lets_through_what_it_says(open_service, tmp_path, reopened):
    """S0.16: filters by session, author, kind and time, each and together."""
    path = tmp_path / "m.db"
    service = open_service(path)
    told = entries()
    service.sync.add_memory(**ALICE, memories=told)
    if reopened:
        service.close()
        service = open_service(path)
    for author, kind, session, after, before in itertools.product(
        (None, "user", "guide", "nobody"),
        (None, "fact", "preference"),
        (None, "s1", "s2"),
        (None, 1e6),
        (None, 3e6),
    ):
        asked = Filter(
            author=author, kind=kind, session_id=session, after=after, before=before
        )
        found = service.sync.search_memory(
            **ALICE, query="zebra", top_k=100, filter=asked
        )
        expected = [
            entry.id
            for entry in told
            if (author is None or entry.author == author)
            and (kind is None or entry.kind == kind)
            and (session is None or entry.session_id == session)
            and (after is None or (entry.timestamp or 0.0) >= after)
            and (before is None or (entry.timestamp or 0.0) < before)
        ]
        assert sorted(m.id or "" for m in found.memories) == sorted(
            id_ or "" for id_ in expected
        )


@pytest.mark.parametrize("name", ["author", "kind"])
def test_a_filter_refuses_names_that_cannot_be(open_service, name):
    service = open_service()
    with pytest.raises(InvalidArgumentError, match=name):
        service.sync.search_memory(**ALICE, query="zebra", filter=Filter(**{name: ""}))
