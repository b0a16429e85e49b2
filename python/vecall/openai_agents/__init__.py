"""Memory for the OpenAI Agents SDK: tools, sessions and recall.

Needs vecall[openai-agents].
"""

from __future__ import annotations

try:
    import agents  # noqa: F401
except ImportError as error:
    msg = (
        'vecall.openai_agents needs openai-agents: pip install "vecall[openai-agents]"'
    )
    raise ImportError(msg) from error

from vecall.openai_agents.ingesting import IngestingSession
from vecall.openai_agents.recall import recall_filter
from vecall.openai_agents.session import VecallSession
from vecall.openai_agents.tools import memory_tools

__all__ = ["IngestingSession", "VecallSession", "memory_tools", "recall_filter"]
