"""Embedders of OpenAI and Gemini, over their APIs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore
from typing import Any, ClassVar, Literal

import numpy as np

from vecall.embedders.base import PerProcess, Vectors, checked_vectors
from vecall.errors import ConfigError, EmbedderError, VecallError, needs_extra
from vecall.scalars import repr_of_embedder

# What embedders that call an HTTP API share: batches, limits and errors.
#
# Requests block. A call with several requests sends them from several threads. A
# blocking client is not bound to an event loop, so any number of event loops can use
# it. vecall calls embedders on a thread of its own.

Send = Callable[[list[str]], Any]
"""Sends one request; returns one vector for each text, in order."""


class _Hosted:
    """Sends texts in batches, several at once, and returns the vectors in order."""

    __repr__ = repr_of_embedder

    _service: ClassVar[str]
    _native: ClassVar[dict[str, int]]
    """The length of the vectors of the service's models, which is also the greatest."""
    _most_texts: ClassVar[int]
    _client: PerProcess[Any]

    def __init__(self, model: str, dimensions: int | None, **most: int) -> None:
        native = self._native.get(model)
        wanted = native if dimensions is None else dimensions
        if wanted is None:
            known = ", ".join(self._native)
            msg = f"dimensions: known for {known} only; give those of this model"
            raise ConfigError(msg)
        self.model_id = f"{self._service}:{model}"
        self.dimensions = check_positive("dimensions", wanted)
        if native is not None and self.dimensions > native:
            raise ConfigError(f"dimensions: {model} has {native} at most")
        self._most = {name: check_positive(name, value) for name, value in most.items()}
        self.max_concurrency = self._most["max_concurrency"]
        self._slots = PerProcess(lambda: BoundedSemaphore(self.max_concurrency))

    def close(self) -> None:
        """Close the connections."""
        self._client().close()

    def _embed_in_batches(self, texts: Sequence[str], send: Send) -> Vectors:
        batches = list(self._split_into_batches(texts))
        if not batches:
            return np.empty((0, self.dimensions), np.float32)
        if len(batches) == 1:
            return self._embed_batch(batches[0], send)
        with ThreadPoolExecutor(min(len(batches), self.max_concurrency)) as threads:
            parts = threads.map(lambda batch: self._embed_batch(batch, send), batches)
            return np.concatenate(list(parts))

    def _split_into_batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            encoded = text.encode("utf-8", "replace")[: self._most["max_text_bytes"]]
            is_full = len(batch) == min(self._most["batch_size"], self._most_texts)
            if batch and (is_full or size + len(encoded) > self._most["batch_bytes"]):
                yield batch
                batch, size = [], 0
            batch.append(encoded.decode("utf-8", "ignore"))
            size += len(encoded)
        if batch:
            yield batch

    def _embed_batch(self, batch: list[str], send: Send) -> Vectors:
        try:
            with self._slots():
                answer = send(batch)
            return checked_vectors(answer, len(batch), self.dimensions)
        except VecallError:
            raise
        except Exception as error:
            failure = _api_error_description(error)
        # Raised outside the handler, so that the original error is not its context: its
        # message may quote the text or the API key.
        raise EmbedderError(f"{self._service}: {failure}")


def _api_error_description(error: Exception) -> str:
    """Describe an error by its type and HTTP status, without its message."""
    message = f"the request failed with {type(error).__name__}"
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return f"{message}, HTTP status {status}"
    return message


def check_positive(name: str, value: int) -> int:
    """Return `value` if it is a positive integer."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}: expected a positive integer")
    return value


def checked_retries(max_retries: int) -> int:
    """Return `max_retries` if it is valid."""
    if type(max_retries) is not int or max_retries < 0:
        raise ConfigError("max_retries: expected an integer of at least 0")
    return max_retries


def checked_timeout(timeout: float) -> float:
    """Return `timeout` in seconds if it is valid."""
    if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
        raise ConfigError("timeout: expected a positive number of seconds")
    return float(timeout)


def _find_api_key(
    given: str | None, variables: Sequence[str], *, optional: bool = False
) -> str:
    """Return an API key: the given one, or that of the environment."""
    values = [given or ""]
    if given is None:
        values = [os.environ.get(name, "") for name in variables]
    for key in filter(None, map(str.strip, values)):
        return key
    if optional:
        return "none"  # the SDK requires a key
    names = " or ".join(variables)
    msg = f"no API key: set the environment variable {names}, or give api_key"
    raise ConfigError(msg)


# Embeddings of OpenAI, or of any server with the same API.
#
# Needs the extra `vecall[openai]`, the official SDK. The SDK retries after transient
# errors (HTTP status 408, 409, 429 or 5xx, a timeout, a broken connection). It waits as
# `Retry-After` says, else with exponential backoff and jitter.


class OpenAIEmbedder(_Hosted):
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

    _service = "openai"
    _native: ClassVar = {
        "text-embedding-3-small": 1536,
        "text-embedding-3-large": 3072,
        "text-embedding-ada-002": 1536,
    }
    _most_texts = 2_048

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
            raise ConfigError("encoding_format: expected 'base64' or 'float'")
        native = self._native.get(model)
        if model == "text-embedding-ada-002" and dimensions not in (None, native):
            msg = f"dimensions: {model} has {native} and cannot shorten its vectors"
            raise ConfigError(msg)
        super().__init__(
            model,
            dimensions,
            batch_size=batch_size,
            batch_bytes=batch_bytes,
            max_text_bytes=max_text_bytes,
            max_concurrency=max_concurrency,
        )
        self._body: dict[str, Any] = {"model": model}
        if send_dimensions is None:
            send_dimensions = native not in (None, self.dimensions)
        if send_dimensions:
            self._body["dimensions"] = self.dimensions
        if encoding_format == "float":
            self._body["encoding_format"] = "float"  # the SDK's default is base64
        key = _find_api_key(api_key, ("OPENAI_API_KEY",), optional=base_url is not None)
        timeout, max_retries = checked_timeout(timeout), checked_retries(max_retries)
        with needs_extra(type(self).__name__, "the package openai", "openai"):
            from openai import OpenAI
        self._client = PerProcess(
            lambda: OpenAI(
                api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries
            )
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions).

        Raises:
            EmbedderError: The request failed, or its response is invalid.
        """
        return self._embed_in_batches(texts, self._request_vectors)

    def _request_vectors(self, texts: list[str]) -> list[Any]:
        rows = self._client().embeddings.create(input=texts, **self._body).data
        by_index = {row.index: row.embedding for row in rows}
        if len(rows) != len(texts) or by_index.keys() != set(range(len(texts))):
            raise EmbedderError(
                f"openai: requested {len(texts)} vectors, got {len(rows)}, or not each "
                f"index once"
            )
        return [by_index[index] for index in range(len(texts))]


