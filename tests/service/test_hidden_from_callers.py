"""A memory that the rights of a caller hide does not exist for that caller.

Every method is called on twins, of which one never had the hidden memory. The answers
are the same, and what is hidden stays as it was.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest
from helpers.hidden_memories import HIDDEN, KINDS, exported, outcome, twins
from helpers.memories import ALICE
from helpers.summaries import Recording
from helpers.user_memory_calls import methods
from vecall import (
    ConfigError,
    InMemoryMemoryService,
    InvalidArgumentError,
    InvalidTypeError,
    Limits,
    MemoryAdmin,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    Put,
    Ranking,
    ReadOnlyError,
    Rights,
    RightsError,
    UserMemory,
)

TURN = {"id": "t9", "content": "one more emu", "author": "user", "trust": "first-party"}
IDS = [HIDDEN, "v0", "absent"]
FILTERS: list[dict[str, Any]] = [
    {"kind": "fact"},
    {"session_id": "s"},
    {"trust": ["unverified", "mine"]},
    {"metadata": {"pin": {"$gte": 400}}},
    {"not_id": HIDDEN},
    {"min_trust": "unknown"},
]
CALLS: dict[str, list[dict[str, Any]]] = {
    "search": [
        {"query": "emu", "top_k": 20},
        {"query": "held low emu", "top_k": 1, "explain": True},
        {"query": "emu", "top_k": 2, "offset": 1},
        *({"query": "emu", "top_k": 20, "filter": each} for each in FILTERS),
    ],
    "explain": [
        {"query": "emu", "memory_id": HIDDEN},
        {"query": "emu", "memory_id": HIDDEN, "filter": {"kind": "preference"}},
        {"query": "fact", "memory_id": "v0", "top_k": 1},
        {"query": "emu", "memory_id": "<turn>", "min_confidence": 0.1},
    ],
    "get": [{"memory_id": HIDDEN}, {"memory_id": "v0"}],
    "get_many": [
        {"memory_ids": IDS},
        {"memory_ids": IDS, "include_expired": True},
    ],
    "expand_session": [
        {"memory_id": HIDDEN},
        {"memory_id": "<turn>", "turns_before": 9, "turns_after": 9},
    ],
    "list": [
        {},
        {"limit": 1},
        {"cursor": HIDDEN},
        {"cursor": HIDDEN, "limit": 1, "state": "archived"},
        {"cursor": "v0", "include_expired": True},
        {"state": "archived"},
        {"state": "quarantined", "filter": {"min_trust": "first-party"}},
        *({"filter": each, "include_expired": True} for each in FILTERS),
    ],
    "count": [
        {},
        {"state": "archived"},
        {"include_expired": True},
        *({"filter": each} for each in FILTERS),
    ],
    "figures": [{}, {"state": "archived"}, {"state": "quarantined"}],
    "list_sessions": [{}, {"limit": 1}, {"prefix": "s"}, {"include_expired": True}],
    "history": [{"memory_id": HIDDEN}, {"memory_id": "newer"}, {"memory_id": "v0"}],
    "mark_used": [{"memory_ids": IDS}],
    "touch": [{"memory_ids": IDS, "ttl": 9_999.0}, {"memory_ids": IDS, "ttl": None}],
    "update": [
        {"memory_id": HIDDEN, "kind": "x"},
        {"memory_id": HIDDEN, "content": "y", "if_version": 1.0},
        {"memory_id": "v1", "content": "fact 1 about an okapi"},
    ],
    "archive": [{"memory_id": HIDDEN}, {"memory_id": "v1"}],
    "restore": [{"memory_id": HIDDEN}, {"memory_id": "newer"}, {"memory_id": "v1"}],
    "release": [{"memory_id": HIDDEN}, {"memory_id": HIDDEN, "updated_at": 1.0}],
    "add": [
        {"memories": [{"id": "n", "content": "new", "supersedes": HIDDEN}]},
        {"memories": [{"id": "n", "content": "new emu", "trust": "first-party"}]},
        {"memories": [{"id": "n", "content": "else"}], "if_absent": True},
        {"memories": [{"id": "n", "content": "new"}], "supersedes": ["v1", HIDDEN]},
        {"memories": ["fact 1 about a new emu"], "similar": True},
    ],
    "add_events": [{"events": [TURN], "session_id": "s"}],
    "propose_forget": [{"query": "emu", "top_k": 20}],
    "confirm_forget": [{"token": "unknown", "ids": [HIDDEN]}],
    "end_session": [{"session_id": "s"}],
    "conflicts": [{"limit": 100}],
    "consolidate": [{"dry_run": True}, {"older_than": 1.0, "dry_run": True}, {}],
    "delete": [
        {"memory_id": HIDDEN},
        {"memory_id": HIDDEN, "if_version": 1.0},
        {"memory_id": "v0", "if_version": 1.0},
    ],
    "delete_many": [{"memory_ids": IDS}],
    "delete_where": [{"filter": each} for each in FILTERS if "not_id" not in each],
    "delete_session": [{"session_id": "s"}],
}
LAST = {"delete_all": [{"forget": True}, {}]}  # of the quarantined ones, too


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_tells_of_a_hidden_memory_or_changes_it(open_service, tmp_path, kind):
    pair = twins(open_service, tmp_path, kind)
    before = pair.hidden()
    assert before
    users = [each.sync.user(**ALICE) for each in pair.restricted()]
    (turn,) = [each.id for each in users[0].list() if each.text.startswith("turn 1")]
    told = 0
    for name, calls in CALLS.items():
        for given in calls:
            named = {k: turn if v == "<turn>" else v for k, v in given.items()}
            full, bare = (outcome(partial(getattr(u, name), **named)) for u in users)
            assert full == bare, (name, given)
            told += not full.startswith(("[]", "0", "false"))
        left = [
            outcome(partial(user.list, state=state))
            for user in users
            for state in ("live", "archived")
        ]
        assert left[:2] == left[2:], name
        assert pair.hidden() == before, name
    assert told > 30
    for given in LAST["delete_all"]:
        full, bare = (outcome(partial(user.delete_all, **given)) for user in users)
        assert full == bare, given
    if pair.rights.has_floor and "quarantined" not in kind:
        assert pair.hidden() == before


def test_every_method_is_called():
    """A new method has to say here what it does with a hidden memory."""
    assert CALLS.keys() | LAST.keys() == methods(UserMemory).keys()


def test_the_rest_of_a_service_is_for_full_rights(open_service, tmp_path):
    """Whole sessions obey the rights; of `admin`, what concerns one user does."""
    pair = twins(open_service, tmp_path, "low")
    session = {**ALICE, "id": "s", "events": [TURN]}
    for call in (
        lambda each: each.sync.observe_session(session),
        lambda each: each.sync.add_session_to_memory(session, replace=True),
        lambda each: each.sync.end_session(**ALICE, session_id="s"),
    ):
        before = pair.hidden()
        full, bare = (outcome(partial(call, each)) for each in pair.restricted())
        assert full == bare
        assert pair.hidden() == before
    given: dict[str, Any] = {
        "backup": {"path": tmp_path / "copy"},
        "export_jsonl": {"path": tmp_path / "export", **ALICE},
        "import_jsonl": {"path": tmp_path / "export"},
        "purge": {},
        "reembed": {"embedder": lambda texts: [[1.0]] * len(texts)},
        "stats": {},
        "run_due": {},
        "delete_app": {"app_name": ALICE["app_name"], "confirm": True},
    }
    assert given.keys() | {"warm", "list_apps", "list_users"} == {
        name
        for name, _ in inspect.getmembers(MemoryAdmin, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    before = exported(pair.full)
    for rights in ({"min_trust": "first-party"}, {"review": False}):
        view = pair.full.restricted(Rights(**rights))
        for name, arguments in given.items():
            if rights == {"review": False} and name == "export_jsonl":
                continue
            with pytest.raises(RightsError):
                getattr(view.sync.admin, name)(**arguments)
    assert exported(pair.full) == before
    assert not any(tmp_path.glob("export"))


def test_a_write_of_a_hidden_id_is_left_out_unless_it_says_the_same(
    open_service, tmp_path
):
    pair = twins(open_service, tmp_path, "low")
    user = pair.full.restricted(pair.rights).sync.user(**ALICE)
    before = pair.hidden()
    for options in ({}, {"if_absent": True}, {"restore": True}):
        others = [{"id": HIDDEN, "content": "b"}, {"id": "n", "content": "c"}]
        added = user.add(others, **options)
        assert list(added) == [None, "n"]
        assert [(each.index, each.reason) for each in added.left_out] == [(0, "taken")]
        user.delete("n")
    same = {"id": HIDDEN, "content": "a low emu", "kind": "fact", "session_id": "s"}
    same |= {"custom_metadata": {"pin": 493}, "trust": "unverified"}
    assert list(user.add([same], ttl=9_999.0)) == [HIDDEN]
    assert pair.hidden() == before


def test_a_write_over_a_quarantined_memory_knows_nothing_of_it(open_service, tmp_path):
    """The new memory is as if it were the first; reviewers find the old one."""
    pair = twins(open_service, tmp_path, "quarantined")
    full, bare = (each.sync.user(**ALICE) for each in pair.restricted())
    held = {"id": HIDDEN, "content": "a held emu", "trust": "first-party"}
    held |= {"kind": "fact", "session_id": "s", "custom_metadata": {"pin": 493}}
    before = pair.hidden()
    assert full.add([held], ttl=9_999.0) == [HIDDEN]
    assert pair.hidden() == before
    new = {"id": HIDDEN, "content": "a tame emu"}
    for user in (full, bare):
        user.delete(HIDDEN)
        assert user.add([new], if_absent=True) == [HIDDEN]
    found, expected = full.get(HIDDEN), bare.get(HIDDEN)
    assert (found.text, found.trust, found.created_at) == (
        expected.text,
        expected.trust,
        expected.created_at,
    )
    assert [each.memory.text for each in full.history(HIDDEN)] == ["a tame emu"]
    past = pair.full.sync.user(**ALICE).history(HIDDEN)
    assert [each.memory.text for each in past] == ["a held emu", "a tame emu"]


def test_a_history_does_not_name_a_hidden_memory_that_replaced_another(open_service):
    service = open_service()
    user = service.sync.user(**ALICE)
    user.add([MemoryEntry("an emu", id="old", trust="first-party")])
    user.add([MemoryEntry("no emu", id="new", trust="unknown", supersedes="old")])
    assert [each.by for each in user.history("old")] == ["new"]
    seen = service.restricted(Rights(min_trust="first-party")).sync.user(**ALICE)
    assert [(each.why, each.by) for each in seen.history("old")] == [
        ("superseded", None)
    ]
    with pytest.raises(NotFoundError):
        seen.history("new")


def test_what_a_deleted_memory_replaced_stays_if_it_is_hidden(open_service):
    service = open_service()
    user = service.sync.user(**ALICE)
    user.add([MemoryEntry("an emu", id="old", trust="unknown")])
    user.add([MemoryEntry("no emu", id="new", trust="first-party", supersedes="old")])
    seen = service.restricted(Rights(min_trust="first-party")).sync.user(**ALICE)
    assert seen.delete("new")
    assert [each.id for each in user.list(state="archived")] == ["old"]


def test_a_hidden_summary_is_not_taken_apart(open_service):
    service = open_service(summarizer=Recording())
    user = service.sync.user(**ALICE)
    turns = [
        {"id": f"e{n}", "content": f"emu {n}", "timestamp": n, "trust": tier}
        for n, tier in enumerate(["first-party", "unknown"])
    ]
    user.add_events(turns, session_id="s")
    (summary,) = user.consolidate(older_than=1.0).summaries
    user.archive(summary)
    seen = service.restricted(Rights(min_trust="first-party")).sync.user(**ALICE)
    with pytest.raises(NotFoundError):
        seen.restore(summary)
    assert len(user.list(state="archived")) == 3
    assert len(user.restore(summary)) == 1


def test_hidden_turns_that_are_told_again_in_another_order_stay_in_theirs(open_service):
    service = open_service()
    user = service.sync.user(**ALICE)
    turns = [{"id": f"e{n}", "content": f"emu {n}"} for n in range(4)]
    ids = user.add_events(turns, session_id="s")
    seen = service.restricted(Rights(min_trust="first-party")).sync.user(**ALICE)
    assert seen.add_events(turns[::-1], session_id="s") == ids[::-1]
    found = user.expand_session(ids[0], turns_before=9, turns_after=9)
    assert [each.id for each in found] == ids


def test_an_expired_hidden_memory_gives_its_id_back(open_service, tmp_path):
    for kind in ("low and expired", "quarantined and expired"):
        folder = tmp_path / kind.split()[0]
        folder.mkdir()
        pair = twins(open_service, folder, kind)
        answers = []
        for view in pair.restricted():
            user = view.sync.user(**ALICE)
            entry = MemoryEntry("new", id=HIDDEN, trust="first-party")
            user.add([entry], if_absent=True)
            answers.append(outcome(lambda user=user: [user.get(HIDDEN), user.list()]))
            assert len(user.history(HIDDEN)) == 1
        assert answers[0] == answers[1]


def test_a_user_who_is_deleted_is_deleted_with_what_is_quarantined(
    open_service, tmp_path
):
    """It is not counted; a floor on trust leaves what is below it."""
    for forget in (False, True):
        folder = tmp_path / str(forget)
        folder.mkdir()
        pair = twins(open_service, folder, "quarantined")
        counts = [
            each.sync.user(**ALICE).delete_all(forget=forget)
            for each in pair.restricted()
        ]
        assert counts[0] == counts[1] > 0
        assert not any("emu" in line for line in exported(pair.full))


def test_rights_only_become_fewer(open_service):
    service = open_service()
    user = service.sync.user(**ALICE)
    user.add([MemoryEntry("low", id="low", trust="unverified")])
    view = service.restricted(Rights(min_trust="first-party", read_only=True))
    again = view.restricted(Rights(min_trust="unknown"))
    for each in (view, again):
        with pytest.raises(NotFoundError):
            each.sync.user(**ALICE).get("low")
        with pytest.raises(ReadOnlyError):
            each.sync.user(**ALICE).add(["new"])
        with pytest.raises(ReadOnlyError):
            each.sync.items.write(**ALICE, operations=[Put(("a",), "k", {})])
    assert service.restricted(Rights()).sync.user(**ALICE).get("low").text == "low"
    assert service.restricted(view._memory.rights) is view  # made once
    with pytest.raises(InvalidTypeError, match="rights"):
        service.restricted({"review": True})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="min_trust"):
        Rights(min_trust="mine")
    with pytest.raises(InvalidTypeError, match="review"):
        Rights(review=1)  # type: ignore[arg-type]


def test_a_restricted_memory_is_closed_with_its_service():
    service = MemoryService(embedder=None)
    view = service.restricted(Rights(review=False))
    with view:
        view.sync.user(**ALICE).add(["x"])
    for each in (service, view):
        with pytest.raises(Exception, match="closed"):
            each.sync.user(**ALICE).list()


def test_a_long_hidden_turn_keeps_its_passages(open_service):
    service = open_service(limits=Limits(max_text_bytes=8_192))
    user = service.sync.user(**ALICE)
    long = {"id": "e", "content": " ".join(f"emu {n}." for n in range(3_000))}
    (turn,) = user.add_events([long], session_id="s")
    before = user.list()
    assert len(before) > 1
    seen = service.restricted(Rights(min_trust="first-party")).sync.user(**ALICE)
    other = {"id": "e", "content": long["content"].replace("emu", "okapi")}
    for given in (other, {**other, "trust": "first-party"}):
        added = seen.add_events([given], session_id="s")
        assert [each.reason for each in added.left_out] == ["taken"]
    assert seen.add_events([long], session_id="s") == [turn]
    assert not seen.delete(turn)
    with pytest.raises(NotFoundError):
        seen.archive(turn)
    assert user.list() == before


@pytest.mark.parametrize("match", ["words", "substring"])
def test_a_service_that_matches_texts_is_restricted_as_any_other(match):
    with InMemoryMemoryService(match) as service:
        user = service.sync.user(**ALICE)
        for tier in ("first-party", "unknown"):
            user.add([MemoryEntry("an emu", id=tier, trust=tier)])
        seen = service.restricted(Rights(min_trust="first-party")).sync.user(**ALICE)
        for found in (seen.search("emu"), seen.propose_forget("emu")):
            assert [each.id for each in found.memories] == ["first-party"]
        with pytest.raises(ConfigError, match="ranking"):
            seen.search("emu", ranking=Ranking())
