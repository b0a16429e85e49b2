"""Asks a service's hook about what an import would write."""

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
_JUDGED = ("author", "kind", "source", "trust", "content", "ts")


class ImportReviewer:
    """Judges the lines of one import. For one thread, which is no event loop's.

    Args:
        gate: Has the hook.

    Attributes:
        rejected: How many lines were refused.
        quarantined: How many lines were quarantined, and were not before.
    """

    def __init__(self, gate: WriteReviewer) -> None:
        """Begin; the calls that already wait for the caller are remembered."""
        self._gate = gate
        self._context = contextvars.copy_context()
        self._owner: tuple[str, str] | None = None
        self._refused: set[str] = set()
        self.rejected = self.quarantined = 0

    def judged(self, app: str, user: str, lines: Lines) -> Lines:
        """Return what may be written of some lines, as it may be written.

        Of a memory that is refused the former versions are left out too; a waiting turn
        that is refused is one of which no memory will be made.

        Args:
            app: The app of the partition.
            user: The user of the partition.
            lines: Its lines, in order: memories come before their former versions.

        Raises:
            WriteHookError: The hook failed.
            ClosedError: The service was closed.
        """
        if self._owner != (app, user):
            self._owner, self._refused = (app, user), set()
        drafts = [_draft(kind, values) for kind, values in lines]
        asked = [draft for draft in drafts if draft is not None]
        scope = "shared" if app == SHARED_APP else "app" if user == APP_WIDE else "user"
        work = self._gate.judged_each(app, user, asked, scope=scope)
        verdicts = iter(self._context.run(run_sync, work))
        passed: list[tuple[str, dict[str, Any]]] = []
        for (kind, values), draft in zip(lines, drafts, strict=True):
            if draft is not None:
                judged = next(verdicts)
                self.rejected += judged is None
                held = judged is not None and judged.quarantined
                self.quarantined += held and not draft.quarantined
                if judged is None and kind == "mem":
                    self._refused.add(values["id"])
                if judged is None and kind != "told":
                    continue
                passed.append((kind, _as_judged(kind, values, draft, judged)))
            else:
                passed.append((kind, values))
        return [line for line in passed if not self._is_past_of_refused(line)]

    def _is_past_of_refused(self, line: tuple[str, dict[str, Any]]) -> bool:
        kind, values = line
        return kind == "hist" and values["id"] in self._refused


def _draft(kind: str, values: dict[str, Any]) -> Draft | None:
    """What a line would have somebody remember; None of one that has no text."""
    if kind == "mem":
        told: dict[str, Any] = {name: values.get(name) for name in _SAME}
        held = values["state"] == "quarantined"
        ordered = values.get("pos") is not None
        return Draft(
            values["id"], values["text"], **told, ordered=ordered, quarantined=held
        )
    if kind == "hist":
        old = stored_object(values["old"])
        if "text" not in old:
            return None
        told = {name: old.get(name) for name in (*_JUDGED, "meta", "importance")}
        return Draft(
            values["id"], old["text"], **told, quarantined=old.get("state") is not None
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


def _as_judged(
    kind: str, values: dict[str, Any], given: Draft, judged: Draft | None
) -> dict[str, Any]:
    if judged == given:
        return values
    if kind == "told":
        return {**values, "event": judged and json.dumps(_event(values, judged))}
    assert judged is not None
    redacted = judged.text != given.text
    changed = {"text": judged.text, "content": judged.content, "trust": judged.trust}
    if judged.quarantined:
        changed["state"] = "quarantined"
    if kind == "hist":
        old = {**stored_object(values["old"]), **changed}
        return {**values, "old": json.dumps(old)}
    if redacted:
        changed["vec"] = None  # it is the vector of the other text
    return {k: v for k, v in {**values, **changed}.items() if v is not None}


def _event(values: dict[str, Any], judged: Draft) -> dict[str, Any]:
    summary = compaction_of(stored_object(values["event"]))
    if summary is not None:
        return compaction_event(replace(summary, summary=judged.text))
    return event_of(judged)
