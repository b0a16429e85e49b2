"""Memory and history for Microsoft Agent Framework. Needs vecall[agent-framework]."""

from __future__ import annotations

try:
    import agent_framework  # noqa: F401
except ImportError as error:
    msg = (
        "vecall.agent_framework needs agent-framework-core: "
        'pip install "vecall[agent-framework]"'
    )
    raise ImportError(msg) from error

from vecall.agent_framework.context_provider import VecallContextProvider
from vecall.agent_framework.history_provider import VecallHistoryProvider
from vecall.agent_framework.owners import Name

__all__ = ["Name", "VecallContextProvider", "VecallHistoryProvider"]
