"""Transcripts of coding agents, and their hooks as processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers import processes

# The first argument is the deadline in seconds.
HOOK = """
import sys
from vecall.coding_agents import hook_command as hook
hook.SECONDS = dict.fromkeys(hook.SECONDS, float(sys.argv.pop(1)))
from vecall.cli.main import main
main()
"""
IMPORTS = "vecall.coding_agents.hook_command vecall.cli.main"
Completed = subprocess.CompletedProcess[str]


def run_hook(
    verb: str, payload: object, *options: object, seconds: float = 30.0
) -> Completed:
    """What a hook prints, and how it ends."""
    given = payload if isinstance(payload, str) else json.dumps(payload)
    return processes.run(
        HOOK, seconds, "hook", verb, *options, imports=IMPORTS, stdin=given, check=False
    )


def quiet(done: Completed) -> bool:
    """Whether a hook said nothing and ended well."""
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


def claude_line(uuid: str, author: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": author,
        "uuid": uuid,
        "sessionId": "s1",
        "timestamp": "2026-11-01T10:00:00.000Z",
        "cwd": "/src/zebra",
        "gitBranch": "main",
        "message": {"role": author, "content": content},
        **fields,
    }


def codex_line(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    moment = f"2026-11-01T10:00:{second:02}.000Z"
    return {"timestamp": moment, "type": kind, "payload": payload}


def cursor_line(author: str, text: str) -> dict[str, Any]:
    return {"role": author, "message": {"content": [{"type": "text", "text": text}]}}


def write_lines(path: Path, lines: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
