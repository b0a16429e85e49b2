"""Rewinds, sign-in requests and spoken turns: what counts of a session, in any service.

The sessions are dicts as google-adk's HTTP API sends them and google-adk's own objects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from helpers.lifecycle import kept
from helpers.memories import ALICE
from vecall import (
    InMemoryMemoryService,
    MemoryService,
    MessageCount,
    VectorMemoryService,
    VectorStoreMemoryService,
)
from vecall.vector_store import InMemoryVectorStore

ROOM, SECRET, PARROT = "A quiet room.", "My PIN is 4938.", "I like parrots."


def said(number: int, text: str, invocation: str, **more: Any) -> dict[str, Any]:
    content = {"role": "user", "parts": [{"text": text}]}
    return {
        "id": f"e{number}",
        "author": "user",
        "timestamp": float(number),
        "invocationId": invocation,
        "content": content,
        **more,
    }


def rewind(number: int, target: str) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "author": "user",
        "invocationId": f"i{number}",
        "actions": {"rewindBeforeInvocationId": target},
    }


def call(number: int, kind: str, name: str) -> dict[str, Any]:
    """An event with a call and a text that goes with it."""
    parts = [{"text": "Sign in with code 771."}, {kind: {"name": name, "id": "c"}}]
    event = said(number, "", "i9")
    return {**event, "content": {"role": "model", "parts": parts}}


def heard(number: int, name: str, text: str, **more: Any) -> dict[str, Any]:
    event = said(number, "", "i9")
    del event["content"]
    return {**event, name: {"text": text, **more}}


def session(*events: Any) -> dict[str, Any]:
    return {"appName": "app", "userId": "alice", "id": "s", "events": list(events)}


REWOUND = session(
    said(1, ROOM, "i1"),
    said(2, SECRET, "i2"),
    said(3, "Noted, 4938.", "i2"),
    rewind(4, "i2"),
    said(5, PARROT, "i5"),
)


class Five:
    """An embedder of a few dimensions; what it says does not matter here."""

    model_id = "five"
    dimensions = 5

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, *(float(len(text) % n) for n in (2, 3, 5, 7))] for text in texts]


SERVICES: dict[str, Callable[[], Any]] = {
    "words": MemoryService,
    "vectors": lambda: VectorMemoryService(Five()),
    "in memory": InMemoryMemoryService,
    "vector store": lambda: VectorStoreMemoryService(InMemoryVectorStore(), Five()),
}


@pytest.fixture(params=SERVICES.values(), ids=SERVICES.keys())
def any_service(request):
    with request.param() as opened:
        yield opened


def found_in(service: Any, *queries: str) -> set[str]:
    async def found() -> set[str]:
        answers = [
            await service.search_memory(**ALICE, query=query, top_k=20)
            for query in queries
        ]
        return {memory.text for answer in answers for memory in answer.memories}

    return asyncio.run(found())


def test_what_a_rewind_took_back_is_not_remembered(any_service):
    """S3.22: as google-adk shows a conversation to a model."""
    asyncio.run(any_service.add_session_to_memory(REWOUND))
    found = found_in(any_service, "quiet", "PIN", "Noted", "parrots")
    assert found == {ROOM, PARROT}


def test_requests_for_a_sign_in_are_not_remembered_and_spoken_turns_are(any_service):
    """S3.22, S3.23: nor the text that stands beside such a request."""
    told = session(
        call(1, "functionCall", "adk_request_credential"),
        call(2, "functionResponse", "adk_request_confirmation"),
        heard(3, "inputTranscription", ROOM, finished=True),
        heard(4, "outputTranscription", PARROT),
        heard(5, "inputTranscription", "A qui", finished=False),
    )
    asyncio.run(any_service.add_session_to_memory(told))
    assert found_in(any_service, "quiet", "sign", "parrots", "qui") == {ROOM, PARROT}


def test_other_calls_do_not_hide_what_was_said(open_service):
    """S3.22: only google-adk's own requests are no turns."""
    service = open_service()
    service.sync.add_session_to_memory(session(call(1, "functionCall", "weather")))
    assert list(kept(service).values()) == ["Sign in with code 771."]


def by_session(service: MemoryService, told: dict[str, Any]) -> None:
    service.sync.add_session_to_memory(told)


def by_events(service: MemoryService, told: dict[str, Any]) -> None:
    service.sync.add_events_to_memory(**ALICE, events=told["events"], session_id="s")


def by_observing(service: MemoryService, told: dict[str, Any]) -> None:
    service.sync.observe_session(told)
    service.sync.end_session(**ALICE, session_id="s")


def by_the_end(service: MemoryService, told: dict[str, Any]) -> None:
    service.sync.end_session(told)


WAYS = pytest.mark.parametrize(
    "tell", [by_session, by_events, by_observing, by_the_end]
)


@WAYS
@pytest.mark.parametrize("before", [by_session, by_events, by_observing])
def test_a_rewind_reaches_what_was_remembered_before(open_service, tell, before):
    """S3.22: the next time the session is told, the turns are deleted for good."""
    service = open_service(trigger=MessageCount(1_000), maintenance_interval=None)
    events = REWOUND["events"]
    before(service, session(*events[:3]))
    assert SECRET in kept(service).values()
    tell(service, REWOUND)
    assert sorted(kept(service).values()) == sorted([ROOM, PARROT])
    tell(service, session(*events[:3]))
    assert sorted(kept(service).values()) == sorted([ROOM, PARROT])


@pytest.mark.parametrize("end", [REWOUND, None], ids=["with it", "by its names"])
def test_a_rewind_reaches_what_still_waits(open_service, end):
    """S3.22, S4.10: it is never made a memory."""
    service = open_service(trigger="session_end", maintenance_interval=None)
    service.sync.observe_session(session(*REWOUND["events"][:3]))
    if end is None:
        service.sync.observe_session(REWOUND)
        service.sync.end_session(**ALICE, session_id="s")
    else:
        service.sync.end_session(end)
    assert sorted(kept(service).values()) == sorted([ROOM, PARROT])


def counted_by_google_adk(events: list[dict[str, Any]]) -> list[str]:
    """The reference: drop, from the last rewind to the first, what each takes back."""
    left = list(events)
    while True:
        at = next(
            (n for n in reversed(range(len(left))) if "actions" in left[n]),
            None,
        )
        if at is None:
            return [each["content"]["parts"][0]["text"] for each in left]
        target = left[at]["actions"]["rewindBeforeInvocationId"]
        start = next(
            (n for n in range(at) if left[n]["invocationId"] == target),
            at,
        )
        del left[start : at + 1]


@pytest.mark.parametrize("seed", range(20))
def test_any_rewinds_count_as_google_adk_counts_them(open_service, seed):
    """S3.22: of nested ones too, in sessions of up to 120 events."""
    chance = random.Random(seed)
    events: list[dict[str, Any]] = []
    for number in range(chance.choice((6, 30, 120))):
        target = f"i{chance.randrange(12)}"
        if chance.random() < 0.15:
            events.append(rewind(number, target))
        else:
            events.append(said(number, f"turn {number}", f"i{number // 4}"))
    service = open_service()
    service.sync.add_session_to_memory(session(*events))
    assert list(kept(service).values()) == counted_by_google_adk(events)


def test_google_adks_own_objects_obey_the_same_rules(open_service):
    """S3.22: README's first example takes them."""
    pytest.importorskip("google.adk")
    from google.adk.sessions import Session

    service = open_service()
    real = Session.model_validate({**REWOUND, "state": {}})
    service.sync.add_session_to_memory(real)
    assert list(kept(service).values()) == [ROOM, PARROT]
