"""LangGraph's long-term memory store over vecall's items: `VecallStore`."""

from __future__ import annotations

try:
    import langgraph.store.base  # noqa: F401
except ImportError as error:
    msg = 'vecall.langgraph needs langgraph-checkpoint: pip install "vecall[langgraph]"'
    raise ImportError(msg) from error

from vecall.langgraph.store import VecallStore

__all__ = ["VecallStore"]
