"""Texts and metadata: any text is kept; what is no JSON or too large is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers.memories import ALICE, SECRET, refuses, unharmed_service
from vecall import InvalidArgumentError, LimitExceededError, Limits, MemoryEntry

service = pytest.fixture(unharmed_service)

BAD_METADATA = [
    5,
    "text",
    [("a", 1)],
    {"a": math.nan},
    {"a": {1, 2}},
    {"a": object()},
    {"a": b"bytes"},
    {1: "number as key"},
    {("a", "b"): 1},
    {None: 1},
    {"a": "x" * 16_385},
    {"a": [[[[[[[[1]]]]]]]]},
]


@pytest.mark.parametrize("metadata", BAD_METADATA)
def test_bad_metadata_is_refused(service, metadata):
    """S1.22: JSON only, of limited size and depth."""
    call = service.sync
    refuses(
        InvalidArgumentError,
        lambda: call.add_memory(**ALICE, memories=[SECRET], custom_metadata=metadata),
    )
    entry = {"content": SECRET, "custom_metadata": metadata}
    refuses(InvalidArgumentError, lambda: call.add_memory(**ALICE, memories=[entry]))


def test_metadata_that_holds_itself_is_refused(service):
    loop: dict[str, Any] = {}
    loop["again"] = loop
    refuses(
        InvalidArgumentError,
        lambda: service.sync.add_memory(
            **ALICE, memories=[SECRET], custom_metadata=loop
        ),
    )


def test_too_large_is_refused_with_the_name_of_the_limit(open_service):
    """contracts.md, errors: which limit, its setting."""
    limits = Limits(max_text_bytes=10, max_metadata_bytes=20, max_name_bytes=4)
    call = open_service(limits=limits).sync
    scope = {"app_name": "app", "user_id": "me"}
    call.add_memory(**scope, memories=["0123456789", "\u00e9" * 5])
    (id_,) = call.add_memory(**scope, memories=[MemoryEntry("short", id="id")])
    for text in ("01234567890", "\u00e9" * 6):
        with pytest.raises(LimitExceededError, match="max_text_bytes = 10"):
            call.update_memory(**scope, memory_id=id_, content=text)
    with pytest.raises(LimitExceededError, match="max_metadata_bytes = 20"):
        call.add_memory(**scope, memories=["x"], custom_metadata={"a": "b" * 20})
    with pytest.raises(LimitExceededError, match="max_name_bytes = 4"):
        call.admin.warm(app_name="app", user_id="alice")


@pytest.mark.parametrize("importance", [-0.1, 1.1, math.nan, math.inf, "high", True])
def test_a_bad_importance_is_refused(service, importance):
    with pytest.raises(InvalidArgumentError):
        MemoryEntry(SECRET, importance=importance)
    entry = {"content": SECRET, "importance": importance}
    refuses(
        InvalidArgumentError,
        lambda: service.sync.add_memory(**ALICE, memories=[entry]),
    )


@pytest.mark.parametrize(
    "text",
    [
        "zebra \0 nul",
        "zebra \ud800 lone",
        "zebra \udfff\ud800 swapped",
        "zebra \ud83e\udd9c pair",
        "zebra \U0001f99c whole",
        "zebra \u202e bidi \u200b zero",
        "zebra '; DROP TABLE mem; --",
        'zebra "quotes" NEAR(a b) OR * -',
        "zebra\r\n\t\x07\x1b[31m",
        "\ufeffzebra",
    ],
)
def test_any_text_is_stored_and_found(open_service, tmp_path, text):
    """Bug classes 30, 33, 35: no text is refused; only lone surrogates change."""
    path = tmp_path / "m.db"
    service = open_service(path)
    (id_,) = service.sync.add_memory(
        **ALICE,
        memories=[
            {
                "content": text,
                "author": text,
                "kind": text,
                "source": text,
                "trust": text,
                "custom_metadata": {text: text},
            }
        ],
    )
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for opened in (service, open_service(path)):
        assert opened.sync.get_memory(**ALICE, memory_id=id_).text == expected
        (found,) = opened.sync.search_memory(**ALICE, query=f"zebra {text}").memories
        assert found.text == found.author == found.source == expected


@pytest.mark.parametrize(
    "content",
    [
        {"role": "\ud800", "parts": [{"text": "zebra"}, {"text": "okapi"}]},
        {"role": "user", "parts": [{"text": "zebra \ud800"}, {"text": "\udfff"}]},
    ],
)
def test_a_lone_surrogate_anywhere_in_a_content_is_mended(open_service, content):
    """Bug class 30: no raw UnicodeEncodeError, which carries the text."""
    service = open_service()
    (id_,) = service.sync.add_memory(**ALICE, memories=[{"content": content}])
    memory = service.sync.get_memory(**ALICE, memory_id=id_)
    assert str(memory.content).encode()
