"""Who is let in at the HTTP door, and to what."""

from __future__ import annotations

import asyncio
import re
import time
from urllib.parse import quote

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, BASE, Door, bearing, error_of, known
from vecall.server import HttpLimits, Tokens, create_app, mint

SEARCH = f"{ALICE}/memories/search"
QUERY = {"query": "tea"}
OFTEN = HttpLimits(reads_per_second=10_000, writes_per_second=10_000)

WRITES = [
    ("PATCH", f"{ALICE}/memory", {"json": {"sessionId": "x"}}),
    ("POST", f"{ALICE}/memories", {"json": {"memories": ["x"]}}),
    ("POST", f"{ALICE}/events", {"json": {"events": [{"content": "x"}]}}),
    ("PATCH", f"{ALICE}/memories/x", {"json": {"content": "y"}}),
    ("POST", f"{ALICE}/memories/x/archive", {}),
    ("POST", f"{ALICE}/memories/x/restore", {}),
    ("POST", f"{ALICE}/memories/x/release", {"json": {}}),
    ("POST", f"{ALICE}/consolidate", {"json": {}}),
    ("POST", f"{ALICE}/memories/used", {"json": {"ids": ["x"]}}),
    ("POST", f"{ALICE}/memories/delete", {"json": {"filter": {"kind": "x"}}}),
    ("POST", f"{ALICE}/sessions/x/observe", {"json": {"events": []}}),
    ("POST", f"{ALICE}/sessions/x/end", {"json": {}}),
    ("DELETE", f"{ALICE}/memories?confirm=true", {}),
    ("DELETE", f"{ALICE}/memories/x", {}),
    ("DELETE", f"{ALICE}/sessions/x", {}),
]
READS = [
    ("POST", SEARCH, {"json": QUERY}),
    ("GET", f"{ALICE}/memories", {}),
    ("GET", f"{ALICE}/memories/x", {}),
    ("GET", f"{ALICE}/memories/x/history", {}),
    ("GET", f"{ALICE}/export", {}),
]
ADMINS = [
    ("GET", "/metrics", {}),
    ("POST", "/admin/backup", {}),
    ("DELETE", "/admin/apps/hotel?confirm=true", {}),
    ("DELETE", "/admin/apps/hotel/users/alice?confirm=true", {}),
]


@pytest.fixture
def door(open_service):
    """Makes doors to one memory service, each with a token of its own."""
    memory = open_service()

    def make(hosts=(), origins=(), **bound):
        bearer, tokens = known(**bound)
        app = create_app(
            memory, tokens=tokens, limits=OFTEN, hosts=hosts, origins=origins
        )
        return Door(app, bearer)

    return make


def statuses(door, requests):
    fresh = [(method, path, dict(more)) for method, path, more in requests]
    return [answer.status_code for answer in asyncio.run(door.ask_all(fresh))]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YWxpY2U6eA==",
        "{token}",
        "Bearer {token}x",
        "Bearer {token} x",
        "Bearer {short}",
        "Bearer {changed}",
        "Bearer \u00e9",
        "Bearer {other}",
    ],
)
def test_nobody_is_let_in_without_a_token_that_is_known(door, header):
    """401 with WWW-Authenticate, the same for every reason and every path."""
    opened = door()
    token = opened.bearer
    changed = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    forms = {"token": token, "short": token[:-1], "changed": changed}
    sent = (header or "").format(**forms, other=mint(app="a")[0])
    headers = {} if header is None else {"Authorization": sent.encode()}
    nobody = Door(opened.app, None)
    for method, path, more in [*WRITES, *READS, *ADMINS]:
        answer = nobody.ask(method, path, headers=headers, **more)
        assert error_of(answer) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert nobody.ask("GET", "/healthz", headers=headers).status_code == 200


def test_a_token_in_the_query_or_in_a_cookie_is_none(door):
    """Bearer tokens only."""
    opened = door()
    path = f"{ALICE}/memories?access_token={opened.bearer}"
    cookie = {"Cookie": f"token={opened.bearer}"}
    nobody = Door(opened.app, None)
    assert nobody.ask("GET", path, headers=cookie).status_code == 401


