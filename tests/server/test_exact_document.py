"""The OpenAPI document says all that the server accepts and returns, and no more."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")
pytest.importorskip("jsonschema")

import jsonschema
import vecall.server
from helpers.campaigns import examples
from helpers.http import Door, load_session
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import MemoryService, VecallError
from vecall.errors import Right
from vecall.filters.metadata import check_metadata_conditions
from vecall.limits import Limits
from vecall.server import HttpLimits, Tokens, create_app, mint
from vecall.server.operations import all_operations
from vecall.server.requests import HttpError, Validator
from vecall.server.responses import _OF, CODES
from vecall.server.routing import Operation
from vecall.server.schemas import ref, shared_schemas

PACKAGE = Path(vecall.server.__file__).parent
SHARED = shared_schemas(all_operations(HttpLimits(), Limits()), HttpLimits())
MANY = HttpLimits(reads_per_second=100_000, writes_per_second=100_000)
OPERATIONS = {each.id: each for each in all_operations(HttpLimits(), Limits())}
BEARERS = {
    "user": mint(app="hotel", review=True),
    "admin": mint(admin=True),
}
FULL = {
    "content": {"parts": [{"text": "zebra tea"}], "role": "user"},
    "id": "full",
    "author": "user",
    "timestamp": "2026-11-01T00:00:00Z",
    "session_id": "s",
    "event_id": "e",
    "kind": "fact",
    "source": "crm",
    "trust": "unverified",
    "custom_metadata": {"topic": "tea", "years": [1, None]},
    "importance": 0.5,
    "valid_until": 9e9,
    "supersedes": "old",
}
# Each request leaves what the next ones need.
REQUESTS: list[tuple[str, dict[str, str], str, Any]] = [
    ("health", {}, "", None),
    ("live", {}, "", None),
    ("ready", {}, "", None),
    ("openapi", {}, "", None),
    ("metrics", {}, "", None),
    ("addMemories", {}, "", {"memories": ["zebra"]}),
    ("addMemories", {}, "", {"memories": [{"id": "old", "content": "a zebra"}]}),
    ("addMemories", {}, "", {"memories": [FULL], "idempotency_key": "k"}),
    ("addEvents", {}, "", {"events": [{"content": "Hello."}], "session_id": "s"}),
    ("addEvents", {}, "", {"messages": [{"role": "user", "content": None}]}),
    ("ingestSession", {}, "", {"sessionId": "s"}),
    ("observeSession", {"session": "o"}, "", {"events": [{"content": "a duck"}]}),
    ("endSession", {"session": "o"}, "", {}),
    ("searchMemories", {}, "", {"query": "zebra tea", "k": 9, "explain": True}),
    ("searchMemories", {}, "", {"query": "x", "filter": {"metadata": {"a": 1}}}),
    ("searchMemories", {}, "", {"query": "zebra", "k": 1, "offset": 1}),
    ("listMemories", {}, "?limit=2", None),
    ("listApps", {}, "?limit=1", None),
    ("listUsers", {}, "?prefix=al", None),
    ("listSessions", {}, "?limit=1", None),
    ("memoryFigures", {}, "", None),
    ("preloadMemories", {}, "", {"query": "zebra tea", "min_confidence": 0}),
    ("preloadMemories", {}, "", {"query": "zebra", "max_entries": 1, "format": "json"}),
    ("explainMemory", {"id": "full"}, "", {"query": "zebra", "k": 1}),
    ("showToken", {}, "", None),
    ("proposeForget", {}, "", {"query": "duck"}),
    ("listWhere", {}, "", {"filter": {"metadata": {"years": {"$exists": True}}}}),
    ("touchMemories", {}, "", {"ids": ["full", "nothing"], "ttl": "3600s"}),
    ("touchMemories", {}, "", {"ids": ["full"], "ttl": None}),
    ("listWhere", {}, "", {"include_expired": True}),
    ("listWhere", {}, "", {"limit": 1, "state": "live", "cursor": "old"}),
    ("countMemories", {}, "", {"filter": {"kind": "fact"}, "state": "live"}),
    ("listMemories", {}, "?state=quarantined", None),
    ("getMemory", {"id": "full"}, "", None),
    ("updateMemory", {"id": "full"}, "", {"content": "zebra coffee"}),
    ("addMemories", {}, "", {"memories": ["own"], "if_absent": True}),
    ("memoryHistory", {"id": "full"}, "", None),
    ("markUsed", {}, "", {"ids": ["full", "nothing"]}),
    ("archiveMemory", {"id": "full"}, "", None),
    ("restoreMemory", {"id": "full"}, "", None),
    ("releaseMemory", {"id": "full"}, "", {}),
    ("addMemories", {}, "", {"memories": ["my zebra tea"], "similar": True}),
    ("addMemories", {}, "", {"memories": ["my zebra cocoa"], "similar": True}),
    ("conflicts", {}, "", None),
    ("duplicates", {}, "", None),
    ("consolidate", {}, "", {"dry_run": False}),
    ("exportUser", {}, "?vectors=true", None),
    ("confirmForget", {}, "", {"token": "unknown"}),
    ("deleteMemory", {"id": "full"}, "", None),
    ("deleteWhere", {}, "", {"filter": {"kind": "fact"}}),
    ("deleteSession", {"session": "s"}, "", None),
    ("deleteUser", {}, "?confirm=true", None),
    ("backup", {}, "", None),
    ("adminDeleteUser", {}, "?confirm=true&forget=true", None),
    ("adminDeleteApp", {}, "?confirm=true", None),
]
REFUSED = [  # what may fail, fails as the document says
    ("getMemory", {"id": "nothing"}, "", None),
    ("searchMemories", {}, "", {"query": 1}),
    ("ingestSession", {}, "", {"sessionId": "unknown"}),
    ("ingestSession", {}, "", {"sessionId": "broken"}),
    ("addMemories", {}, "", {"memories": ["other"], "idempotency_key": "k"}),
    ("deleteUser", {}, "", None),
    ("listMemories", {}, "?limit=0", None),
    ("addMemories", {}, "", {"memories": [{"id": "full"}], "if_absent": True}),
    ("addMemories", {}, "", {"memories": ["x"], "vectors": [[1, 2]]}),
    ("deleteMemory", {"id": "full"}, "?if_version=x", None),
]


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """An app with a loader and backups; the bearer is chosen by each request."""
    tokens = Tokens(token for _, token in BEARERS.values())
    with MemoryService(embedder=None) as memory:
        app = create_app(
            memory,
            tokens=tokens,
            limits=MANY,
            session_loader=load_session,
            backups=tmp_path_factory.mktemp("backups"),
        )
        yield Door(app, None)


@pytest.fixture(scope="module")
def document(door):
    return door.ask("GET", "/openapi.json").json()


def asked(door: Door, request: tuple[str, dict[str, str], str, Any]) -> Any:
    """The response to a request of the table."""
    name, names, query, body = request
    operation = OPERATIONS[name]
    bearer, _ = BEARERS["admin" if operation.access.startswith("admin") else "user"]
    path = operation.path.format(app="hotel", user="alice", **names)
    headers = {"Authorization": f"Bearer {bearer}"}
    more = {} if body is None else {"json": body}
    return door.ask(operation.method, path + query, headers=headers, **more)


def closed(schema: Any) -> Any:
    """The schema, without room for a field that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        made["additionalProperties"] = False
    return made


