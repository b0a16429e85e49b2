"""`vecall serve --mcp`: the protocol over HTTP, behind the tokens of the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")
pytest.importorskip("httptools", reason="the extra server is not installed")
pytest.importorskip("httpx")

import httpx
from helpers.http import Door, bearing, error_of, known, serving
from helpers.mcp_clients import fields, sdk_session
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from vecall import Limits
from vecall.mcp import asgi_app
from vecall.mcp.server import IS_FIRST
from vecall.server import HttpLimits, Tokens, create_app, mint

ACCEPT = {"Accept": "application/json, text/event-stream"}
ALICE = {"app_name": "hotel", "user_id": "alice"}


def body(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def calling(tool: str, **arguments: Any) -> dict[str, Any]:
    return body("tools/call", name=tool, arguments=arguments)


def door(memory: Any, limits: Any = None, **bound: Any) -> Door:
    """The protocol at /mcp, with a token of alice."""
    bearer, tokens = known(**{"user": "alice", **bound})
    return Door(asgi_app(memory, tokens=tokens, limits=limits), bearer)


def ask(door: Door, message: Any, **headers: str) -> httpx.Response:
    return door.ask("POST", "/mcp", json=message, headers={**ACCEPT, **headers})


def answer(door: Door, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers, or its error."""
    response = ask(door, calling(tool, **arguments))
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    if result.get("isError"):
        return {"error": result["content"][0]["text"]}
    return result["structuredContent"]


def test_the_client_of_the_sdk_uses_the_server_beside_the_api(tmp_path):
    with serving(tmp_path, "--mcp") as (server, _):
        path = "/apps/hotel/users/alice/memories"
        with server.client() as client:
            new = {"memories": [{"content": "Alice keeps an okapi"}]}
            assert client.post(path, json=new).is_success

        async def use() -> None:
            http = create_mcp_http_client(headers=bearing(server.bearer))
            url = f"{server.url}/mcp"
            streams = streamable_http_client(url, http_client=http)
            async with http, sdk_session(streams) as session:
                call = session.call_tool
                found = fields(await call("search_memory", {"query": "okapi"}))
                (memory,) = found["structuredContent"]["memories"]
                assert memory["text"] == "Alice keeps an okapi"
                arguments = {"id": memory["id"]}
                shown = fields(await call("delete_memory", arguments))
                arguments["token"] = shown["structuredContent"]["token"]
                done = fields(await call("delete_memory", arguments))
                assert done["structuredContent"] == {"status": "deleted"}
                added = fields(await call("add_memory", {"text": "a zebra"}))
                assert added["structuredContent"]["status"] == "remembered"

        asyncio.run(use())
        with server.client() as client:
            (left,) = client.get(path).json()["memories"]
    assert left["content"] == "a zebra"
    assert (left["source"], left["trust"]) == ("mcp", "unverified")


@pytest.mark.skipif(IS_FIRST, reason="version 1 of the SDK has no such client")
def test_the_newest_revision_of_the_protocol_is_served(open_service):
    """Without a handshake: each request stands alone."""
    from mcp import Client

    bearer, tokens = known(user="alice")
    with serving_app(asgi_app(open_service(), tokens=tokens)) as url:

        async def use() -> None:
            http = create_mcp_http_client(headers=bearing(bearer))
            streams = streamable_http_client(url, http_client=http)
            async with http, Client(streams, mode="2026-07-28") as client:
                added = fields(await client.call_tool("add_memory", {"text": "okapi"}))
                assert added["structuredContent"]["status"] == "remembered"
                assert client.protocol_version == "2026-07-28"
                read = fields(await client.read_resource("memory://recent"))
                assert "okapi" in read["contents"][0]["text"]
                with pytest.raises(Exception, match="no such resource") as raised:
                    await client.read_resource("memory://nope")
                assert raised.value.error.code == -32602
                assert raised.value.error.data == {"uri": "memory://nope"}

        asyncio.run(use())


