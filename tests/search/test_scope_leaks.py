"""No mix of app, user and place lets anything through that is not meant to pass."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from helpers.embedders import Recorder
from helpers.memories import refuses
from helpers.methods import coroutines
from helpers.services import PAIRS
from helpers.write_hooks import dump, found, twins
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vecall import (
    Filter,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    Scopes,
    StorageOptions,
    WritePolicy,
)
from vecall.limits import APP_WIDE, SHARED_APP, Scope
from vecall.store import State

PLACES: tuple[Scope, ...] = ("user", "shared", "app")
BOTH = Scopes(read={"shared", "app"}, write={"shared", "app"})
RESERVED = (SHARED_APP, APP_WIDE)

# What a joined, cut, folded or escaped key would take for another, or for a place.
TRICKY = [
    *("a", "b", "c", "a/b", "b/c", "ab", "a:b", "b:c", "shared", "app", "user"),
    *("vecall shared", "vecall app", "\x01", "\x01vecall shared", "vecall app\x01"),
    *(SHARED_APP + "x", "x" + APP_WIDE, SHARED_APP.upper(), "-", "%", "_", "*"),
]
NAMES = st.one_of(
    st.sampled_from(TRICKY),
    st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
        min_size=1,
        max_size=4,
    ),
)
POOLS = st.lists(NAMES, min_size=2, max_size=4, unique=True)
SLOWLY = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def owner(app: str, user: str, scope: str) -> object:
    """Who a memory belongs to, as the reference has it."""
    return {"user": (app, user), "shared": ("", user), "app": (app, "")}[scope]


def spots(pool: list[str]) -> Any:
    """Lists of app, user and place, in which few names stand for both."""
    name = st.sampled_from(pool)
    spot = st.tuples(name, name, st.sampled_from(PLACES))
    return st.lists(spot, min_size=2, max_size=10)


def visible(app: str, user: str, scopes: Scopes) -> set[object]:
    places = ["user", *scopes.read]
    return {(place, owner(app, user, place)) for place in places}


def secret(app: str, user: str, scope: str) -> str:
    """A memory that says whose it is."""
    return json.dumps(["zebra", scope, owner(app, user, scope)])


def seen_by(service: MemoryService, app: str, user: str) -> list[str]:
    return found(service, app_name=app, user_id=user)


@SLOWLY
@given(
    told=POOLS.flatmap(spots),
    read=st.sets(st.sampled_from(["shared", "app"])),
)
def test_nobody_finds_what_is_not_theirs(told, read):
    """S4.61: each asker finds exactly the memories of the places that are theirs."""
    with MemoryService(
        writes=WritePolicy(scopes=Scopes(read=read, write=BOTH.write)),
        storage=StorageOptions(maintenance_interval=None),
        embedder=None,
    ) as service:
        for app, user, scope in told:
            service.sync.add_memory(
                app_name=app,
                user_id=user,
                memories=[MemoryEntry(secret(app, user, scope), id="same")],
                scope=scope,
            )
        for app, user in {(app, user) for app, user, _ in told}:
            mine = visible(app, user, Scopes(read=read))
            expected = {
                secret(*spot) for spot in told if (spot[2], owner(*spot)) in mine
            }
            assert seen_by(service, app, user) == sorted(expected)


@SLOWLY
@given(
    told=POOLS.flatmap(spots),
    data=st.data(),
)
def test_what_is_done_in_one_place_is_done_in_no_other(told, data):
    """S4.61: correcting and deleting reach one place only."""
    with MemoryService(
        writes=WritePolicy(scopes=BOTH),
        storage=StorageOptions(maintenance_interval=None),
        embedder=None,
    ) as service:
        kept: dict[object, str] = {}
        for app, user, scope in told:
            text = secret(app, user, scope)
            kept[scope, owner(app, user, scope)] = text
            who: dict[str, Any] = {"app_name": app, "user_id": user, "scope": scope}
            service.sync.add_memory(**who, memories=[MemoryEntry(text, id="same")])
        app, user, scope = data.draw(st.sampled_from(told))
        who = {"app_name": app, "user_id": user, "scope": scope}
        mine = (scope, owner(app, user, scope))
        how = data.draw(st.sampled_from(["update", "delete", "where", "all"]))
        if how == "update":
            kept[mine] = "zebra changed"
            service.sync.update_memory(**who, memory_id="same", content="zebra changed")
        else:
            del kept[mine]
        if how == "delete":
            service.sync.delete_memory(**who, memory_id="same")
        elif how == "where":
            everything = Filter(after=0.0)
            assert service.sync.delete_where(**who, filter=everything) == 1
        elif how == "all":
            assert service.sync.delete_user(**who) == 1
        for app, user, _ in told:
            mine = visible(app, user, BOTH)
            expected = sorted(text for spot, text in kept.items() if spot in mine)
            assert seen_by(service, app, user) == expected


@pytest.mark.parametrize("reopened", [False, True])
def test_pairs_that_look_alike_share_nothing_in_a_file(
    open_service, tmp_path, reopened
):
    """S4.61: every pair has a secret in each place, before and after a restart."""
    path = tmp_path / "m.db"
    service = open_service(path, scopes=BOTH, durability="process")
    for app, user in PAIRS:
        for scope in PLACES:
            service.sync.add_memory(
                app_name=app,
                user_id=user,
                memories=[secret(app, user, scope)],
                scope=scope,
            )
    if reopened:
        service.close()
        service = open_service(path, scopes=BOTH)
    for app, user in PAIRS:
        expected = sorted(secret(app, user, scope) for scope in PLACES)
        assert seen_by(service, app, user) == expected


# A value for each argument that a method must have beside the names.
GIVEN: dict[str, Any] = {
    "ttl": 90.0,
    "events": [{"id": "e", "text": "zebra"}],
    "memories": ["zebra"],
    "memory_id": "f",
    "memory_ids": ["f"],
    "session_id": "s",
    "query": "zebra",
    "filter": Filter(kind="fact"),
    "token": "t",
    "content": "zebra",
}
MORE = {
    "update_memory": {"content": "zebra new"},
    "delete_memory": {"memory_id": "f"},
    "admin.delete_app": {"confirm": True},
    "end_session": {"session_id": "s"},
}


def calls(names: dict[str, str], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every public method that is told an app or a session, with such names."""
    for name, method in coroutines().items():
        parameters = inspect.signature(method).parameters
        options = dict(MORE.get(name, {}))
        if "session" in parameters:
            yield name, {"session": {**names, "id": "s", "events": GIVEN["events"]}}
        if "app_name" not in parameters:
            continue
        for each, parameter in parameters.items():
            if each in names:
                options[each] = names[each]
            elif each == "path":
                options[each] = folder / name
            elif parameter.default is parameter.empty and each in GIVEN:
                options[each] = GIVEN[each]
        yield name, options


