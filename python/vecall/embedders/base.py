"""The protocol of embedders, and the validation of their results."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vecall.errors import ConfigError, EmbedderError, InvalidArgumentError
from vecall.scalars import exact, repr_of_embedder

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. `embed` may be a coroutine function.

    A model that embeds queries and memories differently is an `AsymmetricEmbedder`,
    which has a second method.

    An embedder may have two more attributes:

    - `max_concurrency`: how many threads may call a plain `embed` at once; 1 by
      default.
    - `scripts`: the scripts that the model supports. A script's name is the first word
      of its letters' Unicode names, in lower case: "latin", "cyrillic", "cjk",
      "hiragana". A query with most of its letters in other scripts is searched by words
      alone.

    Attributes:
        model_id: The model's name. Vectors of two models are never compared.
        dimensions: Length of every vector, from 1 to 65,536.
    """

    @property
    def model_id(self) -> str:
        """The model's name, stored in every file with its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Any | Awaitable[Any]:
        """Return one vector for each text, in order.

        Args:
            texts: At least one text.

        Returns:
            An array-like of numbers, shape (len(texts), dimensions), or an awaitable
            of it.
        """
        ...


@runtime_checkable
class AsymmetricEmbedder(Embedder, Protocol):
    """An embedder with a second method for queries, in the same vector space."""

    def embed_queries(self, texts: Sequence[str]) -> Any | Awaitable[Any]:
        """Return one vector for each query, in order. See `Embedder.embed`."""
        ...


class WrappedEmbedder:
    """Has every attribute of another embedder that it does not define itself.

    `scripts` and `probe`, which it may lack, are None then.
    """

    def __init__(self, embedder: Embedder) -> None:
        """Read the name and the dimensions, which do not change."""
        self._embedder = embedder
        self.model_id = embedder.model_id
        self.dimensions = embedder.dimensions
        self.scripts = getattr(embedder, "scripts", None)
        self.probe = getattr(embedder, "probe", None)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the other embedder."""
        if name == "_embedder":  # not set yet, in a copy
            raise AttributeError(name)
        return getattr(self._embedder, name)


def is_async(function: object) -> bool:
    """Return whether calling an object returns a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def checked_vectors(result: object, count: int, dimensions: int) -> Vectors:
    """Return an embedder's result as float32 (count, dimensions).

    Raises:
        EmbedderError: The result is not an array of numbers, has another shape, or has
            a value that is NaN, infinite or outside the range of float32.
    """
    try:
        array = np.asarray(result)
        if array.dtype.kind not in "fiu":
            raise TypeError
        with np.errstate(over="ignore"):
            vectors = np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError):
        raise EmbedderError("the embedder did not return an array of numbers") from None
    if vectors.shape != (count, dimensions):
        raise EmbedderError(
            f"the embedder returned shape {vectors.shape} for {count} texts; expected "
            f"({count}, {dimensions})"
        )
    if not np.isfinite(vectors).all():
        raise EmbedderError("the embedder returned NaN or Inf")
    return vectors


_PROBE = "dimensions"


class FunctionEmbedder:
    """Wraps a function from a list of texts to vectors.

    Args:
        function: Takes a list of n texts and returns numbers of shape (n, dimensions).
            It may be a coroutine function.
        dimensions: Length of its vectors. By default the constructor calls a plain
            function once to measure it. Required for a coroutine function.
            With it, neither the constructor nor the opening of a file calls the
            function.
        model_id: The model's name in the file; by default the function's module and
            qualified name. Without `dimensions`, the vector of the constructor's call
            (`probe`) tells apart two functions of the same name. With `dimensions`,
            nothing does: give each function its own name.
    """

    __repr__ = repr_of_embedder

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        dimensions: int | None = None,
        model_id: str | None = None,
    ) -> None:
        """Wrap the function; call it once if `dimensions` is missing.

        Raises:
            ConfigError: A coroutine function without `dimensions`.
            EmbedderError: The function failed or returned no vectors.
        """
        self._function = function
        named = function if hasattr(function, "__qualname__") else type(function)
        self.model_id = model_id or f"{named.__module__}.{named.__qualname__}"
        self.probe: Vectors | None = None
        """The vector of a fixed text, or None. It identifies a function whose name is
        ambiguous, such as a lambda."""
        if dimensions is None:
            if is_async(function):
                msg = "embedder: a coroutine function must say its dimensions"
                raise ConfigError(msg)
            self.probe = self._measure_vector()
            dimensions = len(self.probe)
        self.dimensions = dimensions
        if is_async(function):
            self.embed = self._embed_async  # type: ignore[method-assign]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the function's vectors for `texts`."""
        return self._function(list(texts))

    async def _embed_async(self, texts: Sequence[str]) -> Any:
        return await self._function(list(texts))

    def _measure_vector(self) -> Vectors:
        try:
            vectors = np.asarray(self._function([_PROBE]), np.float32)
        except Exception:
            msg = "the embedder failed when it was tried with one word"
            raise EmbedderError(msg) from None
        if vectors.ndim != 2 or len(vectors) != 1 or vectors.shape[1] < 1:
            msg = f"the embedder returned shape {vectors.shape} for one text"
            raise EmbedderError(msg)
        probe: Vectors = vectors[0]
        return probe


MAX_DIMENSIONS = 65_536


