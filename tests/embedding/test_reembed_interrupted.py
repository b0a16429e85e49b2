"""A change of model that begins before the last one is finished."""

from __future__ import annotations

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from vecall import MemoryEntry
from vecall.index.embedding import Backfill
from vecall.store import examine


class Named(Recorder):
    """An embedder whose vectors depend on its name, too."""

    def vector(self, text):
        return super().vector(f"{self.model_id} {text}")


def test_vectors_that_a_crash_left_unmoved_survive_the_next_change(
    open_service, tmp_path, monkeypatch
):
    """A third model may not take the place of vectors that only wait for their rows."""
    path = tmp_path / "m.db"
    service = open_service(path, embedder=Named(4, "a"))
    memories = [MemoryEntry(f"zebra {n}", id=f"m{n}") for n in range(700)]
    service.sync.add_memory(**ALICE, memories=memories)
    with monkeypatch.context() as crash:
        # As if every process died right after the switch to the second model.
        crash.setattr(Backfill, "_move_migrated_vectors", lambda _: None)
        service.sync.admin.reembed(Named(4, "b"))
        service.close()
        service = open_service(path, embedder=Named(4, "b"))
        third = Named(4, "c")
        monkeypatch.setattr(third, "embed", _fail)
        with pytest.raises(Exception, match="RuntimeError"):
            service.sync.admin.reembed(third)
        service.close()
    assert [finding for finding in examine(path) if finding.level == "error"] == []
    service = open_service(path, embedder=Named(4, "b"))
    assert len(service.sync.search_memory(**ALICE, query="zebra 7").memories) == 5
    assert service.sync.admin.reembed(Named(4, "c")) == 700
    (memory, *_) = service.sync.search_memory(**ALICE, query="zebra 7").memories
    assert memory.text == "zebra 7"


def _fail(texts):
    raise RuntimeError(texts)
