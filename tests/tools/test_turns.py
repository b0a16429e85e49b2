"""One search a turn, and nothing given twice in it: what the tools know of a turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from helpers.memories import ALICE, BOB
from helpers.tools import SCOPE, Watched, call, ids, run, watched_service
from vecall import ConfigError, MemoryService
from vecall.limits import Scopes
from vecall.tools import LoadMemory, PreloadMemory, RecallMemory, ShownMemories


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    yield from watched_service()


def test_a_turn_is_searched_for_once(memory: Watched):
    """S0.40: a model is asked many times in a turn, the memory once."""
    preload = PreloadMemory(memory, *SCOPE)

    async def turns() -> list[str]:
        first = [await preload.block("zebra one", turn="t1") for _ in range(4)]
        memory.sync.add_memory(**ALICE, memories=["zebra one zebra one"])
        first += [await preload.block("other words", turn="t1")]
        assert len(memory.searches) == 1
        assert len(set(first)) == 1
        empty = [await preload.block("okapi", turn="t2") for _ in range(3)]
        assert empty == ["", "", ""]
        assert len(memory.searches) == 2
        return [await preload.block("zebra one", turn=turn) for turn in ("t3", None)]

    later = run(turns())
    assert len(memory.searches) == 4
    assert later[0] == later[1]
    assert "zebra one zebra one" in later[0]


def test_a_turn_of_one_user_is_not_that_of_another(memory: Watched):
    """S0.35: one record of turns for all users, the same ids, and no way through."""
    memory.sync.add_memory(**BOB, memories=[{"id": "m0", "text": "zebra of bob"}])
    turns = ShownMemories()
    mine = PreloadMemory(memory, *SCOPE, turns=turns)
    assert "zebra one" in run(mine.block("zebra one", turn="t1"))
    his = PreloadMemory(memory, "app", "bob", turns=turns, min_confidence=None)
    other = PreloadMemory(memory, "app2", "alice", turns=turns)
    load = LoadMemory(memory, "app", "bob", turns=turns)
    assert ids(call(load, {"query": "zebra"}, turn="t1")) == ["m0"]
    assert run(other.block("zebra one", turn="t1")) == ""
    block = run(his.block("zebra one", turn="t1"))
    assert "zebra of bob" in block
    assert "zebra one" not in block


@pytest.mark.parametrize("turn", ["t1", None])
def test_nothing_is_given_twice_in_a_turn(memory: Watched, turn: str | None):
    """S1.14: what was preloaded is left out, and others take its place."""
    preload = PreloadMemory(memory, *SCOPE, max_entries=4, format="json")
    block = json.loads(run(preload.block("zebra", turn=turn)))
    given = {memory["id"] for memory in block}
    assert len(given) == 4
    load = LoadMemory(memory, *SCOPE, turns=preload.turns)
    recall = RecallMemory(memory, *SCOPE, turns=preload.turns)
    for answer in (
        call(load, {"query": "zebra"}, turn=turn),
        call(recall, {"query": "zebra", "limit": 5}, turn=turn),
    ):
        assert len(ids(answer)) == 5
        assert not given & set(ids(answer))
        assert answer["already_in_context"] == 4
    assert [asked["top_k"] for asked in memory.searches] == [4, 9, 9]
    # In the next turn it is news again.
    assert run(preload.block("okapi", turn=turn and "t2")) == ""
    later = call(load, {"query": "zebra"}, turn=turn and "t2")
    assert given < set(ids(later))
    assert "already_in_context" not in later


def test_an_id_of_another_scope_is_another_memory(open_service: Callable):
    """S1.14: a memory of the app under the id of a user's own is not left out."""
    memory: MemoryService = open_service(scopes=Scopes(read=["app"], write=["app"]))
    memory.sync.add_memory(**ALICE, memories=[{"id": "m", "text": "zebra okapi"}])
    memory.sync.add_memory(
        **ALICE, memories=[{"id": "m", "text": "zebra of all"}], scope="app"
    )
    preload = PreloadMemory(memory, *SCOPE, max_entries=1)
    assert "okapi" in run(preload.block("zebra okapi", turn="t1"))
    load = LoadMemory(memory, *SCOPE, turns=preload.turns)
    (left,) = call(load, {"query": "zebra"}, turn="t1")["memories"]
    assert (left["text"], left["scope"]) == ("zebra of all", "app")


def test_only_what_a_block_shows_is_left_out(memory: Watched):
    """S1.14: a memory that the budget shed can still be recalled."""
    preload = PreloadMemory(memory, *SCOPE, format="json", max_tokens=90)
    block = json.loads(run(preload.block("zebra", turn="t1")))
    given = {memory["id"] for memory in block}
    assert 0 < len(given) < 5
    already = preload.turns.already_recalled(SCOPE, "t1")
    assert already == {("user", id_) for id_ in given}
    recall = RecallMemory(memory, *SCOPE, turns=preload.turns)
    answer = call(recall, {"query": "zebra", "limit": 20}, turn="t1")
    assert given | set(ids(answer)) == {f"m{n}" for n in range(10)}
    assert not given & set(ids(answer))


def test_what_was_given_makes_no_answer_longer(memory: Watched):
    """S4.38: room is made for what is left out; what else is found stays within it."""
    preload = PreloadMemory(memory, *SCOPE, max_entries=1, format="json")
    assert '"m9"' in run(preload.block("zebra ten", turn="t1"))
    recall = RecallMemory(memory, *SCOPE, turns=preload.turns)
    all_but_ten = {"query": "zebra one two three four five six seven eight nine"}
    nine = call(recall, {**all_but_ten, "limit": 9}, turn="t1")
    assert set(ids(nine)) == {f"m{n}" for n in range(9)}
    assert "already_in_context" not in nine, "it would not have been among the nine"
    assert len(ids(call(recall, {**all_but_ten, "limit": 2}, turn="t1"))) == 2
    assert [asked["top_k"] for asked in memory.searches] == [1, 10, 3]


def test_the_oldest_turns_are_let_go(memory: Watched):
    """S0.40: a service that runs for ever keeps a bounded number of turns."""
    preload = PreloadMemory(memory, *SCOPE, turns=ShownMemories(max_turns=2))
    searches = []
    for turn in ("t1", "t2", "t3", "t3", "t2", "t1", "t2"):
        assert run(preload.block("zebra", turn=turn))
        searches.append(len(memory.searches))
    assert searches == [1, 2, 3, 3, 3, 4, 5], "t1 went for t3, and t2 for t1"
    with pytest.raises(ConfigError, match="max_turns"):
        ShownMemories(max_turns=0)


def test_turns_without_an_id_are_as_new_as_their_last_block(memory: Watched):
    """S1.14: the current turn is not let go for being the oldest key."""
    preload = PreloadMemory(memory, *SCOPE, turns=ShownMemories(max_turns=2))
    for turn in (None, "t1", None, "t2"):
        run(preload.block("zebra", turn=turn))
    assert len(preload.turns.already_recalled(SCOPE, None)) == 5
    assert preload.turns.already_recalled(SCOPE, "t1") == frozenset()
