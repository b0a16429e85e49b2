"""Converts the values that `embedder=` accepts to an `Embedder`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Literal, cast

from vecall.embedders.auto import automatic
from vecall.embedders.base import Embedder, FunctionEmbedder
from vecall.errors import ConfigError

EmbedderLike = Embedder | Callable[[list[str]], Any] | str | None

_MAX_DIMENSIONS = 65_536
# Name: (module, class). All but the first accept a model: "openai:MODEL".
_NAMED = {
    "local": ("local", "LocalEmbedder"),
    "openai": ("hosted", "OpenAIEmbedder"),
    "gemini": ("hosted", "GeminiEmbedder"),
    "fastembed": ("local", "FastEmbedEmbedder"),
    "sentence-transformers": ("local", "SentenceTransformerEmbedder"),
}

NAMES = tuple(_NAMED)
"""The names that `embedder=` accepts; all but the first also as "NAME:MODEL"."""


AUTO: Final = "auto"
"""vecall chooses the embedder; see `vecall.embedders.auto`."""


def resolve(embedder: EmbedderLike) -> Embedder | None:
    """Return the embedder for a name, a function or an `Embedder`.

    Args:
        embedder: One of:

            - None or "none": no embedder.
            - "auto": "local" if vecall[local] is installed, else no embedder. For an
              existing file see `automatic`.
            - "local", "openai", "gemini", "fastembed" or "sentence-transformers". All
              but "local" accept a model, as in "openai:text-embedding-3-large".
            - A function from a list of texts to vectors.
            - An `Embedder`.

    Returns:
        The embedder, or None for no embedder.

    Raises:
        ConfigError: The value is none of these; or the named embedder has no API key,
            or needs more arguments than a model.
        ImportError: The extra of the named embedder is not installed.
    """
    if embedder is None:
        return None
    if isinstance(embedder, str):
        if embedder == "none":
            return None
        return automatic() if embedder == AUTO else _make_named_embedder(embedder)
    if callable(getattr(embedder, "embed", None)):
        return _checked_embedder(cast("Embedder", embedder))
    if callable(embedder):
        return _checked_embedder(FunctionEmbedder(embedder))
    msg = "embedder: expected a name such as 'local', a callable, or an Embedder"
    raise ConfigError(msg)


def resolve_later(embedder: EmbedderLike) -> Embedder | Literal["auto"] | None:
    """Resolve as `resolve`, but return "auto" unchanged: it depends on the file."""
    if isinstance(embedder, str) and embedder == AUTO:
        return AUTO
    return resolve(embedder)


def _make_named_embedder(text: str) -> Embedder:
    name, colon, model = text.partition(":")
    if name not in _NAMED or (colon and (name == "local" or not model)):
        names = ", ".join(f"'{name}'" for name in _NAMED)
        msg = (
            f"embedder: the known names are 'auto', 'none', {names}, all but the first "
            f"three also as 'NAME:MODEL'; or give an Embedder"
        )
        raise ConfigError(msg)
    module, kind = _NAMED[name]
    made = getattr(import_module(f"vecall.embedders.{module}"), kind)
    return cast("Embedder", made(model) if model else made())


def _checked_embedder(embedder: Embedder) -> Embedder:
    dimensions = getattr(embedder, "dimensions", None)
    if type(dimensions) is not int or not 1 <= dimensions <= _MAX_DIMENSIONS:
        msg = "embedder: `dimensions` must be an integer from 1 to 65536"
        raise ConfigError(msg)
    if not isinstance(getattr(embedder, "model_id", None), str):
        msg = (
            "embedder: `model_id` must be a string; for an EmbeddingProvider there is "
            "vecall.embedders.from_provider"
        )
        raise ConfigError(msg)
    return embedder
