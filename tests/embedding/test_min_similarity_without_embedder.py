"""A floor on the cosine where the embedder fails: words still answer."""

from __future__ import annotations

import asyncio

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, refuses
from vecall import ConfigError, EmbedderError, MemoryService, Ranking
from vecall.tools import search_with_fallback

WORDS = Ranking(fusion="words")


class Failing(Recorder):
    """An embedder that fails while it is down."""

    down = False

    def embed(self, texts):
        if self.down:
            msg = "down"
            raise RuntimeError(msg)
        return super().embed(texts)


def opened(open_service, **options) -> tuple[MemoryService, Failing]:
    embedder = Failing()
    service = open_service(embedder=embedder, **options)
    service.sync.add_memory(**ALICE, memories=["zebra one", "okapi two"])
    return service, embedder


@pytest.mark.parametrize("by_service", [True, False])
def test_words_answer_below_a_floor_on_the_cosine(open_service, caplog, by_service):
    """It is said that the answer is by words; what shares no word stays out."""
    floor = {"min_similarity": 0.1}
    service, embedder = opened(open_service, **(floor if by_service else {}))
    asked = {} if by_service else floor
    embedder.down = True
    with pytest.raises(EmbedderError):
        service.sync.search_memory(**ALICE, query="a zebra", **asked)
    found, by_words = asyncio.run(
        search_with_fallback(service, **ALICE, query="a zebra", **asked)
    )
    assert by_words
    assert "by words alone" in caplog.text
    assert [entry.text for entry in found.memories] == ["zebra one"]


def test_the_floor_holds_again_when_the_embedder_is_back(open_service):
    service, embedder = opened(open_service, min_similarity=0.999)
    texts = []
    for embedder.down in (True, False):
        found, _ = asyncio.run(
            search_with_fallback(service, **ALICE, query="a zebra there")
        )
        texts.append([entry.text for entry in found.memories])
    assert texts == [["zebra one"], []]


def test_a_floor_that_is_given_to_a_search_by_words_is_refused(open_service):
    """It could only be dropped, or silence everything."""
    service, _ = opened(open_service)
    refuses(
        ConfigError,
        lambda: service.sync.search_memory(
            **ALICE, query="zebra", ranking=WORDS, min_similarity=0.1
        ),
    )
