"""One file with everything between it and a search, run by a scheduler of threads.

The model of it is two sets of texts for each user: what was acknowledged, and what was
begun. A search must find what was acknowledged before it began, and may find what was
begun before it ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from vecall.errors import BusyError, ClosedError
from vecall.index.row_cache import NewestChanges, ReadThreads
from vecall.ranking.calibration import Calibration
from vecall.search import search_index as _serving
from vecall.search import searcher as _recall
from vecall.search.scores import Scoring
from vecall.search.searcher import RetiredModelError, SearchRequest
from vecall.store import (
    AddMemories,
    Change,
    DeleteMemories,
    Draft,
    ForgetUser,
    WriteJob,
)
from vecall.store.file.database import Database
from vecall.store.names import find_part
from vecall.store.sqlite import run_job_in_savepoint

from helpers.join_runner import run_with
from helpers.scheduled_parts import (
    ScheduledDatabase,
    ScheduledFuture,
    ScheduledLock,
    ScheduledStorage,
)
from helpers.scheduler import Scheduler
from helpers.traced_cache import TracedDict, watch

APP = "app"
_ROOM = 1 << 30  # bytes, more than any run takes
# A search tries again while a writer stands between its commit and what follows. There
# is no end to the schedules in which it does, so it gives up sooner than it would.
_TRIES = 3


class Given:
    """The memories of a user: which were begun to be added, which may be gone."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.begun: set[str] = set()
        self.acknowledged: set[str] = set()
        self.going: set[str] = set()  # their deletion was begun
        self.gone: set[str] = set()  # and acknowledged


