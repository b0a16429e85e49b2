"""Reads what an agent writes to a hook's standard input."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 16 * 1024 * 1024


class PayloadError(ValueError):
    """The input of a hook is not usable; the message has no text of the user."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The input of a hook, the same for all agents.

    Attributes:
        event: The agent's name of the event, such as "UserPromptSubmit".
        session_id: The session; None if the agent does not name it.
        folder: The folder in which the agent works.
        prompt: The user's prompt; "" for other events.
        transcript: The path of the session's transcript; None without one.
    """

    event: str
    session_id: str | None
    folder: str
    prompt: str
    transcript: str | None


def read_payload(file: int) -> Payload:
    """Read the input of a hook from a file descriptor.

    Claude Code and Codex name the session `session_id` and the folder `cwd`. Cursor
    names them `conversation_id` and `workspace_roots`.

    Raises:
        PayloadError: The input is too long, or is not a JSON object with an event.
    """
    data = bytearray()
    while chunk := os.read(file, 1 << 16):
        data += chunk
        if len(data) > MOST_BYTES:
            msg = f"the input has more than {MOST_BYTES} bytes"
            raise PayloadError(msg)
    try:
        fields = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        msg = "the input is not JSON"
        raise PayloadError(msg) from None
    if not isinstance(fields, dict):
        msg = "the input is not a JSON object"
        raise PayloadError(msg)
    event = _text(fields, "hook_event_name")
    if event is None:
        msg = "the input has no hook_event_name"
        raise PayloadError(msg)
    return Payload(
        event=event,
        session_id=_text(fields, "session_id") or _text(fields, "conversation_id"),
        folder=_folder(fields),
        prompt=_text(fields, "prompt") or "",
        transcript=_text(fields, "transcript_path"),
    )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        return None
    # A lone surrogate is valid JSON, but no text.
    return value.encode("utf-8", "replace").decode("utf-8")


def _folder(fields: Mapping[str, Any]) -> str:
    roots = fields.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    for each in (_text(fields, "cwd"), first, os.environ.get("CURSOR_PROJECT_DIR")):
        if isinstance(each, str) and each:
            return each
    return os.getcwd()  # noqa: PTH109 - a text is needed
