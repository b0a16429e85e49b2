"""What a new statement may replace: shown at the write, and replaced if it is named."""

from __future__ import annotations

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, refuses, texts
from vecall import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    NotFoundError,
    Rights,
    ScopeError,
    Scopes,
)
from vecall.embedders import has_local
from vecall.hooks import ALLOW, QUARANTINE

OLD = "The wedding is on 14 June."
NEW = "We moved the wedding to 21 June."
OTHERS = ["I like tea.", "My brother lives in Dublin.", "Tom works as a nurse."]


@pytest.fixture
def alice(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry(OLD, id="old"), *OTHERS])
    return service.sync.user(**ALICE)


def shown(added) -> list[tuple[str, str]]:
    return [(each.memory.id, each.says) for each in added.similar[0]]


def test_a_write_shows_what_it_may_replace_and_replaces_nothing(alice):
    added = alice.add(NEW, similar=True)
    assert shown(added) == [("old", "update")]
    (similar,) = added.similar[0]
    assert similar.memory.text == OLD
    assert similar.memory.created_at is not None
    assert 0.5 <= similar.score <= 1.0
    assert alice.count() == 5
    assert alice.add("Berlin is big.", similar=True).similar == ((),)


def test_nothing_is_compared_unless_asked(alice):
    assert alice.add(NEW).similar == ()


def test_other_words_for_the_same_are_marked_as_such(alice):
    added = alice.add("The wedding: 14 June.", similar=True)
    assert shown(added) == [("old", "same")]
    # The numbers differ: it says something else.
    assert (
        shown(alice.add("The wedding is on 15 June.", similar=True))[0][1] == "update"
    )


def test_the_same_words_in_another_order_may_say_something_else(open_service):
    user = open_service().sync.user(**ALICE)
    user.add(MemoryEntry("Tom owes Anna money.", id="debt"))
    assert shown(user.add("Anna owes Tom money.", similar=True)) == [("debt", "update")]


def test_statements_about_others_are_not_shown(alice):
    for text in ("My aunt lives in Glasgow.", "Lena works at Siemens.", "Who?"):
        assert alice.add(text, similar=True).similar == ((),)


def test_each_memory_of_a_call_has_its_own_list(alice):
    news = [NEW, "Unrelated remark.", "Tom works as a teacher now."]
    added = alice.add(news, similar=True)
    first, none, third = added.similar
    assert [each.memory.text for each in first] == [OLD]
    assert none == ()
    assert [each.memory.text for each in third] == ["Tom works as a nurse."]
    # Memories of the same call are not shown to each other.
    both = alice.add(["The cat is red.", "The cat is blue."], similar=True)
    assert both.similar == ((), ())


def test_the_vector_of_the_write_is_used_and_none_is_made(open_service):
    embedder = Recorder()
    user = open_service(embedder=embedder).sync.user(**ALICE)
    user.add([OLD, *OTHERS])
    before = len(embedder.asked)
    assert [each.memory.text for each in user.add(NEW, similar=True).similar[0]] == [
        OLD
    ]
    assert len(embedder.asked) == before + 1


def test_what_is_replaced_is_not_found_stays_in_the_history_and_can_return(alice):
    id_ = alice.add(NEW, supersedes="old").id
    assert [each.text for each in alice.search("wedding")] == [NEW]
    former, now = alice.history(id_)
    assert (former.memory.id, former.state, former.why) == (
        "old",
        "archived",
        "superseded",
    )
    assert former.by == id_
    assert former.memory.valid_until is not None
    assert (now.memory.id, now.memory.supersedes) == (id_, "old")
    assert alice.restore("old") == ["old"]
    assert alice.get("old").valid_until is None
    assert len(alice.search("wedding")) == 2


def test_one_memory_replaces_several(alice):
    alice.add(MemoryEntry("The wedding is in summer.", id="vague"))
    id_ = alice.add(NEW, supersedes=["old", "vague", "old"]).id
    assert [each.text for each in alice.search("wedding")] == [NEW]
    assert {past.memory.id for past in alice.history(id_)} == {"old", "vague", id_}


def test_the_same_text_again_replaces_what_is_named_then(alice):
    first = alice.add(NEW, similar=True)
    again = alice.add(NEW, supersedes=[each.memory.id for each in first.similar[0]])
    assert again == first
    assert [each.text for each in alice.search("wedding")] == [NEW]
    alice.add(MemoryEntry("The wedding is in summer.", id="vague"))
    assert alice.add(NEW, supersedes=["old", "vague"]) == first
    assert [each.text for each in alice.search("wedding")] == [NEW]


def test_a_bad_name_changes_nothing(alice):
    for bad, error in (
        ("nobody", NotFoundError),
        (["old", "nobody"], NotFoundError),
        ("", InvalidArgumentError),
        (7, InvalidTypeError),
        ([None], InvalidTypeError),
        ({"old": 1}, InvalidTypeError),
    ):
        refuses(error, lambda bad=bad: alice.add(NEW, supersedes=bad))
    refuses(
        InvalidArgumentError,
        lambda: alice.add([NEW, "other"], supersedes="old"),
    )
    own = MemoryEntry("x", id="x")
    refuses(InvalidArgumentError, lambda: alice.add(own, supersedes="x"))
    refuses(InvalidTypeError, lambda: alice.add(NEW, similar="yes"))
    refuses(InvalidArgumentError, lambda: alice.add(["x"] * 101, similar=True))
    assert (alice.count(), len(alice.search("wedding"))) == (4, 1)
    assert alice.add(NEW, supersedes=[]).left_out == ()
    assert alice.count() == 5


