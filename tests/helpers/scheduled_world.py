"""One file with everything between it and a search, run by a scheduler of threads.

The model beside it is two sets of texts for each user: what was acknowledged, and what
was begun. A search must find what was acknowledged before it began, and may find what
was begun before it ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from vecall import (
    _key_locks,
    _loader,
    _read_threads,
    _resident,
    _row_cache,
    _shared_work,
    _snapshots,
)
from vecall._core import Engine
from vecall._drive import drive
from vecall._loader import Loader
from vecall._newest import Newest
from vecall._read_threads import ReadThreads
from vecall._recall import Recall, Request
from vecall._row_cache import RowCache
from vecall._scoring import Scoring
from vecall._snapshots import Snapshots
from vecall.calibration import Calibration
from vecall.errors import ClosedError
from vecall.store import (
    AddMemories,
    Change,
    Database,
    DeleteMemories,
    Draft,
    ForgetUser,
    SnapshotFolder,
    WriteJob,
    run_alone,
)

from helpers.scheduler import (
    Locks,
    ScheduledLock,
    ScheduledPool,
    Scheduler,
    Yielding,
    YieldingDatabase,
)

APP = "app"
ENGINE = frozenset({"add_rows", "remove", "drop", "recall", "size", "restore", "sweep"})
_ENGINE_AND_SNAPSHOT = ENGINE | {"snapshot"}


class Given:
    """The users of a run: what was begun to be said of each, and what may be gone."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.begun: set[str] = set()
        self.acknowledged: set[str] = set()
        self.going: set[str] = set()  # their deletion was begun
        self.gone: set[str] = set()  # and acknowledged


