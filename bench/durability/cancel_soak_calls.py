"""The calls of cancel_soak.py and the ways to cancel them."""

from __future__ import annotations

import asyncio
import faulthandler
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from vecall import MemoryService, StorageOptions
from vecall.errors import BusyError, ConflictError, NotFoundError, VecallError

USERS = 50
MEMORIES = 40  # each user's; they are added again and again under the same ids
AT_ONCE = 64

Call = Callable[[Any], Any]
"""Takes a service, or its `sync`; the names and arguments are the same."""


class Embedder:
    """Gives each text a vector, at once."""

    dimensions = 8

    def __init__(self, model_id: str) -> None:
        """Be a model of that name."""
        self.model_id = model_id

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rng = np.random.default_rng(len(texts))
        return rng.standard_normal((len(texts), self.dimensions)).astype(np.float32)


class Soak:
    """What all callers share."""

    def __init__(
        self, service: MemoryService, folder: Path, seed: int, calls: int, end: float
    ) -> None:
        """Begin; so many calls are to be given up until `end`."""
        self.service = service
        self.folder = folder
        self.seed = seed
        self.error: BaseException | None = None
        self.seen: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.acknowledged: list[set[str]] = [set() for _ in range(USERS)]
        self._calls = calls
        self._end = end
        self._numbers = iter(range(1 << 62))

    def is_over(self) -> bool:
        return (
            self.error is not None
            or time.monotonic() > self._end
            or self.given_up() >= self._calls
        )

    def given_up(self) -> int:
        """How many calls were cancelled, timed out or were interrupted."""
        return sum(self.seen[how] for how in ("cancelled", "timed out", "interrupted"))

    def number(self) -> int:
        return next(self._numbers)

    def guard(self, work: Callable[[], object]) -> None:
        """Run work; an error ends the soak."""
        try:
            work()
        except BaseException as error:
            self.error = error


def scope(user: int) -> dict[str, Any]:
    return {"app_name": "soak", "user_id": f"user{user}"}


def entry(user: int, id_: str) -> dict[str, str]:
    return {"content": f"zebra {id_} of{user}", "id": id_}


@dataclass(frozen=True, slots=True)
class Choice:
    """What a call is about."""

    user: int
    known: str  # one of the memories that are never deleted
    new: str
    passing: str  # added and deleted all the time
    model: int
    path: Path  # of an export

    def who(self) -> dict[str, Any]:
        return scope(self.user)

    def memories(self, id_: str) -> dict[str, Any]:
        return {**scope(self.user), "memories": [entry(self.user, id_)]}


CALLS: dict[str, tuple[float, Callable[[Any, Choice], Any]]] = {
    "search": (
        60,
        lambda s, c: s.search_memory(**c.who(), query="zebra", top_k=MEMORIES),
    ),
    "add": (8, lambda s, c: s.add_memory(**c.memories(c.known))),
    "add new": (1, lambda s, c: s.add_memory(**c.memories(c.new))),
    "add passing": (3, lambda s, c: s.add_memory(**c.memories(c.passing))),
    "delete": (3, lambda s, c: s.delete_memory(**c.who(), memory_id=c.passing)),
    "get": (8, lambda s, c: s.get_memory(**c.who(), memory_id=c.known)),
    "mark used": (3, lambda s, c: s.mark_used(**c.who(), memory_ids=[c.known])),
    "warm": (8, lambda s, c: s.admin.warm(**c.who())),
    "propose to forget": (2, lambda s, c: s.propose_forget(**c.who(), query=c.passing)),
    "stats": (0.3, lambda s, _: s.admin.stats()),
    "export": (0.1, lambda s, c: s.admin.export_jsonl(c.path, **c.who())),
    "reembed": (0.005, lambda s, c: s.admin.reembed(Embedder(f"model{c.model}"))),
}
"""Each kind's share of the calls, and the call: of a service, or of its `sync`."""

KINDS = list(CALLS)
SHARES = list(accumulate(share for share, _ in CALLS.values()))


