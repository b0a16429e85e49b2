"""A write answers with what it wrote itself, whatever others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from helpers.memories import ALICE
from helpers.summaries import Scripted
from vecall import (
    BusyError,
    ConflictError,
    MemoryService,
    PendingWrite,
    Put,
    Verdict,
)
from vecall.hooks import ALLOW, QUARANTINE
from vecall.store import AddMemories, MergeMemories, WriteItems
from vecall.summaries import LlmSummaryProvider


@pytest.fixture
def memory(place, open_service) -> MemoryService:
    made: MemoryService = open_service(place)
    made.sync.add_memory(**ALICE, memories=[{"id": "m", "content": "start"}])
    return made


@pytest.fixture
def between(monkeypatch) -> Callable[..., None]:
    """Lets something happen once, right before or right after a job is committed."""

    def install(
        memory: MemoryService,
        kind: type,
        happens: Callable[[], Any],
        *,
        before: bool = False,
    ) -> None:
        storage = memory._memory.storage
        submit = storage.submit
        waiting = [happens]

        def submit_beside_others(job: Any, then: Any = None) -> Future[Any]:
            now = waiting.pop() if waiting and isinstance(job, kind) else None
            if now is not None and before:
                now()
            future = submit(job, then)
            if now is not None and not before:
                future.exception()
                now()
            return future

        monkeypatch.setattr(storage, "submit", submit_beside_others)

    return install


def version(memory: MemoryService) -> float:
    found = memory.sync.get_memory(**ALICE, memory_id="m")
    assert found is not None
    assert found.version is not None
    return found.version


def update(memory: MemoryService, text: str, **options: Any) -> Any:
    return memory.sync.update_memory(**ALICE, memory_id="m", content=text, **options)


def test_an_update_returns_its_own_text_and_version(memory, between):
    between(memory, AddMemories, lambda: update(memory, "of another"))
    mine = update(memory, "mine", if_version=version(memory))
    assert mine.text == "mine"
    with pytest.raises(ConflictError):
        update(memory, "over the other's", if_version=mine.version)
    assert memory.sync.get_memory(**ALICE, memory_id="m").text == "of another"


def test_an_update_returns_what_a_search_then_finds(memory):
    changes = {
        "author": "bob",
        "timestamp": 12.5,
        "kind": "fact",
        "source": "me",
        "custom_metadata": {"a": [1, None]},
        "importance": 0.25,
    }
    mine = update(memory, "zebra", **changes)
    assert mine == memory.sync.get_memory(**ALICE, memory_id="m")
    again = update(memory, "zebra", **changes)  # it changes nothing
    assert again == mine


def test_an_update_succeeds_although_another_deletes_the_memory_after_it(
    memory, between
):
    between(
        memory, AddMemories, lambda: memory.sync.delete_memory(**ALICE, memory_id="m")
    )
    assert update(memory, "mine").text == "mine"
    assert memory.sync.list_memories(**ALICE) == []


def test_an_update_that_the_hook_quarantines_returns_the_memory(place, open_service):
    memory = open_service(place, on_write=quarantining)
    memory.sync.add_memory(**ALICE, memories=[{"id": "m", "content": "start"}])
    assert update(memory, "bad").text == "bad"
    assert memory.sync.list_memories(**ALICE) == []


def test_a_consolidation_reports_the_groups_that_it_merged(memory, between):
    for n in range(2):
        for id_ in ("old", "new"):
            entry = {"id": f"{id_}{n}", "content": f"The dog {n} is called Rex."}
            memory.sync.add_memory(**ALICE, memories=[entry])

    def change() -> None:
        memory.sync.update_memory(**ALICE, memory_id="old0", content="another text")

    between(memory, MergeMemories, change, before=True)
    done = memory.sync.consolidate(**ALICE)
    assert [(group.kept, group.merged) for group in done.groups] == [
        ("new1", ("old1",))
    ]
    assert done.merged == 1


def test_an_item_that_is_written_while_its_namespace_is_deleted_stays(memory, between):
    items = memory.items.sync
    items.write([Put(("n",), key, 1) for key in "ab"], **ALICE)

    def write() -> None:
        items.write([Put(("n",), "a", 2)], **ALICE)

    between(memory, WriteItems, write, before=True)
    assert items.delete(("n",), **ALICE) == 1
    assert [item.value for item in items.find((), **ALICE)] == [2]


def test_a_summary_that_is_quarantined_folds_nothing(place, open_service):
    memory = open_service(place, on_write=quarantining)
    memory.sync.add_memory(**ALICE, memories=["one thing", "another thing"])
    done = memory.sync.consolidate(
        **ALICE,
        older_than=1e-9,
        summarizer=LlmSummaryProvider(Scripted("bad summary")),
        fold=["facts"],
    )
    assert len(memory.sync.list_memories(**ALICE)) == 2
    assert done.folded == 0


def test_a_user_is_deleted_although_the_snapshot_stays(memory, monkeypatch):
    def remove(part: int) -> None:
        raise BusyError

    snapshots = memory._memory.storage.snapshots
    if snapshots is None:
        pytest.skip("no snapshots here")
    monkeypatch.setattr(snapshots, "remove_snapshot", remove)
    assert memory.sync.delete_user(**ALICE) == 1
    assert memory.sync.list_memories(**ALICE) == []


def quarantining(write: PendingWrite) -> Verdict:
    return QUARANTINE if "bad" in write.memory.text else ALLOW
