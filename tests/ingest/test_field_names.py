"""Entries, events and sessions in the words of other systems; nothing is dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from helpers.campaigns import examples
from helpers.memories import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidArgumentError, LeftOut, MemoryEntry, MemoryService
from vecall.ingest.fields import ENTRY, EVENT, SESSION, fields_by_vecall_name

# What other systems say, and the same in vecall's own names.
SAME = {
    "role": ({"role": "user"}, {"author": "user"}),
    "epoch": ({"created_at": 1577836800}, {"timestamp": 1577836800.0}),
    "iso": ({"created_at": "2020-01-01T00:00:00Z"}, {"timestamp": 1577836800.0}),
    "camel": ({"createdAt": 5}, {"timestamp": 5.0}),
    "metadata": ({"metadata": {"a": 1}}, {"custom_metadata": {"a": 1}}),
    "twice": ({"role": "user", "author": "user"}, {"author": "user"}),
    "none": ({"role": None, "author": "user"}, {"author": "user"}),
}
SAYS = {
    "content": {"content": "zebra"},
    "text": {"text": "zebra"},
    "memory": {"memory": "zebra"},
    "parts": {"content": [{"type": "text", "text": "zebra"}]},
    "input": {"content": [{"type": "input_text", "text": "zebra"}]},
    "part": {"content": {"type": "text", "text": "zebra"}},
    "google": {"content": {"parts": [{"text": "zebra"}]}},
}


def stored(service: MemoryService) -> list[dict[str, Any]]:
    entries = service.sync.list_memories(**ALICE)
    found = [dataclasses.asdict(entry) for entry in entries]
    return [
        {key: value for key, value in entry.items() if key not in CHANGES}
        for entry in found
    ]


CHANGES = {"id", "event_id", "created_at", "updated_at", "importance", "kind"}


def written(open_service, door: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    service = open_service()
    if door == "memory":
        service.sync.add_memory(**ALICE, memories=[given])
    elif door == "events":
        service.sync.add_events_to_memory(**ALICE, session_id="s", events=[given])
    elif door == "messages":
        service.sync.add_events_to_memory(**ALICE, session_id="s", messages=[given])
    elif door == "session":
        whole = {**ALICE, "session_id": "s", "messages": [given]}
        service.sync.add_session_to_memory(whole)
    else:
        service.sync.observe_session({**ALICE, "id": "s", "messages": [given]})
        service.sync.end_session(**ALICE, session_id="s")
    return stored(service)


def refuses(work: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        work()
    assert message in str(caught.value)


DOORS = ["memory", "events", "messages", "session", "observed"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", SAME)
def test_a_field_has_the_same_meaning_under_each_of_its_names(open_service, door, name):
    theirs, own = SAME[name]
    expected = written(open_service, door, {"content": "zebra", **own})
    assert written(open_service, door, {"content": "zebra", **theirs}) == expected
    for field, value in own.items():
        assert expected[0][field] == value


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", SAYS)
def test_a_text_is_understood_however_it_is_wrapped(open_service, door, name):
    assert [entry["content"] for entry in written(open_service, door, SAYS[name])] == [
        "zebra"
    ]


def test_a_content_by_itself_is_a_memory(open_service):
    service = open_service()
    content = {"role": "user", "parts": [{"text": "zebra"}]}
    service.sync.add_memory(**ALICE, memories=[content])
    (entry,) = service.sync.list_memories(**ALICE)
    assert (entry.text, entry.author) == ("zebra", "user")


def test_parts_that_say_nothing_stay_out(open_service):
    """Thoughts, calls and images are not what was said, in any provider's words."""
    parts = [
        {"type": "text", "text": "zebra"},
        {"type": "thinking", "thinking": "okapi"},
        {"type": "reasoning", "text": "okapi"},
        {"type": "image_url", "image_url": {"url": "okapi"}},
        {"type": "tool_use", "name": "okapi", "input": {}},
    ]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    service = open_service()
    ids = service.sync.add_events_to_memory(
        **ALICE, messages=[{"role": "assistant", "content": parts}, call]
    )
    assert [entry.text for entry in service.sync.list_memories(**ALICE)] == ["zebra"]
    assert ids.left_out == (LeftOut(1, "no_text"),)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["importnace", "ttl", "Role", "contents"])
def test_an_unknown_field_is_refused_by_its_name(open_service, door, name):
    """The message names the item, the field and what is known; nothing is written."""
    item = "memories[0]" if door == "memory" else "events[0]"
    refuses(
        lambda: written(open_service, door, {"content": "zebra", name: 1}),
        f'{item}: unknown field "{name}"; fields are content, author,',
    )


def test_an_unknown_field_of_a_session_is_refused(open_service):
    service = open_service()
    with pytest.raises(InvalidArgumentError, match='unknown field "turns"; fields are'):
        service.sync.add_session_to_memory({**ALICE, "id": "s", "turns": []})


