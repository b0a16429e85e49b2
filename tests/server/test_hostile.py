"""Bodies and paths that were made to break something: refused or kept, never a 5xx."""

from __future__ import annotations

import itertools
import json

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, door_to, error_of, known
from vecall.server import HttpLimits, create_app

JSON = {"Content-Type": "application/json"}
MANY = HttpLimits(reads_per_second=100_000, writes_per_second=100_000)
HOLE = "@@"
# Every place of a body that takes a value of a client's own.
PLACES = {
    ("POST", "memories"): [
        {"memories": [HOLE]},
        {"memories": [{"content": HOLE}]},
        {"memories": [{"content": {"parts": [{"text": HOLE}]}}]},
        {"memories": [{"content": {"parts": [{"text": "x"}, HOLE]}}]},
        {"memories": [{"content": {"parts": [{"text": "x"}, {"a": HOLE}]}}]},
        {"memories": [{"content": {"parts": [{"text": "x"}], "role": HOLE}}]},
        {"memories": [{"content": {"parts": [{"text": "x"}], "more": HOLE}}]},
        {"memories": [{"content": "x", "id": HOLE}]},
        {"memories": [{"content": "x", "author": HOLE}]},
        {"memories": [{"content": "x", "timestamp": HOLE}]},
        {"memories": [{"content": "x", "valid_until": HOLE}]},
        {"memories": [{"content": "x", "importance": HOLE}]},
        {"memories": [{"content": "x", "session_id": HOLE, "event_id": "1"}]},
        {"memories": [{"content": "x", "supersedes": HOLE}]},
        {"memories": [{"content": "x", "custom_metadata": HOLE}]},
        {"memories": [{"content": "x", "custom_metadata": {"a": HOLE}}]},
        {"memories": [{"content": "x", "custom_metadata": {"ttl": HOLE}}]},
        {"memories": [{"content": "x", "custom_metadata": {"metadata": HOLE}}]},
        {"memories": ["x"], "idempotency_key": HOLE},
        {"memories": ["x"], "custom_metadata": {"revision_ttl": HOLE}},
        {"memories": HOLE},
    ],
    ("POST", "events"): [
        {"events": [HOLE]},
        {"events": [{"content": HOLE, "id": HOLE}]},
        {"events": [{"content": "x", "custom_metadata": {"a": [HOLE]}}]},
        {"events": [{"content": "x", "timestamp": HOLE}], "session_id": "s"},
        {"events": [{"content": "x"}], "session_id": HOLE},
    ],
    ("POST", "memories/search"): [
        {"query": HOLE},
        {"query": "x", "k": HOLE},
        {"query": "x", "min_confidence": HOLE},
        {"query": "x", "filter": HOLE},
        {"query": "x", "filter": {"after": HOLE}},
        {"query": "x", "filter": {"author": HOLE}},
    ],
    ("POST", "memories/delete"): [
        {"filter": {"before": HOLE, "kind": "nothing"}},
        {"filter": {"session_id": HOLE, "kind": "nothing"}},
    ],
    ("POST", "memories/used"): [{"ids": [HOLE]}, {"ids": HOLE}],
    ("POST", "sessions/s/observe"): [
        {"events": [HOLE]},
        {"events": [{"content": HOLE}]},
    ],
    ("POST", "sessions/s/end"): [{"events": [{"content": "x", "author": HOLE}]}],
    ("PATCH", "memories/known"): [
        {"content": HOLE},
        {"author": HOLE},
        {"valid_until": HOLE},
        {"custom_metadata": HOLE},
        {"custom_metadata": {"a": HOLE, "ttl": 60}},
    ],
}
DEEP = {depth: "[" * depth + "]" * depth for depth in (9, 60, 300, 900, 5000)}
OBJECTS = {depth: '{"a":' * depth + "1" + "}" * depth for depth in (60, 300, 900)}
VALUES = [
    r'"\ud800"',
    r'"\udfff x \ud800\ud800"',
    r'"\ud83d\ude00"',
    r'"\u0000"',
    r'"\u0000\u0001\u001f\u007f\u2028\ufffe\uffff"',
    '"' + "\u202e" * 9 + '"',
    "NaN",
    "-Infinity",
    "1e999",
    "-1e999",
    "1e308",
    "-0.0",
    "5e-324",
    "1" * 400,
    "-" + "9" * 4000,
    "1" * 5000,
    str(2**63),
    str(-(2**63) - 1),
    "null",
    "true",
    "{}",
    "[]",
    '""',
    '{"a": 1, "a": 2}',
    '{"parts": []}',
    '{"parts": [{"text": 5}]}',
    '"9999-12-31T23:59:59+23:59"',
    '"0001-01-01T00:00:00-23:59"',
    *DEEP.values(),
    *OBJECTS.values(),
]


