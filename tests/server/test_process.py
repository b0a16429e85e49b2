"""The HTTP door as a process of its own, with well and badly behaved clients."""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx
from helpers.http import ALICE, all_of, bearing, running, serving
from helpers.processes import HOLDER, child, said, tell
from vecall import MemoryService
from vecall.server import TokenFile, mint

pytestmark = pytest.mark.xdist_group("timing")

SEARCH = f"{ALICE}/memories/search"
JSON = "Content-Type: application/json"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One with the times that everybody has, but few places and reads."""
    folder = tmp_path_factory.mktemp("server")
    with running(folder, reads_per_second=5, max_connections=32) as started:
        yield started


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """One that waits for nothing longer than half a second, with few places."""
    with running(
        tmp_path_factory.mktemp("hasty"),
        header_seconds=0.5,
        body_seconds=0.5,
        request_seconds=0.5,
        max_connections=16,
    ) as started:
        yield started


def status_of(answer):
    """Status of an answer as it came over the wire, whose error is JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    if status >= 400:
        assert set(json.loads(body)["error"]) == {"code", "message", "request_id"}
        assert b"Traceback" not in body
    return status


def test_every_status_comes_over_the_wire(server):
    """The codes that clients must handle, from a real server."""
    memory = {"memories": [{"content": "Likes tea.", "id": "1"}]}
    nobody = {"Authorization": "Bearer x"}
    form = {"Content-Type": "text/plain"}
    bob = "/apps/hotel/users/bob/memories"
    with server.client() as client:

        def told(method, path, **more):
            return client.request(method, path, **more).status_code

        key = {**memory, "idempotency_key": "k"}
        other = {"memories": ["Coffee."], "idempotency_key": "k"}
        seen = [
            told("POST", f"{ALICE}/memories", json=key),
            told("POST", f"{ALICE}/memories", json=other),
            told("DELETE", f"{ALICE}/memories/1"),
            told("PATCH", f"{ALICE}/memory", json={"sessionId": "x"}),
            told("PATCH", f"{ALICE}/memory", json={}),
            told("GET", f"{ALICE}/memories", headers=nobody),
            told("GET", bob),
            told("GET", "/nowhere"),
            told("PUT", f"{ALICE}/memories"),
            told("POST", f"{ALICE}/memories", content=b"{}", headers=form),
            told("GET", "/healthz"),
        ]
        assert seen == [201, 409, 204, 400, 422, 401, 403, 404, 405, 415, 200]
        many = {client.get(f"{ALICE}/memories").status_code for _ in range(20)}
        assert many == {200, 429}


def test_every_request_of_the_table_is_answered_over_the_wire(tmp_path):
    """By `vecall serve`, with a token of the user and an admin's."""
    admin, token = mint(admin=True)
    TokenFile(tmp_path / "memory.db.tokens").change(lambda _: [token])
    session = f"{ALICE}/sessions/s"
    one = f"{ALICE}/memories/1"
    turn = {"events": [{"content": "Tea?", "id": "1"}]}
    asked = [
        ("POST", f"{ALICE}/memories", {"memories": [{"content": "a", "id": "1"}]}, 201),
        ("POST", f"{ALICE}/events", turn, 201),
        ("PATCH", f"{ALICE}/memory", {"sessionId": "s"}, 400),  # no loader
        ("POST", SEARCH, {"query": "tea"}, 200),
        ("GET", f"{ALICE}/memories", None, 200),
        ("HEAD", f"{ALICE}/memories", None, 200),
        ("GET", one, None, 200),
        ("PATCH", one, {"content": "b"}, 200),
        ("GET", f"{one}/history", None, 200),
        ("POST", f"{one}/archive", None, 204),
        ("POST", f"{one}/archive", None, 404),
        ("POST", f"{one}/restore", None, 200),
        ("POST", f"{ALICE}/memories/used", {"ids": ["1"]}, 200),
        ("POST", f"{ALICE}/memories/delete", {"filter": {"kind": "x"}}, 200),
        ("POST", f"{ALICE}/memories/delete", {"filter": {}}, 422),
        ("POST", f"{session}/observe", turn, 200),
        ("POST", f"{session}/end", {}, 200),
        ("DELETE", session, None, 200),
        ("DELETE", one, None, 204),
        ("GET", f"{ALICE}/export", None, 200),
        ("DELETE", f"{ALICE}/memories", None, 422),
        ("DELETE", f"{ALICE}/memories?confirm=true", None, 200),
        ("GET", "/healthz", None, 200),
        ("GET", "/openapi.json", None, 200),
    ]
    of_admins = [
        ("GET", "/metrics", 200),
        ("POST", "/admin/backup", 201),
        ("DELETE", "/admin/apps/hotel/users/alice?confirm=true", 200),
        ("DELETE", "/admin/apps/hotel", 422),
        ("DELETE", "/admin/apps/hotel?confirm=true", 200),
    ]
    backups = tmp_path / "backups"
    with (
        serving(tmp_path, "--backups", backups) as (server, _),
        server.client() as client,
    ):
        for method, path, body, status in asked:
            answer = client.request(method, path, json=body)
            assert (method, path, answer.status_code) == (method, path, status)
        for method, path, status in of_admins:
            answer = client.request(method, path)
            assert answer.status_code == 403
            answer = client.request(method, path, headers=bearing(admin))
            assert (path, answer.status_code) == (path, status)
    assert len(list(backups.iterdir())) == 1


