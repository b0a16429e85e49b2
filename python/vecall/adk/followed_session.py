"""One session of google-adk, and how far it has been handed to the memory."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from vecall.adk.artifacts import ArtifactText, SavedArtifacts
from vecall.adk.events import rewinds_to
from vecall.adk.memory_service import VecallMemoryService
from vecall.errors import InvalidArgumentError

_log = logging.getLogger("vecall")

Ingest = Literal["delta", "session", "trigger"]
Key = tuple[str, str, str]
"""A session: app, user and session id."""


class FollowedSession:
    """A session that is handed over again and again while it grows.

    Args:
        key: Which session.
        service: The memory.
        session: The session as its last run left it.
        to_text: Reads artifacts, where they are to be remembered.
    """

    def __init__(
        self,
        key: Key,
        service: VecallMemoryService,
        session: Session,
        to_text: ArtifactText | None = None,
    ) -> None:
        """Start with nothing handed over."""
        self.key = key
        self.service = service
        self.session = session
        self.artifact_service: BaseArtifactService | None = None
        self._saved = None if to_text is None else SavedArtifacts(*key, to_text)
        self._last: str | None = None
        self._refused: set[str] = set()

    def has_more(self) -> bool:
        """Return whether there are events or artifacts that were not handed over."""
        events = self.session.events
        return bool(self.artifacts()) or (bool(events) and events[-1].id != self._last)

    def artifacts(self) -> list[str]:
        """Return the names of artifacts that are to be remembered."""
        return [] if self._saved is None else self._saved.due()

    async def hand_over(self, ingest: Ingest | None) -> None:
        """Give the memory what was said; note the artifacts that were saved.

        An event that the memory does not take, such as one over its limits, is left
        out: it would be refused the next time too.

        Raises:
            VecallError: The memory failed; the same is new the next time.
        """
        events = list(self.session.events)
        new = self._after_last(events)
        if new:
            await self._tell(new, ingest or _chosen(self.service))
            if self._saved is not None:
                self._saved.note(new)
            self._last = events[-1].id

    async def index(self, name: str) -> None:
        """Give the memory what an artifact says; what fails is to be done again."""
        if self._saved is not None and self.artifact_service is not None:
            memory = self.service.memory
            await self._saved.index(name, self.artifact_service, memory)

    async def _tell(self, new: list[Event], ingest: Ingest) -> None:
        # What a rewind takes back was told before, so then the delta says too little.
        if ingest == "trigger":
            await self._leaving_out(self._observe, list(self.session.events))
        elif ingest == "session" or any(map(rewinds_to, new)):
            await self._leaving_out(self._add_session, list(self.session.events))
        else:
            await self._leaving_out(self._add_events, new)

    async def _leaving_out(
        self, tell: Callable[[list[Event]], Awaitable[None]], events: list[Event]
    ) -> None:
        good = [each for each in events if each.id not in self._refused]
        try:
            await tell(good)
        except InvalidArgumentError:
            known = len(self._refused)
            for each in good:
                try:
                    await tell([each])
                except InvalidArgumentError:
                    self._refused.add(each.id)
            if (count := len(self._refused) - known) == 0:
                raise
            _log.warning("%d turns cannot be remembered and are left out", count)

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
    """Return the way of handing over in which nothing of the memory is passed over."""
    if service.memory.trigger is not None:
        return "trigger"
    return "delta" if service.memory.summarizer is None else "session"
