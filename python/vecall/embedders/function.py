"""Makes an embedder from a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vecall.embedders.base import Vectors, is_async
from vecall.errors import ConfigError, EmbedderError
from vecall.reprs import model_repr

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

    __repr__ = model_repr

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
        self._is_async = is_async(function)
        self.probe: Vectors | None = None
        """The vector of a fixed text, or None. It identifies a function whose name is
        ambiguous, such as a lambda."""
        if not self._is_async and dimensions is None:
            self.probe = self._ask()
        if dimensions is None:
            if self.probe is None:
                msg = "embedder: a coroutine function must say its dimensions"
                raise ConfigError(msg)
            dimensions = len(self.probe)
        self.dimensions = dimensions
        if self._is_async:
            self.embed = self._embed_async  # type: ignore[method-assign]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the function's vectors for `texts`."""
        return self._function(list(texts))

    async def _embed_async(self, texts: Sequence[str]) -> Any:
        return await self._function(list(texts))

    def _ask(self) -> Vectors:
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
