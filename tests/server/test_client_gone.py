"""A read ends when its client has disconnected; a write is finished."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("starlette")

from helpers.http import ALICE, door_to
from vecall import MemoryService

DEAR: Any = {  # of 600 rows: a quarter of a second
    "$or": [
        {"$or": [{"n": {"$gt": 10**6 + 60 * k + j}} for j in range(60)]}
        for k in range(10)
    ]
}


def answered(
    memory: MemoryService,
    path: str,
    body: dict[str, Any],
    then: str = "http.disconnect",
) -> int:
    """The status of an answer to a client that sends a body, and `then` for ever.

    The client fails, as one that has left, if it is asked a thousand times.
    """
    door, status = door_to(memory), []
    messages = [
        {"type": "http.request", "body": json.dumps(body).encode()},
        *[{"type": then}] * 1_000,
    ]
    headers = {
        "host": "127.0.0.1:8765",
        "authorization": f"Bearer {door.bearer}",
        "content-type": "application/json",
        "content-length": str(len(messages[0]["body"])),
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("127.0.0.1", 8765),
        "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
    }

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    asyncio.run(door.app(scope, receive, send))
    return status[0]


@pytest.fixture
def memory():
    with MemoryService(embedder=None) as opened:
        texts = [
            {"content": f"tea {n}", "custom_metadata": {"n": n}} for n in range(600)
        ]
        opened.sync.user("hotel", "alice").add(texts)
        yield opened


def test_a_count_whose_client_is_gone_has_no_answer(memory):
    body = {"filter": {"metadata": DEAR}}
    assert answered(memory, f"{ALICE}/memories/count", body) == 400


def test_a_deletion_whose_client_is_gone_is_finished(memory):
    body = {"filter": {"metadata": {"$not": DEAR}}}
    assert answered(memory, f"{ALICE}/memories/delete", body) == 200
    assert memory.sync.user("hotel", "alice").count() == 0


def test_a_quick_read_is_answered_whether_its_client_is_there_or_not(memory):
    assert answered(memory, f"{ALICE}/memories/count", {}) == 200


def test_a_client_that_says_at_once_that_it_is_still_there_is_answered(memory):
    body = {"filter": {"metadata": DEAR}}
    path = f"{ALICE}/memories/count"
    assert answered(memory, path, body, then="http.request") == 200
