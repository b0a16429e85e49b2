"""The sessions of a user, page by page, with counts and times."""

from __future__ import annotations

import pytest
from helpers.campaigns import examples
from helpers.clocks import SettableClock
from helpers.memories import ALICE, BOB
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    InvalidArgumentError,
    ListedSession,
    MemoryService,
    NotFoundError,
    Rights,
    Scopes,
    WritePolicy,
)

CHARACTERS = "ab%_*'\\Ü\ud7ff\ue000\x01\U0010ffff\U0001f99c"
NAME = st.text(CHARACTERS, min_size=1, max_size=3)


def turn(id_: str, at: float = 1.0, content: str = "okapi", **more: object) -> dict:
    return {"id": id_, "author": "user", "content": content, "timestamp": at, **more}


def test_counts_bytes_and_times_are_those_of_the_sessions_memories(open_service):
    service = open_service().sync
    service.add_events_to_memory(
        **ALICE, session_id="s", events=[turn("a", 20.0, "Ünï"), turn("b", -10.5)]
    )
    fact = {"id": "f", "content": "fact", "session_id": "s", "timestamp": 30.0}
    service.add_memory(**ALICE, memories=[fact, "of no session"])
    service.archive_memory(**ALICE, memory_id="f")
    service.add_events_to_memory(**ALICE, session_id="r", events=[turn("c", 5.0)])
    service.add_events_to_memory(**BOB, session_id="q", events=[turn("d", 5.0)])
    page = service.list_sessions(**ALICE)
    assert page == [
        ListedSession("r", 1, 5, 5.0, 5.0),
        ListedSession("s", 2, len("Ünïokapi".encode()), -10.5, 30.0),
    ]
    assert page.next is None
    assert service.user(**ALICE).list_sessions() == page
    assert service.list_sessions(app_name="app", user_id="nobody") == []


def test_a_deleted_memory_takes_its_time_with_it(open_service):
    service = open_service().sync
    events = [turn(f"t{n}", float(n)) for n in range(5)]
    ids = service.add_events_to_memory(**ALICE, session_id="s", events=events)
    for left in ([1, 4], [1, 3], [3, 3]):
        gone = [id_ for n, id_ in enumerate(ids) if not left[0] <= n <= left[1]]
        service.delete_memories(**ALICE, memory_ids=gone)
        (session,) = service.list_sessions(**ALICE)
        assert (session.first_at, session.last_at) == (left[0], left[1])
    service.delete_session(**ALICE, session_id="s")
    assert service.list_sessions(**ALICE) == []


def test_a_correction_that_moves_a_turn_moves_the_times(open_service):
    service = open_service().sync
    events = [turn("a", 1.0), turn("b", 2.0)]
    one, _ = service.add_events_to_memory(**ALICE, session_id="s", events=events)
    service.update_memory(**ALICE, memory_id=one, timestamp=9.0, content="a zebra")
    assert service.list_sessions(**ALICE) == [ListedSession("s", 2, 12, 2.0, 9.0)]


@pytest.mark.campaign
@settings(max_examples=examples(40), deadline=None)
@given(
    names=st.sets(NAME, max_size=8),
    prefix=st.text(CHARACTERS, max_size=2),
    limit=st.integers(1, 4),
)
def test_each_session_with_the_prefix_is_listed_once_in_order(names, prefix, limit):
    with MemoryService(embedder=None) as opened:
        service = opened.sync
        for name in names:
            service.add_events_to_memory(**ALICE, session_id=name, events=[turn(name)])
        seen: list[str] = []
        page = service.list_sessions(**ALICE, prefix=prefix, limit=limit)
        while True:
            assert len(page) <= limit
            seen += [each.session_id for each in page]
            if page.next is None:
                break
            page = service.list_sessions(
                **ALICE, prefix=prefix, limit=limit, after=page.next
            )
        assert seen == sorted(name for name in names if name.startswith(prefix))


def test_apps_are_found_by_the_beginning_of_their_names(open_service):
    service = open_service().sync
    for app in ("a", "ab", "ab\U0010ffff", "b"):
        service.add_memory(app_name=app, user_id="u", memories=["okapi"])
    listed = service.admin.list_apps(prefix="ab")
    assert [each.app_name for each in listed] == ["ab", "ab\U0010ffff"]
    assert service.admin.list_apps(prefix="ab", limit=1).next == "ab"