def test_every_method_that_takes_a_name_is_called():
    """S4.61: the next test forgets none of them."""
    names = {name for name, _ in calls({"app_name": "a", "user_id": "u"}, Path())}
    assert {
        *("add_session_to_memory", "add_events_to_memory", "add_memory"),
        *("observe_session", "end_session", "search_memory", "get_memory"),
        *("delete_memory", "delete_session", "delete_where", "delete_user"),
        *("admin.delete_app", "admin.export_jsonl", "admin.warm"),
        *("mark_used", "expand_session"),
        *("memory_history", "list_memories", "archive_memory", "restore_memory"),
        "release_memory",
        *("propose_forget", "confirm_forget", "consolidate", "update_memory"),
    } <= names


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("as_", ["app_name", "user_id"])
def test_the_names_of_places_are_nobodys(open_service, tmp_path, name, as_):
    """S4.61: no method takes them for an app or a user, and nothing is written."""
    path = tmp_path / "m.db"
    with open_service(path, scopes=BOTH) as service:
        for scope in PLACES:
            service.sync.add_memory(
                app_name="a",
                user_id="u",
                memories=[MemoryEntry(f"zebra {scope}", id="f", kind="fact")],
                scope=scope,
            )
    before = dump(path)
    with open_service(path, scopes=BOTH, maintenance_interval=None) as service:
        for call in twins(service):
            names = {"app_name": "a", "user_id": "u", as_: name}
            for method, options in calls(names, tmp_path):
                apps = ("admin.delete_app", "admin.list_users")
                if as_ == "user_id" and method in apps:
                    continue  # is told no user
                refuses(
                    InvalidArgumentError,
                    lambda c=call, m=method, o=options: c(m, **o),
                )
    assert dump(path) == before


def scores(service: MemoryService, user: str, **options: Any) -> list[Any]:
    """All that an answer says of each memory but when it was stored."""
    answers = []
    for query in ("zebra hay", "when do I feed the zebra", "rare", "nothing here"):
        answer = service.sync.search_memory(
            app_name="a",
            user_id=user,
            query=query,
            top_k=100,
            explain=True,
            **options,
        )
        answers += [
            (
                memory.text,
                memory.scope,
                memory.score,
                memory.similarity,
                memory.confidence,
                memory.importance,
                memory.explanation,
            )
            for memory in answer.memories
        ]
    return answers


@pytest.mark.parametrize("hybrid", [False, True])
def test_what_others_said_does_not_move_a_score(open_service, hybrid):
    """S4.61: how rare a word is in one place is not told to another."""
    own = ["the zebra eats hay", "feed the zebra at noon", "a gnu", "rare okapi"]
    told = []
    for crowded in (False, True):
        service = open_service(
            scopes=BOTH,
            embedder=Recorder() if hybrid else None,
            maintenance_interval=None,
        )
        service.sync.add_memory(app_name="a", user_id="u", memories=own)
        service.sync.add_memory(
            app_name="a", user_id="u", memories=["zebra shared"], scope="shared"
        )
        if crowded:
            many = [f"rare zebra hay {number}" for number in range(50)]
            others = [("a", "v", "user"), ("b", "u", "user"), ("b", "v", "app")]
            others += [("a", "v", "shared"), ("a", "u", "app")]
            for app, user, scope in others:
                service.sync.add_memory(
                    app_name=app, user_id=user, memories=many, scope=scope
                )
        told.append(scores(service, "u", scopes=["shared"]))
        own_place = [entry for entry in scores(service, "u") if entry[1] == "user"]
        assert sorted(own_place, key=str) == sorted(
            (entry for entry in told[0] if entry[1] == "user"), key=str
        )
    assert told[0] == told[1]
    assert {entry[1] for entry in told[0]} == {"user", "shared"}


def test_states_and_places_are_all_there_is():
    """S4.61: a new one has to be thought about here."""
    assert get_args(Scope) == PLACES
    assert get_args(State) == ("live", "archived", "quarantined")
