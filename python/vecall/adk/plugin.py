"""A plugin that hands every turn to the memory, without anybody waiting for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

from google.adk.agents.invocation_context import InvocationContext
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session

from vecall.adk.followed_session import FollowedSession, Ingest, Key
from vecall.adk.memory_service import VecallMemoryService
from vecall.errors import ConfigError

_log = logging.getLogger("vecall")


class VecallMemoryPlugin(BasePlugin):
    """Remembers what was said in a run, after the run, on a thread of its own.

    The reply is not held up. What could not be remembered is logged, without a word of
    it, and tried again after the next turn of that session. `Runner.close` waits until
    all is remembered; end a process with it, or with `flush`.

    With google-adk's compaction, the summary of a run is written after the plugin was
    told of the run, so it is remembered after the next one, or by `flush` or `close`.

    Args:
        ingest: "delta" adds the events that are new since the last run; "session" adds
            the session, which costs more the longer it is, and takes part in the
            memory's summarizer; "trigger" leaves it to the memory's `trigger` when and
            what to remember.
        name: The plugin's name.
        sessions: So many sessions are known at a time; of one that was let go of, all
            is handed over again, which changes nothing.

    Raises:
        ConfigError: Another `ingest`, or fewer than one session.
    """

    def __init__(
        self,
        ingest: Ingest = "delta",
        *,
        name: str = "vecall_memory",
        sessions: int = 256,
    ) -> None:
        """Start without sessions."""
        super().__init__(name=name)
        if ingest not in get_args(Ingest):
            msg = f"ingest: must be one of {', '.join(get_args(Ingest))}"
            raise ConfigError(msg)
        if type(sessions) is not int or sessions < 1:
            msg = "sessions: must be an integer of at least 1"
            raise ConfigError(msg)
        self._ingest = ingest
        self._most = sessions
        self._lock = threading.Lock()
        self._followed: OrderedDict[Key, FollowedSession] = OrderedDict()
        self._waiting: dict[Key, FollowedSession] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="vecall-adk")
        self._warned = False

    async def after_run_callback(
        self, *, invocation_context: InvocationContext
    ) -> None:
        """Take note of a run; returns at once.

        Args:
            invocation_context: Says which session, and which memory.
        """
        service = invocation_context.memory_service
        if isinstance(service, VecallMemoryService):
            self._submit(self._note(service, invocation_context.session))
        elif not self._warned:
            self._warned = True
            _log.warning(
                "a run was not remembered: its memory_service is no VecallMemoryService"
            )

    async def flush(self) -> None:
        """Wait until all is remembered that was said so far, compactions included."""
        with self._lock:
            followed = list(self._followed.values())
        for each in followed:
            if each.has_more():
                self._submit(each)
        await asyncio.wrap_future(self._worker.submit(lambda: None))

    async def close(self) -> None:
        """Do as `flush`; the plugin can be used again."""
        await self.flush()

    def _note(self, service: VecallMemoryService, session: Session) -> FollowedSession:
        key = (session.app_name, session.user_id, session.id)
        with self._lock:
            followed = self._followed.setdefault(
                key, FollowedSession(key, service, session)
            )
            followed.service, followed.session = service, session
            self._followed.move_to_end(key)
            if len(self._followed) > self._most:
                self._followed.popitem(last=False)
        return followed

    def _submit(self, followed: FollowedSession) -> None:
        """Have a session remembered, once however often it is asked for."""
        with self._lock:
            is_queued = followed.key in self._waiting
            self._waiting[followed.key] = followed
        if not is_queued:
            self._worker.submit(self._remember, followed.key)

    def _remember(self, key: Key) -> None:
        with self._lock:
            followed = self._waiting.pop(key)
        try:
            asyncio.run(followed.hand_over(self._ingest))
        except Exception as error:
            _log.warning(
                "a session was not remembered: %s; tried again after its next turn",
                type(error).__name__,
            )