class _Home:
    """A process that has the file open."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.threads = ReadThreads()
        in_memory = world.real.path is None
        self.newest = NewestChanges() if in_memory else None
        if self.newest is not None:
            self.newest._found = TracedDict(world.watched, "newest")
        self.closed = False
        self.retired: list[Any] = []
        self.serving = self.serve()
        self.publish = self.serving.partitions.publish_change

    def serve(self) -> Any:
        world = self.world
        return _serving.SearchIndex(
            world.storage,
            self.threads,
            self.newest,
            model=None,
            embedding=None,
            scoring=Scoring(Calibration.shipped(), None, None),
            budget=world.budget,
        )

    @property
    def resource(self) -> tuple[str, int]:
        return "serving", self.world.homes.index(self)


class World:
    """A file, the processes that have it open, and who uses them."""

    def __init__(
        self,
        scheduler: Scheduler,
        database: Database,
        patched: pytest.MonkeyPatch,
        users: dict[str, int],
        *,
        budget: int = _ROOM,
        fine: bool = False,
        processes: int = 1,
    ) -> None:
        """Open a world over a database, in which no user is loaded.

        Args:
            scheduler: Runs its threads.
            database: The file, or a database in memory.
            patched: Replaces locks and pools for the time of the run.
            users: The users, and how many memories each has.
            budget: Bytes of the engine and the texts.
            fine: Let others go on before the short locks, too.
            processes: How many have the file open.
        """
        self.scheduler = scheduler
        self.real = database
        self.budget = budget
        patched.setattr(_recall, "_TRIES", _TRIES)
        self.given = {user: Given() for user in users}
        with database.write_transaction() as connection:
            for user, texts in users.items():
                first = _fill(connection, user, texts)
                told = {f"{user}{number}" for number in range(texts)}
                self.given[user].begun |= told
                self.given[user].acknowledged |= told
                if user == next(iter(users)):
                    first_part = first
        has_budget = budget != _ROOM
        self.watched = watch(
            scheduler, patched, first_part, fine=fine, has_budget=has_budget
        )
        if database.path is None:
            lock = ScheduledLock(scheduler, reentrant=True)
            patched.setattr(database._writer, "lock", lock)
        keys = [(APP, user) for user in users]
        self.storage = ScheduledStorage(
            ScheduledDatabase(scheduler, database, keys),
            self.watched.folder,
            self.submit,
        )
        self._writing = ScheduledLock(scheduler)
        self.is_at_rest = False
        self.homes = [_Home(self)]
        self.homes += [_Home(self) for _ in range(1, processes)]
        if self.homes[0].newest is not None:
            for user in users:
                found = database.peek_at_file(find_part, APP, user)
                self.homes[0].newest._found[APP, user] = found

    def submit(self, job: WriteJob) -> Future[Change]:
        """Write for the snapshots, as the writer thread does."""
        future: Any = ScheduledFuture.of(self.scheduler)()
        with self._writing:
            future.set_result(self._commit(job, self.homes[0]))
        return future

    def reembed(self, at: int = 0) -> None:
        """Serve from another, empty engine from now on, and retire the one before."""
        home = self.homes[at]
        following = home.serve()
        self.scheduler.use(home.resource, "w")
        home.publish = following.partitions.publish_change
        self.scheduler.point()
        self.scheduler.use(home.resource, "w")
        old, home.serving = home.serving, following
        home.retired.append(old)
        self.scheduler.spawn(f"retiring {len(home.retired)} of {at}", old._retire)

    def add(self, user: str, *, at: int = 0) -> None:
        """Add a memory."""
        task = self.scheduler.task
        task.made += 1
        text = f"{user}{task.name.split()[-1]}x{task.made}"
        given = self.given[user]
        job = AddMemories(APP, user, [Draft(text, f"zebra {text}")])
        with self._writing:
            self._note(user, "w")
            given.begun.add(text)
            self._commit(job, self.homes[at])
            self._note(user, "w")
            given.acknowledged.add(text)

    def delete(self, user: str, *, forget: bool = False, at: int = 0) -> None:
        """Delete all memories of a user."""
        given = self.given[user]
        with self._writing:
            self._note(user, "w")
            there = set(given.acknowledged)
            given.going |= there
            job = ForgetUser(APP, user) if forget else DeleteMemories(APP, user)
            self._commit(job, self.homes[at])
            self._note(user, "w")
            given.gone |= there

    def evict(self, user: str, *, at: int = 0) -> None:
        """Evict a user, as if memory were short."""
        self.homes[at].serving.partitions._evict_if_free((APP, user))

    def search(self, user: str, *, patience: int | None = None, at: int = 0) -> None:
        """Search, and compare with the model.

        Args:
            user: Whose memories.
            patience: After so many turns of waiting the caller gives up, as
                `asyncio.wait_for` does; None never does.
            at: The process.
        """
        given = self.given[user]
        self.scheduler.point()
        self._note(user, "r")
        must, gone = set(given.acknowledged), set(given.gone)
        left = patience

        def wait(future: Any) -> Any:
            nonlocal left
            if left is None:
                future.wait()
            while left is not None and not future.done():
                if not left:
                    future.cancel()  # what asyncio.wrap_future does
                    raise _GaveUpError
                left -= 1
                self.scheduler.point()
            return future.result()

        home = self.homes[at]
        request = SearchRequest((APP, user), "zebra", 100)
        response = None
        while response is None:
            self.scheduler.use(home.resource, "r")
            serving = home.serving
            self.scheduler.point()
            use = serving.begin_use()
            if use is None:
                continue
            try:
                response = run_with(wait, serving.recall.search(request))
            except RetiredModelError:
                continue
            except _GaveUpError:
                return
            except BusyError:
                assert not self.is_at_rest
                return
            except CancelledError:
                pytest.fail("cancelled, and no caller had cancelled it")
            except ClosedError:
                assert home.closed
                return
            finally:
                serving.end_use(use)
        self._note(user, "r")
        found = {memory.text.split()[1] for memory in response.memories}
        missing = must - given.going - found
        foreign = found - (given.begun - gone)
        assert not missing, f"not found: {sorted(missing)} of {sorted(must)}"
        assert not foreign, f"found, but not {user}'s: {sorted(foreign)}"

    def close(self, at: int = 0) -> None:
        """Close one process's service, while others may still search."""
        home = self.homes[at]
        home.closed = True
        self.scheduler.use(home.resource, "r")
        servings = [*home.retired, home.serving]
        for serving in servings:
            serving.stop_waiting()
            serving.close_snapshots()
        for serving in servings:
            serving.close()
        home.threads.close()

    def check_at_rest(self) -> None:
        """Nothing is left of what ended, and everybody is found."""
        self.is_at_rest = True
        for at, home in enumerate(self.homes):
            if not home.closed:
                for user in self.given:
                    self.search(user, at=at)
            self.scheduler.until_idle()
            for serving in (*home.retired, home.serving):
                self._check_books(serving)

    def _check_books(self, serving: Any) -> None:
        loader, engine = serving.partitions, serving.engine
        assert not loader._work.running_keys(), "work is left"
        assert not loader._residents.pinned_partitions(), "a pin is left"
        assert not len(loader._locks), "a lock is left"
        entries = loader._residents._entries
        assert loader.nbytes == sum(entry.nbytes for entry in entries.values())
        held = {key: engine.size(key) for key in [(APP, user) for user in self.given]}
        assert {key for key in entries if held[key]} == {
            key for key, size in held.items() if size
        }, "the engine has other partitions than the books say"
        assert all(held[key] == e.rows for key, e in entries.items()), "other rows"

    def _note(self, user: str, mode: Any) -> None:
        self.scheduler.use(("model", user), mode)

    def _commit(self, job: Any, home: _Home) -> Change:
        with self.real.write_transaction() as connection:
            self.scheduler.use(("file", (APP, job.user)), "w")
            change = run_job_in_savepoint(connection, job)
        if not isinstance(change, Change):
            raise change
        self.scheduler.point()  # between the commit and what follows
        self.scheduler.use(home.resource, "r")
        home.publish(change)
        return change


def _fill(connection: Any, user: str, texts: int) -> int:
    """Give a user his first memories; return his partition's number."""
    run_job_in_savepoint(connection, ForgetUser(APP, user))
    drafts = [Draft(f"{user}{n}", f"zebra {user}{n}") for n in range(texts)]
    # At least one, so that there is a partition; a user without memories is new.
    change = run_job_in_savepoint(
        connection, AddMemories(APP, user, drafts or [Draft("x", "x")])
    )
    assert isinstance(change, Change)
    if not texts:
        run_job_in_savepoint(connection, ForgetUser(APP, user))
    return change.part


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
        world = World(scheduler, database, patched, users, **options)
        for at, work in enumerate(program(world)):
            scheduler.spawn(f"thread {at}", work)
        scheduler.at_rest(world.check_at_rest)
        scheduler.run()
