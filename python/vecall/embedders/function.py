"""Any callable as an embedder."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vecall.errors import ConfigError, EmbedderError


class FunctionEmbedder:
    """Wraps a function from a list of texts to vectors.

    Args:
        function: Takes a list of texts, returns (n, dimensions) numbers; it may be a
            coroutine function.
        dimensions: Length of its vectors. A plain function is asked once when this is
            not given; a coroutine function must give it.
        model_id: Names the model in the file. Defaults to the function's module and
            qualified name.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        dimensions: int | None = None,
        model_id: str | None = None,
    ) -> None:
        """Find out the dimensions if they are not given.

        Raises:
            ConfigError: A coroutine function without `dimensions`.
            EmbedderError: The function failed or returned no vectors.
        """
        self._function = function
        named = function if hasattr(function, "__qualname__") else type(function)
        self.model_id = model_id or f"{named.__module__}.{named.__qualname__}"
        call = getattr(function, "__call__", None)  # noqa: B004 - an async __call__
        self._is_async = inspect.iscoroutinefunction(
            function
        ) or inspect.iscoroutinefunction(call)
        if dimensions is None:
            if self._is_async:
                msg = "embedder: a coroutine function must say its dimensions"
                raise ConfigError(msg)
            dimensions = self._ask_dimensions()
        self.dimensions = dimensions
        if self._is_async:
            self.embed = self._embed_async  # type: ignore[method-assign]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the function's vectors for `texts`."""
        return self._function(list(texts))

    async def _embed_async(self, texts: Sequence[str]) -> Any:
        return await self._function(list(texts))

    def _ask_dimensions(self) -> int:
        try:
            shape = np.asarray(self._function(["dimensions"]), np.float32).shape
        except Exception as error:
            msg = "the embedder failed when it was asked for its dimensions"
            raise EmbedderError(msg) from error
        if len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
            msg = f"the embedder returned shape {shape} for one text; expected (1, d)"
            raise EmbedderError(msg)
        return int(shape[1])
