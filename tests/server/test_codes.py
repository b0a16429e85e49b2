"""Every status that the HTTP door answers with, asked for in process."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import (
    ALICE,
    SECRET,
    TURN,
    door_to,
    error_of,
    load_session,
    refused,
)
from vecall.errors import (
    BusyError,
    ClosedError,
    EmbedderError,
    StorageError,
    StorageFullError,
)
from vecall.server import HttpLimits


@pytest.fixture
def door(open_service):
    """Makes doors to a memory service, a new one unless it is given."""

    def make(memory=None, **more):
        return door_to(memory or open_service(), **more)

    return make


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"query": NaN}', b"1" * 5000, b"'query'"],
)
def test_what_is_not_json_is_a_bad_request(door, body):
    """400, whatever is wrong with it."""
    answer = door().ask(
        "POST",
        f"{ALICE}/memories/search",
        content=body,
        headers={"Content-Type": "application/json"},
    )
    assert error_of(answer) == (400, "not_json")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("memories/search", [SECRET]),
        ("memories/search", {}),
        ("memories/search", {"query": 5}),
        ("memories/search", {"query": "x", "another": SECRET}),
        ("memories/search", {"query": "x", "k": 0}),
        ("memories/search", {"query": "x", "k": 1001}),
        ("memories/search", {"query": "x", "k": 2.5}),
        ("memories/search", {"query": "x", "k": True}),
        ("memories/search", {"query": "x", "k": 1e400}),
        ("memories/search", {"query": "x", "min_confidence": 2}),
        ("memories/search", {"query": "x", "min_similarity": 0.5}),
        ("memories/search", {"query": "x", "filter": {"after": SECRET}}),
        ("memories/search", {"query": "x", "filter": {"kind": ""}}),
        ("memories/search", {"query": "x", "filter": {"user_id": "bob"}}),
        ("memories/search", {"query": "x", "explain": SECRET}),
        ("memories", {"memories": SECRET}),
        ("memories", {"memories": [[SECRET]]}),
        ("memories", {"memories": [{"content": 7}]}),
        ("memories", {"memories": [" "]}),
        ("memories", {"memories": ["x"] * 257}),
        ("memories", {"memories": [{"content": "x", "importance": 1.5}]}),
        ("memories", {"memories": [{"content": "x", "timestamp": 10**400}]}),
        ("memories", {"memories": [{"content": "x", "id": "y" * 513}]}),
        ("memories", {"memories": [{"content": "x", "id": "é" * 300}]}),
        ("memories", {"memories": [{"content": "x", "id": "\ud800"}]}),
        ("memories", {"memories": ["x"], "custom_metadata": {"a": "b" * 16_384}}),
        ("memories", {"memories": ["x"], "custom_metadata": {"ttl": SECRET}}),
        ("memories", {"memories": ["x"], "app_name": "other"}),
        ("events", {"events": [{"content": "x", "author": 5}]}),
        ("events", {"events": [TURN], "session_id": "a\0b"}),
        ("memory", {}),
        ("memory", {"sessionId": 5}),
        ("memory", {"sessionId": ""}),
        ("memory", {"sessionId": "a", "session_id": "b"}),
    ],
)
def test_a_body_that_breaks_a_rule_is_told_which_and_nothing_else(door, path, body):
    """422 names field and rule, and repeats no value."""
    opened = door(session_loader=load_session)
    method = "PATCH" if path == "memory" else "POST"
    answer = opened.ask(
        method,
        f"{ALICE}/{path}",
        content=json.dumps(body).replace("Infinity", "1e400"),
        headers={"Content-Type": "application/json"},
    )
    assert refused(answer) == (422, "invalid")
    assert opened.ask("GET", f"{ALICE}/memories").json() == {"memories": []}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "x=1", "state=gone", "="],
)
def test_a_query_that_breaks_a_rule_is_refused(door, query):
    """422, and 400 for what is not text at all."""
    opened = door()
    assert error_of(opened.ask("GET", f"{ALICE}/memories?{query}")) == (422, "invalid")
    answer = opened.ask("GET", f"{ALICE}/memories?cursor=%ff")
    assert error_of(answer) == (400, "bad_query")


def test_paths_that_are_not_there_and_methods_that_are_not_allowed(door):
    """404 and 405, which says what is allowed."""
    opened = door()
    for path in ("/", "/apps/", f"{ALICE}/", f"{ALICE}//x", "/apps//users/a/memories"):
        assert error_of(opened.ask("GET", path)) == (404, "not_found")
    answer = opened.ask("PUT", f"{ALICE}/memories")
    assert error_of(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, POST"
    assert opened.ask("OPTIONS", f"{ALICE}/memories").status_code == 405
    answer = opened.ask("GET", "/apps/hotel/users/%ff/memories")
    assert error_of(answer) == (400, "bad_path")
    answer = opened.ask("GET", "/apps/hotel/users/a%00b/memories")
    assert error_of(answer) == (422, "invalid")


def test_a_key_that_was_used_for_other_content_is_a_conflict(door):
    """409; the same content again is the same answer."""
    opened = door()
    body = {"memories": ["Likes tea."], "idempotency_key": "once"}
    first = opened.ask("POST", f"{ALICE}/memories", json=body)
    assert opened.ask("POST", f"{ALICE}/memories", json=body).json() == first.json()
    body["memories"] = [SECRET]
    answer = opened.ask("POST", f"{ALICE}/memories", json=body)
    assert refused(answer) == (409, "conflict")


def test_a_body_that_is_too_large_is_refused(door):
    """413 at one byte more than the limit, with a length and without one."""

    async def pieces(size):
        for _ in range(size // 10):
            yield b'"' + b" " * 8 + b'"'

    opened = door(limits=HttpLimits(max_body_bytes=1000))
    kind = {"Content-Type": "application/json"}
    path = f"{ALICE}/memories/search"
    fits = json.dumps({"query": "x" * 987}).encode()
    assert len(fits) == 1000
    assert opened.ask("POST", path, content=fits, headers=kind).status_code == 200
    for body in (fits + b" ", pieces(1010), pieces(10_000)):
        answer = opened.ask("POST", path, content=body, headers=kind)
        assert error_of(answer) == (413, "too_large")
    answer = opened.ask("POST", path, content=pieces(1000), headers=kind)
    assert error_of(answer) == (400, "not_json")


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/jsonx"},
        {"Content-Type": ""},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_only_plain_json_is_taken(door, headers):
    """415, for a form and for what would have to be unpacked."""
    body = b'{"query": "x"}'
    if "Content-Encoding" in headers:
        body = gzip.compress(body)
    answer = door().ask(
        "POST", f"{ALICE}/memories/search", content=body, headers=headers
    )
    assert error_of(answer) == (415, "unsupported_media_type")


def test_a_token_that_asks_too_often_is_told_when_to_come_again(door):
    """429 with Retry-After; writes and reads are counted apart."""
    limits = HttpLimits(writes_per_second=1, reads_per_second=1)
    opened = door(limits=limits)
    add = ("POST", f"{ALICE}/memories", {"json": {"memories": ["x"]}})
    look = ("GET", f"{ALICE}/memories", {})

    def some():
        return [(method, path, dict(more)) for method, path, more in (add, look) * 2]

    answers = asyncio.run(opened.ask_all(some()))
    assert [answer.status_code for answer in answers] == [201, 200, 429, 429]
    assert error_of(answers[2]) == (429, "too_many_requests")
    assert int(answers[2].headers["retry-after"]) >= 1
    assert opened.ask("GET", "/healthz").status_code == 200


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BusyError, (503, "busy")),
        (StorageFullError, (507, "storage_full")),
        (StorageError, (503, "storage")),
        (EmbedderError, (503, "embedder")),
        (ClosedError, (503, "closed")),
        (RuntimeError, (500, "internal")),
    ],
)
def test_what_fails_inside_is_told_by_its_kind_alone(door, caplog, error, expected):
    """503, 507 and 500; the message of an error goes nowhere, not to the log either."""

    async def load(**_):
        class Broken:
            app_name, user_id, id = "hotel", "alice", "trip"

            @property
            def events(self):
                raise error(SECRET)

        return Broken()

    opened = door(session_loader=load)
    caplog.set_level("DEBUG")
    answer = opened.ask("PATCH", f"{ALICE}/memory", json={"sessionId": "trip"})
    assert refused(answer) == expected
    assert SECRET not in caplog.text
    assert error.__name__ in caplog.text


def test_a_closed_service_is_not_available(open_service, door):
    """503 from the real thing."""
    memory = open_service()
    opened = door(memory)
    memory.close()
    answer = opened.ask("POST", f"{ALICE}/memories/search", json={"query": "tea"})
    assert error_of(answer) == (503, "closed")


def test_a_memory_that_may_only_be_read_refuses_writes(open_service, door, tmp_path):
    """403 where the service itself is read only."""
    path = tmp_path / "memory.db"
    open_service(path).close()
    opened = door(open_service(path, read_only=True))
    answer = opened.ask("POST", f"{ALICE}/memories", json={"memories": ["x"]})
    assert error_of(answer) == (403, "read_only")


def test_an_answer_that_does_not_come_is_given_up(door):
    """503 after request_seconds."""

    async def load(**_):
        await asyncio.Event().wait()

    opened = door(session_loader=load, limits=HttpLimits(request_seconds=0.05))
    answer = opened.ask("PATCH", f"{ALICE}/memory", json={"sessionId": "trip"})
    assert error_of(answer) == (503, "timeout")
    assert answer.headers["retry-after"] == "1"


def test_headers_that_are_too_large_are_refused(door):
    """400, also where the server in front lets them through."""
    answer = door().ask("GET", "/healthz", headers={"X-Filler": "x" * 20_000})
    assert error_of(answer) == (400, "headers_too_large")


def test_every_answer_has_the_headers_that_keep_browsers_away(door):
    """No caching, no sniffing, no CORS; an id to find it in the log."""
    opened = door()
    for path in ("/healthz", "/nowhere", f"{ALICE}/memories", f"{ALICE}/export"):
        headers = opened.ask("GET", path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert len(headers["x-request-id"]) == 16
        assert not [name for name in headers if name.startswith("access-control")]
