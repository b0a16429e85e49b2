"""A plugin that stores every turn in the background."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, get_args

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session

from vecall.adk.artifacts import ArtifactText, SavedArtifacts, text_of
from vecall.adk.memory_service import VecallMemoryService
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.ingest.drafts import rewind_target
from vecall.limits import SessionEnd, check_limit_count

_log = logging.getLogger("vecall")

Ingest = Literal["delta", "session", "trigger"]
Key = tuple[str, str, str]
"""A session: app, user and session id."""


class SessionTracker:
    """A growing session, whose new events are stored after each run."""

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
        self.artifacts = SavedArtifacts(*key, to_text)
        self._copies: list[Session] = []
        self._last: str | None = None

    def hold_run_session(self, session: Session) -> None:
        """Hold the session of a run until it is stored: concurrent runs have copies."""
        self.session = session
        self._copies.append(session)

    def has_unstored_events(self) -> bool:
        """Return whether there are events or artifacts to store."""
        events = self.session.events
        more = bool(events) and events[-1].id != self._last
        return more or bool(self._copies) or bool(self.artifacts.due_artifacts())

    async def store_new_events(self, ingest: Ingest | None) -> None:
        """Store new events, skip what never can be; note the artifacts they saved."""
        count = len(self._copies)
        copies = self._session_copies_not_covered(self._copies[:count])
        self._copies[:count] = copies
        for copy in copies or [self.session]:
            events = list(copy.events)
            if new := self._unstored_events(events):
                try:
                    await self._store(new, events, ingest or _ingest_mode(self.service))
                except InvalidArgumentError as error:  # a retry would fail too
                    _log.warning(
                        "%d turns cannot be remembered and are left out: %s",
                        len(new),
                        error,
                    )
                self.artifacts.note_artifacts(new)
                self._last = events[-1].id
            if copies:
                del self._copies[0]

    async def index_artifact(self, name: str) -> None:
        """Store the text of an artifact; a failure is retried later."""
        if self.artifact_service is not None:
            memory = self.service.memory
            await self.artifacts.index_artifact(name, self.artifact_service, memory)

    def _session_copies_not_covered(self, copies: list[Session]) -> list[Session]:
        """Return the copies with new events that no later copy has."""
        uncovered: list[Session] = []
        known: set[str] = set()
        for copy in reversed(copies):
            new = {each.id for each in self._unstored_events(list(copy.events))}
            if not new <= known:
                uncovered.append(copy)
            known |= new
        return uncovered[::-1]

    async def _store(
        self, new: list[Event], events: list[Event], ingest: Ingest
    ) -> None:
        # A rewind removes earlier events, so the new events alone are not enough.
        if ingest == "delta" and not any(map(rewind_target, new)):
            app_name, user_id, session_id = self.key
            await self.service.add_events_to_memory(
                app_name=app_name, user_id=user_id, session_id=session_id, events=new
            )
            return
        whole = self.session.model_copy(update={"events": events})
        if ingest == "trigger":
            await self.service.observe_session(whole)
        else:
            await self.service.add_session_to_memory(whole)

    def _unstored_events(self, events: list[Event]) -> list[Event]:
        for at in range(len(events), 0, -1):
            if events[at - 1].id == self._last:
                return events[at:]
        return events


def _ingest_mode(service: VecallMemoryService) -> Ingest:
    """Return the mode of ingest that uses the service's trigger and summarizer."""
    if getattr(service.memory, "trigger", None) is not None:
        return "trigger"
    has_summarizer = getattr(service.memory, "summarizer", None) is not None
    return "session" if has_summarizer else "delta"


_MAX_EVENTS = 50_000  # of all tracked sessions; 4 kB each, plus their blobs

_Place = tuple[int, Key]  # the service's id(), and the session


