"""Bad input: refused with a typed error that leaks nothing and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vecall import (
    ConfigError,
    Filter,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    Limits,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    VecallError,
)

ALICE = {"app_name": "app", "user_id": "alice"}
SECRET = "xyzzysecret"

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
FAR_EAST = timezone(timedelta(hours=14))
FAR_WEST = timezone(-timedelta(hours=12))
BAD_TIMES = [
    math.nan,
    math.inf,
    -math.inf,
    1e18,
    -1e18,
    pytest.param(10**400, id="huge"),
    datetime(2025, 1, 1),
    datetime.min.replace(tzinfo=FAR_EAST),
    datetime.max.replace(tzinfo=FAR_WEST),
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "yesterday",
    "2025-01-01T00:00:00",
    "",
]
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
BAD_TTLS = [0, -1, -0.001, math.nan, math.inf, "soon", "", "s", "-5s", True, [5]]


@pytest.fixture
def service(open_service, in_time):
    """A service with one memory; it must be unharmed in the end."""
    opened = open_service()
    opened.sync.add_memory(**ALICE, memories=["zebra"])
    opened.sync.search_memory(**ALICE, query="zebra")
    yield opened
    found = opened.sync.search_memory(**ALICE, query="zebra " + SECRET).memories
    assert [memory.text for memory in found] == ["zebra"], "it was written after all"
    in_time(lambda: opened.sync.add_memory(**ALICE, memories=["okapi"]))


def refuses(
    kind: type[Exception] | tuple[type[Exception], ...], work: Callable[[], Any]
) -> None:
    with pytest.raises(kind) as caught:
        work()
    assert isinstance(caught.value, VecallError)
    assert SECRET not in str(caught.value)


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
            lambda: call.warm(**scope),
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


@pytest.mark.parametrize("id_", ["a\0b", "\ud800", "x" * 513])
def test_a_bad_event_id_is_refused_and_its_whole_session(service, id_):
    """Guarantee 2: one bad turn, and nothing of the call is written."""
    events = [{"id": "good", "text": SECRET}, {"id": id_, "text": "other"}]
    session = {**ALICE, "id": "s", "events": events}
    refuses(InvalidArgumentError, lambda: service.sync.add_session_to_memory(session))
    assert service.sync.stats()["memories"] == 1


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
        SECRET,
        {"content": SECRET},
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


@pytest.mark.parametrize("filter_", [5, "s", {"session_id": "s"}, object()])
def test_a_filter_that_is_none_is_refused(service, filter_):
    refuses(
        InvalidTypeError,
        lambda: service.sync.search_memory(**ALICE, query="zebra", filter=filter_),
    )


@pytest.mark.parametrize("time", [*BAD_TIMES, True, [5]])
def test_a_filter_with_a_bad_time_is_refused(service, time):
    for asked in (Filter(after=time), Filter(before=time)):
        refuses(
            InvalidArgumentError,
            lambda: service.sync.search_memory(**ALICE, query="zebra", filter=asked),  # noqa: B023
        )


@pytest.mark.parametrize("time", BAD_TIMES)
def test_a_bad_time_is_refused_before_anything_is_written(service, in_time, time):
    """A time that cannot be shown must not get into the file: it would stay there."""
    event = {"id": "e", "text": SECRET, "timestamp": time}
    entry = {"content": SECRET, "timestamp": time}
    adds = [
        lambda: service.sync.add_events_to_memory(**ALICE, events=[event]),
        lambda: service.sync.add_memory(**ALICE, memories=[entry]),
    ]
    for add in adds:
        refuses(InvalidArgumentError, lambda: in_time(add))  # noqa: B023


@pytest.mark.parametrize(
    "time",
    [
        0.0,
        -1.5,
        -62_135_596_800.0,
        253_402_300_799.0,
        datetime.min.replace(tzinfo=timezone.utc),
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59+00:00",
    ],
)
def test_the_first_and_the_last_second_are_kept(open_service, tmp_path, time):
    for path in (None, tmp_path / "m.db"):
        opened = open_service(path)
        entry = {"content": "zebra", "timestamp": time}
        opened.sync.add_memory(**ALICE, memories=[entry])
        found = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert len(found) == 1


@pytest.mark.parametrize(
    "time",
    [datetime.max.replace(tzinfo=timezone.utc), "9999-12-31T23:59:59.999999+00:00"],
)
def test_the_end_of_all_time_is_kept_or_refused(open_service, in_time, tmp_path, time):
    """`datetime.max` is how many programs write "for ever"."""
    for path in (None, tmp_path / "m.db"):
        opened = open_service(path)
        opened.sync.add_memory(**ALICE, memories=["zebra"])
        entry = {"content": "zebra for ever", "timestamp": time}
        try:
            in_time(lambda: opened.sync.add_memory(**ALICE, memories=[entry]))  # noqa: B023
            expected = 2
        except InvalidArgumentError:
            expected = 1
        found = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert len(found) == expected


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


@pytest.mark.parametrize("ttl", BAD_TTLS)
def test_a_bad_ttl_is_refused(service, ttl):
    """S4.58: positive and finite, or an error."""
    refuses(
        InvalidArgumentError,
        lambda: service.sync.add_memory(
            **ALICE, memories=[SECRET], custom_metadata={"ttl": ttl}
        ),
    )


@pytest.mark.parametrize("ttl", [1e12, 1e15, 1e300, timedelta.max, "1e30s"])
def test_a_very_long_ttl_does_not_break_the_user(open_service, in_time, tmp_path, ttl):
    """Refused or kept for ever, but never written and unreadable afterwards."""
    path = tmp_path / "m.db"
    for opened in (open_service(path), open_service()):
        opened.sync.add_memory(**ALICE, memories=["zebra"])
        opened.sync.search_memory(**ALICE, query="zebra")

        def add(opened: MemoryService = opened) -> int:
            opened.sync.add_memory(
                **ALICE, memories=["zebra long"], custom_metadata={"ttl": ttl}
            )
            return 2

        try:
            expected = in_time(add)
        except InvalidArgumentError:
            expected = 1
        found = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert len(found) == expected
        in_time(
            lambda opened=opened: opened.sync.add_memory(**ALICE, memories=["okapi"])
        )
        opened.close()
    assert (
        len(open_service(path).sync.search_memory(**ALICE, query="zebra").memories) > 0
    )


def test_too_large_is_refused_with_the_name_of_the_limit(open_service):
    """contracts.md, errors: which limit, its setting."""
    limits = Limits(max_text_bytes=10, max_metadata_bytes=20, max_name_bytes=4)
    call = open_service(limits=limits).sync
    scope = {"app_name": "app", "user_id": "me"}
    call.add_memory(**scope, memories=["0123456789", "\u00e9" * 5])
    for text in ("01234567890", "\u00e9" * 6):
        with pytest.raises(LimitExceededError, match="max_text_bytes = 10"):
            call.add_memory(**scope, memories=[text])
    with pytest.raises(LimitExceededError, match="max_metadata_bytes = 20"):
        call.add_memory(**scope, memories=["x"], custom_metadata={"a": "b" * 20})
    with pytest.raises(LimitExceededError, match="max_name_bytes = 4"):
        call.warm(app_name="app", user_id="alice")


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


@pytest.mark.parametrize("path", ["", 5, b"bytes.db", "a\0b", True, ["m.db"]])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ConfigError):
        MemoryService(path)


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "never"},
        {"durability": None},
        {"embedder": "gpt"},
        {"embedder": 5},
        {"embedder": SimpleNamespace(embed=len, dimensions=0, model_id="m")},
        {"embedder": SimpleNamespace(embed=len, dimensions="3", model_id="m")},
        {"embedder": SimpleNamespace(embed=len, dimensions=3, model_id=None)},
        {"embedder": SimpleNamespace(embed=len, dimensions=10**9, model_id="m")},
        {"embedder": SimpleNamespace(embed=len, dimensions=True, model_id="m")},
        {"min_score": 0.5},
        {"memory_budget": "lots"},
        {"memory_budget": -1},
        {"memory_budget": None},
        {"limits": 5},
    ],
)
def test_a_bad_constructor_argument_is_refused(tmp_path, options):
    """contracts.md, errors: ConfigError for constructor arguments, before any write."""
    path = tmp_path / "m.db"
    with pytest.raises(ConfigError):
        MemoryService(path, warn_raw=False, **options).close()
    assert not path.exists()


@pytest.mark.parametrize("floor", [-1.01, 1.01, math.nan, math.inf, "0.5", True])
def test_a_floor_outside_the_cosine_is_refused(open_service, tmp_path, floor):
    """S0.28: outside [-1, 1] or NaN is a ValueError."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    with pytest.raises(ValueError, match="min_score"):
        open_service(tmp_path / "m.db", embedder=embed, min_score=floor)
    assert not (tmp_path / "m.db").exists()
    service = open_service(embedder=embed)
    with pytest.raises(ValueError, match="min_score"):
        service.sync.search_memory(**ALICE, query="zebra", min_score=floor)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["zebra", "\0", "\ud800", "user", "1h", "9999-12-31T23:59:59-12:00"]
    ),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            "content parts text author timestamp id session_id event_id role thought "
            "custom_metadata ttl importance kind source trust partial".split()
        ),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def fuzzed():
    with MemoryService(warn_raw=False) as opened:
        opened.sync.add_memory(**ALICE, memories=["zebra"])
        yield opened


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=JSON)
def test_anything_at_all_is_either_taken_or_refused_by_a_typed_error(
    fuzzed, in_time, value
):
    """Guarantee 6: no other exception, and the service goes on."""
    adds = [
        lambda: fuzzed.sync.add_session_to_memory(
            {**ALICE, "id": "s", "events": value}
        ),
        lambda: fuzzed.sync.add_events_to_memory(**ALICE, events=[value]),
        lambda: fuzzed.sync.add_memory(**ALICE, memories=[value]),
        lambda: fuzzed.sync.add_memory(
            **ALICE, memories=["zebra"], custom_metadata=value
        ),
    ]
    for add in adds:
        try:
            ids = in_time(add)
        except VecallError:
            continue
        for id_ in ids:
            try:
                assert fuzzed.sync.get_memory(**ALICE, memory_id=id_).id == id_
            except NotFoundError:
                assert "ttl" in str(value)  # it may be over by now
    fuzzed.sync.search_memory(**ALICE, query="zebra")