class World:
    """A loader, an engine, a recall, and who uses them."""

    def __init__(
        self,
        scheduler: Scheduler,
        database: Database,
        patched: pytest.MonkeyPatch,
        *,
        budget: int = 1 << 30,
        fine: bool = False,
    ) -> None:
        """Open a world over a database, in which nobody is loaded.

        Args:
            scheduler: Runs its threads.
            database: The file, or a database in memory.
            patched: Replaces locks and pools for the time of the run.
            budget: Bytes of the engine and the texts.
            fine: Let others go on before the short locks, too.
        """
        self.scheduler = scheduler
        self._real = database
        self._budget = budget
        self._patched = patched
        locks = Locks(scheduler)
        patched.setattr(_key_locks, "threading", locks)
        if fine:
            for module in (_resident, _shared_work, _row_cache):
                patched.setattr(module, "threading", locks)

        def pool(most: int, thread_name_prefix: str) -> ScheduledPool:
            return ScheduledPool(scheduler, most, thread_name_prefix)

        patched.setattr(_read_threads, "ThreadPoolExecutor", pool)
        patched.setattr(_snapshots, "ThreadPoolExecutor", pool)
        patched.setattr(_snapshots, "_MIN_ROWS", 2)
        patched.setattr(_loader, "give_back", lambda: None)
        if database.path is None:
            lock = ScheduledLock(scheduler, reentrant=True)
            patched.setattr(database._writer, "lock", lock)
        names = frozenset({"partition"})
        self.database: Any = YieldingDatabase(scheduler, database, names)
        self._writing = ScheduledLock(scheduler)
        self.threads = ReadThreads()
        self.newest = Newest() if database.path is None else None
        self.given: dict[str, Given] = {}
        self.count = 0
        self.closed = False
        self.switch()

    def user(self, name: str, texts: int) -> None:
        """Give a user some memories before the program begins."""
        self.given[name] = Given()
        self._commit(ForgetUser(APP, name))
        for _ in range(texts):
            self.add(name)

    def switch(self) -> None:
        """Serve from another, empty engine from now on, as `reembed` does."""
        engine: Any = Yielding(self.scheduler, Engine(0), _ENGINE_AND_SNAPSHOT)
        cache = RowCache(self._budget // 2)
        snapshots = None
        if self._real.path is not None:
            folder = SnapshotFolder(self._real.path)
            writer: Any = self
            snapshots = Snapshots(self.database, folder, engine, writer, None)
        self.loader = Loader(
            self.database,
            engine,
            cache,
            snapshots,
            self.threads,
            self.newest,
            model=None,
            budget=self._budget,
        )
        self.engine = engine
        self.recall = Recall(
            engine,
            self.loader,
            cache,
            None,
            Scoring(Calibration.shipped(), None, None),
            self._real.lifetime,
        )

    def submit(self, job: WriteJob) -> Future[Change]:
        """Write for the snapshots, as a `Writer` does."""
        future: Future[Change] = Future()
        with self._writing:
            future.set_result(self._commit(job))
        return future

    def add(self, user: str, *, elsewhere: bool = False) -> None:
        """Add a memory; `elsewhere`, in another process."""
        self.count += 1
        text = f"zebra{self.count}"
        given = self.given[user]
        given.begun.add(text)
        job = AddMemories(APP, user, [Draft(f"m{self.count}", f"zebra {text}")])
        with self._writing:
            self._commit(job, elsewhere=elsewhere)
            given.acknowledged.add(text)

    def delete(self, user: str, *, forget: bool = False) -> None:
        """Delete all memories of a user."""
        given = self.given[user]
        with self._writing:
            there = set(given.acknowledged)
            given.going |= there
            self._commit(ForgetUser(APP, user) if forget else DeleteMemories(APP, user))
            given.gone |= there

    def evict(self, user: str) -> None:
        """Evict a user, as if memory were short."""
        self.loader._evict((APP, user))

    def search(self, user: str, *, patience: int | None = None) -> None:
        """Search, and compare with the model.

        Args:
            user: Whose memories.
            patience: After so many turns of waiting the caller gives up, as
                `asyncio.wait_for` does; None never does.
        """
        given = self.given[user]
        must, gone = set(given.acknowledged), set(given.gone)
        recall = self.recall
        left = patience

        async def wait(future: Future[Any]) -> Any:
            nonlocal left
            if left is None:
                self.scheduler.point(future.done, "a future")
            while left is not None and not future.done():
                if not left:
                    future.cancel()  # what asyncio.wrap_future does
                    raise _GaveUpError
                left -= 1
                self.scheduler.point()
            return future.result()

        request = Request((APP, user), "zebra", 1000)
        try:
            response = drive(recall.search(wait, request))
        except _GaveUpError:
            return
        except CancelledError:
            pytest.fail("cancelled, and nobody had cancelled it")
        except ClosedError:
            assert self.closed
            return
        found = {memory.text.split()[1] for memory in response.memories}
        missing = must - given.going - found
        foreign = found - (given.begun - gone)
        assert not missing, f"not found: {sorted(missing)} of {sorted(must)}"
        assert not foreign, f"found, but not {user}'s: {sorted(foreign)}"

    def close(self) -> None:
        """End the threads, while others may still search."""
        self.closed = True
        self.threads.close()

    def check_at_rest(self) -> None:
        """Nothing is left of what ended, and everybody is found."""
        loader = self.loader
        if not self.closed:
            for user in self.given:
                self.search(user)
        self.scheduler.until_idle()
        assert not loader._work.keys()
        assert not loader._residents.pins()
        assert not len(loader._locks)
        entries = loader._residents._entries
        assert loader.nbytes == sum(entry.nbytes for entry in entries.values())
        assert {key for key in entries if self.engine.size(key)} == {
            (APP, user) for user in self.given if self.engine.size((APP, user))
        }
        assert all(self.engine.size(key) == e.rows for key, e in entries.items())

    def _commit(self, job: WriteJob, *, elsewhere: bool = False) -> Change:
        with self._real.transaction() as connection:
            change = run_alone(connection, job)
        if not isinstance(change, Change):
            raise change
        if not elsewhere:
            self.scheduler.point()  # between the commit and what follows
            self.loader.publish(change)
        return change


class _GaveUpError(Exception):
    """The caller of a search did not wait for its end."""


Program = Callable[[World], list[Callable[[], None]]]


def play(
    scheduler: Scheduler,
    database: Database,
    users: dict[str, int],
    program: Program,
    **options: Any,
) -> None:
    """Run a program: give users their memories, start its threads, check the end."""
    with contextlib.ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        world = World(scheduler, database, patched, **options)
        for user, texts in users.items():
            world.user(user, texts)
        world.switch()  # so that nobody is loaded
        for at, work in enumerate(program(world)):
            scheduler.spawn(f"thread {at}", work)
        scheduler.at_rest(world.check_at_rest)
        scheduler.run()
