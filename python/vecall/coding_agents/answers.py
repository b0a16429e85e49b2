"""Writes the answer of a hook in the format of the event's agent."""

from __future__ import annotations

import json

MOST_CHARACTERS = 9_900
"""Claude Code and Cursor put more than 10,000 characters into a file instead."""

_CLAUDE_CODE_AND_CODEX = ("UserPromptSubmit", "SessionStart")


def answer(event: str, block: str) -> str:
    """Return the standard output of a hook that adds a block to the context.

    Args:
        event: The event's name. Claude Code and Codex share names and format; Cursor's
            names begin with a lower-case letter.
        block: The recalled memories; "" adds nothing.

    Returns:
        One JSON object, or "" if there is nothing to add or the event takes no context.
    """
    if not block:
        return ""
    if event in _CLAUDE_CODE_AND_CODEX:
        specific = {"hookEventName": event, "additionalContext": block}
        return _json({"suppressOutput": True, "hookSpecificOutput": specific})
    if event == "beforeSubmitPrompt":
        return _json({"continue": True, "additional_context": block})
    if event == "sessionStart":
        return _json({"additional_context": block})
    return ""


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=True)