def described(document: Any, operation: Operation) -> Any:
    return document["paths"][operation.path][operation.method.lower()]


def check(answer: Any, document: Any, operation: Operation) -> None:
    """Fails if the response is not one that the document describes."""
    expected = described(document, operation)["responses"][str(answer.status_code)]
    for name in expected.get("headers", {}):
        assert name in answer.headers
    if "content" not in expected:
        assert answer.content == b""
        return
    (kind, media), *others = expected["content"].items()
    assert not others
    assert answer.headers["content-type"].split(";")[0] == kind
    if kind == "application/json":
        values, schema = [answer.json()], media["schema"]
    elif "x-line-schema" in media:
        values = [json.loads(line) for line in answer.text.splitlines()]
        schema = media["x-line-schema"]
    else:
        return
    whole = {**closed(schema), "components": closed(document["components"])}
    for value in values:
        jsonschema.Draft202012Validator(whole).validate(value)


def test_every_response_has_the_fields_that_the_document_names(door, document):
    """With every operation, and every field of a memory."""
    answers = [(request[0], asked(door, request)) for request in REQUESTS]
    for name, answer in answers:
        check(answer, document, OPERATIONS[name])
    assert {name for name, _ in answers} == set(OPERATIONS)
    failed = [name for name, answer in answers if answer.status_code >= 300]
    # Nothing is in quarantine, and nobody has proposed that.
    assert failed == ["releaseMemory", "confirmForget"]
    seen = dict(reversed(answers))
    found = seen["searchMemories"].json()["memories"]
    fields = {name for each in found for name in each}
    named = set(SHARED["Memory"]["properties"])
    assert fields == named - {"similarity"}  # there are no vectors


