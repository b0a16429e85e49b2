"""A service whose files fail: what a child process under storage_shim.c does.

`sweep` opens copies of one file again and again. Each time one call of the operating
system fails, or all from some call on, while a service is opened, used or closed; then
it has to work again, and the file has to hold what was acknowledged.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import faulthandler
import gc
import itertools
import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vecall import (
    CorruptFileError,
    MemoryEntry,
    MemoryService,
    StorageError,
    StorageFullError,
)

from helpers.power_loss import FAULTS
from helpers.storage_work import APP, FILE, found_by_search, roomy, stored

STAGES = ("create", "open", "work", "close")
ERRORS = {
    "open": [errno.EMFILE, errno.EACCES],
    "read": [errno.EIO],
    "write": [errno.ENOSPC, errno.EIO],
    "short": [0],
    "sync": [errno.EIO, errno.ENOSPC],
    "truncate": [errno.EIO, errno.ENOSPC],
    "unlink": [errno.EIO],
    "rename": [errno.ENOSPC, errno.EIO],
    "allocate": [errno.ENOSPC, errno.EIO],
}
USER, OTHER = "u0", "u1"
_LOG_BYTES = 985 * 4120  # of the base; SQLite makes a checkpoint at 1,000 pages
_STUCK_S = 60
_FEW = 12


class Fault(NamedTuple):
    stage: str
    kind: str
    error: int
    sticky: bool
    nth: int

    def __str__(self) -> str:
        name = errno.errorcode.get(self.error, "half")
        until = "from then on" if self.sticky else "once"
        return f"{self.stage}: {self.kind} {self.nth} {name} {until}"


def make_base(folder: str) -> None:
    """Leave a file with a log that the next commits bring into it."""
    service = MemoryService(f"{folder}/{FILE}", **roomy(), embedder=None)
    kept = [MemoryEntry(f"zebra base{n} " + "x" * 3000, id=f"b{n}") for n in range(12)]
    service.sync.add_memory(app_name=APP, user_id=USER, memories=kept)
    _session(service, "old", range(6))
    log = Path(f"{folder}/{FILE}-wal")
    number = 0
    while log.stat().st_size < _LOG_BYTES:
        scope = {"app_name": APP, "user_id": OTHER}
        entry = MemoryEntry("zebra passing " + "y" * 8000, id=f"p{number}")
        service.sync.add_memory(**scope, memories=[entry])
        service.sync.delete_memory(**scope, memory_id=f"p{number}")
        number += 1
    for path in Path(folder).iterdir():
        if path.name not in {FILE, log.name}:
            path.unlink()
    os._exit(0)


def _session(service: MemoryService, word: str, numbers: range) -> None:
    events = [
        {"id": f"{word}{n}", "author": "user", "text": f"zebra {word} turn{n} " * 20}
        for n in numbers
    ]
    told: dict[str, Any] = {
        "app_name": APP,
        "user_id": USER,
        "id": "s",
        "events": events,
    }
    service.sync.add_session_to_memory(told, replace=True)


class _Trial:
    """One service with one fault, and what has to be true of its file."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.problems: list[str] = []
        # For each call: its outcome, words that it brings, words that it takes away.
        self.calls: list[tuple[str, str, list[str], list[str]]] = []

    def attempt(
        self,
        user: str,
        new: list[str],
        gone: list[str],
        work: Callable[[], Any],
    ) -> None:
        self.calls.append((self.outcome(work), user, new, gone))

    def outcome(self, work: Callable[[], Any]) -> str:
        try:
            work()
        except StorageFullError as error:
            self.errors.append(repr(error))
            return "nothing"
        except (StorageError, CorruptFileError) as error:
            # SQLite calls it damage where the disk cannot be read.
            self.errors.append(repr(error))
            return "unknown"
        except BaseException as error:
            self.errors.append(repr(error))
            self.problems.append(f"raised {traceback.format_exc()[-1500:]}")
            return "unknown"
        return "done"

    def judge(self, kept: dict[str, frozenset[str]]) -> None:
        for outcome, user, new, gone in self.calls:
            texts = kept.get(user, frozenset())
            brought = [word in _words(texts) for word in new]
            taken = [word not in _words(texts) for word in gone]
            whole = brought + taken
            if outcome == "done" and not all(whole):
                self.problems.append(f"lost, or not deleted: {new} {gone}")
            elif outcome == "nothing" and any(whole):
                self.problems.append(f"there though refused: {new} {gone}")
            elif len(set(whole)) > 1:
                self.problems.append(f"torn: {new} {brought} {gone} {taken}")


def _words(texts: frozenset[str]) -> set[str]:
    return {word for text in texts for word in text.split()[:3]}


