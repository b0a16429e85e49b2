"""What the server of the tests loads: sessions, and a rule for writes."""

from __future__ import annotations

from typing import Any

from vecall import Event, Session
from vecall.hooks import ALLOW, QUARANTINE, REJECT


async def load(*, app_name: str, user_id: str, session_id: str) -> Session | None:
    """Return one turn for every session but two."""
    if session_id == "unknown":
        return None
    if session_id == "broken":
        msg = "the loader failed"
        raise RuntimeError(msg)
    return Session(app_name, user_id, session_id, [Event("Loaded.", "user", id="1")])


def judge(write: Any) -> Any:
    """Return the verdict that the text names."""
    text = write.memory.text
    if "break the rule" in text:
        msg = "the rule failed"
        raise RuntimeError(msg)
    if "reject" in text:
        return REJECT
    return QUARANTINE if "held" in text else ALLOW