def test_every_refusal_has_a_code_that_the_document_names(door, document):
    """The codes of its status, not those of another."""
    asked(door, ("addMemories", {}, "", {"memories": ["x"], "idempotency_key": "k"}))
    statuses = set()
    for request in REFUSED:
        answer = asked(door, request)
        check(answer, document, OPERATIONS[request[0]])
        statuses.add(answer.status_code)
    assert statuses == {404, 409, 422, 503}


def test_the_table_of_codes_is_the_codes_of_the_source():
    """None is missing, none is there for nothing, and each has one status."""
    found = [code for _, code, _ in _OF]
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "HttpError"
                and isinstance(node.args[0], ast.Constant)
            ):
                found.append(node.args[0].value)
    found += get_args(Right)  # of a RightsError
    known = [code for codes in CODES.values() for code in codes]
    assert sorted(set(found)) == sorted(known)


def test_what_may_be_repeated_gives_the_same_answer_twice(door, document):
    """`always` as it is, `with_key` with the key; and reading is repeatable."""
    for name, operation in OPERATIONS.items():
        repeat = described(document, operation)["x-repeat"]
        body = SHARED.get(operation.body or "", {}).get("properties", {})
        assert (repeat == "with_key") == ("idempotency_key" in body)
        if operation.access in ("read", "public"):
            assert repeat == "always", name
    asked(door, ("addMemories", {}, "", {"memories": [FULL]}))
    for name, names, query, written in REQUESTS:
        body = written
        repeat = OPERATIONS[name].repeat
        if repeat == "with_key":
            body = {**written, "idempotency_key": str(written)}
        if repeat == "never" or name == "metrics":  # which counts its requests
            continue
        request = name, names, query, body
        first, second = asked(door, request), asked(door, request)
        assert first.status_code == second.status_code < 300, (name, first.text)
        assert _without_scores(first) == _without_scores(second), name


def _without_scores(answer: Any) -> str:
    return re.sub(r'"(importance|score|confidence|factor)":[0-9.e-]+', "", answer.text)


@pytest.mark.parametrize("more", [{}, {"role": "user"}, {"x": 1}])
def test_parts_are_accepted_as_the_document_says(door, more):
    """Fields that are not kept are refused, not dropped."""
    body = {"memories": [{"content": {"parts": [{"text": "a"}], **more}}]}
    whole = {**ref("AddMemories"), "components": {"schemas": SHARED}}
    expected = jsonschema.Draft202012Validator(whole).is_valid(body)
    accepted = asked(door, ("addMemories", {}, "", body)).status_code == 201
    assert accepted == expected == ("x" not in more)


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
operands = scalars | st.floats(allow_nan=False, allow_infinity=False)
operators = st.sampled_from(
    (
        "$eq $ne $gt $gte $lt $lte $in $nin $contains $all $any $exists $not $near k"
    ).split()
)
names = st.sampled_from(["a", "a.b", "$", "$and", "$or", "$not", "$nor", "$and\n"])
conditions = st.recursive(
    st.dictionaries(
        st.text(max_size=3) | names,
        operands
        | st.lists(operands, max_size=2)
        | st.dictionaries(
            operators, operands | st.lists(operands, max_size=66), max_size=3
        ),
        max_size=17,
    ),
    lambda inner: st.dictionaries(
        names, inner | st.lists(inner, max_size=3), min_size=1, max_size=2
    ),
    max_leaves=4,
)


@pytest.mark.campaign
@given(wanted=conditions)
@settings(max_examples=examples(300), derandomize=True, deadline=None, database=None)
def test_conditions_are_accepted_as_the_document_says(wanted):
    """The schema, its validator, and the filter of the service agree."""
    body = {"query": "x", "filter": {"metadata": wanted}}
    whole = {**ref("Search"), "components": {"schemas": SHARED}}
    assert (
        jsonschema.Draft202012Validator(whole).is_valid(body)
        == _passes(lambda: Validator(SHARED).check_value(body, ref("Search")))
        == _passes(lambda: check_metadata_conditions(wanted, 1 << 20))
    )


def _passes(work: Any) -> bool:
    try:
        work()
    except (HttpError, VecallError):
        return False
    return True
