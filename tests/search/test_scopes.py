"""Places beside a user's own memories: off until switched on, no wider than that."""

from __future__ import annotations

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, refuses
from helpers.write_hooks import dump, found, listed, twins
from vecall import (
    ConfigError,
    Filter,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    ScopeError,
    Scopes,
)

BOTH = Scopes(read={"shared", "app"}, write={"shared", "app"})
ELSEWHERE = {"app_name": "other", "user_id": "alice"}
STRANGER = {"app_name": "other", "user_id": "bob"}
PLACES = ("shared", "app")

WRITES = {
    "add_memory": {"memories": ["zebra new"]},
    "update_memory": {"memory_id": "f", "content": "zebra new"},
    "delete_memory": {"memory_id": "f"},
    "delete_where": {"filter": Filter(kind="fact")},
    "delete_user": {},
}
READS = {
    "get_memory": {"memory_id": "f"},
    "list_memories": {},
}


def entry(text: str, id_: str = "f") -> MemoryEntry:
    return MemoryEntry(text, id=id_, kind="fact")


def furnished(service: MemoryService) -> MemoryService:
    """The same id in each of the three places of alice in app."""
    for scope in ("user", *PLACES):
        service.sync.add_memory(
            **ALICE, memories=[entry(f"zebra {scope}")], scope=scope
        )
    return service


@pytest.fixture(params=["memory", "file", "hybrid"])
def both(request, open_service, tmp_path) -> MemoryService:
    path = tmp_path / "m.db" if request.param == "file" else None
    embedder = Recorder() if request.param == "hybrid" else None
    return furnished(open_service(path, scopes=BOTH, embedder=embedder))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", [None, "other place", "read only"])
def test_writing_elsewhere_is_refused_until_switched_on(
    open_service, tmp_path, place, given
):
    """S4.61: off by default, write apart from read, and nothing is written."""
    path = tmp_path / "m.db"
    furnished(open_service(path, scopes=BOTH)).close()
    (other,) = set(PLACES) - {place}
    scopes = {
        None: Scopes(),
        "other place": Scopes(read=PLACES, write={other}),
        "read only": Scopes(read=PLACES),
    }[given]
    before = dump(path)
    with open_service(path, scopes=scopes, maintenance_interval=None) as service:
        for call in twins(service):
            for name, options in WRITES.items():
                refuses(
                    ScopeError,
                    lambda c=call, n=name, o=options: c(n, **ALICE, **o, scope=place),
                )
    assert dump(path) == before


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", [None, "other place", "write only"])
def test_reading_elsewhere_is_refused_until_switched_on(open_service, place, given):
    """S4.61: and a search that names no place does not look there."""
    (other,) = set(PLACES) - {place}
    scopes = {
        None: Scopes(),
        "other place": Scopes(read={other}, write=PLACES),
        "write only": Scopes(write=PLACES),
    }[given]
    service = open_service(scopes=scopes)
    for scope in ("user", *(() if given is None else PLACES)):
        service.sync.add_memory(
            **ALICE, memories=[entry(f"zebra {scope}")], scope=scope
        )
    for call in twins(service):
        for name, options in READS.items():
            refuses(
                ScopeError,
                lambda c=call, n=name, o=options: c(n, **ALICE, **o, scope=place),
            )
        refuses(
            ScopeError,
            lambda c=call: c("search_memory", **ALICE, query="zebra", scopes=[place]),
        )
        answer = call("search_memory", **ALICE, query="zebra")
        seen = {memory.scope for memory in answer.memories}
        assert seen == ({"user", other} if given == "other place" else {"user"})


@pytest.mark.parametrize("place", PLACES)
def test_a_correction_tells_nothing_of_a_place_that_may_not_be_read(
    open_service, tmp_path, place
):
    """S4.61: it would return what is there; so nothing is written either."""
    path = tmp_path / "m.db"
    furnished(open_service(path, scopes=BOTH)).close()
    before = dump(path)
    with open_service(
        path, scopes=Scopes(write=PLACES), maintenance_interval=None
    ) as service:
        for call in twins(service):
            refuses(
                ScopeError,
                lambda c=call: c(
                    "update_memory", **ALICE, memory_id="f", kind="x", scope=place
                ),
            )
    assert dump(path) == before


def test_what_is_shared_belongs_to_one_user_of_all_apps(both):
    """S4.61: nobody else sees it."""
    assert found(both, **ALICE) == ["zebra app", "zebra shared", "zebra user"]
    assert found(both, **ELSEWHERE) == ["zebra shared"]
    assert found(both, **BOB) == ["zebra app"]
    assert found(both, **STRANGER) == []