def _work(service: MemoryService, trial: _Trial, name: str) -> None:
    """Calls none of which touches what another one touches."""
    scope = {"app_name": APP, "user_id": USER}
    sync = service.sync

    def add(user: str, words: list[str], size: int) -> None:
        entries = [
            MemoryEntry(f"zebra {word} " + "x" * size, id=word) for word in words
        ]
        trial.attempt(
            user,
            words,
            [],
            lambda: sync.add_memory(app_name=APP, user_id=user, memories=entries),
        )

    add(USER, [f"{name}one"], 100)
    add(USER, [f"{name}many{n}" for n in range(20)], 2000)
    for id_ in ("b0", "b1"):
        trial.attempt(
            USER,
            [],
            [f"base{id_[1:]}"],
            lambda id_=id_: sync.delete_memory(**scope, memory_id=id_),
        )
    changed = [MemoryEntry(f"zebra {name}new{n}", id=f"b{n}") for n in (2, 3)]
    trial.attempt(
        USER,
        [f"{name}new2", f"{name}new3"],
        ["base2", "base3"],
        lambda: sync.add_memory(**scope, memories=changed),
    )
    trial.outcome(lambda: found_by_search(service, USER))
    add(f"{name}user", [f"{name}first"], 50)
    trial.attempt(
        USER,
        [f"turn{n}" for n in range(10, 14)],
        [f"turn{n}" for n in range(6)],
        lambda: _session(service, name, range(10, 14)),
    )

    async def together() -> list[Any]:
        calls = [
            service.add_memory(**scope, memories=[f"zebra {name}group{n} " + "x" * 500])
            for n in range(4)
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    for number, result in enumerate(asyncio.run(together())):
        trial.attempt(
            USER, [f"{name}group{number}"], [], lambda result=result: _again(result)
        )


def _again(result: Any) -> None:
    if isinstance(result, BaseException):
        raise result


class Shim:
    """The functions of the library that was preloaded into this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.storage_shim_calls.restype = ctypes.c_long
        self._library.storage_shim_disarm.restype = ctypes.c_long
        self._library.storage_shim_arm.argtypes = [
            ctypes.c_int,
            ctypes.c_long,
            ctypes.c_int,
            ctypes.c_int,
        ]

    def arm(self, fault: Fault) -> None:
        kind = FAULTS.index(fault.kind)
        self._library.storage_shim_arm(kind, fault.nth, fault.error, fault.sticky)

    def disarm(self) -> int:
        return int(self._library.storage_shim_disarm())

    def calls(self) -> dict[str, int]:
        return {
            kind: int(self._library.storage_shim_calls(number))
            for number, kind in enumerate(FAULTS)
        }


def _try(shim: Shim, base: Path, folder: Path, fault: Fault) -> dict[str, Any]:
    if fault.stage == "create":
        folder.mkdir()
    else:
        shutil.copytree(base, folder)
    path = folder / FILE
    trial = _Trial()
    service = None
    if fault.stage in {"create", "open"}:
        shim.arm(fault)
        made: list[MemoryService] = []
        trial.outcome(
            lambda: made.append(MemoryService(path, **roomy(), embedder=None))
        )
        failed = shim.disarm()
        service = made[0] if made else None
    if service is None:
        service = MemoryService(path, **roomy(), embedder=None)
    if fault.stage == "work":
        shim.arm(fault)
        _work(service, trial, "a")
        failed = shim.disarm()
    later = _Trial()
    scope = {"app_name": APP, "user_id": USER}
    add = [MemoryEntry("zebra later", id="l1"), MemoryEntry("zebra doomed", id="l2")]
    later.attempt(
        USER, ["later"], [], lambda: service.sync.add_memory(**scope, memories=add)
    )
    for id_, word in (("l2", "doomed"), ("b5", "base5")):
        later.attempt(
            USER,
            [],
            [word],
            lambda id_=id_: service.sync.delete_memory(**scope, memory_id=id_),
        )
    found: frozenset[str] = frozenset()

    def search() -> None:
        nonlocal found
        found = found_by_search(service, USER)

    later.outcome(search)
    if later.errors:
        later.problems.append(f"the service stays broken: {later.errors}")
    if fault.stage == "close":
        shim.arm(fault)
        trial.outcome(service.close)
        failed = shim.disarm()
    later.outcome(service.close)
    counted = shim.calls()
    try:
        kept = stored(path)
        trial.judge(kept)
        later.judge(kept)
        if kept.get(USER, frozenset()) != found:
            trial.problems.append("search and file differ")
        with MemoryService(path, **roomy(), embedder=None) as again:
            if found_by_search(again, USER) != found:
                trial.problems.append("search differs after reopening")
    except BaseException:
        trial.problems.append(f"in the end {traceback.format_exc()[-1500:]}")
    shutil.rmtree(folder)
    gc.collect()
    return {
        "fault": str(fault),
        "kind": fault.kind,
        "error": fault.error,
        "failed": failed,
        "calls": counted,
        "errors": sorted(set(trial.errors)),
        "problems": trial.problems + later.problems,
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def _spread(count: int, most: int) -> list[int]:
    """So many numbers of 1 to `count`, first and last among them; few: all; or one."""
    if most == 1:
        return [1 + count // 2] if count else []
    if count <= max(most, _FEW):
        return list(range(1, count + 1))
    return sorted({1 + round(n * (count - 1) / (most - 1)) for n in range(most)})


def _faults(calls: dict[str, dict[str, int]], most: int, both: bool) -> Iterator[Fault]:
    turns = itertools.cycle([(False,), (True,)])
    for stage in STAGES:
        for kind, errors in ERRORS.items():
            for error in errors:
                for sticky in (False, True) if both else next(turns):
                    for nth in _spread(calls[stage][kind], most):
                        yield Fault(stage, kind, error, sticky, nth)


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def sweep(base: str, folder: str, most: int, both: bool) -> None:
    """Print a line of JSON for each fault: what happened, and what is wrong.

    An error comes once and from then on, or, unless `both`, one way in turns.
    """
    shim = Shim()
    calls = {}
    for stage in STAGES:
        faulthandler.dump_traceback_later(_STUCK_S, exit=True)
        none = Fault(stage, "write", 0, False, 0)
        done = _try(shim, Path(base), Path(folder) / f"count-{stage}", none)
        _say(json.dumps(done))
        calls[stage] = done["calls"]
    for number, fault in enumerate(_faults(calls, most, both)):
        _say(f"# {fault}")  # the last of these names a crash
        faulthandler.dump_traceback_later(_STUCK_S, exit=True)
        done = _try(shim, Path(base), Path(folder) / str(number), fault)
        _say(json.dumps(done))
