"""The apps, users and sessions that a token may know, over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.hidden_memories import KINDS, plain, twins
from helpers.http import Door, error_of
from vecall import MemoryEntry, MemoryService
from vecall.errors import ConfigError
from vecall.server import Tokens, create_app, mint

OWNERS = [("hotel", "alice"), ("hotel", "bob"), ("hotel", "b"), ("hotels", "alice")]


def filled(open_service: Any, **more: Any) -> MemoryService:
    """Two apps, three users of one of them, and three sessions of each user."""
    memory = open_service(**more)
    for app, user in OWNERS:
        told = [
            MemoryEntry(f"{user} {n} ü", session_id=f"s{n % 3}", timestamp=100.0 + n)
            for n in range(len(user))
        ]
        memory.sync.add_memory(app_name=app, user_id=user, memories=told)
    return memory


def door(memory: MemoryService, **bound: Any) -> Door:
    bearer, token = mint(**bound)
    return Door(create_app(memory, tokens=Tokens([token])), bearer)


def test_the_lists_are_those_of_the_methods(open_service):
    """Names, counts, bytes and times, page by page."""
    memory = filled(open_service)
    opened, sync = door(memory, all_apps=True, review=True), memory.sync
    for path, key, name, method in (
        ("/apps", "apps", "app_name", sync.admin.list_apps),
        (
            "/apps/hotel/users",
            "users",
            "user_id",
            lambda **given: sync.admin.list_users(app_name="hotel", **given),
        ),
        (
            "/apps/hotel/users/alice/sessions",
            "sessions",
            "session_id",
            lambda **given: sync.list_sessions(
                app_name="hotel", user_id="alice", **given
            ),
        ),
    ):
        whole = [asdict(each) for each in method()]
        assert len(whole) >= 2
        assert opened.ask("GET", path).json() == {key: whole}
        first = whole[0][name]
        for given in ({"limit": 1}, {"after": first}, {"prefix": first}, {"limit": 2}):
            page = method(**given)
            told = opened.ask("GET", path, params=given).json()
            assert told.pop("next", None) == page.next
            assert told == {key: [asdict(each) for each in page]}
        assert error_of(opened.ask("GET", path, params={"limit": 0}))[0] == 422
        assert error_of(opened.ask("GET", path, params={"limit": 10**7}))[0] == 422


def names(opened: Door, path: str, key: str, **given: Any) -> list[str]:
    answer = opened.ask("GET", path, params=given)
    assert answer.status_code == 200, answer.text
    return [next(iter(each.values())) for each in answer.json()[key]]


def test_a_token_lists_what_it_may_read(open_service):
    """Of another app or user it learns nothing, not even a count."""
    memory = filled(open_service)
    app, user = door(memory, app="hotel"), door(memory, app="hotel", user="b")
    assert names(app, "/apps", "apps") == ["hotel"]
    assert names(app, "/apps/hotel/users", "users") == ["alice", "b", "bob"]
    assert error_of(app.ask("GET", "/apps/hotels/users")) == (403, "forbidden")
    (told,) = user.ask("GET", "/apps").json()["apps"]
    assert (told["users"], told["memories"], told["text_bytes"]) == (1, 1, 6)
    assert names(user, "/apps/hotel/users", "users") == ["b"]
    for path in ("/apps/hotels/users", "/apps/hotel/users/bob/sessions"):
        assert error_of(user.ask("GET", path)) == (403, "forbidden")
    for given, found in (
        ({"prefix": "h"}, ["hotel"]),
        ({"prefix": "hotels"}, []),
        ({"after": "hotel"}, []),
        ({"after": "hot"}, ["hotel"]),
    ):
        assert names(app, "/apps", "apps", **given) == found
        assert names(user, "/apps", "apps", **given) == found
    assert names(user, "/apps/hotel/users", "users", prefix="bo") == []
    assert names(user, "/apps/hotel/users", "users", after="b") == []
    assert names(door(memory, app="absent"), "/apps", "apps") == []


def test_an_admin_token_lists_apps_and_users_but_no_sessions(open_service):
    opened = door(filled(open_service), admin=True)
    assert names(opened, "/apps", "apps") == ["hotel", "hotels"]
    assert names(opened, "/apps/hotel/users", "users") == ["alice", "b", "bob"]
    answer = opened.ask("GET", "/apps/hotel/users/alice/sessions")
    assert error_of(answer) == (403, "forbidden")


def test_a_token_of_all_apps_reads_and_writes_each(open_service):
    memory = filled(open_service)
    opened = door(memory, all_apps=True)
    for app in ("hotel", "new"):
        path = f"/apps/{app}/users/alice/memories"
        added = opened.ask("POST", path, json={"memories": ["x"]})
        assert added.status_code == 201
    reads = door(memory, all_apps=True, read_only=True)
    assert names(reads, "/apps", "apps") == ["hotel", "hotels", "new"]
    answer = reads.ask("DELETE", f"{path}?confirm=true")
    assert error_of(answer) == (403, "read_only")
    for bound in ({"app": "a"}, {"user": "u"}, {"admin": True}):
        with pytest.raises(ConfigError):
            mint(all_apps=True, **bound)


def test_a_token_tells_what_it_permits(open_service):
    memory = open_service()
    bound = {"app": "hotel", "user": "b", "read_only": True, "min_trust": "unverified"}
    told = door(memory, **bound).ask("GET", "/token").json()
    assert len(told.pop("id")) == 16
    assert told == bound
    told = door(memory, all_apps=True, review=True).ask("GET", "/token").json()
    assert told.keys() == {"id", "all_apps", "review"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_memory_changes_no_list(open_service, tmp_path, kind):
    """Its app and user, if they have nothing else, are not there."""
    pair = twins(open_service, tmp_path, kind)
    answers = []
    for memory in pair[:2]:
        view = memory.restricted(pair.rights).sync
        apps, users = view.admin.list_apps(), view.admin.list_users(app_name="app")
        answers.append(
            [plain([asdict(each) for each in page]) for page in (apps, users)]
        )
    assert answers[0] == answers[1]
    assert answers[0][0]


@pytest.mark.parametrize("rights", [{"min_trust": "first-party"}, {"review": False}])
def test_lists_of_those_who_see_some_count_what_lists_of_memories_have(
    open_service, rights
):
    """However many of an app's users are hidden, pages are full and lose nobody."""
    from vecall.filters.rights import Rights
    from vecall.hooks import ALLOW, QUARANTINE

    memory = open_service(
        on_write=lambda write: QUARANTINE if "held" in write.memory.text else ALLOW
    )
    for number in range(30):
        app = f"app{number % 3}"
        texts = [
            MemoryEntry(
                f"held {n}" if (number + n) % 4 else f"kept {n}",
                trust="first-party" if (number * n) % 3 == 0 else "unknown",
                session_id=f"s{n}",
            )
            for n in range(number % 5)
        ]
        if texts:
            who = {"app_name": app, "user_id": f"u{number:02}"}
            memory.sync.add_memory(**who, memories=texts)
    view = memory.restricted(Rights(**rights)).sync
    for app in ("app0", "app1", "app2"):
        expected = {}
        for number in range(30):
            who = {"app_name": app, "user_id": f"u{number:02}"}
            live = view.list_memories(**who)
            held = []
            if rights.get("review", True):
                held = view.list_memories(**who, state="quarantined")
            if live or held:
                size = sum(len(each.text.encode()) for each in live)
                sessions = len({each.session_id for each in [*live, *held]})
                expected[who["user_id"]] = (len(live), size, sessions)
        found, after = {}, None
        while True:
            page = view.admin.list_users(app_name=app, after=after, limit=2)
            for each in page:
                found[each.user_id] = (each.memories, each.text_bytes, each.sessions)
            assert len(page) == 2 or page.next is None
            after = page.next
            if after is None:
                break
        assert found == expected
        (told,) = view.admin.list_apps(prefix=app)
        assert told.users == len(expected)
        assert told.memories == sum(live for live, *_ in expected.values())
        assert told.text_bytes == sum(size for _, size, _ in expected.values())


