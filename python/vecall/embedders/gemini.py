"""Embeddings of the Gemini API.

Needs the extra `vecall[gemini]`, Google's official SDK. The SDK's own retries ignore
the wait time that the API returns, so they stay off. This module retries with tenacity,
a dependency of the SDK.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from vecall.embedders.base import Vectors
from vecall.embedders.fork_local import PerProcess
from vecall.embedders.http import Remote, checked_retries, checked_timeout, positive
from vecall.errors import ConfigError
from vecall.reprs import model_repr

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_NATIVE = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072}
_MOST_TEXTS = 100
_RETRIED = {408, 429, 500, 502, 503, 504}
_LONGEST_WAIT_S = 60.0
_DOCUMENT = "RETRIEVAL_DOCUMENT"
_QUERY = "RETRIEVAL_QUERY"
# Models of this family reject task types: a prefix of the text names the task.
_TASK_AS_PREFIX = "gemini-embedding-2"
_WORDS = {
    _DOCUMENT: "title: none | text: ",
    _QUERY: "task: search result | query: ",
}


class GeminiEmbedder:
    """The Gemini API behind the `Embedder` protocol. Thread-safe.

    `embed` embeds texts as documents, `embed_queries` as queries. All vectors have norm
    1: the embedder normalises shortened ones, since the API does not.

    Args:
        model: The model's name.
        api_key: The API key; by default the environment variable GEMINI_API_KEY, else
            GOOGLE_API_KEY.
        base_url: The URL of another server with the same API.
        dimensions: Length of the vectors; 3,072 is the default and the maximum.
            Required for models other than gemini-embedding-001 and gemini-embedding-2.
        timeout: Timeout of one attempt in seconds, above 0.
        max_retries: Maximum number of retries after a transient error (HTTP status 408,
            429, 500, 502, 503 or 504, a timeout, a broken connection). A retry waits as
            long as the API says, else with exponential backoff and jitter. If the API
            says more than 60 seconds, the request fails at once.
        batch_size: Maximum number of texts in one request; the API's limit is 100.
        batch_bytes: Maximum UTF-8 bytes of text in one request.
        max_text_bytes: Longer texts are truncated to this number of UTF-8 bytes. The
            model may truncate further, to its own limit of tokens.
        max_concurrency: Maximum number of requests in progress at once.

    Raises:
        ImportError: The extra `vecall[gemini]` is not installed.
        ConfigError: No API key, or an invalid argument.
    """

    __repr__ = model_repr

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        timeout: float = 30.0,
        max_retries: int = 4,
        batch_size: int = _MOST_TEXTS,
        batch_bytes: int = 300_000,
        max_text_bytes: int = 32_768,
        max_concurrency: int = 4,
    ) -> None:
        """Check the arguments; send no request."""
        native = _NATIVE.get(model)
        wanted = native if dimensions is None else dimensions
        if wanted is None:
            known = ", ".join(_NATIVE)
            msg = f"dimensions: known for {known} only; give those of this model"
            raise ConfigError(msg)
        self.model_id = f"gemini:{model}"
        self.dimensions = positive("dimensions", wanted)
        self.max_concurrency = max_concurrency
        self._remote = Remote(
            "gemini",
            dimensions=self.dimensions,
            batch_size=min(positive("batch_size", batch_size), _MOST_TEXTS),
            batch_bytes=batch_bytes,
            max_text_bytes=max_text_bytes,
            max_concurrency=max_concurrency,
        )
        if native is not None and self.dimensions > native:
            msg = f"dimensions: {model} has {native} at most"
            raise ConfigError(msg)
        self._model = model
        self._shortened = None if self.dimensions == native else self.dimensions
        key = _key(api_key)
        milliseconds = max(1, round(checked_timeout(timeout) * 1000))
        try:
            from google.genai import Client, types
            from tenacity import Retrying, retry_if_exception, stop_after_attempt
        except ImportError as error:
            msg = (
                "GeminiEmbedder needs the package google-genai: "
                'pip install "vecall[gemini]"'
            )
            raise ImportError(msg) from error
        http = types.HttpOptions(base_url=base_url, timeout=milliseconds)
        self._client = PerProcess(
            lambda: Client(api_key=key, vertexai=False, http_options=http)
        )
        self._retrying = partial(
            Retrying,
            stop=stop_after_attempt(1 + checked_retries(max_retries)),
            retry=retry_if_exception(_passes),
            wait=_wait,
            reraise=True,
        )

    @classmethod
    def from_env(
        cls, model: str = "gemini-embedding-001", **options: Any
    ) -> GeminiEmbedder:
        """Return an embedder with the API key of the environment.

        Args:
            model: The model's name.
            options: Any other argument of the constructor, except `api_key`.

        Raises:
            ConfigError: Neither GEMINI_API_KEY nor GOOGLE_API_KEY is set.
        """
        return cls(model, api_key=_key(None), **options)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for memories.

        Raises:
            EmbedderError: The request failed, or its response is invalid.
        """
        return self._embed(texts, _DOCUMENT)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for queries.

        Raises:
            EmbedderError: See `embed`.
        """
        return self._embed(texts, _QUERY)

    def close(self) -> None:
        """Close the connections."""
        self._client().close()

    def _embed(self, texts: Sequence[str], task: str) -> Vectors:
        vectors = self._remote.embed(texts, partial(self._send, task))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        norms[norms == 0] = 1
        vectors /= norms
        return vectors

    def _send(self, task: str, texts: list[str]) -> list[Any]:
        from google.genai import types

        in_words = self._model.removeprefix("models/").startswith(_TASK_AS_PREFIX)
        words = _WORDS[task] if in_words else ""
        # For newer models the SDK would join plain strings into one document.
        contents = [
            types.Content(role="user", parts=[types.Part(text=words + text)])
            for text in texts
        ]
        config = types.EmbedContentConfig(
            task_type=None if in_words else task,
            output_dimensionality=self._shortened,
        )
        answer = self._retrying()(
            self._client().models.embed_content,
            model=self._model,
            contents=contents,
            config=config,
        )
        return [row.values for row in answer.embeddings or ()]


def _key(api_key: str | None) -> str:
    candidates = (
        [os.environ.get(name, "") for name in _KEYS] if api_key is None else [api_key]
    )
    for key in candidates:
        if key.strip():
            return key.strip()
    msg = f"no API key: set the environment variable {' or '.join(_KEYS)}"
    raise ConfigError(msg)


def _passes(error: BaseException) -> bool:
    """Return whether a retry may succeed after an error."""
    from google.genai.errors import APIError

    if isinstance(error, APIError):
        return error.code in _RETRIED and (_said(error) or 0.0) <= _LONGEST_WAIT_S
    # The SDK uses one of these two HTTP clients, depending on its version.
    clients = (sys.modules.get("httpx"), sys.modules.get("httpx2"))
    kinds = tuple(client.TransportError for client in clients if client is not None)
    return isinstance(error, kinds)


def _wait(state: Any) -> float:
    from tenacity import wait_exponential_jitter

    said = _said(state.outcome.exception())
    backoff = wait_exponential_jitter(initial=0.5, max=8.0, jitter=0.5)
    return backoff(state) if said is None else said


def _said(error: BaseException) -> float | None:
    """Return the wait in seconds that the API asks for, or None."""
    response = getattr(error, "response", None)
    said = [getattr(response, "headers", {}).get("retry-after", "")]
    details = getattr(error, "details", None)
    if isinstance(details, Mapping) and isinstance(details.get("error"), Mapping):
        for detail in details["error"].get("details") or ():
            if isinstance(detail, Mapping):
                said.append(str(detail.get("retryDelay", "")).removesuffix("s"))
    for text in said:
        try:
            seconds = float(text)
        except ValueError:
            continue
        if seconds >= 0:  # not NaN either
            return seconds
    return None
