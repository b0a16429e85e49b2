"""Memories of favoured authors come before others that say the same."""

from __future__ import annotations

import pytest
from helpers.conversations import ALICE, session, turn
from vecall import ConfigError, Ranking


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
    for authors, factors in (((), {1.0}), (("user",), {1.0, 1.2})):
        ranking = Ranking(authors=authors)
        hits = found(service, query, ranking=ranking, explain=True)
        assert {round(m.explanation["factor"], 6) for m in hits} == factors
    assert found(service, query)[0].event_id == "e1"
    twice = found(service, query, ranking=Ranking(authors=["user", "user"]))
    assert [m.score for m in twice] == [m.score for m in found(service, query)]


@pytest.mark.parametrize(
    "authors", ["user", None, {"user"}, [1], [""], ["\ud800"], ["a"] * 65, 7]
)
def test_favoured_authors_that_cannot_be_are_refused(authors):
    with pytest.raises(ConfigError, match=r"^ranking\.authors: "):
        Ranking(authors=authors)
