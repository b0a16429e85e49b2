"""Gemini's embeddings.

Needs the extra `vecall[gemini]`, Google's official SDK. Its own retries do not heed
what the API says about how long to wait, so they stay off, and tenacity, on which the
SDK rests, does it here.
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

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_NATIVE = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072}
_MOST_TEXTS = 100
_RETRIED = {408, 429, 500, 502, 503, 504}
_LONGEST_WAIT_S = 60.0
_DOCUMENT = "RETRIEVAL_DOCUMENT"
_QUERY = "RETRIEVAL_QUERY"
# This family refuses task types: the task is a prefix of the text.
_TASK_AS_PREFIX = "gemini-embedding-2"
_WORDS = {
    _DOCUMENT: "title: none | text: ",
    _QUERY: "task: search result | query: ",
}


class GeminiEmbedder:
    """The Gemini API behind the `Embedder` protocol. Thread-safe.

    Memories are embedded as documents, texts of `embed_queries` as queries.
    Vectors have norm 1, also the shortened ones, which the API does not normalize.

    Args:
        model: The model's name.
        api_key: By default the environment's GEMINI_API_KEY, then GOOGLE_API_KEY.
        base_url: Another server of the same API.
        dimensions: Length of the vectors, 3,072 by default and at most. Models other
            than gemini-embedding-001 and gemini-embedding-2 need it.
        timeout: Seconds for one attempt.
        max_retries: Further attempts of a request that failed for now (408, 429, 5xx,
            timeouts, broken connections), after what the API says or after exponential
            backoff with jitter. A wait of more than a minute is not waited for.
        batch_size: Most texts of one request, up to the API's 100.
        batch_bytes: Most UTF-8 of one request.
        max_text_bytes: What a text has beyond this is not sent; of what is sent the
            model reads as many tokens as it can.
        max_concurrency: Most requests under way at once.

    Raises:
        ImportError: The extra `vecall[gemini]` is not installed.
        ConfigError: No key, or an argument that cannot be used.
    """

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
        """Check the arguments; nothing is sent yet."""
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
        """Return an embedder with the environment's key.

        Args:
            model: The model's name.
            options: Any other argument of the class but `api_key`.

        Raises:
            ConfigError: Neither GEMINI_API_KEY nor GOOGLE_API_KEY is set.
        """
        return cls(model, api_key=_key(None), **options)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimensions) of norm 1, for memories.

        Raises:
            EmbedderError: The API refused, did not answer, or answered nonsense.
        """
        return self._embed(texts, _DOCUMENT)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return what `embed` does, for questions about memories.

        Raises:
            EmbedderError: As `embed`.
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
        # Not plain strings: of those the SDK makes one document for the newer models.
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
    """Whether an error may be gone at the next attempt."""
    from google.genai.errors import APIError

    if isinstance(error, APIError):
        return error.code in _RETRIED and (_said(error) or 0.0) <= _LONGEST_WAIT_S
    # The SDK speaks through one of these two, depending on its version.
    clients = (sys.modules.get("httpx"), sys.modules.get("httpx2"))
    kinds = tuple(client.TransportError for client in clients if client is not None)
    return isinstance(error, kinds)


def _wait(state: Any) -> float:
    from tenacity import wait_exponential_jitter

    said = _said(state.outcome.exception())
    backoff = wait_exponential_jitter(initial=0.5, max=8.0, jitter=0.5)
    return backoff(state) if said is None else said


def _said(error: BaseException) -> float | None:
    """Return the seconds of the API's retry-after, if it sent any."""
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