def test_entries_say_where_they_were_found(both):
    """S4.61: in every answer that names a place."""
    answer = both.sync.search_memory(**ALICE, query="zebra")
    told = {memory.text: memory.scope for memory in answer.memories}
    assert told == {f"zebra {scope}": scope for scope in ("user", *PLACES)}
    for scope in ("user", *PLACES):
        got = both.sync.get_memory(**ALICE, memory_id="f", scope=scope)
        assert (got.text, got.scope) == (f"zebra {scope}", scope)
        (one,) = both.sync.list_memories(**ALICE, scope=scope)
        assert (one.text, one.scope) == (f"zebra {scope}", scope)
        changed = both.sync.update_memory(
            **ALICE, memory_id="f", content=f"zebra new {scope}", scope=scope
        )
        assert (changed.text, changed.scope) == (f"zebra new {scope}", scope)
    assert found(both) == ["zebra new app", "zebra new shared", "zebra new user"]


def test_a_search_may_look_in_fewer_places(both):
    """S4.61: a user's own memories are always among them."""
    for call in twins(both):
        for scopes, expected in (
            ((), {"user"}),
            (["user"], {"user"}),
            (["shared"], {"user", "shared"}),
            (["app", "app"], {"user", "app"}),
            (None, {"user", "shared", "app"}),
        ):
            answer = call("search_memory", **ALICE, query="zebra", scopes=scopes)
            assert {memory.scope for memory in answer.memories} == expected
            assert len(answer.memories) == len(expected)


def test_the_best_of_all_places_come_first(open_service):
    """S4.61: by confidence, then by place; no more than were asked for."""
    service = open_service(scopes=BOTH)
    said = {
        "user": ["a zebra somewhere", "nothing of note"],
        "shared": ["the striped zebra eats hay at noon"],
        "app": ["zebra hay", "gnu", "the zebra eats hay"],
    }
    for scope, texts in said.items():
        service.sync.add_memory(**ALICE, memories=texts, scope=scope)
    query = "what does the striped zebra eat at noon"
    answer = service.sync.search_memory(**ALICE, query=query, top_k=100).memories
    sure = [memory.confidence for memory in answer]
    assert len(set(sure)) > 2
    assert sure == sorted(sure, reverse=True)
    assert answer[0].scope == "shared"
    for scope in said:
        own = [memory for memory in answer if memory.scope == scope]
        assert own
        scores = [memory.score for memory in own]
        assert scores == sorted(scores, reverse=True)
    for top_k in (1, 2, 3):
        few = service.sync.search_memory(**ALICE, query=query, top_k=top_k).memories
        assert few == answer[:top_k]


def test_places_take_turns_where_the_scorer_gives_no_confidence(open_service):
    """S4.61: a user's own memories first, then the places by name."""
    service = open_service(
        scopes=BOTH,
        embedder=Recorder(),
        scorer=lambda memory, query: (None, memory.importance),
    )
    for scope in ("user", *PLACES):
        texts = [f"zebra {number} {scope}" for number in range(3)]
        service.sync.add_memory(**ALICE, memories=texts, scope=scope)
    answer = service.sync.search_memory(**ALICE, query="zebra", top_k=9).memories
    assert {memory.confidence for memory in answer} == {None}
    assert [memory.scope for memory in answer] == ["user", "app", "shared"] * 3


def test_an_id_of_one_place_is_not_reached_through_another(open_service):
    """S4.61: not to read, not to change, not to delete."""
    service = open_service(scopes=BOTH)
    for scope in ("user", *PLACES):
        service.sync.add_memory(
            **ALICE, memories=[entry(f"zebra {scope}", scope)], scope=scope
        )
    everything = found(service)
    for call in twins(service):
        for id_ in ("user", *PLACES):
            for scope in {"user", *PLACES} - {id_}:
                where = {**ALICE, "memory_id": id_, "scope": scope}
                refuses(NotFoundError, lambda c=call, w=where: c("get_memory", **w))
                refuses(
                    NotFoundError,
                    lambda c=call, w=where: c("update_memory", **w, content="new"),
                )
                call("delete_memory", **where)
    for id_ in PLACES:
        own = {**ALICE, "memory_id": id_}
        refuses(NotFoundError, lambda o=own: service.sync.archive_memory(**o))
        refuses(NotFoundError, lambda o=own: service.sync.memory_history(**o))
        refuses(NotFoundError, lambda o=own: service.sync.expand_session(**o))
        assert service.sync.mark_used(**ALICE, memory_ids=[id_]) == 0
    assert found(service) == everything


def test_what_is_superseded_lies_in_the_same_place(open_service):
    """S4.61: a place cannot make a user's own memory go away."""
    service = open_service(scopes=BOTH)
    service.sync.add_memory(**ALICE, memories=[entry("zebra own")])
    newer = MemoryEntry("zebra shared", supersedes="f")
    with pytest.raises(NotFoundError):
        service.sync.add_memory(**ALICE, memories=[newer], scope="shared")
    assert found(service) == ["zebra own"]


