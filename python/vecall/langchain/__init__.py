"""LangChain's vector store over vecall's items: `VecallVectorStore`."""

from __future__ import annotations

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    msg = 'vecall.langchain needs langchain-core: pip install "vecall[langchain]"'
    raise ImportError(msg) from error

from vecall.langchain.vector_store import VecallVectorStore

__all__ = ["VecallVectorStore"]
