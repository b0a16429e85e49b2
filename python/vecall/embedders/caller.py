"""Stands in for an embedder where the caller computes all vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from vecall.errors import ConfigError, InvalidArgumentError
from vecall.reprs import model_repr
from vecall.scalars import exact

_MAX_DIMENSIONS = 65_536


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

    __repr__ = model_repr

    def __init__(self, dimensions: int, *, model_id: str = "caller") -> None:
        """Check the arguments."""
        dimensions, model_id = exact(dimensions), exact(model_id)
        if type(dimensions) is not int or not 1 <= dimensions <= _MAX_DIMENSIONS:
            msg = "dimensions: must be an integer from 1 to 65536"
            raise ConfigError(msg)
        name: object = model_id
        if not isinstance(name, str) or not name:
            msg = "model_id: must be a non-empty string"
            raise ConfigError(msg)
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