def test_each_place_is_deleted_by_itself(both):
    """S4.61: and the user's own memories do not take others with them."""
    assert both.sync.delete_user(**ALICE) == 1
    assert found(both) == ["zebra app", "zebra shared"]
    assert both.sync.delete_where(**ALICE, filter=Filter(kind="fact")) == 0
    assert both.sync.delete_user(**ALICE, forget=True, scope="shared") == 1
    assert found(both) == found(both, **BOB) == ["zebra app"]
    assert found(both, **ELSEWHERE) == []
    both.sync.add_memory(**ALICE, memories=[entry("zebra again", "g")])
    assert both.sync.delete_where(**BOB, filter=Filter(kind="fact"), scope="app") == 1
    assert found(both) == ["zebra again"]


def test_forgetting_proposes_only_what_is_the_users_own(both):
    """S4.61: one user cannot make all forget."""
    proposal = both.sync.propose_forget(**ALICE, query="zebra", top_k=10)
    assert [memory.text for memory in proposal.memories] == ["zebra user"]
    assert both.sync.confirm_forget(**ALICE, token=proposal.token) == 1
    assert found(both) == ["zebra app", "zebra shared"]


def test_places_outlive_a_restart_and_travel_with_an_export(open_service, tmp_path):
    """S4.61: with vectors, and unseen by a service that may not read them."""
    embedder = Recorder()
    path = tmp_path / "m.db"
    with furnished(open_service(path, scopes=BOTH, embedder=embedder)) as first:
        before = first.sync.search_memory(**ALICE, query="zebra").memories
        assert first.sync.admin.export_jsonl(tmp_path / "e") == 3
    with open_service(path, scopes=BOTH, embedder=embedder) as second:
        assert second.sync.search_memory(**ALICE, query="zebra").memories == before
    with open_service(path, embedder=embedder) as third:
        assert found(third) == ["zebra user"]
    with open_service(tmp_path / "n.db", scopes=BOTH, embedder=embedder) as other:
        assert other.sync.admin.import_jsonl(tmp_path / "e") == 3
        assert other.sync.search_memory(**ALICE, query="zebra").memories == before
        assert found(other, **ELSEWHERE) == ["zebra shared"]
        assert found(other, **BOB) == ["zebra app"]


def test_an_export_of_one_user_has_only_their_own(both, tmp_path):
    """S4.61: what is shared, or an app's, is no part of it."""
    assert both.sync.admin.export_jsonl(tmp_path / "e", **ALICE) == 1
    assert "zebra shared" not in (tmp_path / "e").read_text()
    assert "zebra app" not in (tmp_path / "e").read_text()


def test_a_scope_that_there_is_not_is_refused(open_service):
    """S4.61: whatever is switched on."""
    service = furnished(open_service(scopes=BOTH))
    for call in twins(service):
        for wrong in ("", "users", "SHARED", "\x01vecall shared\x01", None, 7, ["app"]):
            for name, options in {**WRITES, **READS}.items():
                refuses(
                    InvalidArgumentError,
                    lambda c=call, n=name, o=options, w=wrong: c(
                        n, **ALICE, **o, scope=w
                    ),
                )
            refuses(
                InvalidArgumentError,
                lambda c=call, w=wrong: c(
                    "search_memory", **ALICE, query="zebra", scopes=[w]
                ),
            )
        for wrong in ("shared", 7, {"shared"}, {"shared": 1}):
            refuses(
                InvalidTypeError,
                lambda c=call, w=wrong: c(
                    "search_memory", **ALICE, query="zebra", scopes=w
                ),
            )
    assert found(service) == ["zebra app", "zebra shared", "zebra user"]


@pytest.mark.parametrize(
    "wrong", [None, 7, "shared", "app", {"user"}, {"all"}, [["app"]], {"shared", None}]
)
def test_scopes_are_some_of_two(open_service, wrong):
    """S4.61: a string is not read letter by letter."""
    refuses(ConfigError, lambda: Scopes(read=wrong))
    refuses(ConfigError, lambda: Scopes(write=wrong))
    refuses(ConfigError, lambda: open_service(scopes=wrong or {"shared"}))
    assert Scopes() == Scopes(read=(), write=[])
    assert Scopes(read=["app", "app"]).read == {"app"}


def test_a_place_has_its_own_held_and_archived(open_service):
    """S4.61: lists of one place show nothing of another."""
    service = furnished(open_service(scopes=BOTH))
    service.sync.archive_memory(**ALICE, memory_id="f")
    assert listed(service, "archived") == ["zebra user"]
    assert listed(service, "archived", scope="shared") == []
    assert listed(service, scope="shared") == ["zebra shared"]
    assert found(service) == ["zebra app", "zebra shared"]