def test_a_write_that_must_wait_too_long_is_told_to_come_again(hasty):
    """503 while another process keeps the file, and 201 after that."""
    add = {"json": {"memories": ["Likes tea."]}}
    with child(HOLDER, hasty.path) as holder, hasty.client() as client:
        assert said(holder) == "held"
        answer = client.post(f"{ALICE}/memories", **add)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] in ("busy", "timeout")
        assert answer.headers["retry-after"] == "1"
        assert client.post(SEARCH, json={"query": "tea"}).status_code == 200
        tell(holder, "let go")
        assert said(holder) == "free"
        assert client.post(f"{ALICE}/memories", **add).status_code == 201


@pytest.mark.parametrize("declared", [True, False])
def test_ten_megabytes_are_refused_and_the_next_request_is_answered(server, declared):
    """413 reaches the client, whether the length is known ahead or not."""
    body = b"x" * 10_000_000
    kind = {"Content-Type": "application/json"}
    with server.client() as client:
        content = body if declared else iter([body[:5_000_000], body[5_000_000:]])
        answer = client.post(f"{ALICE}/memories", content=content, headers=kind)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "too_large"
        assert client.get("/healthz").status_code == 200


def test_a_client_that_asks_first_is_told_before_it_sends(server):
    """Expect: 100-continue and a length that is too large."""
    lines = JSON, "Content-Length: 10000000", "Expect: 100-continue"
    with server.connect() as connection:
        connection.sendall(server.head("POST", f"{ALICE}/memories", *lines))
        assert status_of(all_of(connection)) == 413


def test_a_body_without_end_is_refused_and_the_connection_closed(server):
    """413 or 408, however it is sent; the server ends it."""
    chunked = "Transfer-Encoding: chunked"
    with server.connect() as connection:
        connection.sendall(server.head("POST", f"{ALICE}/memories", JSON, chunked))
        chunk = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
        try:
            for _ in range(10_000):
                connection.sendall(chunk)
        except OSError:
            pass  # the server had enough
        else:
            pytest.fail("the server took 650 MB")


def test_a_body_that_trickles_is_given_up(hasty):
    """408 after body_seconds."""
    lines = JSON, "Content-Length: 1000"
    with hasty.connect() as connection:
        connection.sendall(hasty.head("POST", SEARCH, *lines) + b'{"query"')
        assert status_of(all_of(connection)) == 408


def test_a_body_that_nobody_asked_for_does_not_hold_a_connection(server):
    """A GET that announces a body is answered, and that was that."""
    with server.connect() as connection:
        head = server.head("GET", "/healthz", "Content-Length: 1000000")
        connection.sendall(head + b"x")
        assert status_of(all_of(connection)) == 200


def test_headers_that_do_not_come_are_not_waited_for(hasty):
    """A connection without a whole request is closed after header_seconds."""
    head = hasty.head("GET", "/healthz")
    begun = [hasty.connect() for _ in range(3)]
    for connection, sent in zip(begun, (b"", b"GET", head[:-2]), strict=True):
        connection.sendall(sent)
    for connection in begun:
        with connection:
            assert all_of(connection) == b""
    with hasty.connect() as connection:  # the second request of a connection
        _answered(connection, head)
        connection.sendall(head[:-2])
        assert all_of(connection) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_as_a_bad_request(server, sent):
    """400 as JSON, and the end of the connection."""
    with server.connect() as connection:
        connection.sendall(sent)
        assert status_of(all_of(connection)) == 400


def test_good_clients_are_served_beside_many_slow_ones(hasty):
    """More slow connections than there are places; each good request is answered."""
    with ExitStack() as slow, hasty.client() as client:
        connections = [slow.enter_context(hasty.connect()) for _ in range(80)]
        head = hasty.head("POST", SEARCH, JSON, "Content-Length: 30")
        for number, connection in enumerate(connections):
            with suppress(OSError):
                connection.sendall(head[: 1 + number % (len(head) - 2)])
        for number in range(20):
            for connection in connections[number::20]:
                _trickle(connection)
            assert client.get("/healthz").status_code == 200


