"""What to paste into the settings of a client, so that it starts `vecall mcp`.

The formats are those of the clients' documentation in November 2026.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_NAME = "memory"


class Client(NamedTuple):
    """A client of the protocol.

    Attributes:
        where: Where to paste the settings.
        settings: Returns the settings for a command with its arguments.
    """

    where: str
    settings: Callable[[Sequence[str]], str]


def _json(key: str, **more: Any) -> Callable[[Sequence[str]], str]:
    def settings(command: Sequence[str]) -> str:
        server = {**more, "command": command[0], "args": list(command[1:])}
        return json.dumps({key: {_NAME: server}}, indent=2, ensure_ascii=False)

    return settings


def _claude_code(command: Sequence[str]) -> str:
    return f"claude mcp add --scope user {_NAME} -- {shlex.join(command)}"


CLIENTS = {
    "claude-desktop": Client(
        "claude_desktop_config.json, from Settings, Developer, Edit Config",
        _json("mcpServers"),
    ),
    "claude-code": Client("a shell", _claude_code),
    "cursor": Client(
        "~/.cursor/mcp.json, or .cursor/mcp.json of a project", _json("mcpServers")
    ),
    "vscode": Client(
        ".vscode/mcp.json, or the file of the command MCP: Open User Configuration",
        _json("servers", type="stdio"),
    ),
    "zed": Client(
        "settings.json, from the command zed: open settings", _json("context_servers")
    ),
}
"""The clients, by the name on the command line."""