def test_an_app_has_the_bytes_items_and_times_of_its_users(open_service):
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None).sync
    begin = clock.wall()
    service.add_memory(app_name="a", user_id="u", memories=["Ü"])
    clock.let_pass(5)
    service.add_memory(
        app_name="a", user_id="v", memories=[{"id": "m", "content": "é"}]
    )
    service.user("a", "v").items.write([])
    (app,) = service.admin.list_apps()
    assert (app.users, app.memories, app.text_bytes, app.items) == (2, 2, 4, 0)
    assert app.created_at == pytest.approx(begin, abs=1)
    assert app.updated_at == pytest.approx(begin + 5, abs=1)
    service.delete_memory(app_name="a", user_id="v", memory_id="m")
    (app,) = service.admin.list_apps()
    assert (app.users, app.updated_at) == (1, pytest.approx(begin, abs=1))
    service.delete_user(app_name="a", user_id="u")
    assert service.admin.list_apps() == []


def test_what_has_expired_counts_nowhere_before_it_is_swept(open_service):
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None).sync
    service.add_events_to_memory(**ALICE, session_id="s", events=[turn("a", 1.0)])
    service.add_events_to_memory(
        **ALICE, session_id="s", events=[turn("b", 2.0)], ttl=5.0
    )
    service.add_events_to_memory(
        **ALICE, session_id="t", events=[turn("c", 3.0)], ttl=5.0
    )
    until = {"id": "f", "content": "fact", "valid_until": clock.wall() + 5.0}
    service.add_memory(**ALICE, memories=[{**until, "session_id": "u"}])
    every = service.list_sessions(**ALICE)
    assert [each.memories for each in every] == [2, 1, 1]
    clock.let_pass(6.0)
    for _ in range(2):
        s, u = service.list_sessions(**ALICE)
        assert s == ListedSession("s", 1, 5, 1.0, 1.0)
        assert (u.session_id, u.memories, u.text_bytes) == ("u", 0, 0)
        assert service.count_memories(**ALICE) == 1
        if every:
            assert service.list_sessions(**ALICE, include_expired=True) == every
            assert service.count_memories(**ALICE, include_expired=True) == 4
            every = None
        service.admin.run_due()
    assert service.count_memories(**ALICE, state="archived") == 1


def test_pages_are_full_although_some_sessions_are_hidden(open_service):
    service = open_service()
    for n in range(9):
        trust = "first-party" if n % 3 == 2 else "unknown"
        service.sync.add_events_to_memory(
            **ALICE, session_id=f"s{n}", events=[turn(f"t{n}", float(n), trust=trust)]
        )
    hidden = turn("more", 99.0, "x" * 100, trust="unknown")
    service.sync.add_events_to_memory(**ALICE, session_id="s2", events=[hidden])
    view = service.restricted(Rights(min_trust="first-party")).sync
    page = view.list_sessions(**ALICE, limit=2)
    assert page == [
        ListedSession("s2", 1, 5, 2.0, 2.0),
        ListedSession("s5", 1, 5, 5.0, 5.0),
    ]
    rest = view.list_sessions(**ALICE, limit=2, after=page.next)
    assert [each.session_id for each in rest] == ["s8"]
    assert rest.next is None
    assert view.count_memories(**ALICE) == 3


def test_each_scope_has_sessions_of_its_own(open_service):
    scopes = Scopes(read=("shared", "app"), write=("shared", "app"))
    service = open_service(writes=WritePolicy(scopes=scopes)).sync
    fact = {"content": "okapi", "session_id": "s"}
    service.add_memory(**ALICE, memories=[fact], scope="app")
    assert service.list_sessions(**ALICE) == []
    (session,) = service.list_sessions(**ALICE, scope="app")
    assert (session.session_id, session.memories) == ("s", 1)
    assert service.admin.list_apps() == []
    stats = service.admin.stats()
    assert (stats["memories"], stats["sessions"]) == (1, 1)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"prefix": 7}, "prefix"),
        ({"prefix": "\ud800"}, "prefix"),
        ({"after": ""}, "after"),
        ({"limit": 0}, "limit"),
        ({"include_expired": 1}, "include_expired"),
    ],
)
def test_an_invalid_argument_is_named(given, name):
    with (
        MemoryService(embedder=None) as service,
        pytest.raises(InvalidArgumentError, match=f"^{name}: "),
    ):
        service.sync.list_sessions(**ALICE, **given)


def test_a_purged_user_has_no_sessions_and_comes_back_with_new_ones(open_service):
    service = open_service().sync
    ids = service.add_events_to_memory(**ALICE, session_id="s", events=[turn("a")])
    service.delete_memory(**ALICE, memory_id=ids[0])
    service.admin.purge()
    assert service.admin.list_apps(prefix="a") == []
    assert service.admin.stats()["users"] == 0
    service.add_events_to_memory(**ALICE, session_id="t", events=[turn("b")])
    assert [each.session_id for each in service.list_sessions(**ALICE)] == ["t"]
    with pytest.raises(NotFoundError):
        service.archive_memory(**ALICE, memory_id=ids[0])
    assert service.admin.stats()["deleted_ids"] == 1
