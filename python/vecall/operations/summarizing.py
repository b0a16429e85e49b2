"""Calls a summarizer with buffered turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.embedders.base import is_async
from vecall.errors import ReentrantCallError, SummaryError, VecallError
from vecall.ingest.buffered_turns import drafts_of, is_held
from vecall.ingest.summaries import lowest_trust, summary_drafts
from vecall.store import BufferedTurn, Draft, DueSession
from vecall.summaries import SessionSummary, SummaryProvider, checked_summaries

_INLINE = 200  # turns whose drafts take the event loop less than a millisecond


class SummarizerCalls:
    """The thread of one service's summarizers."""

    def __init__(self) -> None:
        """Create the object; the first call starts its thread."""
        self._thread = PluginExecutor("vecall-summarizer")

    def restart(self) -> None:
        """Start a new thread in a forked child."""
        self._thread = PluginExecutor("vecall-summarizer")

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError if the summarizer is the caller."""
        self._thread.refuse_nested()

    def close(self) -> None:
        """Finish the calls in progress and end the thread."""
        self._thread.close()

    async def drafts(
        self,
        provider: SummaryProvider | None,
        due: DueSession,
        turns: Sequence[BufferedTurn],
    ) -> list[Draft]:
        """Return drafts of summaries; without a provider, drafts of the turns.

        Summaries leave out quarantined turns.

        Raises:
            SummaryError: The provider failed.
        """
        if provider is None:
            return drafts_of(turns, due.session)
        held = [turn for turn in turns if is_held(turn)]
        free = [turn for turn in turns if not is_held(turn)]
        found: list[SessionSummary] = []
        if free:
            session = {
                "app_name": due.app,
                "user_id": due.user,
                "id": due.session,
                "events": [turn.event for turn in free],
            }
            found = await self.summaries(provider, session)
        work = partial(_drafts, found, due.session, held, free)
        if len(turns) <= _INLINE:
            return work()
        drafts: list[Draft] = await Join(self._thread.run(work, concurrent=False))
        return drafts

    async def summaries(
        self, provider: SummaryProvider, session: dict[str, Any]
    ) -> list[SessionSummary]:
        """Call a summarizer off the event loop; return its summaries.

        Raises:
            SummaryError: The provider failed.
            ReentrantCallError: The provider itself is the caller.
        """
        self.refuse_nested()
        work = partial(provider.get_summaries, session)
        try:
            found = await Join(
                self._thread.run(work, concurrent=is_async(provider.get_summaries))
            )
        except ReentrantCallError:
            msg = (
                "the summarizer called its own memory service where that asks the "
                "summarizer; it can only call another service"
            )
            raise SummaryError(msg) from None
        except VecallError:
            raise
        except Exception as error:
            # The error's message may contain the session's text; its type does not.
            msg = f"the summarizer failed with {type(error).__name__}"
            raise SummaryError(msg) from None
        return checked_summaries(found)


def _drafts(
    summaries: Sequence[SessionSummary],
    session: str,
    held: Sequence[BufferedTurn],
    free: Sequence[BufferedTurn],
) -> list[Draft]:
    return drafts_of(held, session) + summary_drafts(
        summaries,
        session,
        [turn.id for turn in free],
        source="summarizer",
        trust=lowest_trust(turn.event.get("trust") for turn in free),
    )
