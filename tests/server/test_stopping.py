"""Clients that go away and servers that end: what was promised is kept, in full."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx
from helpers.http import ALICE, all_of, bearing, running, serving
from vecall import MemoryService

JSON = "Content-Type: application/json"
MEMORIES = f"{ALICE}/memories"
WHOSE = {"app_name": "hotel", "user_id": "alice"}


def texts_of(path):
    with MemoryService(path, embedder=None) as memory:
        return [entry.text for entry in memory.sync.list_memories(**WHOSE, limit=1000)]


def adding(server, texts):
    """A request that adds memories, as it goes over the wire."""
    body = json.dumps({"memories": texts}).encode()
    length = f"Content-Length: {len(body)}"
    return server.head("POST", MEMORIES, JSON, length) + body


def test_a_client_that_leaves_during_its_write_leaves_all_of_it_or_nothing(tmp_path):
    """A body that came is written whole; one that did not is not, in no part."""
    with running(tmp_path, writes_per_second=10_000) as server:
        for number in range(40):
            whole = adding(server, [f"batch {number} item {n}" for n in range(50)])
            sent = whole if number % 2 else whole[: len(whole) - 1 - number]
            with server.connect() as connection:
                if number % 4 > 1:  # with a reset, not an orderly end
                    on = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, on)
                connection.sendall(sent)
        with server.client() as client:  # those before it are being written
            last = client.post(MEMORIES, json={"memories": ["last"]})
            assert last.status_code == 201
            seen = {}
            for text in _all_texts(client):
                seen.setdefault(text.partition(" item")[0], []).append(text)
    assert seen.pop("last") == ["last"]
    for batch, texts in seen.items():
        assert int(batch.split()[1]) % 2
        assert len(set(texts)) == 50


def _all_texts(client):
    query, texts = {"limit": 1000}, []
    while True:
        page = client.get(MEMORIES, params=query).json()
        texts += [entry["content"] for entry in page["memories"]]
        if "next" not in page:
            return texts
        query["cursor"] = page["next"]


@pytest.mark.parametrize(
    ("ending", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
)
def test_a_server_that_is_asked_to_end_answers_what_came_and_closes_the_file(
    tmp_path, ending, code
):
    """What was acknowledged is there; what was not, whole or not at all."""
    with serving(tmp_path) as (server, process):
        acknowledged, begun = [], threading.Event()

        def write(name):
            with httpx.Client(
                base_url=server.url, headers=bearing(server.bearer), timeout=20.0
            ) as client:
                for number in range(100_000):
                    texts = [f"{name} {number} {part}" for part in range(5)]
                    try:
                        answer = client.post(MEMORIES, json={"memories": texts})
                    except httpx.HTTPError:
                        return  # the server takes no more
                    if answer.status_code == 201:
                        acknowledged.extend(texts)
                    if len(acknowledged) > 200:
                        begun.set()

        threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        assert begun.wait(60)
        process.send_signal(ending)
        assert process.wait(30) == code
        for thread in threads:
            thread.join(30)
    log = server.path.with_name(server.path.name + "-wal")
    assert not log.exists() or log.stat().st_size == 0
    with MemoryService(server.path, embedder=None) as memory:
        every, after = [], None
        while page := memory.sync.list_memories(**WHOSE, cursor=after, limit=1000):
            every += [entry.text for entry in page]
            after = page[-1].id
    assert set(acknowledged) <= set(every)
    groups = {}
    for text in every:
        groups.setdefault(text.rpartition(" ")[0], set()).add(text)
    assert {len(group) for group in groups.values()} == {5}


def test_a_request_that_is_there_when_the_server_ends_gets_its_answer(tmp_path):
    """Its body was half there; the rest may still come."""
    with serving(tmp_path) as (server, process), server.connect() as connection:
        whole = adding(server, ["Likes tea."])
        connection.sendall(whole[:-5])
        with server.client() as client:  # so that the server has read what came
            assert client.get("/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        while _listens(server):
            time.sleep(0.02)
        connection.sendall(whole[-5:])
        assert b" 201 " in all_of(connection).partition(b"\r\n")[0]
        assert process.wait(20) == 0
    assert texts_of(server.path) == ["Likes tea."]


def _listens(server):
    try:
        server.connect().close()
    except OSError:
        return False
    return True


def test_connections_that_do_nothing_do_not_keep_a_server_from_ending(tmp_path):
    """Neither idle ones nor those in the middle of headers or a body."""
    with serving(tmp_path, "--body-seconds", "0.5") as (server, process):
        beginnings = [b"", b"GET /hea", server.head("GET", "/healthz")[:-2]]
        beginnings.append(adding(server, ["never"])[:-1])
        connections = [server.connect() for _ in beginnings]
        for connection, sent in zip(connections, beginnings, strict=True):
            connection.sendall(sent)
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        for connection in connections:
            connection.close()
    assert texts_of(server.path) == []


def test_an_export_during_deletion_is_of_one_state(tmp_path):
    """All memories of a moment, or none: never a part of what was deleted at once."""
    with serving(tmp_path) as (server, _), server.client() as client:
        texts = [f"memory {number}" for number in range(200)]
        sizes = set()
        for _ in range(6):
            client.post(MEMORIES, json={"memories": texts})

            def delete():
                with server.client() as other:
                    other.delete(f"{MEMORIES}?confirm=true&forget=true")

            thread = threading.Thread(target=delete)
            thread.start()
            while thread.is_alive():
                sizes.add(_exported(client))
            thread.join()
        assert _exported(client) == 0
    assert sizes <= {0, 200}


def _exported(client):
    answer = client.get(f"{ALICE}/export")
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"])
    lines = [json.loads(line) for line in answer.content.splitlines()]
    return sum("mem" in line for line in lines)
