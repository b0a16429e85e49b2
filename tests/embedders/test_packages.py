"""Embedders around packages whose weights no test can download.

The models here are stand-ins: they have those methods of fastembed's `TextEmbedding`
and of `SentenceTransformer` that the embedders call, with the arguments and results
that those packages document, and refuse any other argument.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder, found
from helpers.memories import ALICE
from vecall import ConfigError, EmbedderError
from vecall.embedders import (
    AsymmetricEmbedder,
    FastEmbedEmbedder,
    GeminiEmbedder,
    OpenAIEmbedder,
    SentenceTransformerEmbedder,
)


class TextEmbedding:
    """A stand-in for fastembed.TextEmbedding, which yields one array for each text."""

    def __init__(self, model_name: str = "some/model", **options: Any) -> None:
        if options.pop("broken", False):
            msg = "no network"
            raise OSError(msg)
        self.model_name = model_name
        self.options = options
        self.here = self.peak = 0
        self.lost = 0

    @classmethod
    def list_supported_models(cls) -> list[dict[str, Any]]:
        return [{"model": "some/model", "dim": 7}]

    @property
    def embedding_size(self) -> int:
        return 7

    def passage_embed(
        self, texts: Iterable[str], *, batch_size: int = 256
    ) -> Iterator[np.ndarray]:
        assert batch_size >= 1
        self.here += 1
        self.peak = max(self.peak, self.here)
        for text in list(texts)[self.lost :]:
            yield Recorder().vector(text).astype(np.float32)
        self.here -= 1

    def query_embed(
        self, query: Iterable[str], *, batch_size: int = 256
    ) -> Iterator[np.ndarray]:
        for vector in self.passage_embed(query, batch_size=batch_size):
            yield 2 * vector


class OldSentenceTransformer:
    """A stand-in for SentenceTransformer before version 5."""

    def __init__(self, name: str = "m", *, device: str | None = None, **options: Any):
        if name == "broken":
            msg = "no network"
            raise OSError(msg)
        self.made = (name, device, options)

    def get_sentence_embedding_dimension(self) -> int | None:
        return 7

    def encode(
        self,
        sentences: list[str],
        *,
        batch_size: int,
        show_progress_bar: bool,
        normalize_embeddings: bool,
    ) -> np.ndarray:
        assert normalize_embeddings
        assert not show_progress_bar
        vectors = Recorder().embed(sentences)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("f4")


class SentenceTransformer(OldSentenceTransformer):
    """A stand-in for the newer one, which knows two prompts and warns of old names."""

    def get_sentence_embedding_dimension(self) -> int | None:
        msg = "the old name"
        raise DeprecationWarning(msg)

    def get_embedding_dimension(self) -> int | None:
        return 7

    def encode_document(self, inputs: list[str], **options: Any) -> np.ndarray:
        return self.encode(inputs, **options)

    def encode_query(self, inputs: list[str], **options: Any) -> np.ndarray:
        return 2 * self.encode(inputs, **options)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in [
        ("fastembed", TextEmbedding),
        ("sentence_transformers", SentenceTransformer),
    ]:
        module = types.ModuleType(name)
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)


def test_fastembed_serves_as_an_embedder(packages, open_service):
    """S0.23: by name, end to end."""
    embedder = FastEmbedEmbedder("some/model", threads=1)
    assert isinstance(embedder, AsymmetricEmbedder)
    assert embedder.model_id == "fastembed:some/model"
    service = open_service(embedder=embedder)
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert found(service, "okapi", top_k=1) == ["okapi"]
    texts = ["a", "b"]
    wanted = Recorder().embed(texts).astype(np.float32)
    assert np.array_equal(embedder.embed(texts), wanted)
    assert np.array_equal(embedder.embed_queries(texts), 2 * wanted)


def test_a_model_that_is_there_already_is_used():
    """S0.25: no package is imported for it."""
    made = TextEmbedding("my/model")
    embedder = FastEmbedEmbedder(made)
    assert embedder.model_id == "fastembed:my/model"
    assert embedder.embed(["a"]).shape == (1, 7)
    given = SentenceTransformer()
    with pytest.raises(ConfigError, match="model_id"):
        SentenceTransformerEmbedder(given)
    assert SentenceTransformerEmbedder(given, model_id="mine").model_id == "mine"


@pytest.mark.parametrize("made", [None, 3.5, "text"])
def test_a_model_that_makes_no_array_is_an_embedder_error(made):
    given = SentenceTransformer()
    given.encode = lambda texts, **options: made
    embedder = SentenceTransformerEmbedder(given, model_id="mine")
    with pytest.raises(EmbedderError):
        embedder.embed(["a"])


def test_a_model_is_used_by_one_thread_at_a_time():
    model = TextEmbedding()
    embedder = FastEmbedEmbedder(model)
    texts = [f"text {i}" for i in range(50)]
    threads = [threading.Thread(target=embedder.embed, args=(texts,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.peak == 1


def test_a_model_that_loses_a_text_is_not_believed():
    """S0.22."""
    model = TextEmbedding()
    model.lost = 1
    with pytest.raises(EmbedderError, match="shape"):
        FastEmbedEmbedder(model).embed(["a", "b"])


def test_a_model_that_fastembed_does_not_know_is_refused(packages):
    with pytest.raises(ConfigError, match="list_supported_models"):
        FastEmbedEmbedder("another/model")
    with pytest.raises(EmbedderError, match="OSError"):
        FastEmbedEmbedder("some/model", broken=True)
    with pytest.raises(EmbedderError, match="OSError"):
        SentenceTransformerEmbedder("broken")


def test_sentence_transformers_serves_as_an_embedder(packages, open_service):
    """S0.23: by name, end to end, with the prompts of memories and of queries."""
    embedder = SentenceTransformerEmbedder("m", device="cpu", truncate_dim=7)
    assert embedder._model.made == ("m", "cpu", {"truncate_dim": 7})
    assert embedder.model_id == "sentence-transformers:m"
    service = open_service(embedder=embedder)
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert found(service, "okapi", top_k=1) == ["okapi"]
    vectors = embedder.embed(["a", "b"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(embedder.embed_queries(["a", "b"]), 2 * vectors)


def test_an_older_sentence_transformers_has_one_method_for_both():
    embedder = SentenceTransformerEmbedder(OldSentenceTransformer(), model_id="m")
    vectors = embedder.embed(["a"])
    assert np.array_equal(embedder.embed_queries(["a"]), vectors)


def test_a_model_of_unknown_dimensions_is_refused():
    model = OldSentenceTransformer()
    model.get_sentence_embedding_dimension = lambda: None  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="dimensions"):
        SentenceTransformerEmbedder(model, model_id="m")


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: OpenAIEmbedder(api_key="k"), "openai", "openai"),
        (lambda: GeminiEmbedder(api_key="k"), "google.genai", "gemini"),
        (FastEmbedEmbedder, "fastembed", "fastembed"),
        (
            SentenceTransformerEmbedder,
            "sentence_transformers",
            "sentence-transformers",
        ),
    ],
    ids=["openai", "gemini", "fastembed", "sentence-transformers"],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, make, module, extra):
    """S0.25: what to install is in the message."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"vecall\[{extra}\]"):
        make()
