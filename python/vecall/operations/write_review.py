"""Calls the write hook of a service with each memory before it is written."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders.base import is_async
from vecall.errors import (
    ClosedError,
    ReentrantCallError,
    WriteHookError,
    WriteRejectedError,
)
from vecall.filters.trust import at_most
from vecall.hooks import PendingWrite, Verdict, WriteHook
from vecall.ingest.passages import each_draft, in_passages
from vecall.limits import Limits
from vecall.search.entries import entry_from_draft
from vecall.store import Draft

_log = logging.getLogger("vecall")


_NESTED = (
    "on_write called its own memory service, which calls on_write; write from outside "
    "the hook, or to another service"
)


class WriteReviewer:
    """The write hook of a service, and the thread that calls it."""

    def __init__(self, hook: WriteHook | None, limits: Limits) -> None:
        """Create a reviewer.

        Args:
            hook: The write hook; with None every draft passes unchanged.
            limits: The limits on texts, for redacted texts.
        """
        self._hook = hook
        self._limits = limits
        self._thread = PluginExecutor("vecall-hook")

    async def review(
        self,
        app: str,
        user: str,
        drafts: list[Draft],
        *,
        scope: str = "user",
        explicit: bool = False,
    ) -> list[Draft]:
        """Return the drafts that the hook accepts, with its changes.

        The result omits rejected drafts. A rejected explicit memory is an error. See
        `review_each` for arguments and errors.
        """
        results = await self.review_each(
            app, user, drafts, scope=scope, explicit=explicit
        )
        if results is drafts:
            return drafts
        turns = {draft.passage_of for draft in drafts}
        passed = [
            in_passages(draft, self._limits, is_first=draft.id in turns)
            for draft in results
            if draft
        ]
        return each_draft(passed)

    async def review_each(
        self,
        app: str,
        user: str,
        drafts: list[Draft],
        *,
        scope: str = "user",
        explicit: bool = False,
    ) -> Sequence[Draft | None]:
        """Return each draft with the hook's changes; None for a rejected one.

        Args:
            app: The `app_name` of the call.
            user: The `user_id` of the call.
            drafts: The drafts to review.
            scope: The scope of the write.
            explicit: Whether the drafts are explicit memories; rejecting a memory that
                is not a turn is then an error.

        Raises:
            WriteRejectedError: The hook rejected an explicit memory.
            WriteHookError: The hook failed, or returned no `Verdict`.
            ReentrantCallError: The hook itself is the caller.
        """
        if self._hook is None or not drafts:
            return drafts
        self._thread.refuse_nested()
        concurrent = is_async(self._hook)
        work = _all_async if concurrent else _all
        try:
            verdicts = await Join(
                self._thread.run(
                    partial(work, self._hook, app, user, scope, drafts),
                    concurrent=concurrent,
                )
            )
        except ClosedError:
            raise
        except ReentrantCallError:
            raise WriteHookError(_NESTED) from None
        except Exception as error:
            # The error's message may contain the memory's text; its type does not.
            msg = f"on_write failed with {type(error).__name__}"
            raise WriteHookError(msg) from None
        results = [
            _apply(draft, verdict, explicit=explicit)
            for draft, verdict in zip(drafts, verdicts, strict=True)
        ]
        if None in results:
            _log.info("on_write rejected %d memories", results.count(None))
        return results

    @property
    def is_open(self) -> bool:
        """Whether the service has no hook; every draft then passes unchanged."""
        return self._hook is None

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError if the hook is the caller."""
        self._thread.refuse_nested()

    def close(self) -> None:
        """Finish the calls in progress and end the thread."""
        self._thread.close()


def _all(
    hook: WriteHook, app: str, user: str, scope: str, drafts: Iterable[Draft]
) -> Any:
    verdicts: list[object] = []
    waiting = in_slices(drafts)
    for draft in waiting:
        verdict = hook(_write(app, user, scope, draft))
        if isinstance(verdict, Awaitable):
            return _all_async(hook, app, user, scope, waiting, [*verdicts, verdict])
        verdicts.append(verdict)
    return verdicts


async def _all_async(
    hook: WriteHook,
    app: str,
    user: str,
    scope: str,
    drafts: Iterable[Draft],
    before: Iterable[object] = (),
) -> list[object]:
    verdicts = [await _finished(verdict) for verdict in before]
    for draft in drafts:
        verdict = hook(_write(app, user, scope, draft))
        verdicts.append(await _finished(verdict))
    return verdicts


def _write(app: str, user: str, scope: str, draft: Draft) -> PendingWrite:
    return PendingWrite(app, user, replace(entry_from_draft(draft), scope=scope))


async def _finished(verdict: object) -> object:
    return await verdict if isinstance(verdict, Awaitable) else verdict


def _apply(draft: Draft, verdict: object, *, explicit: bool) -> Draft | None:
    if not isinstance(verdict, Verdict):
        msg = "on_write: must return a vecall.Verdict"
        raise WriteHookError(msg)
    draft = replace(draft, trust=at_most(draft.trust, verdict.trust))
    if verdict.outcome == "quarantine":
        return replace(draft, quarantined=True)
    if verdict.outcome == "reject":
        if draft.ordered or not explicit:
            return None
        msg = "on_write refused a memory; nothing was written"
        raise WriteRejectedError(msg)
    if verdict.outcome == "redact":
        text = to_valid_utf8(verdict.text or "")
        # A vector belongs to the text before the redaction.
        redacted = replace(
            draft, text=text, content=None, vec=None, has_own_vector=False
        )
        return redacted if text.strip() else None
    return draft