@functools.cache
def _adk_hides_run_ends() -> bool:
    """Return whether google-adk calls plugins only at the start of a run."""
    # True for versions 2.0.0b1 to 2.1.0; affects runs whose root is an LlmAgent.
    from google.adk.runners import Runner

    run = getattr(Runner, "_run_node_async", None)
    names = () if run is None else run.__code__.co_names
    return "run_before_run_callback" in names and "run_after_run_callback" not in names


class VecallMemoryPlugin(BasePlugin):
    """Stores the turns of a run after the run, on its own thread.

    The reply does not wait. A failed write is logged without content, and retried after
    the next turn of that session. `flush` waits until all turns are stored: call it
    before the process ends. `Runner.close` also flushes, but google-adk limits it to
    `Runner(plugin_close_timeout=5.0)` seconds.

    google-adk's compaction writes the summary of a run after it has called the plugin.
    The summary is stored after the next run, or by `flush` or `close`.

    Args:
        ingest: "delta" stores the new events since the last run. "session" stores the
            whole session: the cost grows with its length, and the service's summarizer
            applies. "trigger" buffers the session; the service's `trigger` decides what
            to store and when. With the trigger "session_end" nothing is stored until
            you call `VecallMemoryService.end_session`; a warning says so. None is
            "trigger" if the service has a trigger, "session" if it has a summarizer,
            else "delta".
        index_artifacts: Also store the texts of saved artifacts, in pieces that refer
            to the artifact, so that a model can call `load_artifacts`. True reads texts
            and docx, and stores only the name of other artifacts. To read other types,
            pass a function that takes an artifact and its name, and returns a text or
            None. The function and the artifact service run on the plugin's thread.
        name: The plugin's name.
        sessions: The maximum number of tracked sessions; all of them together may have
            50,000 events. After its eviction a session is stored again as a whole,
            which changes nothing.

    Raises:
        ConfigError: `ingest` or `index_artifacts` is not valid, or `sessions` is less
            than 1.
    """

    def __init__(
        self,
        ingest: Ingest | None = None,
        *,
        index_artifacts: bool | ArtifactText = False,
        name: str = "vecall_memory",
        sessions: int = 256,
    ) -> None:
        """Create a plugin without sessions."""
        super().__init__(name=name)
        if ingest is not None and ingest not in get_args(Ingest):
            raise ConfigError(f"ingest: must be one of {', '.join(get_args(Ingest))}")
        to_text: object = index_artifacts
        if not isinstance(to_text, bool) and not callable(to_text):
            raise ConfigError("index_artifacts: expected True, False or a function")
        check_limit_count(sessions, "sessions")
        self._ingest = ingest
        self._to_text = text_of if index_artifacts is True else index_artifacts or None
        self._most = sessions
        self._lock = threading.Lock()
        self._followed: OrderedDict[_Place, SessionTracker] = OrderedDict()
        self._waiting: dict[_Place, SessionTracker] = {}
        self._running: dict[int, InvocationContext] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="vecall-adk")
        self._warned = False

    async def before_run_callback(
        self, *, invocation_context: InvocationContext
    ) -> None:
        """Warn once if nothing will be stored, before the first turn is lost.

        google-adk does not tell a plugin of a run that is cancelled. So a run counts as
        ended when its task is done, at the latest.

        Args:
            invocation_context: The context, with the memory service.
        """
        service = invocation_context.memory_service
        task = asyncio.current_task()
        if isinstance(service, VecallMemoryService) and task is not None:
            run = id(invocation_context)
            with self._lock:
                self._running[run] = invocation_context
            task.add_done_callback(lambda _: self._record_run_end(run))
        if self._warned:
            return
        if not isinstance(service, VecallMemoryService):
            self._warned = True
            _log.warning(
                "runs are not remembered: their memory_service is no "
                "VecallMemoryService"
            )
        elif self._service_waits_for_session_end(service):
            self._warned = True
            _log.warning(
                "what is said waits for the end of its session, which google-adk "
                "does not tell: call VecallMemoryService.end_session, or choose the "
                "trigger inactivity or message_count"
            )

    def _service_waits_for_session_end(self, service: VecallMemoryService) -> bool:
        return self._ingest in (None, "trigger") and isinstance(
            getattr(service.memory, "trigger", None), SessionEnd
        )

    async def after_run_callback(
        self, *, invocation_context: InvocationContext
    ) -> None:
        """Record a run, without blocking.

        Args:
            invocation_context: The context, with the session and the memory service.
        """
        with self._lock:
            self._running.pop(id(invocation_context), None)
        self._queue_session_of_run(invocation_context)

    def _record_run_end(self, run: int) -> None:
        """Record a run that has ended without a word, if it has."""
        with self._lock:
            context = self._running.pop(run, None)
        if context is not None:
            self._queue_session_of_run(context)

    async def on_run_error_callback(
        self,
        *,
        invocation_context: InvocationContext,
        error: Exception,  # noqa: ARG002
    ) -> None:
        """Record a failed run, because the user's message is part of the session.

        Args:
            invocation_context: The context, with the session and the memory service.
            error: The error of the run.
        """
        await self.after_run_callback(invocation_context=invocation_context)

    async def after_agent_callback(
        self,
        *,
        agent: BaseAgent,  # noqa: ARG002
        callback_context: CallbackContext,
    ) -> None:
        """Record a run at the end of an agent if google-adk does not report run ends.

        Args:
            agent: The agent. Any agent will do, because stored turns are skipped.
            callback_context: The context, with the session and the memory service.
        """
        if _adk_hides_run_ends():
            invocation = callback_context._invocation_context
            await self.after_run_callback(invocation_context=invocation)

    async def flush(self) -> None:
        """Wait until all turns so far are stored, compactions included."""
        with self._lock:
            followed = list(self._followed.values())
        for each in followed:
            if each.has_unstored_events():
                self._submit_session(each)
        for _ in ("what was said", "the artifacts that were found in it"):
            await asyncio.wrap_future(self._worker.submit(lambda: None))

    async def close(self) -> None:
        """Flush. The plugin can be used again."""
        await self.flush()

    def _queue_session_of_run(self, context: InvocationContext) -> None:
        """Queue the session of a run, if it is remembered by vecall."""
        service, session = context.memory_service, context.session
        if not isinstance(service, VecallMemoryService):
            return
        key = (session.app_name, session.user_id, session.id)
        place = (id(service), key)
        with self._lock:
            followed = self._followed.setdefault(
                place, SessionTracker(key, service, session, self._to_text)
            )
            followed.hold_run_session(session)
            followed.artifact_service = context.artifact_service
            self._followed.move_to_end(place)
            while len(self._followed) > 1 and self._holds_too_many_sessions():
                # The least recently updated session, a stored one if possible.
                items = self._followed.items()
                stored = (key for key, each in items if not each.has_unstored_events())
                del self._followed[next(stored, next(iter(self._followed)))]
        self._submit_session(followed)

    def _holds_too_many_sessions(self) -> bool:
        events = sum(len(each.session.events) for each in self._followed.values())
        return len(self._followed) > self._most or events > _MAX_EVENTS

    def _submit_session(self, followed: SessionTracker) -> None:
        """Queue a session to be stored, unless it is queued already."""
        place = (id(followed.service), followed.key)
        with self._lock:
            is_queued = place in self._waiting
            self._waiting[place] = followed
        if not is_queued:
            self._worker.submit(self._store_queued_session, place)

    def _store_queued_session(self, place: _Place) -> None:
        with self._lock:
            followed = self._waiting.pop(place)
        try:
            asyncio.run(followed.store_new_events(self._ingest))
        except Exception as error:
            _log.warning(
                "a session was not remembered: %s; tried again after its next turn",
                type(error).__name__,
            )
        # One artifact at a time, so that a new turn waits for at most one of them.
        for name in followed.artifacts.due_artifacts():
            self._worker.submit(lambda a: asyncio.run(followed.index_artifact(a)), name)