def serving_app(app: Any) -> Any:
    """The URL of an app on a thread of its own."""
    import threading
    from contextlib import contextmanager

    import uvicorn

    @contextmanager
    def running() -> Any:
        config = uvicorn.Config(app, port=0, log_config=None, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                thread.join(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.should_exit = True
            thread.join()

    return running()


def test_the_token_is_the_user_and_nothing_else_is(open_service):
    memory = open_service()
    alice, bob = door(memory), door(memory, user="bob")
    other = door(memory, app="bank")
    id_ = answer(bob, "add_memory", text="Bob keeps a zebra", user_id="alice")["id"]
    for client in (alice, other):
        named = {"app_name": "hotel", "user_id": "bob", "user": "bob"}
        assert answer(client, "list_memories", **named) == {"memories": []}
        assert "no such memory" in answer(client, "get_memory", id=id_)["error"]
        shown = ask(client, body("resources/read", uri="memory://recent")).text
        assert "zebra" not in shown
        assert ask(
            client, body("resources/read", uri=f"memory://memories/{id_}")
        ).json()["error"]
    (entry,) = memory.sync.list_memories(app_name="hotel", user_id="bob")
    assert entry.trust == "unverified"


@pytest.mark.parametrize(
    ("bound", "status"),
    [({"user": None}, 403), ({"app": None, "user": None, "admin": True}, 403)],
)
def test_a_token_that_names_no_user_is_refused(open_service, bound, status):
    response = ask(door(open_service(), **bound), calling("list_memories"))
    assert error_of(response) == (status, "forbidden")


def test_a_request_is_checked_before_its_body_is_read(open_service):
    limits = HttpLimits(max_text_body_bytes=2_000)
    client = door(open_service(), limits)
    listed = calling("list_memories")
    for headers, code in (
        ({"Authorization": "Bearer wrong"}, (401, "unauthorized")),
        ({"Host": "evil.example"}, (403, "host")),
        ({"Origin": "http://evil.example"}, (403, "origin")),
        ({"Content-Type": "text/plain"}, (415, "unsupported_media_type")),
    ):
        assert error_of(ask(client, listed, **headers)) == code
    long = calling("add_memory", text="x" * 3_000)
    assert error_of(ask(client, long)) == (413, "too_large")
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        response = client.ask(method, "/mcp", headers=ACCEPT)
        assert error_of(response) == (405, "method_not_allowed")
    assert error_of(client.ask("POST", "/other", json=listed)) == (404, "not_found")
    assert answer(client, "list_memories") == {"memories": []}


def test_a_token_limits_what_its_writes_claim_and_its_reads_show(open_service):
    memory = open_service()
    memory.sync.add_memory(
        **ALICE,
        memories=[
            {"text": "a low okapi", "trust": "unverified"},
            {"text": "a high okapi", "trust": "first-party"},
        ],
    )
    bound = {"source": "crm", "author": "robot", "trust": "third-party-private"}
    added = answer(door(memory, **bound), "add_memory", text="x", trust="first-party")
    entry = memory.sync.get_memory(**ALICE, memory_id=added["id"])
    claimed = {"source": entry.source, "author": entry.author, "trust": entry.trust}
    assert claimed == bound
    high = door(memory, min_trust="first-party")
    found = answer(high, "search_memory", query="okapi")["memories"]
    assert [each["text"] for each in found] == ["a high okapi"]
    reader = door(memory, read_only=True)
    assert ask(reader, calling("add_memory", text="y")).json()["error"]


def test_too_many_writes_are_a_tool_error_that_says_so(open_service):
    client = door(open_service(), HttpLimits(writes_per_second=2))
    given = [answer(client, "add_memory", text=f"okapi {n}") for n in range(6)]
    refused = [each for each in given if "error" in each]
    assert refused
    assert "nothing was written" in refused[0]["error"]
    stored = answer(client, "list_memories")["memories"]
    assert len(stored) == len(given) - len(refused)


def test_a_body_that_is_no_message_is_refused_without_a_trace(open_service):
    client = door(open_service())
    for content in (b"", b"{", b"[]", b"null", b"[" * 50_000, b'{"jsonrpc":"2.0"}'):
        headers = {**ACCEPT, "Content-Type": "application/json"}
        response = client.ask("POST", "/mcp", content=content, headers=headers)
        assert 400 <= response.status_code < 500, response.text
        assert "Traceback" not in response.text
    assert answer(client, "list_memories") == {"memories": []}


def test_a_text_as_long_as_a_memory_may_be_is_taken(open_service):
    text = "é" * (Limits().max_text_bytes // 2)
    added = answer(door(open_service()), "add_memory", text=text)
    assert added["status"] == "remembered"


def test_other_paths_are_those_of_the_api(open_service):
    memory = open_service()
    bearer, token = mint(app="hotel", user="alice")
    tokens = Tokens([token])
    app = asgi_app(memory, tokens=tokens, beside=create_app(memory, tokens=tokens))
    both = Door(app, bearer)
    assert answer(both, "add_memory", text="an okapi")
    listed = both.ask("GET", "/apps/hotel/users/alice/memories").json()["memories"]
    assert len(listed) == 1


def test_many_requests_at_once_are_all_answered(open_service):
    memory = open_service()
    client = door(memory, HttpLimits(writes_per_second=1_000))
    requests = [
        (
            "POST",
            "/mcp",
            {"json": calling("add_memory", text=f"n{n}"), "headers": ACCEPT},
        )
        for n in range(40)
    ]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(client.ask_all([each]) for each in requests))

    answers = asyncio.run(all_at_once())
    assert all(each.json()["result"]["isError"] is False for (each,) in answers)
    assert len(memory.sync.list_memories(**ALICE)) == 40
