"""Conversations of four people who do not exist, for the demo and the tests."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def load_conversations() -> dict[str, Any]:
    """Return app_name, sessions, and questions with the events that answer them."""
    text = (files(__package__) / "conversations.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    for session in data["sessions"]:
        session["app_name"] = data["app_name"]
    return data