def test_a_token_opens_the_memories_of_its_user_and_of_nobody_else(door):
    """403 for another app and another user, whether they exist or not."""
    alice = door(user="alice")
    assert alice.ask("POST", SEARCH, json=QUERY).status_code == 200
    elsewhere = [
        "/apps/hotel/users/bob",
        "/apps/other/users/alice",
        "/apps/hotel/users/Alice",
        "/apps/hotel/users/alice%20",
        "/apps/hotel/users/alice%2F..%2Fbob",
        "/apps/hotel/users/%61lice%00",
    ]
    for place in elsewhere:
        for method, path, more in [*WRITES, *READS]:
            answer = alice.ask(method, path.replace(ALICE, place), **dict(more))
            assert error_of(answer) == (403, "forbidden")


def test_a_token_of_an_app_opens_all_its_users_and_no_other_app(door):
    """The token's app holds for every path."""
    app = door()
    for place in (ALICE, "/apps/hotel/users/bob"):
        answer = app.ask("GET", f"{place}/memories")
        assert answer.status_code == 200
    assert app.ask("GET", "/apps/motel/users/alice/memories").status_code == 403


def test_names_that_look_alike_are_different_users(door):
    """What one of them added, no other one finds."""
    names = [
        "a",
        "A",
        "a/b",
        "a%2Fb",
        "a b",
        "a+b",
        "ä",
        "a\u0308",
        "..",
        ".",
        "%",
        "a?b",
    ]
    app = door()
    for name in names:
        path = f"/apps/hotel/users/{quote(name, safe='')}/memories"
        body = {"memories": [f"secret of {names.index(name)}"]}
        assert app.ask("POST", path.replace("/.", "/%2E"), json=body).status_code == 201
    for number, name in enumerate(names):
        path = f"/apps/hotel/users/{quote(name, safe='')}/memories/search"
        answer = app.ask("POST", path.replace("/.", "/%2E"), json={"query": "secret"})
        found = [entry["content"] for entry in answer.json()["memories"]]
        assert found == [f"secret of {number}"]


def test_a_token_that_may_only_read_cannot_write(door):
    """403 on every write, before anything of it is done."""
    opened = door(read_only=True)
    assert statuses(opened, WRITES) == [403] * len(WRITES)
    assert statuses(opened, READS) == [200, 200, 404, 404, 200]


def test_an_admin_sees_counts_and_no_memories_and_others_see_no_counts(door):
    """Admin is another kind of token."""
    admin = door(app=None, admin=True)
    assert statuses(admin, [*WRITES, *READS]) == [403] * (len(WRITES) + len(READS))
    assert statuses(door(), ADMINS) == [403] * len(ADMINS)
    assert statuses(door(user="alice"), ADMINS) == [403] * len(ADMINS)
    assert statuses(admin, ADMINS) == [200, 400, 200, 200]


def test_a_token_is_worth_nothing_once_it_has_expired(door):
    """401 from the very second on."""
    now = time.time()
    assert door(expires_at=now + 60).ask("POST", SEARCH, json=QUERY).status_code == 200
    assert door(expires_at=now - 1).ask("POST", SEARCH, json=QUERY).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost:8765", 200),
        ("LOCALHOST:8765", 200),
        ("[::1]:8765", 200),
        ("memory.example.com", 200),
        ("Memory.Example.com", 200),
        ("memory.example.com:8765", 403),
        ("127.0.0.1", 403),
        ("127.0.0.1:80", 403),
        ("127.0.0.1:8765.evil.com", 403),
        ("localhost.evil.com:8765", 403),
        ("evil.com", 403),
        ("", 403),
        ("127.0.0.1:8765, evil.com", 403),
    ],
)
def test_only_hosts_that_are_meant_are_answered(door, host, status):
    """DNS rebinding ends at the Host header."""
    opened = door(hosts=["memory.example.com"])
    for path in ("/healthz", f"{ALICE}/memories"):
        answer = opened.ask("GET", path, headers={"Host": host})
        assert answer.status_code == status
        if status == 403:
            assert error_of(answer) == (403, "host")


