"""What a user may give as `embedder=`, as an `Embedder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from vecall.embedders.base import Embedder
from vecall.embedders.function import FunctionEmbedder
from vecall.errors import ConfigError

EmbedderLike = Embedder | Callable[[list[str]], Any] | str | None

_MAX_DIMENSIONS = 65_536


def resolve(embedder: EmbedderLike) -> Embedder | None:
    """Return an embedder for a name, a callable or an embedder; None stays None.

    Raises:
        ConfigError: An unknown name, or something that is none of these.
        ImportError: The extra that the name needs is not installed.
    """
    if embedder is None:
        return None
    if isinstance(embedder, str):
        if embedder != "local":
            msg = "embedder: the one known name is 'local'; or give an Embedder"
            raise ConfigError(msg)
        from vecall.embedders.local import LocalEmbedder

        return LocalEmbedder()
    if callable(getattr(embedder, "embed", None)):
        return _checked(cast("Embedder", embedder))
    if callable(embedder):
        return _checked(FunctionEmbedder(embedder))
    msg = "embedder: expected 'local', a callable, or an Embedder"
    raise ConfigError(msg)


def _checked(embedder: Embedder) -> Embedder:
    dimensions = getattr(embedder, "dimensions", None)
    if type(dimensions) is not int or not 1 <= dimensions <= _MAX_DIMENSIONS:
        msg = "embedder: `dimensions` must be an integer from 1 to 65536"
        raise ConfigError(msg)
    if not isinstance(getattr(embedder, "model_id", None), str):
        msg = "embedder: `model_id` must be a string"
        raise ConfigError(msg)
    return embedder
