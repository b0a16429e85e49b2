"""Asks a service's hook about every memory before it is written."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any

from vecall._duck import clean
from vecall._embedding import Wait
from vecall._model_thread import ModelThread
from vecall._recall import draft_entry
from vecall.embedders.base import is_async
from vecall.errors import ClosedError, WriteHookError, WriteRejectedError
from vecall.slices import in_slices
from vecall.store import Draft
from vecall.write_gate import Verdict, Write, WriteHook

_log = logging.getLogger("vecall")


class Gate:
    """One hook, on a thread of its own."""

    def __init__(self, hook: WriteHook | None) -> None:
        """Let everything through where there is no hook."""
        self._hook = hook
        self._thread = ModelThread("vecall-hook")

    async def judged(
        self, wait: Wait, app: str, user: str, drafts: list[Draft]
    ) -> list[Draft]:
        """Return what may be written of some drafts, as it may be written.

        Turns of a session that are refused are left out.

        Raises:
            WriteRejectedError: An explicit memory was refused.
            WriteHookError: The hook failed.
        """
        if self._hook is None or not drafts:
            return drafts
        concurrent = is_async(self._hook)
        work = _all_async if concurrent else _all
        try:
            verdicts = await wait(
                self._thread.run(
                    partial(work, self._hook, app, user, drafts), concurrent=concurrent
                )
            )
        except ClosedError:
            raise
        except Exception as error:
            # Its message may quote the memory; its type does not.
            msg = f"on_write failed with {type(error).__name__}"
            raise WriteHookError(msg) from None
        passed = []
        for draft, verdict in zip(drafts, verdicts, strict=True):
            judged = _apply(draft, verdict)
            if judged is not None:
                passed.append(judged)
        if len(passed) < len(drafts):
            _log.info("on_write kept %d memories out", len(drafts) - len(passed))
        return passed

    def close(self) -> None:
        """Finish what runs and end the thread."""
        self._thread.close()


def _verdicts(hook: WriteHook, app: str, user: str, drafts: list[Draft]) -> list[Any]:
    return [hook(Write(app, user, draft_entry(draft))) for draft in in_slices(drafts)]


def _all(hook: WriteHook, app: str, user: str, drafts: list[Draft]) -> Any:
    verdicts = _verdicts(hook, app, user, drafts)
    if any(isinstance(verdict, Awaitable) for verdict in verdicts):
        return _awaited(verdicts)
    return verdicts


async def _all_async(
    hook: WriteHook, app: str, user: str, drafts: list[Draft]
) -> list[object]:
    return await _awaited(_verdicts(hook, app, user, drafts))


async def _awaited(verdicts: list[Any]) -> list[object]:
    return [
        await verdict if isinstance(verdict, Awaitable) else verdict
        for verdict in verdicts
    ]


def _apply(draft: Draft, verdict: object) -> Draft | None:
    if not isinstance(verdict, Verdict):
        msg = "on_write: must return a vecall.Verdict"
        raise WriteHookError(msg)
    if verdict.outcome == "quarantine":
        return replace(draft, quarantined=True)
    if verdict.outcome == "reject":
        if draft.ordered:
            return None
        msg = "on_write refused a memory; nothing was written"
        raise WriteRejectedError(msg)
    if verdict.outcome == "redact":
        text = clean(verdict.text or "")
        return replace(draft, text=text, content=None) if text.strip() else None
    return draft