def test_headers_that_decide_are_there_once(door):
    """Two of them could mean another one to whoever stands in front."""
    opened = door()
    hosts = [("Host", "127.0.0.1:8765"), ("Host", "127.0.0.1:8765")]
    answer = opened.ask("GET", "/healthz", headers=hosts)
    assert error_of(answer) == (403, "host")
    tokens = [("Authorization", f"Bearer {opened.bearer}")] * 2
    answer = opened.ask("GET", f"{ALICE}/memories", headers=tokens)
    assert error_of(answer) == (401, "unauthorized")
    origins = [("Origin", "https://a.example.com"), ("Origin", "https://evil.com")]
    answer = door(origins=["https://a.example.com"]).ask(
        "GET", f"{ALICE}/memories", headers=origins
    )
    assert error_of(answer) == (403, "origin")
    ends = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    answer = opened.ask("POST", SEARCH, headers=ends, content=b"{}")
    assert error_of(answer) == (400, "bad_request")


def test_no_web_page_is_answered_but_of_an_allowed_origin(door):
    """403 for every other Origin, before the token is looked at."""
    opened = door(origins=["https://app.example.com"])
    for origin in (
        "https://evil.com",
        "null",
        "http://127.0.0.1:8766",
        "http://localhost:8765",
        "https://app.example.com.evil.com",
    ):
        answer = opened.ask("GET", f"{ALICE}/memories", headers={"Origin": origin})
        assert error_of(answer) == (403, "origin")
    own = opened.ask("GET", f"{ALICE}/memories", headers={"Origin": BASE})
    assert own.status_code == 200
    allowed = {"Origin": "https://app.example.com"}
    assert opened.ask("GET", f"{ALICE}/memories", headers=allowed).status_code == 200


def test_metrics_count_and_name_nobody(door):
    """No app, user, text or id is in them."""
    user, admin = door(), door(app=None, admin=True)
    body = {"memories": [{"content": "zebra", "id": "id-4711"}]}
    user.ask("POST", f"{ALICE}/memories", json=body)
    user.ask("POST", SEARCH, json={"query": "zebra"})
    answer = admin.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in lines:
        assert re.fullmatch(r"# TYPE \w+ \w+|\w+(\{\w+=.*\})? [0-9]+(\.\d+)?", line), (
            line
        )
    assert "vecall_memories 1" in lines
    assert 'vecall_operations_total{operation="search"} 1' in lines
    for word in ("zebra", "4711", "alice", "hotel"):
        assert word not in answer.text


def test_answers_are_counted_by_operation_and_status(open_service):
    """A wrong path or method is counted without its name."""
    (user, one), (admin, two) = mint(app="hotel"), mint(admin=True)
    app = create_app(open_service(), tokens=Tokens([one, two]))
    asked = Door(app, user)
    asked.ask("POST", SEARCH, json=QUERY)
    asked.ask("POST", SEARCH, json=[])
    asked.ask("GET", "/nowhere")
    lines = asked.ask("GET", "/metrics", headers=bearing(admin)).text.splitlines()
    start = 'vecall_http_requests_total{operation="'
    assert [line for line in lines if line.startswith(start)] == [
        f'{start}-",status="404"}} 1',
        f'{start}searchMemories",status="200"}} 1',
        f'{start}searchMemories",status="422"}} 1',
    ]


def test_the_log_holds_no_name_token_or_text(door, caplog):
    """Method, path with its names left out, status, time."""
    caplog.set_level("DEBUG")
    opened = door(user="alice")
    body = {"memories": [{"content": "zebra", "id": "id-4711"}]}
    opened.ask("POST", f"{ALICE}/memories", json=body)
    opened.ask("POST", SEARCH, json={"query": "zebra"})
    opened.ask("GET", f"{ALICE}/memories/id-4711?x=zebra")
    opened.ask("GET", "/apps/hotel/users/zebra/memories")
    opened.ask("GET", "/zebra")
    ours = [each for each in caplog.records if each.name == "vecall.server"]
    assert len(ours) == 5
    told = "\n".join(record.getMessage() for record in ours)
    assert "POST /apps/{app}/users/{user}/memories 201" in told
    for word in ("zebra", "4711", "alice", "hotel", opened.bearer, "vecall_"):
        assert word not in told
