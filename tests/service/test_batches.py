"""Several memories by their ids: read as of one moment, deleted in one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidArgumentError, InvalidTypeError, MemoryEntry, MemoryService

BOB = {**ALICE, "user_id": "bob"}
IDS = st.sampled_from(["a", "b", "c", "d", "'; --", "Ünï"])


def add(service: MemoryService, *ids: str, **who: str) -> None:
    entries = [MemoryEntry(f"zebra {id_}", id=id_) for id_ in ids]
    service.sync.add_memory(**(who or ALICE), memories=entries)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.lists(IDS, max_size=5)), max_size=6))
def test_each_answer_stands_at_the_place_of_its_id(steps):
    with MemoryService(embedder=None) as service:
        add(service, "a", "b", "c", **BOB)
        stored: dict[str, str] = {}
        for adds, ids in steps:
            if adds:
                add(service, *ids)
                stored |= {id_: f"zebra {id_}" for id_ in ids}
            else:
                gone = service.sync.delete_memories(**ALICE, memory_ids=ids)
                assert gone == [id_ in stored for id_ in ids]
                for id_ in ids:
                    stored.pop(id_, None)
            asked = [*ids, "a", "absent", *ids]
            found = service.sync.get_memories(**ALICE, memory_ids=asked)
            texts = [None if each is None else each.text for each in found]
            assert texts == [stored.get(id_) for id_ in asked]
            for id_ in dict.fromkeys(asked):
                if id_ in stored:
                    one = service.sync.get_memory(**ALICE, memory_id=id_)
                    assert one in found
        bobs = service.sync.get_memories(**BOB, memory_ids=["a", "b", "c"])
        assert [each.text for each in bobs if each] == [f"zebra {n}" for n in "abc"]


def test_more_ids_than_a_statement_takes(open_service):
    service = open_service()
    ids = [f"m{n}" for n in range(2_000)]
    add(service, *ids[::2])
    found = service.sync.get_memories(**ALICE, memory_ids=ids)
    assert [each.id if each else None for each in found] == [
        id_ if n % 2 == 0 else None for n, id_ in enumerate(ids)
    ]
    gone = service.sync.delete_memories(**ALICE, memory_ids=ids)
    assert gone == [n % 2 == 0 for n in range(2_000)]
    assert service.sync.admin.stats()["memories"] == 0


def test_an_expired_or_archived_memory_is_not_returned(open_service):
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    add(service, "a", "b")
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry("c", id="c")], custom_metadata={"ttl": 5}
    )
    service.sync.archive_memory(**ALICE, memory_id="b")
    found = service.sync.get_memories(**ALICE, memory_ids=["a", "b", "c"])
    assert [bool(each) for each in found] == [True, False, True]
    clock.let_pass(6)
    found = service.sync.get_memories(**ALICE, memory_ids=["a", "b", "c"])
    assert [bool(each) for each in found] == [True, False, False]


def test_deleting_one_says_whether_it_was_there(open_service):
    service = open_service()
    add(service, "a")
    assert service.sync.delete_memory(**ALICE, memory_id="absent") is False
    assert service.sync.delete_memory(**ALICE, memory_id=None) is False
    assert service.sync.delete_memory(**BOB, memory_id="a") is False
    assert service.sync.delete_memory(**ALICE, memory_id="a") is True
    assert service.sync.delete_memory(**ALICE, memory_id="a") is False


@pytest.mark.parametrize("method", ["get_memories", "delete_memories"])
@pytest.mark.parametrize(
    ("ids", "error"),
    [
        ("a", InvalidTypeError),
        (None, InvalidTypeError),
        (["a", 7], InvalidTypeError),
        (["a", ""], InvalidArgumentError),
        (["a", "x" * 513], InvalidArgumentError),
    ],
)
def test_wrong_ids_are_refused_and_change_nothing(open_service, method, ids, error):
    service = open_service()
    add(service, "a")
    with pytest.raises(error, match="memory_ids"):
        getattr(service.sync, method)(**ALICE, memory_ids=ids)
    assert service.sync.get_memory(**ALICE, memory_id="a").text == "zebra a"


@pytest.mark.parametrize("method", ["get_memories", "delete_memories"])
def test_a_cancelled_call_is_done_wholly_or_not_at_all(open_service, method):
    service = open_service()
    ids = [f"m{n}" for n in range(50)]
    add(service, *ids)

    async def cancelled() -> None:
        call: Any = getattr(service, method)(**ALICE, memory_ids=ids)
        task = asyncio.create_task(call)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    left = service.sync.get_memories(**ALICE, memory_ids=ids)
    assert len({each is None for each in left}) == 1
    add(service, "later")
    assert service.sync.delete_memories(**ALICE, memory_ids=["later"]) == [True]
