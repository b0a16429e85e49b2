"""What processes do until they are killed, and what must be there afterwards.

A stream is one thread of one process. Its n-th call follows from n alone, so that
whoever knows how many calls were acknowledged knows what the file must hold. Every call
may be made again: a child begins with the call whose acknowledgement nobody heard.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from vecall import Drop, MemoryEntry, MemoryService, Put
from vecall.store import make_memory_id

from helpers.fork_pool import together
from helpers.options import grouped

APP = "app"
ITEMS = "items"
"""The verb of a batch of items; their ids are a namespace and a key."""
LARGE = 620  # rows from which on a partition has a snapshot, and some more


@dataclass(frozen=True)
class Call:
    """One call: how it is made, what it puts under which id, what it takes away."""

    verb: str
    texts: dict[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()
    session: str = ""
    key: str | None = None  # for idempotency

    def apply(self, state: dict[str, str]) -> None:
        for id_ in self.gone:
            state.pop(id_, None)
        state.update(self.texts)


Plan = Callable[[str, int], Call]


def _text(stream: str, number: int, part: int = 0, more: str = "") -> str:
    return f"{stream} zebra {mark(stream, number)} part{part}{more}"


def mark(stream: str, number: int) -> str:
    """A word that no other call's memories have."""
    return f"{stream}n{number}x"


def singles(stream: str, number: int) -> Call:
    """One memory a call, and now and then one deleted."""
    if number % 5 == 4:
        return Call("delete", gone=[f"{stream}.{number - 2}"])
    text = _text(stream, number)
    return Call("add", {f"{stream}.{number}": text}, key=f"{stream}.{number}")


def sessions(stream: str, number: int) -> Call:
    """A session of 20 turns, 5 turns more, 12 in their place, one turn deleted."""
    step = number % 4
    first = number - step
    session = f"{stream}.s{first}"

    def turns(*parts: int) -> dict[str, str]:
        return {
            make_memory_id(session, f"e{part}"): _text(stream, first, part)
            for part in parts
        }

    if step == 0:
        return Call("session", turns(*range(20)), session=session)
    if step == 1:
        return Call("events", turns(*range(20, 25)), session=session)
    if step == 2:
        kept = turns(*range(0, 24, 2))
        gone = [id_ for id_ in turns(*range(25)) if id_ not in kept]
        return Call("replace", kept, gone, session)
    if number % 8 == 7:
        return Call("forget", gone=list(turns(*range(0, 24, 2))), session=session)
    return Call("delete", gone=list(turns(0)))


def bulky(stream: str, number: int) -> Call:
    """Three large texts over those of before: the log is full every few calls."""
    slot = number % 4
    if number % 9 == 8:
        return Call("delete", gone=[f"{stream}.{slot}.0"])
    long = " padding" * 3_000
    return Call(
        "add", {f"{stream}.{slot}.{i}": _text(stream, number, i, long) for i in (0, 1)}
    )


def snapshots(stream: str, number: int) -> Call:
    """A partition large enough for a snapshot, then small changes."""
    if number == 0:
        return Call(
            "add", {f"{stream}.0.{i}": _text(stream, 0, i) for i in range(LARGE)}
        )
    if number % 6 == 1:
        return Call("delete", gone=[f"{stream}.0.{number}"])
    return singles(stream, number)


