"""Memory of coding agents: hooks, or a server where hooks cannot add to a prompt.

`vecall hook` is what an agent runs: `recall` before a prompt, `retain` after an answer,
`start` when a session begins. `vecall install` writes these hooks into the settings of
an agent. A hook never disturbs the agent: see `vecall.coding_agents.hook_command`.
"""

from __future__ import annotations
