"""The later life of memories over HTTP, and answers of a bounded size."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, SECRET, TURN, door_to, error_of, load_session, refused
from helpers.snapshots import until
from vecall import MessageCount
from vecall.server import HttpLimits

MEMORIES = f"{ALICE}/memories"
WORDS = "search delete used archive restore history memories observe end export".split()


@pytest.fixture
def door(open_service):
    """Makes doors to a memory service, a new one unless it is given."""

    def make(memory=None, **more):
        return door_to(memory or open_service(), **more)

    return make


def added(door, *memories):
    answer = door.ask("POST", MEMORIES, json={"memories": list(memories)})
    assert answer.status_code == 201
    return answer.json()["ids"]


def listed(door, **query):
    return door.ask("GET", MEMORIES, params=query).json()["memories"]


def test_a_memory_is_corrected_and_its_past_is_shown(door):
    """The answer is the memory as it is; the history has both."""
    opened = door()
    memory = {"content": "Room 4.", "author": "bob", "kind": "fact", "timestamp": 7}
    (id_,) = added(opened, memory)
    change = {"content": "Room 5.", "author": None, "timestamp": None}
    answer = opened.ask("PATCH", f"{MEMORIES}/{id_}", json=change)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["id"], told["content"], told["kind"]) == (id_, "Room 5.", "fact")
    assert "author" not in told
    assert opened.ask("GET", f"{MEMORIES}/{id_}").json() == told
    past = opened.ask("GET", f"{MEMORIES}/{id_}/history").json()
    assert set(past) == {"revisions"}
    before, now = past["revisions"]
    assert (before["state"], before["why"]) == ("overwritten", "edit")
    assert before["memory"]["content"] == "Room 4."
    assert (now["state"], now["memory"]["content"]) == ("live", "Room 5.")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"text": SECRET},
        {"id": "x"},
        {"session_id": "x"},
        {"trust": "first-party"},
        {"content": None},
        {"content": ""},
        {"content": " "},
        {"content": 5},
        {"custom_metadata": 5},
        {"importance": 1.5},
        {"author": ["x"]},
        {"author": "x" * 513},
        {"valid_until": SECRET},
        {"timestamp": 10**400},
    ],
)
def test_a_correction_that_breaks_a_rule_changes_nothing(door, change):
    """422, and no second revision."""
    opened = door()
    (id_,) = added(opened, "Likes tea.")
    answer = opened.ask("PATCH", f"{MEMORIES}/{id_}", json=change)
    assert refused(answer) == (422, "invalid")
    past = opened.ask("GET", f"{MEMORIES}/{id_}/history").json()
    assert len(past["revisions"]) == 1


def test_a_correction_clears_the_metadata(door):
    """null is None, as in Python."""
    opened = door()
    (id_,) = added(opened, {"content": "Likes tea.", "custom_metadata": {"a": 1}})
    answer = opened.ask("PATCH", f"{MEMORIES}/{id_}", json={"custom_metadata": None})
    assert (answer.status_code, answer.json().get("custom_metadata")) == (200, None)


def test_what_is_archived_is_listed_apart_and_comes_back(door):
    """204, not found by a search, listed as archived, restored; twice is 404."""
    opened = door()
    first, second = added(opened, "Likes tea.", "Likes coffee.")
    assert opened.ask("POST", f"{MEMORIES}/{first}/archive").status_code == 204
    found = opened.ask("POST", f"{MEMORIES}/search", json={"query": "likes"}).json()
    assert [entry["id"] for entry in found["memories"]] == [second]
    assert [entry["id"] for entry in listed(opened, state="archived")] == [first]
    again = opened.ask("POST", f"{MEMORIES}/{first}/archive")
    assert error_of(again) == (404, "not_found")
    back = opened.ask("POST", f"{MEMORIES}/{first}/restore")
    assert back.json() == {"ids": [first]}
    again = opened.ask("POST", f"{MEMORIES}/{first}/restore")
    assert error_of(again) == (404, "not_found")
    assert [entry["id"] for entry in listed(opened)] == [first, second]


def test_what_is_not_there_is_not_there_for_every_request(door):
    """The same 404 for an id that nobody has and for that of another user."""
    opened = door()
    bob = "/apps/hotel/users/bob/memories"
    body = {"memories": [{"content": "x", "id": "bobs"}]}
    assert opened.ask("POST", bob, json=body).status_code == 201
    asked = [
        ("GET", "", {}),
        ("PATCH", "", {"json": {"content": "y"}}),
        ("GET", "/history", {}),
        ("POST", "/archive", {}),
        ("POST", "/restore", {}),
    ]
    for method, rest, more in asked:
        messages = set()
        for id_ in ("bobs", "nobodys"):
            answer = opened.ask(method, f"{MEMORIES}/{id_}{rest}", **more)
            assert error_of(answer) == (404, "not_found")
            messages.add(answer.json()["error"]["message"])
        assert messages == {"There is no such memory."}
    (entry,) = opened.ask("GET", bob).json()["memories"]
    assert entry["content"] == "x"


def test_what_a_filter_lets_through_is_deleted_and_nothing_else(door):
    """By kind, session, author and time."""
    opened = door()
    added(
        opened,
        {"content": "a", "kind": "fact", "timestamp": 10},
        {"content": "b", "kind": "fact", "timestamp": 20},
        {"content": "c", "kind": "plan", "author": "bob", "session_id": "s"},
        "d",
    )

    def delete(**asked):
        answer = opened.ask("POST", f"{MEMORIES}/delete", json={"filter": asked})
        return answer.json()["deleted"]

    assert delete(kind="fact", before=20) == 1
    assert delete(kind="none") == 0
    assert delete(session_id="s", author="bob") == 1
    assert [entry["content"] for entry in listed(opened)] == ["b", "d"]


@pytest.mark.parametrize(
    "body",
    [{}, {"filter": {}}, {"filter": None}, {"filter": {"kind": None}}, {"kind": "x"}],
)
def test_a_filter_without_a_condition_deletes_nothing(door, body):
    """422 on everything that could be mistaken for all memories."""
    opened = door()
    added(opened, "a", "b")
    answer = opened.ask("POST", f"{MEMORIES}/delete", json=body)
    assert error_of(answer) == (422, "invalid")
    assert len(listed(opened)) == 2


def test_a_delete_with_a_body_deletes_nothing(door):
    """A filter that would not be read must not become all memories."""
    opened = door()
    (id_, _) = added(opened, "a", "b")
    for path in (MEMORIES, f"{MEMORIES}/{id_}", f"{ALICE}/sessions/s"):
        body = {"filter": {"kind": "fact"}}
        answer = opened.ask("DELETE", path, json=body)
        assert error_of(answer) == (422, "invalid")
    assert len(listed(opened)) == 2


def test_ids_may_be_the_words_of_other_paths(door):
    """Each is reached by every method, and means nothing else."""
    opened = door(limits=HttpLimits(writes_per_second=1000))
    strange = [*WORDS, "a/b", "a%2Fb", "..", ".", "%00", "?", "#", " ", "x" * 512]
    added(opened, *({"content": f"about {id_[:9]}", "id": id_} for id_ in strange))
    for id_ in strange:
        # Whole in percent-encoding, so that no client takes dots for folders.
        path = "".join(f"%{byte:02X}" for byte in id_.encode())
        assert opened.ask("GET", f"{MEMORIES}/{path}").json()["id"] == id_
        change = {"kind": "seen"}
        answer = opened.ask("PATCH", f"{MEMORIES}/{path}", json=change)
        assert answer.json()["kind"] == "seen"
        for step in ("archive", "restore"):
            answer = opened.ask("POST", f"{MEMORIES}/{path}/{step}")
            assert answer.status_code < 300
        past = opened.ask("GET", f"{MEMORIES}/{path}/history").json()
        assert len(past["revisions"]) == 2
    for number, id_ in enumerate(strange, start=1):
        path = "".join(f"%{byte:02X}" for byte in id_.encode())
        assert opened.ask("DELETE", f"{MEMORIES}/{path}").status_code == 204
        assert len(listed(opened)) == len(strange) - number


def test_all_memories_are_not_deleted_by_a_path_that_lost_its_end(door):
    """Of the id "." some clients make the path of all memories."""
    opened = door()
    added(opened, {"content": "a", "id": "."}, "b")
    for rest in ("/.", "/..", "/", "", "?forget=true", "?confirm=false", "?confirm"):
        answer = opened.ask("DELETE", f"{MEMORIES}{rest}")
        assert answer.status_code in (404, 422)
    assert len(listed(opened)) == 2
    answer = opened.ask("DELETE", f"{MEMORIES}?confirm=true&forget=true")
    assert answer.json() == {"deleted": 2}


def test_uses_are_counted_of_what_is_there(door, open_service):
    """Twice in one request is once; what is not there is ignored."""
    memory = open_service()
    opened = door(memory)
    first, second = added(opened, "Likes tea.", "Likes coffee.")
    body = {"ids": [first, first, "unknown"]}
    answer = opened.ask("POST", f"{MEMORIES}/used", json=body)
    assert answer.json() == {"marked": 1}
    assert opened.ask("POST", f"{MEMORIES}/used", json={"ids": []}).json() == {
        "marked": 0
    }
    for ids in ([second] * 257, [""], ["\ud800"], [5], "x"):
        answer = opened.ask(
            "POST",
            f"{MEMORIES}/used",
            content=json.dumps({"ids": ids}),
            headers={"Content-Type": "application/json"},
        )
        assert error_of(answer) == (422, "invalid")


def test_observed_turns_are_remembered_when_the_trigger_says_so(door, open_service):
    """The third turn makes memories of all three; told again they cost nothing."""
    memory = open_service(trigger=MessageCount(3))
    opened = door(memory)
    turns = [{"content": f"Turn {n}.", "author": "user", "id": f"{n}"} for n in "abc"]
    path = f"{ALICE}/sessions/trip/observe"
    for count in (1, 2):
        answer = opened.ask("POST", path, json={"events": turns[:count]})
        assert answer.json() == {"ids": []}
        memory.sync.admin.run_due()
        assert listed(opened) == []
    opened.ask("POST", path, json={"events": turns})
    memory.sync.admin.run_due()
    until(lambda: listed(opened))  # the background worker may have claimed the session
    assert [entry["content"] for entry in listed(opened)] == [
        turn["content"] for turn in turns
    ]


def test_the_end_of_a_session_makes_memories_of_what_was_kept(door):
    """Without a loader of what was observed, with turns of those too."""
    opened = door()
    session = f"{ALICE}/sessions/trip"
    first, second = {**TURN, "id": "1"}, {"content": "Bye.", "id": "2"}
    opened.ask("POST", f"{session}/observe", json={"events": [first]})
    assert listed(opened) == []
    ended = opened.ask("POST", f"{session}/end", json={})
    assert len(ended.json()["ids"]) == 1
    ended = opened.ask("POST", f"{session}/end", json={"events": [first, second]})
    assert ended.status_code == 200
    assert [entry["content"] for entry in listed(opened)] == [TURN["content"], "Bye."]
    assert {entry["session_id"] for entry in listed(opened)} == {"trip"}


def test_sessions_are_observed_and_ended_through_the_loader(door):
    """S0.47: the same hook; what it does not have is not there."""
    opened = door(session_loader=load_session)
    for step in ("observe", "end"):
        answer = opened.ask("POST", f"{ALICE}/sessions/trip/{step}", json={})
        assert answer.status_code == 200
        for name in ("unknown", "foreign"):
            path = f"{ALICE}/sessions/{name}/{step}"
            answer = opened.ask("POST", path, json={})
            assert refused(answer) == (404, "not_found")
    assert len(listed(opened)) == 1
    answer = door().ask("POST", f"{ALICE}/sessions/trip/observe", json={})
    assert error_of(answer) == (400, "not_configured")


def test_a_write_shows_what_it_may_replace_and_replaces_it_if_it_is_named(door):
    opened = door()
    (old,) = added(opened, {"content": "The wedding is on 14 June."})
    new = {"memories": ["We moved the wedding to 21 June."]}
    assert "similar" not in opened.ask("POST", MEMORIES, json=new).json()
    answer = opened.ask("POST", MEMORIES, json={**new, "similar": True}).json()
    ((similar,),) = answer["similar"]
    assert (similar["memory"]["id"], similar["says"]) == (old, "update")
    assert 0.5 <= similar["score"] <= 1
    found = opened.ask("GET", f"{ALICE}/conflicts").json()["conflicts"]
    assert [pair["earlier"]["id"] for pair in found] == [old]
    dry = opened.ask("POST", f"{ALICE}/consolidate", json={}).json()
    assert dry["conflicts"] == found
    refused_ = opened.ask("POST", MEMORIES, json={**new, "supersedes": "nobody"})
    assert refused_.status_code == 404
    for named in (old, [old]):
        done = opened.ask("POST", MEMORIES, json={**new, "supersedes": named})
        assert done.json()["ids"] == answer["ids"]
    assert [each["id"] for each in listed(opened)] == answer["ids"]
    assert opened.ask("GET", f"{ALICE}/conflicts").json() == {"conflicts": []}
