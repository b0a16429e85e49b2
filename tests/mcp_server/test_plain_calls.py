"""Calls of tools that are answered without the SDK get what the SDK answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")
pytest.importorskip("httptools", reason="the extra server is not installed")
pytest.importorskip("httpx")

import httpx
from helpers.http import Door, known
from vecall.mcp import asgi
from vecall.server import HttpLimits

SEARCH: dict[str, Any] = {"name": "search_memory", "arguments": {"query": "okapi"}}
PLAIN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": SEARCH,
}
HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def door(open_service):
    memory = open_service()
    texts = ["Alice keeps an okapi", "The okapi is \U0001f992 and „shy“"]
    memory.sync.add_memory(app_name="hotel", user_id="alice", memories=texts)
    bearer, tokens = known(user="alice")
    return Door(asgi.asgi_app(memory, tokens=tokens, limits=HttpLimits()), bearer)


def both(
    door: Door, monkeypatch: pytest.MonkeyPatch, message: Any, **headers: str
) -> tuple[httpx.Response, httpx.Response]:
    """The answer to a message, and that of the SDK."""
    headers = {"Content-Type": "application/json", **HEADERS, **headers}
    body = json.dumps(message).encode()
    given = door.ask("POST", "/mcp", content=body, headers=headers)
    with monkeypatch.context() as patch:
        patch.setattr(asgi, "_is_plain_request", lambda _: False)
        return given, door.ask("POST", "/mcp", content=body, headers=headers)


def told(response: httpx.Response) -> tuple[int, dict[str, str], Any]:
    own = {"x-request-id", "content-length"}  # the length, because one escapes letters
    headers = {k: v for k, v in response.headers.items() if k not in own}
    return response.status_code, headers, response.json() if response.text else None


@pytest.mark.parametrize(
    "params",
    [
        SEARCH,
        {"name": "search_memory"},
        {"name": "search_memory", "arguments": {"query": ""}},
        {"name": "search_memory", "arguments": {"query": "okapi", "limit": 1}},
        {"name": "search_memory", "arguments": {"query": 7}},
        {"name": "search_memory", "arguments": {"query": [["okapi"]]}},
        {"name": "search_memory", "arguments": ["okapi"]},
        {"name": "search_memory", "arguments": None},
        {"name": "list_memories", "arguments": {}},
        {"name": "list_memories", "arguments": {"limit": 2**70}},
        {"name": "list_memories", "arguments": {"limit": 1.0}},
        {"name": "get_memory", "arguments": {"id": "0" * 32}},
        {"name": "burn_memory", "arguments": {}},
        {"name": 1, "arguments": {}},
        {**SEARCH, "_meta": {"progressToken": 1, "tool": "x"}},
        {**SEARCH, "_meta": {"progressToken": 1.5}},
        {**SEARCH, "_meta": 1},
        {**SEARCH, "more": 1},
        {"arguments": {"query": "okapi"}},
        [],
    ],
    ids=repr,
)
def test_the_params_of_a_call(door, monkeypatch, params):
    given, by_sdk = both(door, monkeypatch, {**PLAIN, "params": params})
    assert told(given) == told(by_sdk)


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "seven"},
        {"id": ""},
        {"id": True},
        {"id": 1.0},
        {"id": 1.5},
        {"id": None},
        {"id": 2**63},
        {"id": -1},
        {"id": [1]},
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"method": "tools/list"},
        {"method": "tools/nothing"},
        {"method": 1},
        {"more": "x"},
    ],
    ids=repr,
)
def test_the_fields_of_a_message(door, monkeypatch, changed):
    given, by_sdk = both(door, monkeypatch, {**PLAIN, **changed})
    assert told(given) == told(by_sdk)


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": "2024-11-05"},
        {"MCP-Protocol-Version": "2025-03-26"},
        {"MCP-Protocol-Version": "2025-06-18"},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": "2026-07-28"},
        {"MCP-Protocol-Version": "1999-01-01"},
        {"MCP-Session-Id": "x"},
        {"Accept": "application/json"},
        {"Accept": "text/html, Application/JSON;q=0.5"},
        {"Accept": "*/*"},
        {"Accept": "text/event-stream"},
        {"Accept": "application/jsonp"},
        {"Accept": ""},
    ],
    ids=repr,
)
def test_the_headers_of_a_request(door, monkeypatch, headers):
    given, by_sdk = both(door, monkeypatch, PLAIN, **headers)
    assert told(given) == told(by_sdk)


def test_half_a_surrogate_pair_is_no_text(door, monkeypatch):
    asked = {"name": "search_memory", "arguments": {"query": "\ud83e"}}
    given, by_sdk = both(door, monkeypatch, {**PLAIN, "params": asked})
    assert told(given) == told(by_sdk)


def test_the_sdk_does_not_see_a_plain_call(door, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(asgi, "StreamableHTTPSessionManager", fail)
    answer = door.ask("POST", "/mcp", json=PLAIN, headers=HEADERS)
    found = answer.json()["result"]["structuredContent"]["memories"]
    assert len(found) == 2


def test_a_traced_call_is_left_to_the_sdk(door, monkeypatch):
    seen = []
    manager = asgi.StreamableHTTPSessionManager
    monkeypatch.setattr(asgi, "is_traced", lambda: True)

    def noted(*given: Any, **more: Any) -> Any:
        seen.append(given)
        return manager(*given, **more)

    monkeypatch.setattr(asgi, "StreamableHTTPSessionManager", noted)
    assert door.ask("POST", "/mcp", json=PLAIN, headers=HEADERS).is_success
    assert len(seen) == 1
