"""The coding agents: where their settings are, and which hooks they get."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "# vecall install"
"""The end of every command that `vecall install` writes; nothing else has it."""

# numpy starts a thread for each core otherwise, which takes longer than a search.
_ONE_THREAD = "OPENBLAS_NUM_THREADS=1"

_PROMPT_SECONDS = 5
_RETAIN_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent.

    Attributes:
        name: The argument of `vecall install`.
        folder: The folder of the user's settings, if `variable` is not set.
        variable: The environment variable with another folder; None without one.
        file: The settings' file in it.
        events: The verb of `vecall hook` for each event.
        grouped: Whether an event holds groups, each with "hooks". Otherwise it holds
            the hooks themselves.
        first: What a new settings' file begins with.
        extra: Further fields of the hook of an event.
    """

    name: str
    folder: str
    variable: str | None
    file: str
    events: Mapping[str, str]
    grouped: bool = True
    first: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings(self) -> Path:
        """Return the path of the user's settings."""
        named = os.environ.get(self.variable) if self.variable else None
        return Path(named or self.folder).expanduser() / self.file

    def hooks(self, command: str, arguments: str) -> dict[str, Any]:
        """Return the entry of each event.

        Args:
            command: Starts vecall, quoted for a shell.
            arguments: The options of the hooks, quoted for a shell.
        """
        entries: dict[str, Any] = {}
        for event, verb in self.events.items():
            seconds = _RETAIN_SECONDS if verb == "retain" else _PROMPT_SECONDS
            line = " ".join(
                filter(None, (_ONE_THREAD, command, "hook", verb, arguments))
            )
            # The shell hides what Python says if it is interrupted while it starts, or
            # if vecall is no longer there.
            hook: dict[str, Any] = {
                "command": f"{line} 2>/dev/null || exit 0 {MARK}",
                "timeout": seconds,
                **self.extra.get(event, {}),
            }
            if self.grouped:
                entries[event] = {"hooks": [{"type": "command", **hook}]}
            else:
                entries[event] = hook
        return entries


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            folder="~/.claude",
            variable="CLAUDE_CONFIG_DIR",
            file="settings.json",
            events={
                "SessionStart": "start",
                "UserPromptSubmit": "recall",
                "Stop": "retain",
                "PreCompact": "retain",
                "SessionEnd": "retain",
            },
            extra={"Stop": {"async": True}},
        ),
        Agent(
            name="codex",
            folder="~/.codex",
            variable="CODEX_HOME",
            file="hooks.json",
            events={
                "SessionStart": "start",
                "UserPromptSubmit": "recall",
                "Stop": "retain",
            },
        ),
        Agent(
            name="cursor",
            folder="~/.cursor",
            variable=None,
            file="hooks.json",
            events={
                "sessionStart": "start",
                "beforeSubmitPrompt": "recall",
                "stop": "retain",
                "sessionEnd": "retain",
            },
            grouped=False,
            first={"version": 1},
        ),
    )
}