def test_the_user_next_door_is_neither_shown_nor_replaced(open_service):
    service = open_service()
    service.sync.add_memory(**BOB, memories=[MemoryEntry(OLD, id="old")])
    user = service.sync.user(**ALICE)
    assert user.add(NEW, similar=True).similar == ((),)
    refuses(NotFoundError, lambda: user.add("more", supersedes="old"))
    assert texts(service, "wedding", **BOB) == [OLD]


def test_hidden_and_held_memories_are_not_shown(open_service):
    service = open_service(
        on_write=lambda write: QUARANTINE if write.memory.id == "held" else ALLOW
    )
    entries = [
        MemoryEntry(OLD, id="low", trust="unverified"),
        MemoryEntry("The wedding is on 13 June.", id="held"),
    ]
    service.sync.add_memory(**ALICE, memories=entries)
    rights = Rights(min_trust="third-party-public")
    floor = service.restricted(rights).sync.user(**ALICE)
    new = MemoryEntry(NEW, trust="first-party")
    assert floor.add(new, similar=True).similar == ((),)
    assert floor.conflicts() == []
    refuses(NotFoundError, lambda: floor.add(new, supersedes="low"))
    whole = service.sync.user(**ALICE)
    assert shown(whole.add(new, similar=True)) == [("low", "update")]


def test_a_held_statement_replaces_nothing_before_its_release(open_service):
    service = open_service(
        on_write=lambda write: QUARANTINE if write.memory.id == "held" else ALLOW
    )
    user = service.sync.user(**ALICE)
    user.add(MemoryEntry(OLD, id="old"))
    user.add(MemoryEntry(NEW, id="held"), supersedes="old")
    assert [each.text for each in user.search("wedding")] == [OLD]
    user.release("held")
    assert [each.text for each in user.search("wedding")] == [NEW]


def test_turns_of_a_chat_are_not_offered(alice):
    turn = {"id": "e", "author": "user", "content": "The rent is 700 euros."}
    alice.add_events([turn], session_id="s")
    assert alice.add("The rent is 800 euros.", similar=True).similar == ((),)


def test_a_scope_that_may_not_be_read_is_not_shown(open_service):
    service = open_service(scopes=Scopes(write={"shared"}, read=set()))
    user = service.sync.user(**ALICE)
    user.add(OLD, scope="shared")
    refuses(ScopeError, lambda: user.add(NEW, scope="shared", similar=True))
    both = open_service(scopes=Scopes(write={"shared"}, read={"shared"}))
    user = both.sync.user(**ALICE)
    user.add(MemoryEntry(OLD, id="old"), scope="shared")
    added = user.add(NEW, scope="shared", similar=True)
    assert shown(added) == [("old", "update")]
    assert added.similar[0][0].memory.scope == "shared"
    assert user.add(NEW, similar=True).similar == ((),)


def test_a_period_in_the_text_hides_nothing(alice):
    """A query that names June finds what was said in June first; a text is no query."""
    june = [
        MemoryEntry(
            f"Remark number {n} about {word}.", timestamp="2026-06-10T10:00:00Z"
        )
        for n, word in enumerate("rain tea moss birds jam".split() * 10)
    ]
    alice.add(june)
    assert shown(alice.add(NEW, similar=True)) == [("old", "update")]


def test_conflicts_proposes_pairs_and_changes_nothing(alice):
    later = alice.add(NEW).id
    (pair,) = alice.conflicts()
    assert (pair.earlier.id, pair.later.id, pair.says) == ("old", later, "update")
    assert 0.75 <= pair.score <= 1.0
    assert alice.consolidate(dry_run=True).conflicts == (pair,)
    assert alice.consolidate().conflicts == ()
    assert alice.count() == 5
    # Accepted: the later one replaces the earlier one.
    alice.add(pair.later, supersedes=pair.earlier.id)
    assert (alice.conflicts(), alice.count()) == ([], 4)


def test_a_dry_run_does_not_propose_what_it_would_merge(alice):
    alice.add([OLD, "The wedding is on 14 June!"])
    dry = alice.consolidate(dry_run=True)
    assert dry.merged == 2
    assert dry.conflicts == ()
    assert len(alice.conflicts()) == 3


def test_conflicts_are_the_users_own_and_as_many_as_asked(open_service):
    service = open_service()
    service.sync.add_memory(**BOB, memories=[OLD])
    user = service.sync.user(**ALICE)
    assert user.conflicts() == []
    user.add([NEW])
    assert user.conflicts() == []
    user.add(["Our cat Pepper is four.", "Our cat Pepper is five."])
    user.add([OLD])
    assert len(user.conflicts()) == 2
    assert len(user.conflicts(limit=1)) == 1
    refuses(InvalidArgumentError, lambda: user.conflicts(limit=0))


@pytest.mark.skipif(not has_local(), reason="vecall[local] is not installed")
def test_cosines_of_the_local_model_find_what_words_do_not(open_service):
    old, new = "Soy alérgico a las nueces.", "Tengo alergia a las nueces."
    for embedder, expected in (("local", ["old"]), (None, [])):
        user = open_service(embedder=embedder).sync.user(**ALICE)
        user.add([MemoryEntry(old, id="old", timestamp=1.0), *OTHERS])
        added = user.add(new, similar=True)
        assert [each.memory.id for each in added.similar[0]] == expected
        pairs = [(each.earlier.id, each.later.id) for each in user.conflicts()]
        assert pairs == [("old", added.id)] * len(expected)