def items(stream: str, number: int) -> Call:
    """Every other call as `sessions`; between them, batches of items."""
    if number % 2 == 0:
        return sessions(stream, number // 2)
    texts = {
        f"{part % 2}/{number % 6}.{part}": _text(stream, number, part)
        for part in range(number % 3 + 1)
    }
    gone = [f"{part % 2}/{(number + 3) % 6}.{part}" for part in range(2)]
    return Call(ITEMS, texts, gone)


def rolling(stream: str, number: int, live: int = 400) -> Call:
    """Adds for ever, and deletes so that some hundreds are left."""
    if number % 2 and number > 2 * live:
        return Call("delete", gone=[f"{stream}.{number - 2 * live - 1}"])
    return Call("add", {f"{stream}.{number}": _text(stream, number)})


PLANS: dict[str, Plan] = {
    "singles": singles,
    "sessions": sessions,
    "bulky": bulky,
    "snapshots": snapshots,
    "rolling": rolling,
    "items": items,
}


class Hashed:
    """An embedder whose vectors follow from the text's digest."""

    def __init__(self, model_id: str, dimensions: int, pause_s: float = 0.0) -> None:
        self.model_id = model_id
        self.dimensions = dimensions
        self._pause_s = pause_s

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        time.sleep(self._pause_s)
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        told = f"{self.model_id} {text}".encode()
        digest = blake2b(told, digest_size=2 * self.dimensions).digest()
        return np.frombuffer(digest, "<i2").astype(np.float32)


EMBEDDERS = {"old": Hashed("old model", 6), "new": Hashed("new model", 8)}


def make(service: MemoryService, user: str, stream: str, call: Call) -> None:
    """Makes a call on the service."""
    who = {"app_name": APP, "user_id": user}
    sync = service.sync
    if call.verb == "delete":
        for id_ in call.gone:
            sync.delete_memory(**who, memory_id=id_)
    elif call.verb == ITEMS:
        operations = [
            *(Drop(*_place(id_)) for id_ in call.gone),
            *(Put(*_place(id_), text) for id_, text in call.texts.items()),
        ]
        service.items.sync.write(operations, **who)
    elif call.verb == "forget":
        sync.delete_session(**who, session_id=call.session)
    elif call.verb == "add":
        entries = [MemoryEntry(text, id=id_) for id_, text in call.texts.items()]
        sync.add_memory(
            **who, memories=entries, restore=True, idempotency_key=call.key or None
        )
    else:
        # The event's id is the number of its part, the last word of its text.
        events = [
            {"id": f"e{text.rpartition('part')[2]}", "text": text}
            for text in call.texts.values()
        ]
        if call.verb == "events":
            sync.add_events_to_memory(**who, events=events, session_id=call.session)
        else:
            session = {**who, "id": call.session, "events": events}
            sync.add_session_to_memory(session, replace=call.verb == "replace")


def is_item(id_: str) -> bool:
    """Whether an id is a namespace and a key."""
    return "/" in id_


def _place(id_: str) -> tuple[tuple[str], str]:
    namespace, _, key = id_.partition("/")
    return (namespace,), key


def opened(job: dict[str, Any]) -> MemoryService:
    """The service that a job names, with its options."""
    options = dict(job["options"])
    if job.get("embedder"):
        options["embedder"] = EMBEDDERS[job["embedder"]]
    with warnings.catch_warnings():  # words alone will do, whatever the file holds
        warnings.simplefilter("ignore", UserWarning)
        return MemoryService(job["path"], **grouped(**{"embedder": None, **options}))


def run(job: dict[str, Any], file: int) -> None:
    """The child: calls of several streams, each acknowledged by a line."""
    service = opened(job)
    together(file, list(_works(service, job, file)))


def _works(
    service: MemoryService, job: dict[str, Any], file: int
) -> Iterator[Callable[[], None]]:
    plan = PLANS[job["plan"]]

    def calls(stream: str, user: str, first: int) -> None:
        for number in itertools.count(first):
            make(service, user, stream, plan(stream, number))
            os.write(file, f"{stream} {number}\n".encode())

    def searches() -> None:
        users = itertools.cycle(set(job["users"].values()))
        for user in users:
            service.sync.search_memory(app_name=APP, user_id=user, query="zebra part3")

    def reembeds() -> None:
        aim = EMBEDDERS[job["aim"]]
        slow = Hashed(aim.model_id, aim.dimensions, pause_s=0.001)
        service.sync.admin.reembed(slow)
        os.write(file, b"reembedded\n")

    def purges() -> None:
        while True:
            service.sync.admin.purge()
            os.write(file, b"purged\n")

    for stream, first in job["streams"].items():
        user = job["users"][stream]
        yield lambda s=stream, u=user, n=first: calls(s, u, n)
    for name, work in [
        ("searches", searches),
        ("reembeds", reembeds),
        ("purges", purges),
    ]:
        if job.get(name):
            yield work
