"""Why a search returns a memory or does not: the step and the margin."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE, BOB
from vecall import (
    ConfigError,
    Explanation,
    Filter,
    InvalidArgumentError,
    MemoryEntry,
    NotFoundError,
    Ranking,
    Rights,
    ScopeError,
    Scopes,
)
from vecall.hooks import ALLOW, QUARANTINE

WORDS = ["emu", "okapi", "zebra", "tapir", "gnu", "lynx"]


def _filled(user, count=60, seed=3):
    chance = random.Random(seed)
    texts = [
        " ".join(chance.choices(WORDS, k=chance.randint(1, 9))) for _ in range(count)
    ]
    return user.add(
        [
            MemoryEntry(text, id=f"m{n}", timestamp=float(n), kind=chance.choice("ab"))
            for n, text in enumerate(texts)
        ]
    )


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"top_k": 1},
        {"top_k": 12, "min_confidence": 0.3},
        {"min_confidence": 0.6},
        {"filter": Filter(kind="a", after=10.0)},
        {"ranking": Ranking(fusion="rrf")},
        {"ranking": Ranking(half_life=1.0)},
        {"ranking": Ranking(collapse=0.8)},
        {"ranking": Ranking(diversity=0.5)},
        {"ranking": Ranking(reranker=lambda query, texts: [len(t) for t in texts])},
    ],
)
def test_every_memory_is_explained_as_the_search_itself_decides(open_service, how):
    """The reference is `search_memory`: what it returns is found, and nothing else."""
    user = open_service().sync.user(**ALICE)
    ids = _filled(user)
    shown = user.search("emu zebra", explain=True, **how).memories
    every = user.search("emu zebra", top_k=1000).memories
    place = {memory.id: memory for memory in shown}
    floor = how.get("min_confidence", 0.0)
    for id_ in ids:
        told = user.explain("emu zebra", id_, **how)
        assert (told.outcome == "found") == (id_ in place), id_
        if told.outcome != "filtered":
            assert told.last == (shown[-1] if shown else None)
        assert told.memory.text == user.get(id_).text
        if told.outcome == "found":
            assert told.memory == place[id_]
        elif told.outcome == "below_min_confidence":
            assert told.memory.confidence < floor
            assert told.margin == told.memory.confidence - floor
        elif told.outcome == "outranked":
            assert told.margin == told.memory.score - told.last.score
        elif told.outcome == "filtered":
            assert set(told.failed) <= {"kind", "after"}
            assert told.rank is None
        else:
            assert told.outcome == "no_candidate"
            assert id_ not in {memory.id for memory in every} or "ranking" in how
        if told.rank is not None and not how:
            assert every[told.rank - 1].id == id_
            assert told.candidates == len(every)
    assert user.search("emu zebra", explain=True, **how).memories == shown


def test_a_margin_is_what_the_memory_has_more_or_less_than_it_needs(open_service):
    user = open_service().sync.user(**ALICE)
    _filled(user)
    every = user.search("emu", top_k=1000).memories
    for rank, memory in enumerate(every, 1):
        told = user.explain("emu", memory.id, top_k=3)
        border = every[3] if rank <= 3 else every[2]
        assert told.rank == rank
        assert told.margin == memory.score - border.score
        assert (told.margin >= 0) == (rank <= 3) or told.margin == 0
    alone = user.explain("emu", every[0].id, top_k=1000)
    assert (alone.outcome, alone.margin) == ("found", None)


def test_every_condition_that_excludes_a_memory_is_named(open_service):
    user = open_service().sync.user(**ALICE)
    entry = MemoryEntry(
        "an emu", id="e", timestamp=100.0, author="user", kind="fact", source="chat",
        trust="unverified", session_id="s", custom_metadata={"pin": 4},
    )  # fmt: skip
    user.add([entry])
    passing = {
        "session_id": "s", "after": 100.0, "before": 100.5, "author": ["user", "x"],
        "kind": "fact", "metadata": {"pin": {"$gt": 3}}, "not_kind": "x",
        "trust": "unverified", "source": "chat", "not_session_id": "t", "not_id": "f",
        "session_prefix": "s", "kind_prefix": "fa",
    }  # fmt: skip
    failing = {
        "session_id": "t", "after": 100.5, "before": 100.0, "author": "x",
        "kind": "x", "metadata": {"pin": {"$lt": 3}}, "not_kind": ["x", "fact"],
        "trust": "unknown", "source": "x", "not_session_id": "s", "not_id": "e",
        "session_prefix": "t", "kind_prefix": "x",
    }  # fmt: skip
    assert user.explain("emu", "e", filter=passing).outcome == "found"
    for name, value in failing.items():
        told = user.explain("emu", "e", filter={name: value})
        assert (told.outcome, told.failed) == ("filtered", (name,)), name
        assert user.search("emu", filter={name: value}).memories == []
    told = user.explain("emu", "e", filter=failing)
    assert set(told.failed) == set(failing)
    assert user.explain("emu", "e", filter={"min_trust": "first-party"}).failed == (
        "trust",
    )


def test_states_that_no_search_returns_are_named(open_service):
    clock = SettableClock()
    service = open_service(
        clock=clock,
        maintenance_interval=None,
        on_write=lambda write: QUARANTINE if "held" in write.memory.text else ALLOW,
    )
    user = service.sync.user(**ALICE)
    user.add([MemoryEntry("an emu", id="old"), MemoryEntry("emu", id="put away")])
    user.add([MemoryEntry("a new emu", id="new", supersedes="old")])
    user.add([MemoryEntry("a held emu", id="held")])
    user.add([MemoryEntry("a brief emu", id="brief")], ttl=5.0)
    user.add([MemoryEntry("a valid emu", id="valid", valid_until=clock.wall() + 5.0)])
    user.archive("put away")
    assert user.explain("emu", "brief").outcome == "found"
    clock.let_pass(10.0)
    found = {}
    for id_ in ("old", "put away", "held", "brief", "valid"):
        told = user.explain("emu", id_)
        found[id_] = (told.outcome, told.why, told.by, told.memory.id)
        assert told.rank is told.last is None
    assert found == {
        "old": ("archived", "superseded", "new", "old"),
        "put away": ("archived", "archived", None, "put away"),
        "held": ("quarantined", None, None, "held"),
        "brief": ("expired", None, None, "brief"),
        "valid": ("expired", None, None, "valid"),
    }


def test_what_is_hidden_does_not_exist(open_service):
    service = open_service(
        on_write=lambda write: QUARANTINE if "held" in write.memory.text else ALLOW
    )
    user = service.sync.user(**ALICE)
    user.add([MemoryEntry("a held emu", id="held", trust="first-party")])
    user.add([MemoryEntry("a low emu", id="low", trust="unknown")])
    user.add([MemoryEntry("an emu", id="own", trust="first-party")])
    rights = Rights(min_trust="first-party", review=False)
    seen = service.restricted(rights).sync.user(**ALICE)
    said = set()
    for id_ in ("held", "low", "absent"):
        with pytest.raises(NotFoundError) as caught:
            seen.explain("emu", id_)
        said.add(str(caught.value))
    assert len(said) == 1
    assert seen.explain("emu", "own").candidates == 1
    other = service.sync.user(**BOB)
    with pytest.raises(NotFoundError):
        other.explain("emu", "own")


def test_a_floor_on_the_cosine_is_told_by_how_much(open_service):
    def vectors(texts):
        turned = {"one": 0.0, "near": 0.3, "far": 1.5}

        def known(text):
            return next((word for word in turned if word in text), "one")

        return np.array(
            [[np.cos(turned[t]), np.sin(turned[t])] for t in map(known, texts)]
        )

    user = open_service(embedder=vectors).sync.user(**ALICE)
    user.add([MemoryEntry("near", id="n"), MemoryEntry("far", id="f")])
    assert user.explain("one", "n", min_similarity=0.5).outcome == "found"
    told = user.explain("one", "f", min_similarity=0.5)
    assert told.outcome == "below_min_similarity"
    assert told.margin == pytest.approx(np.cos(1.5) - 0.5, abs=0.02)


def test_a_memory_of_another_scope_is_found_where_the_search_looks(open_service):
    scopes = Scopes(read=("shared",), write=("shared",))
    service = open_service(scopes=scopes)
    user = service.sync.user(**ALICE)
    user.add([MemoryEntry("an emu", id="e")])
    user.add([MemoryEntry("a shared emu", id="e")], scope="shared")
    own, shared = user.explain("emu", "e"), user.explain("emu", "e", scope="shared")
    assert (own.memory.text, shared.memory.text) == ("an emu", "a shared emu")
    assert own.outcome == shared.outcome == "found"
    assert own.candidates == 2
    told = user.explain("emu", "e", scope="shared", scopes=[])
    assert (told.outcome, told.failed) == ("filtered", ("scopes",))
    with pytest.raises(ScopeError):
        open_service().sync.user(**ALICE).explain("emu", "e", scope="shared")


def test_odd_arguments_are_refused_as_by_a_search(open_service):
    user = open_service().sync.user(**ALICE)
    user.add([MemoryEntry("an emu", id="e")])
    for kind, named in [
        (InvalidArgumentError, {"top_k": 0}),
        (InvalidArgumentError, {"min_confidence": 2.0}),
        (InvalidArgumentError, {"filter": {"unknown": 1}}),
        (InvalidArgumentError, {"memory_id": ""}),
        (ConfigError, {"min_similarity": 0.5}),
        (NotFoundError, {"memory_id": "\U0001f99c" * 3}),
    ]:
        with pytest.raises(kind):
            user.explain(**{"query": "emu", "memory_id": "e", **named})
    for query in ("", "?", "\u200b", "emu " * 5_000):
        told = user.explain(query, "e")
        assert isinstance(told, Explanation)
        assert (told.outcome == "found") == ("emu" in query)
    assert user.explain(np.str_("emu"), np.str_("e"), top_k=np.int64(1)).rank == 1
