"""Releasing what the hook quarantined is an act of its own: `release_memory`."""

from __future__ import annotations

import json

import pytest
from helpers.memories import ALICE, refuses
from helpers.sessions import session, turn
from helpers.write_hooks import ReviewHook, found, listed
from vecall import ConflictError, MemoryEntry, MessageCount, NotFoundError

HELD = MemoryEntry("held zebra", id="h")


def test_restoring_releases_nothing(open_service):
    """`restore_memory` does not bring a quarantined memory into a search."""
    service = open_service(on_write=ReviewHook())
    service.sync.add_memory(**ALICE, memories=[HELD])
    refuses(NotFoundError, lambda: service.sync.restore_memory(**ALICE, memory_id="h"))
    assert found(service) == []
    assert listed(service, "quarantined") == ["held zebra"]


def test_releasing_restores_nothing(open_service):
    """A reviewer's method is for what is quarantined alone."""
    service = open_service(on_write=ReviewHook())
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f")])
    for _ in range(2):
        refuses(
            NotFoundError, lambda: service.sync.release_memory(**ALICE, memory_id="f")
        )
        if found(service):
            service.sync.archive_memory(**ALICE, memory_id="f")
    assert listed(service, "archived") == ["zebra"]


def test_a_text_that_was_written_after_the_review_is_not_released(open_service):
    """The reviewer names what was seen by its time of change."""
    service = open_service(on_write=ReviewHook())
    service.sync.add_memory(**ALICE, memories=[HELD])
    (seen,) = service.sync.list_memories(**ALICE, state="quarantined")
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("held worse", id="h")])
    asked = {**ALICE, "memory_id": "h"}
    with pytest.raises(ConflictError):
        service.sync.release_memory(**asked, updated_at=seen.updated_at)
    assert found(service, "worse") == []
    (now,) = service.sync.list_memories(**ALICE, state="quarantined")
    released = service.sync.release_memory(**asked, updated_at=now.updated_at)
    assert released == ["h"]
    assert found(service, "worse") == ["held worse"]


def test_a_version_that_was_quarantined_says_so_in_the_history(open_service):
    """Also after it was overwritten by words that the hook allows."""
    service = open_service(on_write=ReviewHook())
    service.sync.add_memory(**ALICE, memories=[HELD])
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="h")])
    past = service.sync.memory_history(**ALICE, memory_id="h")
    assert [(each.memory.text, each.state) for each in past] == [
        ("held zebra", "quarantined"),
        ("zebra", "live"),
    ]
    assert past[0].at is not None


@pytest.mark.parametrize("quarantined", [True, False])
def test_an_export_leaves_out_what_is_quarantined_on_request(
    open_service, tmp_path, quarantined
):
    """Memories, waiting turns, and versions that were; all else is there."""
    service = open_service(on_write=ReviewHook(), trigger=MessageCount(9))
    facts = [HELD, MemoryEntry("held before", id="v"), MemoryEntry("zebra", id="f")]
    service.sync.add_memory(**ALICE, memories=facts)
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("allowed", id="v")])
    service.sync.update_memory(**ALICE, memory_id="f", content="zebra, corrected")
    waiting = [turn(1, "waiting"), turn(2, "held waiting")]
    service.sync.observe_session(session(*waiting))
    path = tmp_path / "export.jsonl"
    service.sync.admin.export_jsonl(path, quarantined=quarantined)
    text = path.read_text()
    for word in ("held zebra", "held before", "held waiting"):
        assert (word in text) == quarantined
    for word in ("allowed", '"zebra, corrected"', '\\"zebra\\"', "waiting"):
        assert word in text
    assert all(json.loads(line) for line in text.splitlines())
    with open_service(tmp_path / "other.db") as other:
        other.sync.admin.import_jsonl(path)
        assert sorted(listed(other)) == ["allowed", "zebra, corrected"]
        assert len(listed(other, "quarantined")) == int(quarantined)