def chosen(soak: Soak, rng: random.Random) -> tuple[str, Call, Callable[[], object]]:
    """A call, its kind, and what to do once it is acknowledged."""
    kind = rng.choices(KINDS, cum_weights=SHARES)[0]
    new = f"n{soak.number()}"
    choice = Choice(
        user=rng.randrange(USERS),
        known=f"m{rng.randrange(MEMORIES)}",
        new=new,
        passing=f"p{rng.randrange(20)}",
        model=rng.randrange(3),
        path=soak.folder / "exports" / f"{new}.jsonl",
    )
    _, call = CALLS[kind]
    done: Callable[[], object] = lambda: None  # noqa: E731
    if kind == "add new":
        done = lambda: soak.acknowledged[choice.user].add(new)  # noqa: E731
    return kind, lambda service: call(service, choice), done


def is_expected(kind: str, error: VecallError) -> bool:
    if isinstance(error, NotFoundError):
        return kind == "propose to forget"
    return kind == "reembed" and isinstance(error, ConflictError | BusyError)


async def one_async(soak: Soak, rng: random.Random) -> None:
    if rng.random() < 0.0005:
        await service_on_the_side(soak, rng)
        return
    kind, call, done = chosen(soak, rng)
    soak.kinds[kind] += 1
    work = asyncio.ensure_future(call(soak.service))
    how = rng.random()
    if how < 0.48:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait([work])
        seen = "cancelled" if work.cancelled() else "done before"
    elif how < 0.96:
        await asyncio.wait([work], timeout=rng.random() * 0.003)
        seen = "in time"
        if not work.done():
            work.cancel()  # what `asyncio.wait_for` does
            await asyncio.wait([work])
            seen = "timed out" if work.cancelled() else "in time"
    else:
        await asyncio.wait([work], timeout=60)
        if not work.done():
            faulthandler.dump_traceback()
            msg = f"{kind} has hung"
            raise AssertionError(msg)
        seen = "waited for"
    if not work.cancelled():
        error = work.exception()
        if error is None:
            done()
        elif not isinstance(error, VecallError) or not is_expected(kind, error):
            raise error
    soak.seen[seen] += 1


async def service_on_the_side(soak: Soak, rng: random.Random) -> None:
    """Open another service on the file, search, give up, and close it."""
    soak.kinds["another service"] += 1
    user = rng.randrange(USERS)
    other = await asyncio.to_thread(
        MemoryService,
        soak.folder / "m.db",
        embedder=None,
        storage=StorageOptions(durability="process"),
    )
    work = asyncio.ensure_future(other.search_memory(**scope(user), query="zebra"))
    if rng.random() < 0.5:
        await asyncio.sleep(rng.random() * 0.005)
        work.cancel()
    await asyncio.wait([work])
    if not work.cancelled():
        assert len(work.result().memories) > 0
    await asyncio.to_thread(other.close)
    soak.seen["opened and closed"] += 1


class InterruptedCallError(BaseException):
    """What the signal raises in the main thread, as Ctrl-C raises KeyboardInterrupt."""


class Interruptions:
    """Interrupts calls of the main thread by a timer's signal."""

    def __init__(self) -> None:
        """Begin with nothing to interrupt."""
        self._armed = False
        self._before: Any = None

    def __enter__(self) -> Interruptions:
        """Take over the signal."""
        self._before = signal.signal(signal.SIGALRM, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _raise(self, _: int, __: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise InterruptedCallError

    def call(self, work: Callable[[], object], seconds: float) -> bool:
        """Call something; return whether it came to its end."""
        try:
            try:
                self._armed = True
                signal.setitimer(signal.ITIMER_REAL, seconds)
                work()
            finally:
                self._armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except InterruptedCallError:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return False
        except RuntimeError as error:
            # `threading.Condition.wait`, interrupted between letting go of its lock and
            # its `try`, lets go once more. That is Python's, and nothing is held.
            if not isinstance(error.__context__, InterruptedCallError):
                raise
            return False
        return True


def one_sync(soak: Soak, rng: random.Random, interruptions: Interruptions) -> None:
    kind, call, done = chosen(soak, rng)
    soak.kinds[kind] += 1
    seconds = max(1e-6, rng.expovariate(1 / 0.0007))
    try:
        ended = interruptions.call(lambda: call(soak.service.sync), seconds)
    except VecallError as error:
        if not is_expected(kind, error):
            raise
        ended = True
    else:
        if ended:
            done()
    soak.seen["not interrupted" if ended else "interrupted"] += 1
