"""Twin services: one has a memory that a caller may not see, the other never had it.

A caller with fewer rights must not be able to tell the two apart, by any call.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from vecall import MemoryEntry, MemoryService, VecallError
from vecall.filters.rights import Rights
from vecall.hooks import ALLOW, QUARANTINE

from helpers.clocks import SettableClock
from helpers.memories import ALICE

FLOOR = {"min_trust": "third-party-private"}
NO_REVIEW = {"review": False}
HIDDEN = "secret-4711"
TTL = 50.0
SCORES = (
    "asked",
    "score",
    "similarity",
    "confidence",
    "explanation",
    "importance",
    "margin",
)


class Kind(NamedTuple):
    """A kind of hidden memory.

    Attributes:
        rights: The rights of the caller.
        fields: The fields of the memory.
        then: What is done to it after it is stored.
        expires: Whether its time is over when the caller comes.
    """

    rights: dict[str, Any]
    fields: dict[str, Any]
    then: Callable[[MemoryService], object] = lambda _: None
    expires: bool = False


def _archived(service: MemoryService) -> None:
    service.sync.archive_memory(**ALICE, memory_id=HIDDEN)


def _superseded(service: MemoryService) -> None:
    newer = MemoryEntry("a low emu", id="newer", trust="unknown", supersedes=HIDDEN)
    service.sync.add_memory(**ALICE, memories=[newer])


KINDS = {
    "low": Kind(FLOOR, {"trust": "unverified"}),
    "without a tier": Kind(FLOOR, {}),
    "of a tier of one's own": Kind(FLOOR, {"trust": "mine"}),
    "low and archived": Kind(FLOOR, {"trust": "unknown"}, _archived),
    "low and replaced": Kind(FLOOR, {"trust": "unknown"}, _superseded),
    "low and expired": Kind(FLOOR, {"trust": "unknown"}, expires=True),
    "quarantined": Kind(NO_REVIEW, {"content": "a held emu", "trust": "first-party"}),
    "quarantined and low": Kind(
        {**FLOOR, **NO_REVIEW}, {"content": "a held emu", "trust": "unknown"}
    ),
    "quarantined and expired": Kind(NO_REVIEW, {"content": "a held emu"}, expires=True),
}


class Twins(NamedTuple):
    """The services with and without the hidden memory, and their clocks."""

    full: MemoryService
    bare: MemoryService
    rights: Rights

    def restricted(self) -> list[MemoryService]:
        """Both as the caller sees them."""
        return [each.restricted(self.rights) for each in (self.full, self.bare)]

    def hidden(self) -> list[str]:
        """All that is stored of the hidden memories, as lines of an export."""
        lines = []
        for line in exported(self.full):
            known = json.loads(line)
            names = [v.get("id") for v in known.values() if isinstance(v, dict)]
            if HIDDEN in names or "newer" in names:
                known.get("mem", {}).pop("seq", None)
                lines.append(json.dumps(known))
        return lines


def twins(open_service: Callable[..., MemoryService], folder: Path, kind: str) -> Twins:
    """Make twins with a hidden memory of a kind."""
    how = KINDS[kind]
    made = []
    for name in ("full", "bare"):
        clock = SettableClock()
        service = open_service(
            folder / f"{name}.db",
            clock=clock,
            maintenance_interval=None,
            durability="process",
            trigger={"type": "message_count", "message_count": 3},
            on_write=lambda write: (
                QUARANTINE if "held" in write.memory.text else ALLOW
            ),
        )
        made.append(service)
        for step in (_before, _after):
            step(service)
            clock.let_pass(1)
            if step is _before and name == "full":
                given = {"content": "a low emu", "kind": "fact", **how.fields}
                given |= {"session_id": "s", "custom_metadata": {"pin": 493}}
                entry = MemoryEntry(**given, id=HIDDEN)
                ttl = TTL if how.expires else None
                service.sync.add_memory(**ALICE, memories=[entry], ttl=ttl)
                how.then(service)
        clock.let_pass(2 * TTL)
    return Twins(made[0], made[1], Rights(**how.rights))


def _before(service: MemoryService) -> None:
    trusted = {"trust": "first-party"}
    turns = [
        {
            "id": f"t{n}",
            "content": f"turn {n} about an emu",
            "author": "user",
            **trusted,
        }
        for n in range(3)
    ]
    service.sync.add_events_to_memory(**ALICE, events=turns, session_id="s")


def _after(service: MemoryService) -> None:
    facts = [
        MemoryEntry(
            f"fact {n} about a zebra",
            id=f"v{n}",
            trust="first-party",
            kind="fact",
            custom_metadata={"pin": n},
        )
        for n in range(4)
    ]
    service.sync.add_memory(**ALICE, memories=facts)
    service.sync.archive_memory(**ALICE, memory_id="v3")


def exported(service: MemoryService) -> list[str]:
    """The lines of an export with full rights."""
    text = io.StringIO()
    service.sync.admin.export_jsonl(text, vectors=False)
    return text.getvalue().splitlines()


def outcome(call: Callable[[], Any]) -> str:
    """What a call answers or raises, byte for byte, but for secrets and scores."""
    try:
        answer = plain(call())
    except VecallError as error:
        return f"{type(error).__name__}: {error}"
    return json.dumps(answer, sort_keys=True)


def plain(value: Any) -> Any:
    """A value as JSON values; tokens that chance makes and scores are left out."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return plain(fields)
    if isinstance(value, dict):
        return {
            name: "…" if name == "token" and each else plain(each)
            for name, each in value.items()
            if name not in (*SCORES, "request_id")
        }
    if isinstance(value, str):
        return re.sub(r'"(score|confidence|similarity)": [0-9.e-]+', "", value)
    if isinstance(value, list | tuple):
        listed = [plain(each) for each in value]
        left_out = getattr(value, "left_out", None)
        return [listed, plain(left_out)] if left_out else listed
    return value
