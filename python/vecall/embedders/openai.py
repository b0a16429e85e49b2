"""Embeddings of OpenAI, or of any server with the same API.

Needs the extra `vecall[openai]`, the official SDK. The SDK retries after transient
errors (HTTP status 408, 409, 429 or 5xx, a timeout, a broken connection). It waits as
`Retry-After` says, else with exponential backoff and jitter.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from vecall.embedders.base import Vectors
from vecall.embedders.fork_local import PerProcess
from vecall.embedders.http import Remote, checked_retries, checked_timeout, positive
from vecall.errors import ConfigError, EmbedderError
from vecall.reprs import model_repr

_KEY = "OPENAI_API_KEY"
_NATIVE = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_FIXED = {"text-embedding-ada-002"}
_MOST_TEXTS = 2_048


class OpenAIEmbedder:
    """`POST {base_url}/embeddings` behind the `Embedder` protocol. Thread-safe.

    Args:
        model: The model's name.
        api_key: The API key; by default the environment variable OPENAI_API_KEY.
            Optional with `base_url`.
        base_url: The URL of another server with the same API, such as
            "http://localhost:11434/v1".
        dimensions: Length of the vectors. OpenAI's models have a default; those named
            text-embedding-3 accept a smaller value and shorten their vectors. Required
            for any other model.
        send_dimensions: Whether requests contain `dimensions`. By default only if one
            of OpenAI's models has to shorten its vectors.
        encoding_format: The format that requests ask for. Some servers support only
            "float". Responses in either format are accepted.
        timeout: Timeout of one attempt in seconds, above 0.
        max_retries: Maximum number of retries after a transient error.
        batch_size: Maximum number of texts in one request; the API's limit is 2,048.
        batch_bytes: Maximum UTF-8 bytes of text in one request. A token has at least
            one byte, so the default stays within the API's limit of 300,000 tokens.
        max_text_bytes: Longer texts are truncated to this number of UTF-8 bytes. The
            default stays within the API's limit of 8,192 tokens in one text.
        max_concurrency: Maximum number of requests in progress at once.

    Raises:
        ImportError: The extra `vecall[openai]` is not installed.
        ConfigError: No API key, or an invalid argument.
    """

    __repr__ = model_repr

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        send_dimensions: bool | None = None,
        encoding_format: Literal["base64", "float"] = "base64",
        timeout: float = 30.0,
        max_retries: int = 4,
        batch_size: int = 256,
        batch_bytes: int = 300_000,
        max_text_bytes: int = 8_191,
        max_concurrency: int = 4,
    ) -> None:
        """Check the arguments; send no request."""
        if encoding_format not in ("base64", "float"):
            msg = "encoding_format: expected 'base64' or 'float'"
            raise ConfigError(msg)
        self.model_id = f"openai:{model}"
        self.dimensions = _dimensions(model, dimensions)
        self.max_concurrency = max_concurrency
        self._remote = Remote(
            "openai",
            dimensions=self.dimensions,
            batch_size=min(positive("batch_size", batch_size), _MOST_TEXTS),
            batch_bytes=batch_bytes,
            max_text_bytes=max_text_bytes,
            max_concurrency=max_concurrency,
        )
        self._body: dict[str, Any] = {"model": model}
        if send_dimensions is None:
            send_dimensions = _NATIVE.get(model, self.dimensions) != self.dimensions
        if send_dimensions:
            self._body["dimensions"] = self.dimensions
        if encoding_format == "float":
            self._body["encoding_format"] = "float"  # the SDK's default is base64
        key = _key(api_key, optional=base_url is not None)
        timeout, max_retries = checked_timeout(timeout), checked_retries(max_retries)
        try:
            from openai import OpenAI
        except ImportError as error:
            msg = (
                'OpenAIEmbedder needs the package openai: pip install "vecall[openai]"'
            )
            raise ImportError(msg) from error
        self._client = PerProcess(
            lambda: OpenAI(
                api_key=key,
                base_url=base_url,
                timeout=timeout,
                max_retries=max_retries,
            )
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions).

        Raises:
            EmbedderError: The request failed, or its response is invalid.
        """
        return self._remote.embed(texts, self._send)

    def close(self) -> None:
        """Close the connections."""
        self._client().close()

    def _send(self, texts: list[str]) -> list[Any]:
        rows = self._client().embeddings.create(input=texts, **self._body).data
        by_index = {row.index: row.embedding for row in rows}
        if len(rows) != len(texts) or by_index.keys() != set(range(len(texts))):
            msg = (
                f"openai: requested {len(texts)} vectors, got {len(rows)}, or not each "
                f"index once"
            )
            raise EmbedderError(msg)
        return [by_index[index] for index in range(len(texts))]


OpenAiEmbedder = OpenAIEmbedder


def _dimensions(model: str, dimensions: int | None) -> int:
    native = _NATIVE.get(model)
    if dimensions is None:
        if native is None:
            known = ", ".join(_NATIVE)
            msg = f"dimensions: known for {known} only; give those of this model"
            raise ConfigError(msg)
        return native
    if native is not None and type(dimensions) is int:
        if model in _FIXED and dimensions != native:
            msg = f"dimensions: {model} has {native} and cannot shorten its vectors"
            raise ConfigError(msg)
        if dimensions > native:
            msg = f"dimensions: {model} has {native} at most"
            raise ConfigError(msg)
    return dimensions


def _key(api_key: str | None, *, optional: bool) -> str:
    key = (os.environ.get(_KEY, "") if api_key is None else api_key).strip()
    if key:
        return key
    if optional:
        return "none"  # the SDK requires a key
    msg = f"no API key: set the environment variable {_KEY}, or give api_key"
    raise ConfigError(msg)
