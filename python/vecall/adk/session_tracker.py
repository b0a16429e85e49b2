"""Tracks which events of a google-adk session were stored already."""

from __future__ import annotations

import logging
from typing import Literal

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from vecall.adk.artifact_index import ArtifactText, SavedArtifacts
from vecall.adk.memory_service import VecallMemoryService
from vecall.errors import InvalidArgumentError
from vecall.ingest.conversation import rewinds_to

_log = logging.getLogger("vecall")

Ingest = Literal["delta", "session", "trigger"]
Key = tuple[str, str, str]
"""A session: app, user and session id."""


class SessionTracker:
    """A growing session, whose new events are stored after each run.

    Args:
        key: The app, the user and the session id.
        service: The memory service.
        session: The session after its last run.
        to_text: Returns the text of an artifact; None: artifacts are not stored.
    """

    def __init__(
        self,
        key: Key,
        service: VecallMemoryService,
        session: Session,
        to_text: ArtifactText | None = None,
    ) -> None:
        """Create a tracker; no event is stored yet."""
        self.key = key
        self.service = service
        self.session = session
        self.artifact_service: BaseArtifactService | None = None
        self._saved = None if to_text is None else SavedArtifacts(*key, to_text)
        self._copies: list[Session] = []
        self._last: str | None = None

    def left_by_run(self, session: Session) -> None:
        """Record the session at the end of a run.

        Each of several concurrent runs has its own copy of the session, without the
        events of the other runs. So the tracker holds each copy until it is stored.
        """
        self.session = session
        self._copies.append(session)

    def has_more(self) -> bool:
        """Return whether there are events or artifacts to store."""
        events = self.session.events
        more = bool(events) and events[-1].id != self._last
        return more or bool(self._copies) or bool(self.artifacts())

    def artifacts(self) -> list[str]:
        """Return the names of artifacts to store."""
        return [] if self._saved is None else self._saved.due()

    async def hand_over(self, ingest: Ingest | None) -> None:
        """Store new events; record the artifacts that they saved.

        New events of which the memory service can store none, for example because the
        user's quota is used up, are skipped: a retry would fail too.

        Raises:
            VecallError: The memory service failed; the next call retries the events.
        """
        count = len(self._copies)
        copies = self._uncovered(self._copies[:count])
        self._copies[:count] = copies
        for copy in copies or [self.session]:
            events = list(copy.events)
            if new := self._after_last(events):
                try:
                    await self._store(new, events, ingest or _chosen(self.service))
                except InvalidArgumentError as error:  # a retry would fail too
                    _log.warning(
                        "%d turns cannot be remembered and are left out: %s",
                        len(new),
                        error,
                    )
                if self._saved is not None:
                    self._saved.note(new)
                self._last = events[-1].id
            if copies:
                del self._copies[0]

    async def index(self, name: str) -> None:
        """Store the text of an artifact; a failure is retried later."""
        if self._saved is not None and self.artifact_service is not None:
            memory = self.service.memory
            await self._saved.index(name, self.artifact_service, memory)

    def _uncovered(self, copies: list[Session]) -> list[Session]:
        """Return the copies with new events that no later copy has."""
        uncovered: list[Session] = []
        known: set[str] = set()
        for copy in reversed(copies):
            new = {each.id for each in self._after_last(list(copy.events))}
            if not new <= known:
                uncovered.append(copy)
            known |= new
        return uncovered[::-1]

    async def _store(
        self, new: list[Event], events: list[Event], ingest: Ingest
    ) -> None:
        # A rewind removes earlier events, so the new events alone are not enough.
        if ingest == "trigger":
            await self._observe(events)
        elif ingest == "session" or any(map(rewinds_to, new)):
            await self._add_session(events)
        else:
            await self._add_events(new)

    async def _add_events(self, events: list[Event]) -> None:
        app_name, user_id, session_id = self.key
        await self.service.add_events_to_memory(
            app_name=app_name, user_id=user_id, session_id=session_id, events=events
        )

    async def _add_session(self, events: list[Event]) -> None:
        whole = self.session.model_copy(update={"events": events})
        await self.service.add_session_to_memory(whole)

    async def _observe(self, events: list[Event]) -> None:
        whole = self.session.model_copy(update={"events": events})
        await self.service.observe_session(whole)

    def _after_last(self, events: list[Event]) -> list[Event]:
        for at in range(len(events), 0, -1):
            if events[at - 1].id == self._last:
                return events[at:]
        return events


def _chosen(service: VecallMemoryService) -> Ingest:
    """Return the mode of ingest that uses the service's trigger and summarizer."""
    if getattr(service.memory, "trigger", None) is not None:
        return "trigger"
    has_summarizer = getattr(service.memory, "summarizer", None) is not None
    return "session" if has_summarizer else "delta"