@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_no_value_in_any_place_of_a_body_is_a_fault(open_service, place):
    """Taken or refused by a rule; afterwards everything can still be read."""
    memory = open_service()
    door = door_to(memory, limits=MANY)
    known_one = {"memories": [{"content": "known", "id": "known"}]}
    method, path = place
    door.ask("POST", f"{ALICE}/memories", json=known_one)
    for shape, value in itertools.product(PLACES[place], VALUES):
        if method == "PATCH":  # it may have expired
            door.ask("POST", f"{ALICE}/memories", json=known_one)
        body = json.dumps(shape).replace(f'"{HOLE}"', value)
        answer = door.ask(method, f"{ALICE}/{path}", content=body, headers=JSON)
        told = f"{body[:200]}: {answer.text[:200]}"
        assert answer.status_code in (200, 201, 400, 404, 409, 422), told
        if answer.status_code == 400:
            assert error_of(answer)[1] == "not_json", told
    for rest in ("memories?limit=1000", "export", "memories/known/history"):
        answer = door.ask("GET", f"{ALICE}/{rest}")
        assert answer.status_code == 200
        for line in answer.content.splitlines():
            json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"query": "a", "query": "b"}', (422, "invalid")),
        ('{"query": "a", "filter": {"kind": "a", "kind": "b"}}', (422, "invalid")),
        ('{"query": "a", "min_confidence": 1e999}', (422, "invalid")),
        ('{"query": "a", "min_confidence": Infinity}', (400, "not_json")),
        ('{"query": "a"} {"query": "b"}', (400, "not_json")),
        ('\ufeff{"query": "a"}', (400, "not_json")),
        ('{"query": "a", "filter": {"after": 1e999}}', (422, "invalid")),
    ],
)
def test_json_that_two_readers_read_differently_is_refused(
    open_service, body, expected
):
    """Fields that come twice, numbers that are none, more than one value."""
    door = door_to(open_service())
    content = body.encode()
    answer = door.ask("POST", f"{ALICE}/memories/search", content=content, headers=JSON)
    assert error_of(answer) == expected


def test_what_is_encoded_in_a_path_is_never_another_path(open_service):
    """A slash, a NUL, dots and long names stay within their segment."""
    memory = open_service()
    bearer, tokens = known(user="alice")
    door = Door(create_app(memory, tokens=tokens, limits=MANY), bearer)
    for name, status in (
        ("alice%2Fmemories", 403),
        ("alice%2f..%2fbob", 403),
        ("alice%00", 403),
        ("%61%6Cice", 200),
        ("alice%20", 403),
        ("alice%252F", 403),
        ("%C0%AE%C0%AE", 400),
        ("%ED%A0%80", 400),
        ("a" * 513, 403),
        ("%2E%2E", 403),
        ("%2e", 403),
        ("*", 403),
    ):
        answer = door.ask("GET", f"/apps/hotel/users/{name}/memories")
        assert answer.status_code == status, name
    for id_, status in (
        ("%00", 422),
        ("a%00b", 422),
        ("x" * 513, 422),
        ("%2F", 404),
        ("..%2F..%2Fbob%2Fmemories%2Fx", 404),
        ("%ff", 400),
        ("x" * 512, 404),
    ):
        for method, rest in (("GET", ""), ("GET", "/history"), ("POST", "/archive")):
            answer = door.ask(method, f"{ALICE}/memories/{id_}{rest}")
            assert answer.status_code == status, (id_, rest)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/healthz", 200),
        ("HEAD", f"{ALICE}/memories", 200),
        ("HEAD", f"{ALICE}/memories/x", 404),
        ("HEAD", f"{ALICE}/memories/search", 404),
        ("HEAD", f"{ALICE}/memory", 405),
        ("OPTIONS", f"{ALICE}/memories", 405),
        ("OPTIONS", "/healthz", 405),
        ("TRACE", "/healthz", 405),
        ("CONNECT", "/healthz", 405),
        ("POST", f"{ALICE}/memories/x", 405),
        ("GET", f"{ALICE}/memories/x/archive", 405),
        ("PUT", f"{ALICE}/memories/x", 405),
    ],
)
def test_other_methods_are_told_which_there_are(open_service, method, path, status):
    """HEAD is what GET is; OPTIONS has no CORS to talk about."""
    answer = door_to(open_service()).ask(method, path)
    assert answer.status_code == status
    if status == 405:
        assert answer.headers["allow"]
    if method == "HEAD":
        assert not answer.content
