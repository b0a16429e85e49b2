"""What goes over a connection: several requests at once, upgrades, trailers, floods."""

from __future__ import annotations

import itertools
import re

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, all_of, running

SEARCH = f"{ALICE}/memories/search"
JSON = "Content-Type: application/json"
LAST = "Connection: close"
BODY = b'{"query": "tea"}'
CHUNKED = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("wire"), reads_per_second=10_000) as started:
        yield started


def statuses(server, *pieces):
    """The statuses of all answers to what is sent."""
    with server.connect() as connection:
        for piece in pieces:
            connection.sendall(piece)
        answers = all_of(connection)
    return [int(each) for each in re.findall(rb"HTTP/1\.1 ([0-9]+) ", answers)]


def test_requests_that_are_sent_at_once_are_answered_in_order(server):
    """Each by itself, also if they come one byte at a time."""
    get, last = server.head("GET", "/healthz"), server.head("GET", "/healthz", LAST)
    unknown = server.head("GET", f"{ALICE}/memories/unknown")
    length = f"Content-Length: {len(BODY)}"
    search = server.head("POST", SEARCH, JSON, length) + BODY
    chunked = server.head("POST", SEARCH, JSON, "Transfer-Encoding: chunked")
    sent = get + unknown + search + unknown + chunked + CHUNKED + b"\r\n" + last
    assert statuses(server, sent) == [200, 404, 200, 404, 200, 200]
    assert statuses(server, *(bytes([each]) for each in sent)) == [
        *(200, 404, 200, 404, 200, 200)
    ]


def test_of_too_many_requests_at_once_the_first_are_answered(server):
    """Then the connection ends; the others are not kept."""
    get = server.head("GET", "/healthz")
    found = statuses(server, get * 1_000)
    assert 1 <= len(found) <= 10
    assert set(found) == {200}


@pytest.mark.parametrize("bad", [b"GET / HTTP/9\r\n\r\n", b"\x00\r\n\r\n", b"BREW /"])
def test_what_is_malformed_after_a_request_is_not_answered_in_its_place(server, bad):
    """The request is; the connection ends."""
    assert statuses(server, server.head("GET", "/healthz") + bad) == [200]


@pytest.mark.parametrize("together", [True, False])
def test_an_offer_of_another_protocol_is_not_taken(server, together):
    """Java's client sends h2c with its first request; the body is read as usual."""
    offer = JSON, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"
    length = f"Content-Length: {len(BODY)}"
    last = server.head("GET", "/healthz", LAST)
    for framing, body in ((length, BODY), ("Transfer-Encoding: chunked", CHUNKED)):
        head = server.head("POST", SEARCH, *offer, framing)
        end = b"" if body is BODY else b"\r\n"
        pieces = [head, body + end, last]
        sent = [b"".join(pieces)] if together else pieces
        assert statuses(server, *sent) == [200, 200]
    get = server.head("GET", "/healthz", *offer[1:])
    assert statuses(server, get, get + last) == [200, 200, 200]


def test_a_trailer_is_no_header(server):
    """A token behind the body opens nothing; a body with trailers is read."""
    lines = JSON, "Transfer-Encoding: chunked"
    token = f"Authorization: Bearer {server.bearer}\r\n".encode()
    last = server.head("GET", "/healthz", LAST)
    trailers = CHUNKED + token + b"X-More: yes\r\n\r\n" + last
    head = server.head("POST", SEARCH, *lines)
    assert statuses(server, head + trailers) == [200, 200]
    assert statuses(server, head.replace(token, b"") + trailers) == [401]


@pytest.mark.parametrize(
    "first",
    [
        "GET http://127.0.0.1/healthz HTTP/1.1",
        "CONNECT 127.0.0.1:80 HTTP/1.1",
        "GET healthz HTTP/1.1",
        "GET /healthz HTTP/2.0",
        "GET /healthz HTTP/0.9",
        "GET /healthz",
        "GET /he\xe4lthz HTTP/1.1",
        "BREW /healthz HTTP/1.1",
    ],
)
def test_only_paths_of_http_1_are_answered(server, first):
    """Another form of a target could name another host than the Host header."""
    _, _, rest = server.head("GET", "/").partition(b"\r\n")
    assert statuses(server, first.encode("latin-1") + b"\r\n" + rest) == [400]


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"a" * 1000),
        (b"GET / HTTP/1.1\r\n", b"a" * 1000),
        (b"GET / HTTP/1.1\r\nA: ", b"a" * 1000),
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 100),
        (b"", b"\r\n" * 500),
        (b"@", b"1;" + b"a" * 1000),
        (b"@", b"0" * 1000),
        (b"@0\r\n", b"a" * 1000),
        (b"@0\r\n", b"a: b\r\n" * 100),
    ],
    ids=str,
)
def test_what_has_no_end_is_not_kept(server, begin, more):
    """Above the limit on headers, wherever it is, the connection ends with 400."""
    if begin[:1] == b"@":
        lines = JSON, "Transfer-Encoding: chunked"
        begin = server.head("POST", SEARCH, *lines) + begin[1:]
    with server.connect() as connection:
        connection.sendall(begin)
        try:
            for _ in itertools.repeat(None, 2_000):
                connection.sendall(more)
        except OSError:
            return  # the server had enough
        assert all_of(connection).startswith(b"HTTP/1.1 400 ")
