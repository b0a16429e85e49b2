"""Names, ids, sessions, memories and questions that are none are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers.memories import ALICE, SECRET, refuses, unharmed_service
from vecall import (
    Filter,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    MemoryEntry,
)

service = pytest.fixture(unharmed_service)

BAD_NAMES = [
    ("", InvalidArgumentError),
    ("a\0b", InvalidArgumentError),
    ("\ud800", InvalidArgumentError),
    ("x" * 513, LimitExceededError),
    ("\u00e9" * 257, LimitExceededError),
    (None, InvalidTypeError),
    (5, InvalidTypeError),
    (b"alice", InvalidTypeError),
    (["alice"], InvalidTypeError),
]


@pytest.mark.parametrize(("name", "error"), BAD_NAMES)
def test_a_bad_app_or_user_is_refused_everywhere(service, name, error):
    """contracts.md, errors: empty, NUL, lone surrogates, too long, no string."""
    call = service.sync

    def refused_for(**scope: Any) -> None:
        session = {**scope, "id": "s", "events": [{"text": SECRET}]}
        for work in (
            lambda: call.search_memory(**scope, query="zebra"),
            lambda: call.add_memory(**scope, memories=[SECRET]),
            lambda: call.add_events_to_memory(**scope, events=[]),
            lambda: call.add_session_to_memory(session),
            lambda: call.get_memory(**scope, memory_id="x"),
            lambda: call.delete_memory(**scope, memory_id="x"),
            lambda: call.delete_memory(**scope, memory_id=None),
            lambda: call.admin.warm(**scope),
        ):
            refuses(error, work)

    refused_for(**{**ALICE, "app_name": name})
    refused_for(**{**ALICE, "user_id": name})


@pytest.mark.parametrize(("name", "error"), BAD_NAMES)
def test_a_bad_session_or_memory_id_is_refused(service, name, error):
    call = service.sync
    session = {**ALICE, "id": name, "events": [{"text": SECRET}]}
    refuses(error, lambda: call.add_session_to_memory(session))
    refuses(error, lambda: call.get_memory(**ALICE, memory_id=name))
    if name is not None:
        refuses(error, lambda: call.delete_memory(**ALICE, memory_id=name))
        events = [{"text": SECRET}]
        refuses(
            error,
            lambda: call.add_events_to_memory(**ALICE, events=events, session_id=name),
        )
        for field in ("id", "session_id", "event_id"):
            entry = {"content": SECRET, field: name}
            refuses(error, lambda: call.add_memory(**ALICE, memories=[entry]))  # noqa: B023
        asked = Filter(session_id=name)
        refuses(error, lambda: call.search_memory(**ALICE, query="x", filter=asked))


@pytest.mark.parametrize("id_", ["a\0b", "\ud800", "x" * 513, "\u00e9" * 257])
def test_a_turn_is_stored_under_an_event_id_that_cannot_be_stored(open_service, id_):
    """It still identifies the turn: a repeat is no second memory, a rewind finds it."""
    sync = open_service().sync
    events = [{"id": "good", "text": SECRET}, {"id": id_, "text": "other"}]
    session = {**ALICE, "id": "s", "events": events}
    ids = sync.add_session_to_memory(session)
    assert ids == sync.add_session_to_memory(session)
    assert len(set(ids)) == 2
    events[1]["text"] = "changed"
    assert sync.add_session_to_memory(session) == ids
    texts = [each.text for each in sync.list_memories(**ALICE)]
    assert texts == [SECRET, "changed"]
    events[1]["invocation_id"] = "i"
    rewind = {"actions": {"rewind_before_invocation_id": "i"}, "invocation_id": "j"}
    sync.add_session_to_memory({**session, "events": [*events, rewind]})
    assert [each.text for each in sync.list_memories(**ALICE)] == [SECRET]


@pytest.mark.parametrize("events", [None, 5, "text", {"text": "x"}, {1}, iter([])])
def test_events_that_are_no_sequence_are_refused(service, events):
    refuses(
        InvalidTypeError,
        lambda: service.sync.add_events_to_memory(**ALICE, events=events),
    )


@pytest.mark.parametrize("event", [SECRET, 5, None, [SECRET], b"bytes"])
def test_what_is_no_event_is_refused_and_not_dropped(service, event):
    """A turn that was handed in as a string must not vanish with a thank-you."""
    refuses(
        InvalidTypeError,
        lambda: service.sync.add_events_to_memory(**ALICE, events=[event]),
    )


@pytest.mark.parametrize("session", [None, 5, "session", [], {}, object()])
def test_what_is_no_session_is_refused(service, session):
    refuses(InvalidArgumentError, lambda: service.sync.add_session_to_memory(session))


@pytest.mark.parametrize(
    "memories",
    [
        None,
        {"contents": SECRET},
        5,
        [None],
        [5],
        [b"bytes"],
        [[SECRET]],
        [object()],
        [""],
        [" \n"],
        [SECRET, ""],
        [{"content": 5}],
        [{"content": {"parts": "text"}}],
        [{"content": {"parts": []}}],
        [{"content": None}],
        [MemoryEntry("")],
        iter([SECRET]),
    ],
)
def test_what_is_no_memory_is_refused(service, memories):
    refuses(
        InvalidArgumentError,
        lambda: service.sync.add_memory(**ALICE, memories=memories),
    )


@pytest.mark.parametrize("top_k", [0, -1, 1001, 10**30, True, 1.5, "5", math.nan])
def test_a_bad_top_k_is_refused(service, top_k):
    refuses(
        InvalidArgumentError,
        lambda: service.sync.search_memory(**ALICE, query="zebra", top_k=top_k),
    )


@pytest.mark.parametrize("query", [None, 5, b"zebra", ["zebra"]])
def test_a_query_that_is_no_text_is_refused(service, query):
    refuses(InvalidTypeError, lambda: service.sync.search_memory(**ALICE, query=query))


@pytest.mark.parametrize("filter_", [5, "s", ["session_id"], object()])
def test_a_filter_that_is_none_is_refused(service, filter_):
    refuses(
        InvalidTypeError,
        lambda: service.sync.search_memory(**ALICE, query="zebra", filter=filter_),
    )
