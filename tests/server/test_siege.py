"""Clients that hold on to what others need: exports, handshakes, connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httptools")

from helpers.http import ALICE, Server, all_of, serving
from vecall.server import TokenFile, mint
from vecall.server.run import Binding, Listener, open_listening_socket

pytestmark = pytest.mark.xdist_group("timing")

EXPORTS = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with 15 MB of memories, more than what sockets hold."""
    with serving(tmp_path_factory.mktemp("siege")) as (opened, _):
        with opened.client() as client:
            for part in range(5):
                texts = [f"{part}.{n} " + "tea " * 50_000 for n in range(15)]
                answer = client.post(f"{ALICE}/memories", json={"memories": texts})
                assert answer.status_code == 201
        yield opened


def test_exports_that_nobody_reads_do_not_keep_others_waiting(server):
    """Of one token four at most, of all 16; who comes then is answered at once."""
    made = [mint(app="hotel") for _ in range(5)]
    file = TokenFile(f"{server.path}.tokens")
    file.change(lambda tokens: [*tokens, *(token for _, token in made)])
    others = [server._replace(bearer=bearer) for bearer, _ in made]
    with ExitStack() as opened:
        for each in others[:4]:
            for _ in range(EXPORTS // 4):
                reader = opened.enter_context(each.connect())
                reader.sendall(each.head("GET", f"{ALICE}/export"))
                assert reader.recv(12) == b"HTTP/1.1 200"
            refused(each)
            if each is others[0]:  # the next one is served
                with others[4].client() as client:
                    answer = client.get(f"{ALICE}/export")
                assert len(answer.content) > 15_000_000
        refused(others[4])
        with server.client() as client:
            assert client.get(f"{ALICE}/memories/unknown").status_code == 404
    with others[4].client() as client:
        for _ in range(100):  # until the server has seen that they left
            answer = client.get(f"{ALICE}/export")
            if answer.status_code == 200:
                break
            time.sleep(0.1)
        assert len(answer.content) > 15_000_000


def refused(server: Server) -> None:
    with server.client() as client:
        answer = client.get(f"{ALICE}/export")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"


def test_a_body_with_two_ends_is_refused_and_the_connection_closed(server):
    """RFC 9112, 6.1: a proxy in front may see the end elsewhere."""
    body = b'{"memories": ["x"]}'
    both = f"Content-Length: {len(body)}", "Transfer-Encoding: chunked"
    kind = "Content-Type: application/json"
    with server.connect() as connection:
        head = server.head("POST", f"{ALICE}/memories", kind, *both)
        connection.sendall(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert all_of(connection).startswith(b"HTTP/1.1 400")


def test_of_too_many_handshakes_the_oldest_are_given_up():
    """What the server knows of already is none of them."""
    with open_listening_socket(Binding(port=0)) as listener, ExitStack() as opened:
        assert isinstance(listener, Listener)
        listener.limit = 2

        def connect() -> tuple[socket.socket, socket.socket]:
            client = socket.create_connection(listener.getsockname(), timeout=5.0)
            opened.enter_context(client)
            ours, _ = listener.accept()
            return client, opened.enter_context(ours)

        known, ours = connect()
        listener.stop_counting(ours.fileno())
        oldest, _ = connect()
        others = [connect()[0] for _ in range(2)]
        assert oldest.recv(1) == b""
        for each in (known, *others):
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(1)


def test_a_killed_server_leaves_no_export_behind(tmp_path, monkeypatch):
    """An export in the making has no name that a restart would find."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    with (
        serving(tmp_path) as (opened, process),
        opened.client() as client,
        ExitStack() as readers,
    ):
        texts = [f"{n} " + "tea " * 10_000 for n in range(60)]
        body = {"memories": texts}
        assert client.post(f"{ALICE}/memories", json=body).status_code == 201
        for _ in range(3):
            reader = readers.enter_context(opened.connect())
            reader.sendall(opened.head("GET", f"{ALICE}/export"))
            assert reader.recv(12) == b"HTTP/1.1 200"
        process.kill()
        process.wait(20)
    assert list(folder.iterdir()) == []


def test_an_export_ends_when_its_token_is_revoked(server):
    """What was sent until then is not all of it."""
    bearer, token = mint(app="hotel")
    file = TokenFile(f"{server.path}.tokens")
    file.change(lambda tokens: [*tokens, token])
    with server._replace(bearer=bearer).connect() as reader:
        head = server._replace(bearer=bearer).head("GET", f"{ALICE}/export")
        reader.sendall(head)
        assert reader.recv(12) == b"HTTP/1.1 200"
        file.change(lambda tokens: [each for each in tokens if each.id != token.id])
        assert len(all_of(reader)) < 15_000_000