def test_the_message_shows_no_text_that_is_not_a_field_name(open_service):
    service = open_service()
    for name in ("my secret text", "a" * 65, 7):
        with pytest.raises(InvalidArgumentError) as caught:
            service.sync.add_memory(**ALICE, memories=["a", {"text": "b", name: 1}])
        assert str(caught.value).startswith("memories[1]: unknown field; fields are")
        assert str(name) not in str(caught.value)
    assert service.sync.list_memories(**ALICE) == []


@pytest.mark.parametrize(
    "given",
    [
        {"text": "zebra", "role": "user", "author": "agent"},
        {"text": "zebra", "content": "okapi"},
        {"text": "zebra", "created_at": 1.0, "timestamp": 2.0},
        {"text": "zebra", "metadata": {"a": 1}, "custom_metadata": {"a": 2}},
        {"text": "zebra", "sessionId": "a", "session_id": "b"},
    ],
)
@pytest.mark.parametrize("door", ["memory", "events"])
def test_two_values_of_one_field_are_refused(open_service, given, door):
    refuses(
        lambda: written(open_service, door, given),
        "one field with two values",
    )


@pytest.mark.parametrize("field", ["app_name", "user_id", "userId"])
@pytest.mark.parametrize("door", DOORS)
def test_an_item_of_another_owner_is_refused(open_service, door, field):
    """What is somebody else's is not written to the owner that the call names."""
    own = {"app_name": "app", "user_id": "alice", "userId": "alice"}[field]
    written(open_service, door, {"text": "zebra", field: own})
    refuses(
        lambda: written(open_service, door, {"text": "zebra", field: "mallory"}),
        "of the call",
    )


def test_an_event_of_another_session_is_refused(open_service):
    service = open_service()
    for call in ({"session_id": "s"}, {}):
        with pytest.raises(InvalidArgumentError, match="not the session_id of the"):
            service.sync.add_events_to_memory(
                **ALICE, events=[{"text": "zebra", "session_id": "other"}], **call
            )


def test_an_answer_can_be_stored_again(open_service):
    """What a search adds is ignored; when it was stored is not when it was said."""
    first, second = open_service(), open_service()
    entries = [MemoryEntry("zebra", timestamp=7.0, author="user"), "okapi"]
    first.sync.add_memory(**ALICE, memories=entries)
    answers = first.sync.search_memory(**ALICE, query="zebra okapi").memories
    second.sync.add_memory(**ALICE, memories=list(map(dataclasses.asdict, answers)))
    again = {entry.text: entry for entry in second.sync.list_memories(**ALICE)}
    assert again["zebra"].timestamp == 7.0
    assert again["okapi"].timestamp == next(
        entry.created_at for entry in answers if entry.text == "okapi"
    )


def test_every_field_of_google_adk_is_known():
    """A dump of its events and sessions is read, in this version and later ones."""
    events = pytest.importorskip("google.adk.events.event")
    sessions = pytest.importorskip("google.adk.sessions.session")
    for model, known in ((events.Event, EVENT), (sessions.Session, SESSION)):
        assert set(model.model_fields) <= set(known.spellings)


def test_a_dumped_adk_session_is_read_in_both_cases(open_service):
    events = pytest.importorskip("google.adk.events.event")
    sessions = pytest.importorskip("google.adk.sessions.session")
    types = pytest.importorskip("google.genai.types")
    said = types.Content(role="user", parts=[types.Part(text="zebra")])
    event = events.Event(author="user", invocation_id="i", content=said)
    whole = sessions.Session(
        id="s", app_name="app", user_id="alice", events=[event], state={"k": 1}
    )
    for by_alias in (False, True):
        service = open_service()
        dump = whole.model_dump(by_alias=by_alias)
        dump["events"][0]["field_of_a_later_version"] = 1
        assert len(service.sync.add_session_to_memory(dump).stored) == 1
        (entry,) = service.sync.list_memories(**ALICE)
        assert (entry.text, entry.timestamp) == ("zebra", event.timestamp)


NAMES = sorted({*ENTRY.spellings, *EVENT.spellings, "importnace", "x y"})
GIVEN = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(["a", None]), max_size=4
)


@pytest.mark.campaign
@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", None]), max_size=4)
)
def test_a_mapping_is_refused_exactly_if_it_has_an_unknown_field(given):
    """An independent reading of the table, over entries."""
    try:
        found = fields_by_vecall_name(given, ENTRY, "memories[0]")
    except InvalidArgumentError:
        assert not set(given) <= set(ENTRY.spellings)
        return
    expected = {
        ENTRY.spellings[name]: value
        for name, value in given.items()
        if value is not None and ENTRY.spellings[name] is not None
    }
    assert found == expected
