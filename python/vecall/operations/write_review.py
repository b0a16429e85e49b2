"""Asks a service's hook about every memory before it is written."""

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
from vecall.ingest.drafts import check_text
from vecall.limits import Limits
from vecall.search.entries import entry_from_draft
from vecall.store import Draft

_log = logging.getLogger("vecall")


_NESTED = (
    "on_write called its own memory service where that asks on_write; write from "
    "outside the hook, or to another service"
)


class WriteReviewer:
    """One hook, on a thread of its own."""

    def __init__(self, hook: WriteHook | None, limits: Limits) -> None:
        """Let everything through where there is no hook."""
        self._hook = hook
        self._limits = limits
        self._thread = PluginExecutor("vecall-hook")

    async def judged(
        self,
        app: str,
        user: str,
        drafts: list[Draft],
        *,
        scope: str = "user",
        explicit: bool = False,
    ) -> list[Draft]:
        """Return what may be written of some drafts, as it may be written.

        What is refused is left out, but for explicit memories. Arguments and errors are
        those of `judged_each`.
        """
        each = await self.judged_each(app, user, drafts, scope=scope, explicit=explicit)
        return drafts if each is drafts else [draft for draft in each if draft]

    async def judged_each(
        self,
        app: str,
        user: str,
        drafts: list[Draft],
        *,
        scope: str = "user",
        explicit: bool = False,
    ) -> Sequence[Draft | None]:
        """Return each draft as it may be written; None for one that is refused.

        Args:
            app: The app that the caller named.
            user: The user that the caller named.
            drafts: What is to be written.
            scope: Where to.
            explicit: Somebody waits for these very memories.

        Raises:
            WriteRejectedError: An explicit memory was refused.
            WriteHookError: The hook failed.
            ReentrantCallError: The hook itself is the caller.
            LimitExceededError: It redacted a memory to a text that is too long.
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
            # Its message may quote the memory; its type does not.
            msg = f"on_write failed with {type(error).__name__}"
            raise WriteHookError(msg) from None
        each = [
            _apply(draft, verdict, explicit=explicit)
            for draft, verdict in zip(drafts, verdicts, strict=True)
        ]
        for judged in each:
            if judged is not None:
                check_text(judged.text, self._limits)
        if None in each:
            _log.info("on_write kept %d memories out", each.count(None))
        return each

    @property
    def is_open(self) -> bool:
        """Whether everything is let through, as there is no hook."""
        return self._hook is None

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError where the hook is the caller."""
        self._thread.refuse_nested()

    def close(self) -> None:
        """Finish what runs and end the thread."""
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
        return replace(draft, text=text, content=None) if text.strip() else None
    return draft
