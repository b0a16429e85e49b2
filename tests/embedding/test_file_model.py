"""A file keeps to its model: adopting one, doing without it, refusing another."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from helpers.embedders import Recorder, embedded, found, session
from helpers.memories import ALICE, BOB
from vecall import EmbeddingMismatchError


def test_a_lexical_file_adopts_its_first_model(open_service, tmp_path):
    """contracts.md, models: old rows are embedded in the background."""
    path = tmp_path / "m.db"
    texts = [f"zebra number {i}" for i in range(131)]
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=texts)
    service.sync.add_memory(**BOB, memories=["okapi"])
    service.close()

    done = threading.Event()

    class Counting(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            vectors = super().embed(texts)
            if len(self.asked) == 132:
                done.set()
            return vectors

    recorder = Counting()
    service = open_service(path, embedder=recorder)
    assert done.wait(20)
    service.close()
    service = open_service(path, embedder=recorder)
    assert embedded(service) == 132
    assert sorted(recorder.asked) == sorted([*texts, "okapi"])
    (memory,) = service.sync.search_memory(
        **ALICE, query="zebra number 77", top_k=1
    ).memories
    assert memory.text == "zebra number 77"
    assert memory.similarity == pytest.approx(1.0, abs=1e-5)


def test_search_and_ingest_go_on_while_old_rows_are_embedded(open_service, tmp_path):
    """contracts.md, models: hybrid over what has vectors, by words over the rest."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(70)])
    service.close()
    go_on = threading.Event()

    class Waiting(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            if len(texts) > 1:
                assert go_on.wait(20)
            return super().embed(texts)

    service = open_service(path, embedder=Waiting())
    searching = threading.Thread(target=found, args=(service, "zebra 5"))
    searching.start()
    go_on.set()
    searching.join(20)
    assert not searching.is_alive()
    service.sync.add_memory(**ALICE, memories=["okapi"])
    assert found(service, "okapi", top_k=1) == ["okapi"]
    service.sync.delete_memory(
        **ALICE,
        memory_id=service.sync.search_memory(**ALICE, query="zebra 5").memories[0].id,
    )
    assert service.sync.admin.stats()["memories"] == 70


def test_closing_does_not_wait_for_all_old_rows(open_service, tmp_path, in_time):
    """A file may be closed in the middle; the next opening goes on where it stopped."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(500)])
    service.close()
    first = threading.Event()

    class Announcing(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            first.set()
            return super().embed(texts)

    announcing = Announcing()
    service = open_service(path, embedder=announcing)
    assert first.wait(20)
    in_time(service.close)
    done = threading.Event()

    class Finishing(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            vectors = super().embed(texts)
            if set(self.asked) | set(announcing.asked) == expected:
                done.set()
            return vectors

    expected = {f"zebra {i}" for i in range(500)}
    finishing = Finishing()
    service = open_service(path, embedder=finishing)
    assert done.wait(20)
    service.close()
    with open_service(path, embedder=Recorder()) as service:
        assert embedded(service) == 500
    assert not set(finishing.asked) & set(announcing.asked), "some were paid for twice"


def test_a_file_with_a_model_opened_without_one_warns_once(open_service, tmp_path):
    """contracts.md, models: one warning, naming the model, and lexical search."""
    path = tmp_path / "m.db"
    recorder = Recorder()
    service = open_service(path, embedder=recorder)
    service.sync.add_session_to_memory(session("zebra", "okapi"))
    service.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        service = open_service(path)
        assert found(service, "zebra", top_k=1) == ["zebra"]
        service.sync.add_session_to_memory(session("zebra", "okapi", "tapir"))
        assert found(service, "tapir", top_k=1) == ["tapir"]
    (warning,) = caught
    assert "recorder" in str(warning.message)
    assert warning.filename.endswith("conftest.py"), "it points at the caller"
    service.close()
    service = open_service(path, embedder=recorder)
    assert found(service, "user: zebra", top_k=1) == ["zebra"]


def test_a_lexical_service_keeps_the_vectors_it_cannot_make(open_service, tmp_path):
    """Telling a session again without an embedder takes no vector away."""
    path = tmp_path / "m.db"
    recorder = Recorder()
    service = open_service(path, embedder=recorder)
    service.sync.add_session_to_memory(session("zebra", "okapi"))
    service.close()
    with pytest.warns(UserWarning, match="recorder"):
        service = open_service(path)
    changed = session("zebra", "okapi")
    changed["events"][0]["custom_metadata"] = {"seen": True}
    service.sync.add_session_to_memory(changed)
    assert embedded(service) == 2
    service.close()
    recorder.asked.clear()
    service = open_service(path, embedder=recorder)
    (memory,) = service.sync.search_memory(
        **ALICE, query="user: zebra", top_k=1
    ).memories
    assert memory.similarity == pytest.approx(1.0, abs=1e-5)
    assert recorder.asked == ["user: zebra"]


@pytest.mark.parametrize("other", [Recorder(7, "other-model"), Recorder(9, "recorder")])
def test_another_model_is_refused_before_any_write(open_service, tmp_path, other):
    """S4.65, bug class 12: naming both models; the file is as before."""
    path = tmp_path / "m.db"
    service = open_service(path, embedder=Recorder())
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    before = path.read_bytes()
    with pytest.raises(EmbeddingMismatchError) as caught:
        open_service(path, embedder=other)
    for model in (Recorder(), other):
        assert f"{model.model_id} ({model.dimensions} dim" in str(caught.value)
    assert other.asked == []
    assert path.read_bytes() == before
    service = open_service(path, embedder=Recorder())
    assert found(service, "zebra") == ["zebra"]
