"""What an event says in plain values counts, or is refused; nothing is dropped."""

from __future__ import annotations

import pytest
from vecall import Event, InvalidArgumentError, InvalidTypeError, MemoryEntry

ALICE = {"app_name": "app", "user_id": "alice"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 1},
        {"author": 7},
        {"timestamp": [1]},
        {"custom_metadata": 5},
        {"kind": 5},
        {"content": 5},
        {"importance": 7},
    ],
)
def test_a_field_of_the_wrong_type_costs_its_turn_and_no_other(open_service, wrong):
    sync = open_service().sync
    turns = [{"text": "zebra"}, {"text": "okapi", **wrong}, {"text": "tapir"}]
    added = sync.add_events_to_memory(**ALICE, events=turns)
    (left,) = added.left_out
    assert (left.index, left.reason) == (1, "invalid")
    assert next(iter(wrong)) in (left.detail or "")
    assert [id_ is None for id_ in added] == [False, True, False]
    texts = [each.text for each in sync.list_memories(**ALICE)]
    assert texts == ["zebra", "tapir"]


@pytest.mark.parametrize("wrong", [{"id": 1}, {"timestamp": [1]}, {"importance": 7}])
def test_a_call_of_which_no_turn_can_be_stored_is_refused(open_service, wrong):
    """Whoever writes the calling code sees the error at the first call."""
    service = open_service()
    turns = [{"text": "okapi", **wrong}, {"text": " "}]
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        service.sync.add_events_to_memory(**ALICE, events=turns)
    assert service.sync.admin.stats()["memories"] == 0


def test_an_empty_event_id_is_none(open_service):
    sync = open_service().sync
    added = sync.add_events_to_memory(**ALICE, events=[Event("zebra", id="")])
    assert added == sync.add_events_to_memory(**ALICE, events=[Event("zebra")])


def test_two_events_with_ids_are_two_memories_whatever_they_say(open_service):
    service = open_service()
    events = [Event("ok", "user", id="1"), Event("ok", "user", id="2")]
    assert len(service.sync.add_events_to_memory(**ALICE, events=events)) == 2
    assert service.sync.admin.stats()["memories"] == 2


def test_kind_source_trust_and_importance_of_an_event_are_kept(open_service):
    """S2.5."""
    service = open_service()
    event = {
        "text": "zebra",
        "kind": "fact",
        "source": "form",
        "trust": "first-party",
        "importance": 0.9,
    }
    service.sync.add_events_to_memory(**ALICE, events=[event])
    (found,) = service.sync.search_memory(**ALICE, query="zebra").memories
    assert (found.kind, found.source) == ("fact", "form")
    assert (found.trust, found.importance) == ("first-party", 0.9)


def test_a_time_to_live_of_one_event_makes_it_expire(open_service):
    """S4.58: as it does for an entry."""
    service = open_service()
    short = Event("zebra", custom_metadata={"ttl": 1e-6, "k": 1})
    service.sync.add_events_to_memory(**ALICE, events=[short, Event("zebra okapi")])
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    assert [memory.text for memory in found] == ["zebra okapi"]
    with pytest.raises(InvalidArgumentError):
        service.sync.add_events_to_memory(
            **ALICE, events=[Event("x", custom_metadata={"ttl": "junk"})]
        )


@pytest.mark.parametrize("content", [5, None, ["text"]])
def test_an_entry_has_a_content_that_can_hold_a_text(content):
    with pytest.raises(InvalidTypeError):
        MemoryEntry(content)


def test_a_content_without_texts_has_no_text():
    assert MemoryEntry({"parts": 5}).text == ""
    assert str(MemoryEntry({"parts": [{"text": "a"}, {"other": 1}]})) == "a"
