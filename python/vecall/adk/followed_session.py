"""One session of google-adk, and how far it has been handed to the memory."""

from __future__ import annotations

from typing import Literal

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from vecall.adk.events import rewinds_to
from vecall.adk.memory_service import VecallMemoryService

Ingest = Literal["delta", "session", "trigger"]
Key = tuple[str, str, str]
"""A session: app, user and session id."""


class FollowedSession:
    """A session that is handed over again and again while it grows.

    Args:
        key: Which session.
        service: The memory.
        session: The session as its last run left it.
    """

    def __init__(
        self, key: Key, service: VecallMemoryService, session: Session
    ) -> None:
        """Start with nothing handed over."""
        self.key = key
        self.service = service
        self.session = session
        self._last: str | None = None

    def has_more(self) -> bool:
        """Return whether there are events that were not handed over."""
        events = self.session.events
        return bool(events) and events[-1].id != self._last

    async def hand_over(self, ingest: Ingest) -> None:
        """Give the memory what is new.

        Raises:
            VecallError: The memory failed; the same is new the next time.
        """
        session, service = self.session, self.service
        events = list(session.events)
        new = self._after_last(events)
        if not new:
            return
        # What a rewind takes back was told before, so then the delta says too little.
        if ingest == "trigger":
            await service.observe_session(session)
        elif ingest == "session" or any(map(rewinds_to, new)):
            await service.add_session_to_memory(session)
        else:
            app_name, user_id, session_id = self.key
            await service.add_events_to_memory(
                app_name=app_name, user_id=user_id, session_id=session_id, events=new
            )
        self._last = events[-1].id

    def _after_last(self, events: list[Event]) -> list[Event]:
        for at in range(len(events), 0, -1):
            if events[at - 1].id == self._last:
                return events[at:]
        return events
