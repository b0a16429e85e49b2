"""LlamaIndex: a vector store and a memory block. Needs vecall[llama-index]."""

from __future__ import annotations

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    msg = 'vecall.llama_index needs llama-index-core: pip install "vecall[llama-index]"'
    raise ImportError(msg) from error

from vecall.llama_index.memory_block import VecallMemoryBlock
from vecall.llama_index.vector_store import VecallVectorStore

__all__ = ["VecallMemoryBlock", "VecallVectorStore"]
