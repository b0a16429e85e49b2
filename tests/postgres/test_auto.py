"""`embedder="auto"` over a database that began with words, as over a file."""

from __future__ import annotations

import pytest
from helpers.memories import ALICE
from vecall import MemoryService
from vecall.embedders import has_local
from vecall.store import examine_database

pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(not has_local(), reason="vecall[local] is missing")


@pytest.fixture
def words(schema):
    with MemoryService(schema.url, embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["The dog is called Rex.", "Tax."])
    return schema.url


def told(url):
    (found,) = [each for each in examine_database(url) if each.about == "vectors"]
    return found.level, found.message


def test_a_database_that_began_with_words_gets_vectors_in_the_background(words):
    level, message = told(words)
    assert level == "note"
    assert "none: 2 memories are searched by words alone" in message
    with MemoryService(words, embedder="auto") as memory:
        assert memory._memory._backfill.wait_for_backfill(30.0)
        stats = memory.sync.admin.stats()
        assert (stats["embedded"], stats["words_only"]) == (2, None)
        found = memory.sync.search_memory(**ALICE, query="what is my pet's name?")
        assert found.memories[0].text == "The dog is called Rex."
    assert told(words) == ("ok", "all 2 memories have one")


def test_a_database_of_words_that_is_only_read_warns(words):
    with pytest.warns(UserWarning, match="by words alone; open it"):
        memory = MemoryService(words, embedder="auto", read_only=True)
    with memory:
        assert memory.sync.search_memory(**ALICE, query="dog").memories
        stats = memory.sync.admin.stats()
        assert stats["embedded"] == 0
        assert "read-only" in stats["words_only"]
