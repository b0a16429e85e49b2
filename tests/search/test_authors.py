"""Memories of favoured authors come before others that say the same."""

from __future__ import annotations

import pytest
from helpers.conversations import ALICE, session, turn
from helpers.options import grouped
from vecall import (
    ConfigError,
    InMemoryMemoryService,
    MemoryService,
    Ranking,
    SearchOptions,
    VectorMemoryService,
)


def found(service, query, **asked):
    return service.sync.search_memory(**ALICE, query=query, **asked).memories


def test_what_a_user_said_comes_before_a_reply_that_repeats_it(open_service):
    """Ranking.authors: the user by default, others or none on request."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(
            turn("e1", "My parrot eats walnuts.", author="user"),
            turn("e2", "Your parrot eats walnuts.", author="agent"),
        )
    )
    query = "what does the parrot eat"
    first = {
        authors: found(service, query, ranking=Ranking(authors=authors))[0].event_id
        for authors in (("user",), ("agent",), ("somebody", "agent"))
    }
    assert first == {("user",): "e1", ("agent",): "e2", ("somebody", "agent"): "e2"}
    for authors, factors in (((), {1.0}), (("user",), {0.97, 1.2})):
        ranking = Ranking(authors=authors)
        hits = found(service, query, ranking=ranking, explain=True)
        assert {round(m.explanation["factor"], 6) for m in hits} == factors
    assert found(service, query)[0].event_id == "e1"
    twice = found(service, query, ranking=Ranking(authors=["user", "user"]))
    assert [m.score for m in twice] == [m.score for m in found(service, query)]


def test_a_reply_ranks_lower_only_below_the_turn_that_it_answers(open_service):
    """Ranking.weights["reply"]: both tell it, so the reply takes no better place."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(
            turn("e1", "My parrot eats walnuts.", author="user"),
            turn("e2", "A parrot that eats walnuts is well.", author="agent"),
            turn("e3", "Thanks. And the hamster?", author="user"),
            turn("e4", "The hamster sleeps by day.", author="agent"),
        )
    )

    def factors(query, **weights):
        ranking = Ranking(weights=weights)
        hits = found(service, query, ranking=ranking, explain=True)
        return {m.event_id: round(m.explanation["factor"], 6) for m in hits}

    both = factors("what does the parrot eat")
    assert (both["e1"], both["e2"]) == (1.2, 0.97)
    assert factors("what does the parrot eat", reply=0.5)["e2"] == 0.5
    assert factors("what does the parrot eat", reply=1)["e2"] == 1.0
    # The reply alone has the word.
    assert factors("where does it sleep", reply=0.5)["e4"] == 1.0


@pytest.mark.parametrize(
    "authors", ["user", {"user"}, [1], [""], ["\ud800"], ["a"] * 65, 7]
)
def test_favoured_authors_that_cannot_be_are_refused(authors):
    with pytest.raises(ConfigError, match=r"^ranking\.authors: "):
        Ranking(authors=authors)
    with pytest.raises(ConfigError, match=r"^search\.authors: "):
        MemoryService(search=SearchOptions(authors=authors))


def test_a_service_favours_the_authors_that_it_is_given(open_service):
    """SearchOptions(authors=): for all its searches, but where a ranking names some."""
    for authors, first in ((None, "e1"), (("agent",), "e2"), (("kim", "agent"), "e2")):
        service = open_service(authors=authors)
        service.sync.add_session_to_memory(
            session(
                turn("e1", "My parrot eats walnuts.", author="user"),
                turn("e2", "Your parrot eats walnuts.", author="agent"),
            )
        )
        query = "what does the parrot eat"
        assert found(service, query)[0].event_id == first
        # A ranking of a search without authors of its own has the service's.
        other = Ranking(weights={"session": 0.1})
        assert found(service, query, ranking=other)[0].event_id == first
        own = Ranking(authors=("user",))
        assert found(service, query, ranking=own)[0].event_id == "e1"
        assert service.authors == (("user",) if authors is None else authors)


def test_the_authors_of_a_services_ranking_are_the_services(open_service):
    service = open_service(ranking=Ranking(authors=["agent", "agent"]))
    assert service.authors == ("agent",)


def test_authors_that_would_change_nothing_are_refused():
    two = {"authors": ("agent",), "ranking": Ranking(authors=())}
    for refused in (
        lambda: MemoryService(**grouped(**two)),
        lambda: MemoryService(
            search=SearchOptions(
                authors=("agent",),
                ranking=Ranking(weights={"favoured": 1, "reply": 1}),
            )
        ),
        lambda: InMemoryMemoryService(search=SearchOptions(authors=("agent",))),
        lambda: VectorMemoryService(
            lambda texts: [[1.0]] * len(texts), search=SearchOptions(authors=("a",))
        ),
    ):
        with pytest.raises(ConfigError, match=r"^search\.authors: "):
            refused()