OpenAiEmbedder = OpenAIEmbedder


# Embeddings of the Gemini API.
#
# Needs the extra `vecall[gemini]`, Google's official SDK. The SDK's own retries ignore
# the wait time that the API returns, so they stay off. This module retries with
# tenacity, a dependency of the SDK.

_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_RETRIED = {408, 429, 500, 502, 503, 504}
_LONGEST_WAIT_S = 60.0
_DOCUMENT = "RETRIEVAL_DOCUMENT"
_QUERY = "RETRIEVAL_QUERY"
# Models of this family reject task types: a prefix of the text names the task.
_TASK_AS_PREFIX = "gemini-embedding-2"
_WORDS = {_DOCUMENT: "title: none | text: ", _QUERY: "task: search result | query: "}


class GeminiEmbedder(_Hosted):
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

    _service = "gemini"
    _native: ClassVar = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072}
    _most_texts = 100

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        timeout: float = 30.0,
        max_retries: int = 4,
        batch_size: int = 100,
        batch_bytes: int = 300_000,
        max_text_bytes: int = 32_768,
        max_concurrency: int = 4,
    ) -> None:
        """Check the arguments; send no request."""
        super().__init__(
            model,
            dimensions,
            batch_size=batch_size,
            batch_bytes=batch_bytes,
            max_text_bytes=max_text_bytes,
            max_concurrency=max_concurrency,
        )
        self._model = model
        self._shortened = (
            None if self.dimensions == self._native.get(model) else self.dimensions
        )
        key = _find_api_key(api_key, _GEMINI_KEYS)
        milliseconds = max(1, round(checked_timeout(timeout) * 1000))
        with needs_extra(type(self).__name__, "the package google-genai", "gemini"):
            from google.genai import Client, types
            from tenacity import Retrying, retry_if_exception, stop_after_attempt
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
        return cls(model, api_key=_find_api_key(None, _GEMINI_KEYS), **options)

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

    def _embed(self, texts: Sequence[str], task: str) -> Vectors:
        vectors = self._embed_in_batches(texts, partial(self._request_vectors, task))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        norms[norms == 0] = 1
        vectors /= norms
        return vectors

    def _request_vectors(self, task: str, texts: list[str]) -> list[Any]:
        from google.genai import types

        in_words = self._model.removeprefix("models/").startswith(_TASK_AS_PREFIX)
        words = _WORDS[task] if in_words else ""
        # For newer models the SDK would join plain strings into one document.
        contents = [
            types.Content(role="user", parts=[types.Part(text=words + text)])
            for text in texts
        ]
        config = types.EmbedContentConfig(
            task_type=None if in_words else task, output_dimensionality=self._shortened
        )
        answer = self._retrying()(
            self._client().models.embed_content,
            model=self._model,
            contents=contents,
            config=config,
        )
        return [row.values for row in answer.embeddings or ()]


def _is_retryable_error(error: BaseException) -> bool:
    """Return whether a retry may succeed after an error."""
    from google.genai.errors import APIError

    if isinstance(error, APIError):
        return (
            error.code in _RETRIED
            and (_wait_asked_by_api(error) or 0.0) <= _LONGEST_WAIT_S
        )
    # The SDK uses one of these two HTTP clients, depending on its version.
    clients = (sys.modules.get("httpx"), sys.modules.get("httpx2"))
    kinds = tuple(client.TransportError for client in clients if client is not None)
    return isinstance(error, kinds)


def _retry_wait_seconds(state: Any) -> float:
    from tenacity import wait_exponential_jitter

    said = _wait_asked_by_api(state.outcome.exception())
    backoff = wait_exponential_jitter(initial=0.5, max=8.0, jitter=0.5)
    return backoff(state) if said is None else said


def _wait_asked_by_api(error: BaseException) -> float | None:
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
