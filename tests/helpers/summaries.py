"""Models and providers of summaries that follow a script, and what they are shown."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

from vecall.summaries import (
    CompactionAwareSummaryProvider,
    LlmSummaryProvider,
    SessionSummary,
)

REST = SessionSummary("The rest.")


class Scripted:
    """Stands for a model: gives its answers in turn and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, prompt: str) -> Any:
        self.asked.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class SlowScripted(Scripted):
    """The same as an asynchronous function."""

    async def __call__(self, prompt: str) -> Any:
        await asyncio.sleep(0)
        return Scripted.__call__(self, prompt)


class Recording:
    """A provider that keeps the sessions it was given."""

    def __init__(self, found: Any = (REST,)) -> None:
        self.found = found
        self.sessions: list[Any] = []

    def get_summaries(self, session: object) -> Any:
        self.sessions.append(session)
        return self.found


class SlowRecording(Recording):
    """The same, asynchronous."""

    async def get_summaries(self, session: object) -> Any:
        await asyncio.sleep(0)
        return Recording.get_summaries(self, session)


def finished(found: Any) -> Any:
    """What was found, awaited if it must be."""

    async def wait() -> Any:
        return await found

    return asyncio.run(wait()) if inspect.isawaitable(found) else found


def answered(answer: Any) -> list[SessionSummary]:
    """What one answer of a model becomes."""
    found = LlmSummaryProvider(Scripted(answer)).get_summaries(
        {"events": [{"author": "user", "content": "Hi."}]}
    )
    assert isinstance(found, list)
    return found


def texts(answer: str) -> list[str]:
    return [one.summary for one in answered(answer)]


def turn(text: str, at: float | None = None) -> dict[str, Any]:
    return {"author": "user", "timestamp": at, "content": {"parts": [{"text": text}]}}


def parts(*texts: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"text": text} for text in texts]}


def compacted(
    content: Any, start: Any = 0.0, end: Any = 10.0, at: float | None = 11.0
) -> dict[str, Any]:
    compaction = {
        "start_timestamp": start,
        "end_timestamp": end,
        "compacted_content": content,
    }
    actions = {"compaction": compaction}
    return {"author": "user", "timestamp": at, "content": None, "actions": actions}


def a_mapping(*events: Any) -> dict[str, Any]:
    return {"app_name": "hotel", "user_id": "alice", "id": "trip", "events": events}


def stretch(text: str, start: float | None, end: float | None) -> SessionSummary:
    return SessionSummary(text, start_timestamp=start, end_timestamp=end)


def summarized(events: Sequence[Any], provider: Recording) -> list[SessionSummary]:
    found = CompactionAwareSummaryProvider(provider).get_summaries(a_mapping(*events))
    assert isinstance(found, list)
    return found
