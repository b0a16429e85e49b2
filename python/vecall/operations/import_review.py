"""Calls a service's write hook with the memories of an import."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vecall.concurrency.join import run_sync
from vecall.ingest.buffered_turns import compaction_event, drafts_of, event_of
from vecall.ingest.summaries import SUMMARY
from vecall.operations.write_review import WriteReviewer
from vecall.scopes import APP_WIDE, SHARED_APP
from vecall.store import BufferedTurn, Draft, stored_object
from vecall.summaries import compaction_of

Lines = Sequence[tuple[str, dict[str, Any]]]

_SAME = (
    "author kind source trust content meta importance ts session event valid_until "
    "supersedes"
).split()
_REVIEWED = ("author", "kind", "source", "trust", "content", "ts")


class ImportReviewer:
    """Reviews the lines of one import, on one thread without a running event loop.

    Args:
        gate: The reviewer with the hook.

    Attributes:
        rejected: The number of rejected lines.
        quarantined: The number of lines that the hook quarantined.
    """

    def __init__(self, gate: WriteReviewer) -> None:
        """Copy the caller's context, which detects nested calls of the hook."""
        self._gate = gate
        self._context = contextvars.copy_context()
        self._owner: tuple[str, str] | None = None
        self._refused: set[str] = set()
        self.rejected = self.quarantined = 0

    def review(self, app: str, user: str, lines: Lines) -> Lines:
        """Return the lines that the hook accepts, with its changes.

        The former versions of a rejected memory are omitted too. A rejected buffered
        turn is kept as a turn that makes no memory.

        Args:
            app: The app of the partition.
            user: The user of the partition.
            lines: The lines in order: memories before their former versions.

        Raises:
            WriteHookError: The hook failed.
            ClosedError: The service was closed.
        """
        if self._owner != (app, user):
            self._owner, self._refused = (app, user), set()
        drafts = [_draft(kind, values) for kind, values in lines]
        present = [draft for draft in drafts if draft is not None]
        scope = "shared" if app == SHARED_APP else "app" if user == APP_WIDE else "user"
        work = self._gate.review_each(app, user, present, scope=scope)
        verdicts = iter(self._context.run(run_sync, work))
        passed: list[tuple[str, dict[str, Any]]] = []
        for (kind, values), draft in zip(lines, drafts, strict=True):
            if draft is not None:
                reviewed = next(verdicts)
                self.rejected += reviewed is None
                held = reviewed is not None and reviewed.quarantined
                self.quarantined += held and not draft.quarantined
                if reviewed is None and kind == "mem":
                    self._refused.add(values["id"])
                if reviewed is None and kind != "told":
                    continue
                passed.append((kind, _as_reviewed(kind, values, draft, reviewed)))
            else:
                passed.append((kind, values))
        return [line for line in passed if not self._is_past_of_refused(line)]

    def _is_past_of_refused(self, line: tuple[str, dict[str, Any]]) -> bool:
        kind, values = line
        return kind == "hist" and values["id"] in self._refused


def _draft(kind: str, values: dict[str, Any]) -> Draft | None:
    """Return the draft of a line; None for a line without text."""
    if kind == "mem":
        fields: dict[str, Any] = {name: values.get(name) for name in _SAME}
        held = values["state"] == "quarantined"
        ordered = values.get("pos") is not None
        return Draft(
            values["id"], values["text"], **fields, ordered=ordered, quarantined=held
        )
    if kind == "hist":
        old = stored_object(values["old"])
        if "text" not in old:
            return None
        fields = {name: old.get(name) for name in (*_REVIEWED, "meta", "importance")}
        return Draft(
            values["id"],
            old["text"],
            **fields,
            quarantined=old.get("state") is not None,
        )
    if kind == "told" and values.get("event") is not None:
        event = stored_object(values["event"])
        summary = compaction_of(event)
        if "content" in event:
            return drafts_of([BufferedTurn(values["id"], event)], values["session"])[0]
        if summary is not None:
            session = values["session"]
            return Draft(values["id"], summary.summary, session=session, kind=SUMMARY)
    return None


def _as_reviewed(
    kind: str, values: dict[str, Any], original: Draft, reviewed: Draft | None
) -> dict[str, Any]:
    if reviewed == original:
        return values
    if kind == "told":
        event = reviewed and json.dumps(_event(values, reviewed))
        return {**values, "event": event}
    assert reviewed is not None
    redacted = reviewed.text != original.text
    changed = {
        "text": reviewed.text,
        "content": reviewed.content,
        "trust": reviewed.trust,
    }
    if reviewed.quarantined:
        changed["state"] = "quarantined"
    if kind == "hist":
        old = {**stored_object(values["old"]), **changed}
        return {**values, "old": json.dumps(old)}
    if redacted:
        changed["vec"] = None  # the vector belongs to the text before the redaction
    return {k: v for k, v in {**values, **changed}.items() if v is not None}


def _event(values: dict[str, Any], reviewed: Draft) -> dict[str, Any]:
    summary = compaction_of(stored_object(values["event"]))
    if summary is not None:
        return compaction_event(replace(summary, summary=reviewed.text))
    return event_of(reviewed)
