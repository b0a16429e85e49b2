"""vecall as the memory of google-adk agents. Needs the extra `vecall[adk]`."""

from __future__ import annotations

try:
    import google.adk  # noqa: F401
except ImportError as error:
    msg = 'vecall.adk needs google-adk: pip install "vecall[adk]"'
    raise ImportError(msg) from error

from vecall.adk.events import entry
from vecall.adk.memory_service import VecallMemoryService, register
from vecall.adk.plugin import VecallMemoryPlugin
from vecall.adk.tools import (
    ExpandSessionTool,
    ForgetMemoryTool,
    LoadMemoryTool,
    PreloadMemoryTool,
    RecallMemoryTool,
    RememberTool,
    UpdateMemoryTool,
    expand_session,
    forget_memory,
    load_memory,
    preload_memory,
    recall_memory,
    remember,
    update_memory,
)

__all__ = [
    "ExpandSessionTool",
    "ForgetMemoryTool",
    "LoadMemoryTool",
    "PreloadMemoryTool",
    "RecallMemoryTool",
    "RememberTool",
    "UpdateMemoryTool",
    "VecallMemoryPlugin",
    "VecallMemoryService",
    "entry",
    "expand_session",
    "forget_memory",
    "load_memory",
    "preload_memory",
    "recall_memory",
    "register",
    "remember",
    "update_memory",
]