def test_the_slowest_make_room_and_those_that_have_been_served_stay(server):
    """Of 80 beginnings the first are closed at once, though they had time left."""
    get = server.head("GET", "/healthz")
    with ExitStack() as slow, server.connect() as old:
        _answered(old, get)
        begun = [slow.enter_context(server.connect()) for _ in range(80)]
        with server.connect() as last:  # taken after all others
            _answered(last, get)
        for connection in begun[:40]:
            connection.settimeout(5.0)  # half of the time for headers
            assert all_of(connection) == b""
        _answered(old, get)


def test_connections_that_nobody_uses_make_room_for_a_new_one(hasty):
    """Of 16 that were served the one that was idle for longest is closed."""
    get = hasty.head("GET", "/healthz")
    with ExitStack() as stack:
        idle = [stack.enter_context(hasty.connect()) for _ in range(16)]
        for connection in idle:
            _answered(connection, get)
        with hasty.connect() as late:
            _answered(late, get)
        assert all_of(idle[0]) == b""
        _answered(idle[-1], get)


def test_bodies_and_readers_that_do_not_come_on_make_room_too(tmp_path):
    """A token holds no place: the slowest are closed, and the newcomer is answered."""
    with running(tmp_path, max_connections=8) as server, ExitStack() as stack:
        lines = JSON, "Content-Length: 1000", "Expect: 100-continue"
        begin = server.head("POST", SEARCH, *lines)
        slow = [stack.enter_context(server.connect()) for _ in range(8)]
        for connection in slow:
            connection.sendall(begin)
            assert b" 100 " in connection.recv(100)  # its body is waited for
        get = server.head("GET", "/healthz")
        for _ in range(5):
            with server.connect() as late:
                _answered(late, get)
        assert all_of(slow[0]) == b""
        body = b'{"query": "tea"}'
        slow[-1].sendall(body + b" " * (1000 - len(body)))
        assert b" 200 " in slow[-1].recv(1000)


def _answered(connection, request):
    """Send a request for the health and read the answer, no more."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        piece = connection.recv(65_536)
        assert piece
        answer += piece


def _trickle(connection):
    with suppress(OSError):  # closed by the server, which has better things to do
        connection.sendall(b"x")


def test_a_client_that_does_not_read_its_answer_is_let_go(hasty):
    """The rest of a large export is not kept for it for ever."""
    text = "tea " * 60_000
    texts = [f"{number} {text}" for number in range(48)]
    with MemoryService(hasty.path, embedder=None) as memory:
        memory.sync.add_memory(app_name="hotel", user_id="alice", memories=texts)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20.0)
        connection.connect(hasty.address)
        connection.sendall(hasty.head("GET", f"{ALICE}/export"))
        for _ in range(1000):
            if "answer was not taken" in hasty.log:
                break
            time.sleep(0.02)
        else:
            pytest.fail("the server still waits for its client")
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
        size = re.search(rb"content-length: ([0-9]+)", head)
        assert len(body) < int(size[1])


def test_the_log_of_a_server_holds_nothing_of_what_was_said(server):
    """At its loudest, after all of the above: no token, name, id or text."""
    with server.client() as client:
        client.post(f"{ALICE}/memories", json={"memories": ["A zebra named Zoe."]})
        client.post(SEARCH, json={"query": "zebra"})
        client.get(f"{ALICE}/memories/zebra?zebra=1")
    told = server.log
    assert "POST /apps/{app}/users/{user}/memories 201" in told
    for word in (server.bearer, server.bearer[24:], "zebra", "Zoe", "alice", "hotel"):
        assert word not in told
    assert "Traceback" not in told


STREAMING = """
import asyncio
from vecall.server import HttpLimits
from vecall.server.run import Binding, serve

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["method"] == "DELETE":
        return await send({"type": "http.response.body", "body": b""})
    await receive()  # the client says when the body may come
    while not (await receive())["body"]:
        pass
    for more in (True, False):
        await send({"type": "http.response.body", "body": b"event", "more_body": more})

serve(app, Binding(port=0), HttpLimits(), lambda url: print(url, flush=True))
"""


def test_an_answer_without_a_body_has_its_head_before_its_connection_closes():
    with child(STREAMING) as server:
        url = httpx.URL(said(server))
        with socket.create_connection((url.host, url.port), 10) as client:
            head = f"DELETE / HTTP/1.1\r\nHost: {url.host}\r\nConnection: close"
            client.sendall(head.encode() + b"\r\n\r\n")
            told = b"".join(iter(lambda: client.recv(1_000), b""))
    assert told.startswith(b"HTTP/1.1 200 OK")


def test_the_head_of_a_stream_does_not_wait_for_its_first_event():
    """As the event stream of an MCP server, which may have none for minutes."""
    with child(STREAMING) as server:
        url = httpx.URL(said(server))
        with socket.create_connection((url.host, url.port), 10) as client:
            head = f"POST / HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: 2\r\n\r\n"
            client.sendall(head.encode() + b"a")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            client.sendall(b"b")
            told = b""
            while not told.endswith(b"0\r\n\r\n"):
                told += client.recv(1_000)
            assert told.count(b"event") == 2
