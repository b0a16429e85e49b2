"""The configuration of a memory service as one value."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vecall.embedders.base import Embedder
from vecall.embedders.resolve import EmbedderLike
from vecall.errors import ConfigError
from vecall.limits import Trigger, checked_trigger
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.scalars import make_exact, short_repr
from vecall.service.memory_service import MemoryService
from vecall.summaries import SummaryProvider
from vecall.vector_store import VectorStore

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from vecall.service.items import BuildKeywords

_FIELDS = {
    "path": "vector_store",
    "store": "vector_store",
    "embedder": "embedding",
    "summarizer": "summarization",
    "trigger": "trigger",
    "top_k": "search_top_k",
}
"""The fields of a configuration by the names of a service's options."""


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """Configures when memories are made, what they contain, and how searches work.

    Every part is optional. Without a summarization and an embedding, the service stores
    turns unchanged and searches them by words.

    Attributes:
        trigger: When memories are made of observed sessions: `SessionEnd`,
            `Inactivity`, `MessageCount`, `Compaction`, a name or a mapping.
        summarization: A `SummaryProvider`, or {"provider": one}.
        embedding: An `Embedder`, a function from texts to vectors, or a name such as
            "local"; or {"provider": one of these, "model": its model}, where "model" is
            optional.
        vector_store: The path of the SQLite file, the URL of a PostgreSQL database,
            your own `VectorStore`, or None for memories that are lost when the process
            ends.
        search_top_k: The default number of memories that a search returns, at least 1.

    Raises:
        ConfigError: A part is invalid, or the parts are incompatible.
    """

    trigger: Trigger | str | Mapping[str, Any] | None = None
    summarization: SummaryProvider | Mapping[str, Any] | None = None
    embedding: EmbedderLike | Mapping[str, Any] = None
    # A URL may contain a password.
    vector_store: VectorStore | str | Path | None = field(default=None, repr=False)
    search_top_k: int = 5

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Check every part, and that the parts are compatible."""
        make_exact(self)
        checked_trigger(self.trigger)
        summarizer = self._make_summarizer()
        if summarizer is not None and not hasattr(summarizer, "get_summaries"):
            msg = "summarization: expected an object with get_summaries"
            raise ConfigError(msg)
        embedder = self._embedder()
        if type(self.search_top_k) is not int or self.search_top_k < 1:
            msg = "search_top_k: expected an integer of at least 1"
            raise ConfigError(msg)
        store: object = self.vector_store
        if isinstance(store, str | Path | None):
            return
        if not isinstance(store, VectorStore):
            msg = "vector_store: expected a path, a VectorStore, or None"
            raise ConfigError(msg)
        if embedder is None:
            msg = "embedding: a vector_store of your own needs one"
            raise ConfigError(msg)

    def build(
        self, **options: Unpack[BuildKeywords]
    ) -> MemoryService | VectorStoreMemoryService:
        """Return a new service with this configuration.

        Args:
            **options: Other options of the service, such as `storage`. A
                `VectorStoreMemoryService` has `ttl`, and some fields of `search`,
                `storage` and `writes`.

        Raises:
            ConfigError: An option is a part of the configuration, the service does not
                have it, or its value is invalid for the service.
        """
        for option in options.keys() & _FIELDS.keys():
            msg = f"{option}: say it in the configuration, as {_FIELDS[option]}"
            raise ConfigError(msg)
        store, top_k = self.vector_store, self.search_top_k
        rest: dict[str, Any] = {**options}
        own = isinstance(store, str | Path | None)
        _check_options(MemoryService if own else VectorStoreMemoryService, options)
        if not isinstance(store, str | Path | None):
            return VectorStoreMemoryService(
                store,
                self._embedder(),
                summarizer=self._make_summarizer(),
                trigger=self.trigger,
                top_k=top_k,
                **rest,
            )
        return MemoryService(
            store,
            embedder=self._embedder(),
            summarizer=self._make_summarizer(),
            trigger=self.trigger,
            top_k=top_k,
            **rest,
        )

    def _make_summarizer(self) -> SummaryProvider | None:
        provider, _ = _provider_and_model(
            self.summarization, "summarization", {"provider"}
        )
        return cast("SummaryProvider | None", provider)

    def _embedder(self) -> EmbedderLike:
        given = self.embedding
        provider, model = _provider_and_model(given, "embedding", {"provider", "model"})
        if not isinstance(provider, str | Embedder | None) and not callable(provider):
            msg = "embedding: expected an Embedder, a function, or a name"
            raise ConfigError(msg)
        if model is None:
            return cast("EmbedderLike", provider)
        if not isinstance(model, str) or not model:
            msg = "embedding: model must be a text"
            raise ConfigError(msg)
        if isinstance(provider, str):
            return f"{provider}:{model}"
        own = getattr(provider, "model_id", None)
        if own is not None and own != model:
            msg = "embedding: model is not the provider's model_id"
            raise ConfigError(msg)
        return cast("EmbedderLike", provider)


def _check_options(service: type, options: Mapping[str, object]) -> None:
    """Raise ConfigError for an option that a service does not have."""
    parameters = inspect.signature(service).parameters
    known = [name for name in parameters if name not in _FIELDS]
    for option in options:
        if option not in known:
            msg = f"{option}: {service.__name__} has the options {', '.join(known)}"
            raise ConfigError(msg)


def _provider_and_model(
    given: object, name: str, keys: set[str]
) -> tuple[object, object]:
    """Return the provider and the model of a part; a part may be a provider."""
    if not isinstance(given, Mapping):
        return given, None
    if given.get("provider") is None or not given.keys() <= keys:
        msg = f"{name}: a mapping holds {' and '.join(sorted(keys, reverse=True))}"
        raise ConfigError(msg)
    return given["provider"], given.get("model")
