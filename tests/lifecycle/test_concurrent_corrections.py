"""Corrections of one memory at the same time lose nothing of each other."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from helpers.memories import ALICE
from vecall import MemoryEntry

CHANGES = [
    {"content": "a gnu"},
    {"author": "bob"},
    {"custom_metadata": {"k": 1}},
    {"kind": "fact"},
    {"source": "book"},
    {"importance": 0.5},
]


def test_corrections_of_other_fields_at_the_same_time_are_all_there(
    open_service, tmp_path
):
    services = [open_service(tmp_path / "m.db") for _ in range(2)]
    one = services[0]
    for id_ in ("tasks", "threads"):
        one.sync.add_memory(**ALICE, memories=[MemoryEntry("a zebra", id=id_)])

    async def correct() -> None:
        await asyncio.gather(
            *(one.update_memory(**ALICE, memory_id="tasks", **each) for each in CHANGES)
        )

    asyncio.run(correct())
    with ThreadPoolExecutor(len(CHANGES)) as pool:
        works = [
            pool.submit(
                services[at % 2].sync.update_memory,
                **ALICE,
                memory_id="threads",
                **each,
            )
            for at, each in enumerate(CHANGES)
        ]
    for work in works:
        work.result()
    for id_ in ("tasks", "threads"):
        found = one.sync.get_memory(**ALICE, memory_id=id_)
        for each in CHANGES:
            ((name, value),) = each.items()
            assert getattr(found, name) == value
        assert len(one.sync.memory_history(**ALICE, memory_id=id_)) == 7
