"""The apps and users of a file, page by page, with counts and times."""

from __future__ import annotations

import pytest
from helpers.campaigns import examples
from helpers.clocks import SettableClock
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    MemoryEntry,
    MemoryService,
    Scopes,
    WritePolicy,
)

CHARACTERS = "ab%_*'\\Ü\ud7ff\ue000\U0010ffff\U0001f99c"
NAME = st.text(CHARACTERS, min_size=1, max_size=3)


def add(service: MemoryService, app: str, user: str, count: int = 1) -> None:
    entries = [MemoryEntry(f"zebra {n}", id=f"m{n}") for n in range(count)]
    service.sync.add_memory(app_name=app, user_id=user, memories=entries)


def all_users(service: MemoryService, app: str, prefix: str, limit: int) -> list[str]:
    users: list[str] = []
    while True:
        page = service.sync.admin.list_users(
            app_name=app,
            prefix=prefix,
            after=users[-1] if users else None,
            limit=limit,
        )
        assert len(page) <= limit
        if not page:
            return users
        users += [each.user_id for each in page]


@pytest.mark.campaign
@settings(max_examples=examples(40), deadline=None)
@given(
    owners=st.sets(st.tuples(NAME, NAME), max_size=12),
    emptied=st.sets(st.integers(0, 11)),
    prefix=st.text(CHARACTERS, max_size=2),
    limit=st.integers(1, 4),
)
def test_each_user_with_memories_is_listed_once_in_order(
    owners, emptied, prefix, limit
):
    with MemoryService(embedder=None) as service:
        for app, user in owners:
            add(service, app, user)
        living = set()
        for number, (app, user) in enumerate(sorted(owners)):
            if number in emptied:
                service.sync.delete_user(app_name=app, user_id=user)
            else:
                living.add((app, user))
        apps = {app for app, _ in living}
        listed = service.sync.admin.list_apps(limit=1000)
        assert [each.app_name for each in listed] == sorted(apps)
        for each in listed:
            count = sum(app == each.app_name for app, _ in living)
            assert (each.users, each.memories) == (count, count)
        for app in {app for app, _ in owners}:
            expected = sorted(
                user for of, user in living if of == app and user.startswith(prefix)
            )
            assert all_users(service, app, prefix, limit) == expected


def test_counts_and_times_are_those_of_the_memories(open_service):
    clock = SettableClock()
    service = open_service(clock=clock)
    begin = clock.wall()
    add(service, "app", "alice", 3)
    clock.let_pass(50)
    service.sync.update_memory(
        app_name="app", user_id="alice", memory_id="m1", content="Ünï"
    )
    service.sync.archive_memory(app_name="app", user_id="alice", memory_id="m2")
    (alice,) = service.sync.admin.list_users(app_name="app")
    assert alice.memories == 2
    assert alice.text_bytes == len("zebra 0") + len("Ünï".encode())
    assert alice.created_at == pytest.approx(begin, abs=1)
    assert alice.updated_at == pytest.approx(begin + 50, abs=1)


def test_pages_of_apps(open_service):
    service = open_service()
    for app in "cab":
        add(service, app, "u")
    pages = [service.sync.admin.list_apps(limit=2)]
    pages.append(service.sync.admin.list_apps(after=pages[0][-1].app_name, limit=2))
    assert [[each.app_name for each in page] for page in pages] == [["a", "b"], ["c"]]


def test_scopes_and_hidden_names_are_not_listed(open_service, tmp_path):
    scopes = Scopes(read=("shared", "app"), write=("shared", "app"))
    service = open_service(tmp_path / "m.db", writes=WritePolicy(scopes=scopes))
    for scope in ("user", "shared", "app"):
        service.sync.add_memory(
            app_name="app", user_id="alice", memories=["zebra"], scope=scope
        )
    add(service, "app", "bob")
    service.sync.delete_user(app_name="app", user_id="bob")
    service.sync.admin.purge()
    (app,) = service.sync.admin.list_apps()
    assert (app.app_name, app.users, app.memories) == ("app", 1, 1)
    (user,) = service.sync.admin.list_users(app_name="app")
    assert user.user_id == "alice"
    assert service.sync.admin.list_users(app_name="absent") == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"limit": 0}, InvalidArgumentError),
        ({"limit": "9"}, InvalidTypeError),
        ({"limit": 10**9}, LimitExceededError),
        ({"after": ""}, InvalidArgumentError),
        ({"after": 7}, InvalidTypeError),
        ({"prefix": "a\0"}, InvalidArgumentError),
        ({"prefix": None}, InvalidTypeError),
    ],
)
def test_a_wrong_argument_is_refused(open_service, given, error):
    admin = open_service().sync.admin
    with pytest.raises(error):
        admin.list_users(app_name="app", **given)
    if "prefix" not in given:
        with pytest.raises(error):
            admin.list_apps(**given)
