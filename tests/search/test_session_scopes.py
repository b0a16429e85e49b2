"""Turns that come between others: where they stand, and how little is written."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.memories import ALICE
from helpers.sessions import session, stored_order, turns
from vecall.store import examine
from vecall.store.writes.sessions import positions_between, spread_positions


def merged(stored: list[int], told: list[int]) -> list[int]:
    """The order of a session once a call told some of its turns, in plain Python."""
    if not any(number in stored for number in told):
        return stored + told
    known = [number for number in stored if number in told]
    blocks: dict[int | None, list[int]] = {None: []}
    leader: int | None = None
    for number in stored:
        if number in known:
            leader = number
            blocks[leader] = []
        else:
            blocks[leader].append(number)
    order = list(blocks[None])
    for number in told:
        order += [number, *blocks.get(number, [])]
    return order


def positions(path: Path) -> dict[str, float]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT event, pos FROM mem ORDER BY pos"))


def changes(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT sum(seq) FROM part").fetchone()[0])


@pytest.mark.parametrize("seed", range(4))
def test_calls_in_any_order_merge_like_lists(open_service, tmp_path, seed):
    """Also after hundreds of turns came between, and where the order was another."""
    rng = random.Random(seed)
    path = tmp_path / "m.db"
    service = open_service(path)
    model: list[int] = []
    for number in range(70):
        fresh = [1_000 * number + i for i in range(rng.randint(0, 4))]
        at = rng.randint(0, len(model))
        some = model[max(at - rng.randint(0, 3), 0) : at + rng.randint(0, 3)]
        if rng.random() < 0.2:
            rng.shuffle(some)
        told = list(some)
        for each in fresh:
            told.insert(rng.randint(0, len(told)), each)
        service.sync.add_session_to_memory(session(*turns(*told)))
        model = merged(model, told)
    service.close()
    assert stored_order(path) == [f"e{number}" for number in model]
    assert "error" not in {finding.level for finding in examine(path)}


@pytest.mark.parametrize("known", [(10, 11), (0, 1)])
def test_a_turn_between_others_writes_few_of_them(open_service, tmp_path, known):
    """More than a hundred turns come to one place of a long session, one by one."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(session(*turns(*range(600))))
    service.close()
    before = changes(path)
    service = open_service(path)
    first, last = known
    order = list(range(600))
    for number in range(1_000, 1_120):
        service.sync.add_session_to_memory(session(*turns(first, number, last)))
        order.insert(order.index(last), number)
    service.close()
    assert stored_order(path) == [f"e{number}" for number in order]
    assert changes(path) - before < 10 * 120
    apart = list(positions(path).values())
    assert all(0 < b - a <= 1 for a, b in pairwise(apart))


def test_a_session_told_backwards_is_in_order(open_service, tmp_path):
    """Each call brings the turn before those that are known."""
    path = tmp_path / "m.db"
    service = open_service(path)
    for number in range(120, 0, -1):
        service.sync.add_session_to_memory(session(*turns(number, number + 1)))
    service.close()
    assert stored_order(path) == [f"e{number}" for number in range(1, 122)]


def test_a_turn_between_is_found_with_its_neighbours(open_service, tmp_path):
    """The file's fractions are the engine's, in this process and in the next."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(session(*turns(*range(8))))
    service.sync.add_session_to_memory(session(*turns(3, 77, 4)))
    for again in (service, open_service(path)):
        found = again.sync.search_memory(**ALICE, query="word77", top_k=9)
        texts = [memory.text for memory in found.memories]
        assert texts[0] == "turn word77"
        assert set(texts[1:3]) == {"turn word3", "turn word4"}
        hit = found.memories[0].id
        around = again.sync.expand_session(
            **ALICE, memory_id=hit, turns_before=1, turns_after=1
        )
        told = [memory.text for memory in around]
        assert told == ["turn word3", "turn word77", "turn word4"]
        again.close()


def test_an_archived_turn_keeps_its_place(open_service, tmp_path):
    """Turns around it may move; when it comes back it stands where it stood."""
    path = tmp_path / "m.db"
    service = open_service(path)
    ids = service.sync.add_session_to_memory(session(*turns(*range(20))))
    service.sync.archive_memory(**ALICE, memory_id=ids[11])
    for number in range(100, 160):
        service.sync.add_session_to_memory(session(*turns(10, number, 12)))
    service.sync.restore_memory(**ALICE, memory_id=ids[11])
    service.close()
    inserted = [f"e{number}" for number in range(100, 160)]
    head = [f"e{number}" for number in range(12)]
    tail = [f"e{number}" for number in range(12, 20)]
    assert stored_order(path) == head + inserted + tail


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
@pytest.mark.parametrize("low", [None, -3, 0, 4, 4.5, 10.75])
@pytest.mark.parametrize("high", [None, 11, 11.5, 5_000])
def test_numbers_between_are_between_and_near_one_end(low, high, count):
    found = positions_between(low, high, count)
    whole = [low, *found, high]
    order = [number for number in whole if number is not None]
    assert all(a < b for a, b in pairwise(order))
    near = [*found, high] if high is not None else [*found]
    assert all(b - a <= 1 for a, b in pairwise(near))
    assert all(isinstance(each, int) or each % 1 for each in found)


@pytest.mark.parametrize(("first", "last"), [(0, 40), (None, 3.5), (0.25, None)])
def test_numbers_that_are_spread_stay_in_order_with_room(first, last):
    old = [0.25 + n / 64 for n in range(30)]
    new = spread_positions(old, 12, 5, first, last, 2.0**-8)
    assert new is not None
    assert len(new) == 30
    steps = [b - a for a, b in pairwise(new)]
    assert min(steps) > 0
    assert steps[11] >= 6 * min(steps[:11]) - 1e-9
    assert first in (None, new[0])
    assert last in (None, new[-1])
    assert spread_positions(old, 12, 5, 0.0, 0.1, 2.0**-8) is None
