"""Memory as a capability of pydantic-ai. Needs vecall[pydantic-ai].

`vecall.pydantic_ai.harness_store` is the store of pydantic-ai-harness' notebook.
"""

from __future__ import annotations

try:
    import pydantic_ai  # noqa: F401
except ImportError as error:
    msg = 'vecall.pydantic_ai needs pydantic-ai: pip install "vecall[pydantic-ai]"'
    raise ImportError(msg) from error

from vecall.pydantic_ai.capability import Name, VecallMemory

__all__ = ["Name", "VecallMemory"]