class CallerVectors:
    """The dimensions and the model of vectors that the caller computes.

    A service with it embeds nothing. `add_memory(vectors=)` and
    `update_memory(vector=)` store vectors, `search_memory(vector=)` searches by one.
    Texts without a vector, and queries without one, are matched by their words.

    Args:
        dimensions: Numbers in a vector, 1 to 65,536.
        model_id: The name of the model that computes them. A file keeps the name; it is
            only opened with an embedder of the same name and dimensions.

    Raises:
        ConfigError: An invalid argument.
    """

    embeds = False

    __repr__ = repr_of_embedder

    def __init__(self, dimensions: int, *, model_id: str = "caller") -> None:
        """Check the arguments."""
        dimensions, model_id = exact(dimensions), exact(model_id)
        if type(dimensions) is not int or not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ConfigError("dimensions: must be an integer from 1 to 65536")
        name: object = model_id
        if not isinstance(name, str) or not name:
            raise ConfigError("model_id: must be a non-empty string")
        self.dimensions = dimensions
        self.model_id = model_id

    def embed(self, texts: Sequence[str]) -> NoReturn:
        """Refuse: there is no model.

        Raises:
            InvalidArgumentError: Always.
        """
        msg = f"this service has no embedder for {len(texts)} texts; give vectors"
        raise InvalidArgumentError(msg)


def can_embed(embedder: object) -> bool:
    """Whether an embedder computes vectors, unlike `CallerVectors`."""
    return getattr(embedder, "embeds", True) is not False


T = TypeVar("T")


class PerProcess(Generic[T]):
    """One object per process, for connections and locks, which do not survive a fork.

    A child process keeps the inherited object but never uses it: freeing a client would
    close the parent's connections.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Create the object of this process."""
        self._make = make
        self._made = {os.getpid(): make()}

    def __call__(self) -> T:
        """Return the object of this process."""
        pid = os.getpid()
        mine = self._made.get(pid)
        return self._made.setdefault(pid, self._make()) if mine is None else mine


# Adapters between `Embedder` and the `EmbeddingProvider` of agent frameworks, which
# embeds one text per call, and optionally batches.

_AT_ONCE = 8


class EmbeddingProvider(Protocol):
    """Turns one text into a vector.

    It may also have `embed_batch(texts)`, which returns one vector for each text. Both
    methods may be coroutine functions.
    """

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, text: str) -> Any | Awaitable[Any]:
        """Return the vector of a text, or an awaitable of it."""
        ...


class ProviderEmbedder:
    """An `EmbeddingProvider` behind the `Embedder` protocol; see `from_provider`."""

    __repr__ = repr_of_embedder

    def __init__(self, provider: EmbeddingProvider, model_id: str) -> None:
        """Check and wrap a provider."""
        batch: Any = getattr(provider, "embed_batch", None)
        one: Any = getattr(provider, "embed", None)
        dimensions = getattr(provider, "dimensions", None)
        if not callable(one) or type(dimensions) is not int or dimensions < 1:
            msg = "provider: expected `embed(text)` and a positive integer `dimensions`"
            raise ConfigError(msg)
        if not model_id:
            raise ConfigError("model_id: expected a name for the provider's model")
        self.model_id = model_id
        self.dimensions = dimensions
        self._batch = batch if callable(batch) else None
        self._one = one
        if is_async(one if self._batch is None else self._batch):
            self.embed = self._embed_async  # type: ignore[method-assign]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the provider's vectors, or an awaitable of them."""
        if self._batch is not None:
            return self._batch(list(texts))
        vectors = [self._one(text) for text in texts]
        must_wait = any(map(inspect.isawaitable, vectors))
        return _await_vectors(vectors) if must_wait else vectors

    async def _embed_async(self, texts: Sequence[str]) -> Any:
        if self._batch is not None:
            return await self._batch(list(texts))
        free = asyncio.Semaphore(_AT_ONCE)

        async def embed(text: str) -> Any:
            async with free:
                return await self._one(text)

        return await asyncio.gather(*map(embed, texts))


class EmbedderProvider:
    """An `Embedder` as an asynchronous `EmbeddingProvider`; see `as_provider`."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder."""
        self._embedder = embedder
        self.dimensions = embedder.dimensions

    async def embed(self, text: str) -> list[float]:
        """Return the vector of a text; raise as `embed_batch`."""
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in order.

        Raises:
            EmbedderError: The embedder's result is not such vectors.
        """
        if not texts:
            return []
        embed = self._embedder.embed
        if is_async(embed):
            result = await embed(list(texts))
        else:
            result = await asyncio.to_thread(embed, list(texts))
            if inspect.isawaitable(result):
                result = await result
        vectors: Vectors = checked_vectors(result, len(texts), self.dimensions)
        rows: list[list[float]] = vectors.tolist()
        return rows


def from_provider(provider: EmbeddingProvider, *, model_id: str) -> ProviderEmbedder:
    """Return an `Embedder` that calls a provider.

    It calls `embed_batch` if the provider has it, else `embed` once per text. Up to
    eight calls of a coroutine function run at once.

    Args:
        provider: An object with `embed(text)`, `dimensions` and optionally
            `embed_batch(texts)`. The methods may be coroutine functions.
        model_id: The model's name in the file.

    Raises:
        ConfigError: The provider lacks `embed` or `dimensions`, or `model_id` is empty.
    """
    return ProviderEmbedder(provider, model_id)


def as_provider(embedder: Embedder) -> EmbedderProvider:
    """Return an asynchronous provider that calls an `Embedder`.

    Args:
        embedder: An embedder. A plain `embed` runs on another thread.
    """
    return EmbedderProvider(embedder)


async def _await_vectors(vectors: list[Any]) -> list[Any]:
    """Await the vectors that are awaitable, one after the other."""
    return [await v if inspect.isawaitable(v) else v for v in vectors]
