"""Filters on lists in the metadata: equality, `$contains`, `$all` and `$any`."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from helpers.campaigns import scaled
from helpers.filter_model import meets
from helpers.memories import ALICE
from vecall import InMemoryMemoryService, LimitExceededError, MemoryEntry, MemoryService
from vecall.filters import metadata as conditions

TAGS: list[Any] = [
    "open",
    "private",
    "pri",
    "",
    "é",
    'a"b',
    "a\\b",
    "a\0b",
    1,
    1.0,
    True,
]
TAGS += [0, False, None, 2**64, -0.5]
NAMES = {"app_name": ALICE["app_name"], "user_id": ALICE["user_id"]}


def some(rng: random.Random, least: int = 0) -> list[Any]:
    return rng.choices(TAGS, k=rng.randint(least, 3))


def stored(rng: random.Random) -> dict[str, Any]:
    tags: Any = rng.choice(
        [some(rng), some(rng), some(rng), rng.choice(TAGS), "openprivate", [some(rng)]]
    )
    return rng.choice([{"tags": tags}, {"deep": {"tags": tags}}, {}])


def asked(rng: random.Random) -> dict[str, Any]:
    operator = rng.choice(["$contains", "$all", "$any", "$eq", "$ne", "$in", "$nin"])
    operand: Any = {
        "$contains": rng.choice(TAGS),
        "$all": some(rng, 1),
        "$any": some(rng, 1),
        "$eq": some(rng),
        "$ne": some(rng),
        "$in": [some(rng), rng.choice(TAGS)],
        "$nin": [some(rng), some(rng)],
    }[operator]
    condition: Any = {operator: operand}
    if operator == "$eq" and rng.random() < 0.5:
        condition = operand
    if rng.random() < 0.2:
        condition = {"$not": condition}
    return {rng.choice(["tags", "deep.tags"]): condition}


def filled(service: MemoryService, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    told = [stored(rng) for _ in range(60)]
    service.sync.add_memory(
        **NAMES,
        memories=[
            MemoryEntry(f"zebra {n}", id=f"m{n}", custom_metadata=each)
            for n, each in enumerate(told)
        ],
    )
    return told


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(3))
def test_a_file_and_memory_find_what_the_reference_finds(open_service, tmp_path, seed):
    """In lists, counts and searches, and in the conditions on items."""
    rng = random.Random(f"asked {seed}")
    with (
        open_service(tmp_path / "m.db") as file,
        MemoryService(embedder=None) as memory,
        InMemoryMemoryService("words") as plain,
    ):
        services = [file, memory, plain]
        for service in services:
            told = filled(service, seed)
        hits = 0
        for _ in range(count := scaled(120, 20)):
            wanted = asked(rng)
            right = [f"m{n}" for n, each in enumerate(told) if meets(each, wanted)]
            hits += bool(right)
            for service in services:
                user = service.sync.user(*NAMES.values())
                given = {"metadata": wanted}
                assert [each.id for each in user.list(filter=given)] == right
                assert user.count(filter=given) == len(right)
                found = user.search("zebra", filter=given, top_k=60)
                assert sorted(each.id for each in found) == sorted(right)
            test = conditions.compile_conditions(wanted)
            assert [f"m{n}" for n, each in enumerate(told) if test(each)] == right
        assert hits > count / 3


def test_what_is_deleted_by_a_tag_has_that_tag(open_service, tmp_path):
    with open_service(tmp_path / "m.db") as service:
        told = filled(service, 5)
        wanted = {"tags": {"$any": ["private", "é"]}}
        gone = sum(meets(each, wanted) for each in told)
        assert gone > 3
        user = service.sync.user(*NAMES.values())
        assert service.sync.delete_where(**NAMES, filter={"metadata": wanted}) == gone
        assert user.count() == len(told) - gone
        assert user.count(filter={"metadata": wanted}) == 0


@pytest.mark.parametrize("operator", ["$all", "$any"])
def test_each_operand_counts_in_the_budget(open_service, monkeypatch, operator):
    service = open_service()
    user = service.sync.user(*NAMES.values())
    user.add([MemoryEntry(f"zebra {n}", custom_metadata={"t": [n]}) for n in range(10)])
    wanted = {"metadata": {"t": {operator: list(range(7))}}}
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", 70)
    assert user.count(filter=wanted) == (7 if operator == "$any" else 0)
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", 69)
    with pytest.raises(LimitExceededError, match=r"filter\.metadata: at most 69 "):
        user.count(filter=wanted)


@pytest.mark.parametrize(
    ("long", "cost"), [([0] * 1_600, 1 + 100), ("0" * 5_120, 1 + 20)]
)
def test_a_long_stored_list_or_text_counts_as_several_comparisons(
    open_service, monkeypatch, long, cost
):
    """Otherwise a few rows could take as long as a million."""
    user = open_service().sync.user(*NAMES.values())
    user.add([MemoryEntry("zebra", custom_metadata={"t": long})])
    wanted = {"metadata": {"t": {"$contains": "x" if isinstance(long, list) else "01"}}}
    wanted["metadata"]["t"] = {"$not": wanted["metadata"]["t"]}
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", cost)
    assert user.count(filter=wanted) == 1
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", cost - 1)
    with pytest.raises(LimitExceededError):
        user.count(filter=wanted)


def test_a_tag_that_no_row_has_costs_no_budget(open_service, monkeypatch):
    """The database leaves out the rows without its text."""
    user = open_service().sync.user(*NAMES.values())
    user.add([MemoryEntry("zebra", custom_metadata={"t": ["a", "b"]})])
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", 0)
    for wanted in ({"$contains": "never"}, {"$all": ["a", "never"]}, ["a", "never"]):
        assert user.count(filter={"metadata": {"t": wanted}}) == 0
    with pytest.raises(LimitExceededError):
        user.count(filter={"metadata": {"t": {"$contains": "a"}}})


def test_a_search_with_long_lists_does_not_hold_the_loop_up(open_service, monkeypatch):
    """What is found is compared again, on another thread if that takes long."""
    from vecall.operations import searches

    service = open_service()
    user = service.sync.user(*NAMES.values())
    long = [{"t": [n, *range(1_000)]} for n in range(40)]
    user.add([MemoryEntry(f"zebra {n}", custom_metadata=e) for n, e in enumerate(long)])
    threads: list[str] = []
    real = searches._values_to_test

    def watched(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*arguments)

    monkeypatch.setattr(searches, "_values_to_test", watched)
    for operand, is_long in (([1_000 - 1] * 1, False), (list(range(20, 30)), True)):
        threads.clear()
        found = user.search(
            "zebra", top_k=40, filter={"metadata": {"t": {"$all": operand}}}
        )
        assert len(found) == 40
        assert (len(set(threads)) == 2) == is_long


def test_items_are_found_by_the_elements_of_their_lists(open_service, tmp_path):
    """Of any JSON values; each list contains all of nothing."""
    from vecall import Put

    with open_service(tmp_path / "m.db") as service:
        items = service.sync.items
        values: list[Any] = [["a", {"n": 1}], [[1], True], [1], "a", None]
        items.write(
            [Put(("n",), str(n), {"v": each}) for n, each in enumerate(values)], **NAMES
        )

        def keys(condition: dict[str, Any]) -> list[str]:
            found = items.find_all(("n",), where={"v": condition}, **NAMES)
            return sorted(each.key for each in found)

        assert keys({"$contains": "a"}) == ["0", "3"]
        assert keys({"$contains": {"n": 1.0}}) == ["0"]
        assert keys({"$contains": {"n": True}}) == []
        assert keys({"$contains": [1]}) == ["1"]
        assert keys({"$contains": 1}) == ["2"]
        assert keys({"$any": [1, True]}) == ["1", "2"]
        assert keys({"$all": []}) == ["0", "1", "2", "3"]
        assert keys({"$any": []}) == []
