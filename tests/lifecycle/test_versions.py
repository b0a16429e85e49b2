"""The version of a memory only grows, whatever the wall clock does."""

from __future__ import annotations

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE
from vecall import ConflictError, MemoryEntry, MemoryService, StorageOptions
from vecall import SyncUserMemory as Memory


def _archive(alice: Memory) -> None:
    alice.archive("m")


def _restore(alice: Memory) -> None:
    alice.archive("m")
    alice.restore("m")


def _update(alice: Memory) -> None:
    alice.update("m", content=alice.get("m").text + " more")


def _supersede(alice: Memory) -> None:
    alice.add(MemoryEntry("a newer zebra", supersedes="m"))


def _merge(alice: Memory) -> None:
    alice.add(MemoryEntry("a zebra", id="twin", timestamp=1.0))
    assert alice.consolidate().merged == 1


def _ingest(alice: Memory) -> None:
    alice.add(MemoryEntry(alice.get("m").text + " more", id="m"))


CHANGES = [_archive, _restore, _update, _supersede, _merge, _ingest]


def version(alice: Memory) -> float:
    return max(each.memory.updated_at for each in alice.history("m"))


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__[1:])
@pytest.mark.parametrize("seconds", [-3_600.0, 0.0])
def test_no_change_gives_an_older_version(change, seconds):
    """A caller with a version that was replaced must not overwrite what followed."""
    clock = SettableClock()
    storage = StorageOptions(clock=clock, maintenance_interval=None)
    with MemoryService(embedder=None, storage=storage) as service:
        alice = service.sync.user(*ALICE.values())
        alice.add(MemoryEntry("a zebra", id="m", timestamp=2.0))
        seen = [alice.get("m").version]
        clock.jump(seconds)
        for _ in range(2):
            change(alice)
            seen.append(version(alice))
            if change in (_archive, _supersede, _merge):
                break  # the memory is not live any more, or has no twin
        assert seen == sorted(set(seen))
        if change in (_restore, _update, _ingest):
            with pytest.raises(ConflictError):
                alice.update("m", content="x", if_version=seen[0])
