"""LangChain's vector store and chat message history over vecall's items.

`vecall.langchain.middleware` is a memory for LangChain's agents.
"""

from __future__ import annotations

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    msg = 'vecall.langchain needs langchain-core: pip install "vecall[langchain]"'
    raise ImportError(msg) from error

from vecall.langchain.chat_history import VecallChatMessageHistory
from vecall.langchain.vector_store import VecallVectorStore

__all__ = ["VecallChatMessageHistory", "VecallVectorStore"]