def test_the_answer_with_a_block_is_of_a_bounded_size(open_service):
    """The block is whole; of the memories around it come as many as fit."""
    from vecall.server import HttpLimits

    memory = open_service()
    told = [f"tea {n} " + "x" * 900 for n in range(40)]
    memory.sync.add_memory(app_name="hotel", user_id="alice", memories=told)
    bearer, token = mint(app="hotel")
    limits = HttpLimits(max_answer_bytes=8_000)
    opened = Door(create_app(memory, tokens=Tokens([token]), limits=limits), bearer)
    path = "/apps/hotel/users/alice/memories/preload"
    asked = {"query": "tea", "max_entries": 2, "min_confidence": 0}
    answer = opened.ask("POST", path, json=asked)
    assert answer.status_code == 200
    body = answer.json()
    assert 2 < len(body["memories"]) < 10
    assert [each["fate"] for each in body["memories"][:2]] == ["shown", "shown"]
    assert body["block"].count("xxx ") == 0
    assert body["block"].count("tea ") == 2
    assert body["tokens"] > 400
    empty = opened.ask("POST", path, json={"query": "zebra"}).json()
    assert empty == {"block": "", "tokens": 0, "memories": []}
    sure = opened.ask("POST", path, json={"query": "tea", "min_confidence": 1}).json()
    assert (sure["block"], sure["floor"]) == ("", 1.0)
    assert {each["fate"] for each in sure["memories"]} == {"unsure"}
    idle = opened.ask("POST", path, json={"query": "Thanks a lot!"}).json()
    assert idle["block"] == ""
