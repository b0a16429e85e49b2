"""Embedders of OpenAI and Gemini, over their APIs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from vecall.embedders.base import PerProcess, Vectors
from vecall.embedders.provider import Remote, checked_retries, checked_timeout, positive
from vecall.errors import ConfigError, EmbedderError
from vecall.scalars import model_repr

# Embeddings of OpenAI, or of any server with the same API.
#
# Needs the extra `vecall[openai]`, the official SDK. The SDK retries after transient
# errors (HTTP status 408, 409, 429 or 5xx, a timeout, a broken connection). It waits as
# `Retry-After` says, else with exponential backoff and jitter.


_OPENAI_KEY = "OPENAI_API_KEY"
_OPENAI_NATIVE = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_FIXED = {"text-embedding-ada-002"}
_OPENAI_MOST_TEXTS = 2_048


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
        self.dimensions = _openai_dimensions(model, dimensions)
        self.max_concurrency = max_concurrency
        self._remote = Remote(
            "openai",
            dimensions=self.dimensions,
            batch_size=min(positive("batch_size", batch_size), _OPENAI_MOST_TEXTS),
            batch_bytes=batch_bytes,
            max_text_bytes=max_text_bytes,
            max_concurrency=max_concurrency,
        )
        self._body: dict[str, Any] = {"model": model}
        if send_dimensions is None:
            send_dimensions = (
                _OPENAI_NATIVE.get(model, self.dimensions) != self.dimensions
            )
        if send_dimensions:
            self._body["dimensions"] = self.dimensions
        if encoding_format == "float":
            self._body["encoding_format"] = "float"  # the SDK's default is base64
        key = _openai_key(api_key, optional=base_url is not None)
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


def _openai_dimensions(model: str, dimensions: int | None) -> int:
    native = _OPENAI_NATIVE.get(model)
    if dimensions is None:
        if native is None:
            known = ", ".join(_OPENAI_NATIVE)
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


def _openai_key(api_key: str | None, *, optional: bool) -> str:
    key = (os.environ.get(_OPENAI_KEY, "") if api_key is None else api_key).strip()
    if key:
        return key
    if optional:
        return "none"  # the SDK requires a key
    msg = f"no API key: set the environment variable {_OPENAI_KEY}, or give api_key"
    raise ConfigError(msg)


# Embeddings of the Gemini API.
#
# Needs the extra `vecall[gemini]`, Google's official SDK. The SDK's own retries ignore
# the wait time that the API returns, so they stay off. This module retries with
# tenacity, a dependency of the SDK.

_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GEMINI_NATIVE = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072}
_GEMINI_MOST_TEXTS = 100
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
        batch_size: int = _GEMINI_MOST_TEXTS,
        batch_bytes: int = 300_000,
        max_text_bytes: int = 32_768,
        max_concurrency: int = 4,
    ) -> None:
        """Check the arguments; send no request."""
        native = _GEMINI_NATIVE.get(model)
        wanted = native if dimensions is None else dimensions
        if wanted is None:
            known = ", ".join(_GEMINI_NATIVE)
            msg = f"dimensions: known for {known} only; give those of this model"
            raise ConfigError(msg)
        self.model_id = f"gemini:{model}"
        self.dimensions = positive("dimensions", wanted)
        self.max_concurrency = max_concurrency
        self._remote = Remote(
            "gemini",
            dimensions=self.dimensions,
            batch_size=min(positive("batch_size", batch_size), _GEMINI_MOST_TEXTS),
            batch_bytes=batch_bytes,
            max_text_bytes=max_text_bytes,
            max_concurrency=max_concurrency,
        )
        if native is not None and self.dimensions > native:
            msg = f"dimensions: {model} has {native} at most"
            raise ConfigError(msg)
        self._model = model
        self._shortened = None if self.dimensions == native else self.dimensions
        key = _gemini_key(api_key)
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
            retry=retry_if_exception(_is_retryable_error),
            wait=_retry_wait_seconds,
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
        return cls(model, api_key=_gemini_key(None), **options)

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


def _gemini_key(api_key: str | None) -> str:
    candidates = (
        [os.environ.get(name, "") for name in _GEMINI_KEYS]
        if api_key is None
        else [api_key]
    )
    for key in candidates:
        if key.strip():
            return key.strip()
    msg = f"no API key: set the environment variable {' or '.join(_GEMINI_KEYS)}"
    raise ConfigError(msg)


def _is_retryable_error(error: BaseException) -> bool:
    """Return whether a retry may succeed after an error."""
    from google.genai.errors import APIError

    if isinstance(error, APIError):
        return error.code in _RETRIED and (_said(error) or 0.0) <= _LONGEST_WAIT_S
    # The SDK uses one of these two HTTP clients, depending on its version.
    clients = (sys.modules.get("httpx"), sys.modules.get("httpx2"))
    kinds = tuple(client.TransportError for client in clients if client is not None)
    return isinstance(error, kinds)


def _retry_wait_seconds(state: Any) -> float:
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
