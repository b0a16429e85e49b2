"""Runs threads one at a time and chooses, at hooked points, which one goes on.

The threads are real, and so is the code that they run; only its locks and thread pools
are replaced by those of this file, which have a hooked point before every acquisition
and every piece of work. A schedule is the list of choices, so it can be repeated, and
all schedules of a small program can be walked through.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

_MOST_POINTS = 20_000


class Stopped(BaseException):
    """Ends the threads of a run that is over."""


class HangError(AssertionError):
    """No thread can go on, or the run does not end."""


class _Task:
    def __init__(self, name: str, *, background: bool) -> None:
        self.name = name
        self.background = background
        self.ready: Callable[[], bool] = lambda: True
        self.waits_for = ""
        self.done = False
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None


class Choices:
    """A schedule: which of the threads that can go on does, point by point."""

    def __init__(self, given: list[int], rng: random.Random | None = None) -> None:
        """Take the choices given; then go on with the same thread, or by chance."""
        self.given = given
        self.made: list[tuple[int, int]] = []  # which was chosen, of how many
        self._rng = rng

    def next(self, count: int, *, preempting: bool) -> int:
        """Choose; 0 goes on with the same thread where it can go on."""
        at = len(self.made)
        if at < len(self.given):
            chosen = min(self.given[at], count - 1)
        elif self._rng is not None and (not preempting or self._rng.random() < 0.3):
            chosen = self._rng.randrange(count)
        else:
            chosen = 0
        self.made.append((chosen, count))
        return chosen

    def following(self, departures: int) -> list[int] | None:
        """Return the next schedule that departs so often or less from the first one."""
        made = [chosen for chosen, _ in self.made]
        for at in reversed(range(len(made))):
            spent = sum(1 for chosen in made[:at] if chosen)
            if made[at] + 1 < self.made[at][1] and spent < departures:
                return [*made[:at], made[at] + 1]
        return None


class Scheduler:
    """One run of a program of several threads."""

    def __init__(self, choices: Choices) -> None:
        """Begin without threads."""
        self._choices = choices
        self._tasks: list[_Task] = []
        self._over = threading.Event()
        self._stopping = False
        self._running: _Task | None = None
        self._points = 0
        self.error: BaseException | None = None

    def spawn(
        self, name: str, work: Callable[[], None], *, background: bool = False
    ) -> None:
        """Add a thread. One in the background need not end."""
        task = _Task(name, background=background)

        def run() -> None:
            task.turn.acquire()
            try:
                if not self._stopping:
                    work()
            except Stopped:
                pass
            except BaseException as error:
                self._fail(error)
            task.done = True
            if not self._stopping:
                self._switch(task)

        task.thread = threading.Thread(target=run, name=name, daemon=True)
        self._tasks.append(task)
        task.thread.start()

    def at_rest(self, work: Callable[[], None]) -> None:
        """Add a thread that begins when all others have ended or are idle."""

        def run() -> None:
            self.until_idle()
            work()

        self.spawn("at rest", run)

    def until_idle(self) -> None:
        """Wait until all other threads have ended or are idle."""
        mine = self._running

        def idle(task: _Task) -> bool:
            return task.done or (task.background and not task.ready())

        self.point(lambda: all(idle(t) for t in self._tasks if t is not mine), "others")

    def run(self) -> None:
        """Run until all threads have ended, and those in the background are idle.

        Raises:
            HangError: That does not happen.
        """
        self._switch(None)
        assert self._over.wait(60), "the scheduler itself hangs"
        self._stopping = True
        for task in self._tasks:
            task.turn.release()
        for task in self._tasks:
            assert task.thread is not None
            task.thread.join(20)
        if self.error is not None:
            raise self.error

    def point(
        self, ready: Callable[[], bool] | None = None, waits_for: str = ""
    ) -> None:
        """Let another thread go on, or this one, once `ready` is true."""
        task = self._running
        if self._stopping or task is None:
            if self._stopping and threading.current_thread().daemon:
                raise Stopped
            return  # outside of a run
        task.ready = ready or (lambda: True)
        task.waits_for = waits_for
        self._points += 1
        if self._points > _MOST_POINTS:
            self._fail(HangError("the run does not end"))
            raise Stopped
        self._switch(task)
        if self._stopping:
            raise Stopped

    def _switch(self, task: _Task | None) -> None:
        ready = [t for t in self._tasks if not t.done and t.ready()]
        mine = task is not None and task in ready
        if mine:
            assert task is not None
            ready.remove(task)
            ready.insert(0, task)
        if not ready:
            left = [t for t in self._tasks if not t.done and not t.background]
            if left:
                waits = ", ".join(f"{t.name} for {t.waits_for}" for t in left)
                self._fail(HangError(f"nobody can go on: {waits}"))
            self._running = None
            self._over.set()
        else:
            chosen = 0
            if len(ready) > 1:
                chosen = self._choices.next(len(ready), preempting=mine)
            following = ready[chosen]
            self._running = following
            if following is task:
                return
            following.turn.release()
        if task is not None and not task.done:
            task.turn.acquire()

    def _fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self._stopping = True
        self._running = None
        self._over.set()


class ScheduledLock:
    """A lock that lets others go on before it is taken. Reentrant if asked."""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool = False) -> None:
        """Begin free."""
        self._scheduler = scheduler
        self._owner: threading.Thread | None = None
        self._depth = 0
        self._reentrant = reentrant

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        me = threading.current_thread()
        if self._reentrant and self._owner is me:
            self._depth += 1
            return True
        if blocking and timeout < 0:
            self._scheduler.point(lambda: self._owner is None, "a lock")
        else:
            self._scheduler.point()
        if self._owner is not None:
            return False
        self._owner = me
        self._depth = 1
        return True

    def release(self) -> None:
        """Let the lock go."""
        self._depth -= 1
        if not self._depth:
            self._owner = None

    def __enter__(self) -> bool:
        """Take the lock."""
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        """Let the lock go."""
        self.release()


class Locks:
    """Stands for the module `threading` where only its locks are used."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Make locks of this run."""
        self._scheduler = scheduler

    def Lock(self) -> ScheduledLock:  # noqa: N802
        """Return a lock."""
        return ScheduledLock(self._scheduler)


class ScheduledPool:
    """A ThreadPoolExecutor whose threads are the scheduler's."""

    def __init__(self, scheduler: Scheduler, most: int, name: str) -> None:
        """Begin without a thread."""
        self._scheduler = scheduler
        self._most = most
        self._name = name
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = False
        self._threads = 0
        self._busy = 0

    def submit(self, work: Callable[..., Any], *args: Any, **named: Any) -> Future[Any]:
        """Queue some work."""
        self._scheduler.point()
        if self._closed:
            msg = "cannot schedule new futures after shutdown"
            raise RuntimeError(msg)
        future: Future[Any] = Future()
        self._queue.append((future, lambda: work(*args, **named)))
        if self._busy + len(self._queue) > self._threads < self._most:
            self._threads += 1
            name = f"{self._name}_{self._threads}"
            self._scheduler.spawn(name, self._work, background=True)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; finish what waits."""
        self._closed = True
        if cancel_futures:
            for future, _ in self._queue:
                future.cancel()
        if wait:
            idle = "the threads of a pool"
            self._scheduler.point(lambda: not (self._queue or self._busy), idle)

    def _work(self) -> None:
        while True:
            self._scheduler.point(lambda: bool(self._queue))
            future, work = self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            self._busy += 1
            try:
                result = work()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            finally:
                self._busy -= 1


class Yielding:
    """An object of which some methods let other threads go on before they begin."""

    def __init__(self, scheduler: Scheduler, inner: Any, names: frozenset[str]) -> None:
        """Stand for `inner`."""
        self._scheduler = scheduler
        self._inner = inner
        self._names = names

    def __getattr__(self, name: str) -> Any:
        """Return what `inner` has, behind a hooked point."""
        found = getattr(self._inner, name)
        if name not in self._names:
            return found

        def yielding(*args: Any, **named: Any) -> Any:
            self._scheduler.point()
            return found(*args, **named)

        return yielding

    def __len__(self) -> int:
        """How much there is."""
        return len(self._inner)


class YieldingDatabase(Yielding):
    """A database that lets other threads go on before it is read."""

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        """Read one state of the file."""
        self._scheduler.point()
        with self._inner.snapshot() as connection:
            yield connection


def every_schedule(
    run: Callable[[Scheduler], None], departures: int, most: int
) -> tuple[int, bool]:
    """Run a program under every schedule that departs at most so often from the first.

    In the first one each thread goes on as long as it can, and then the one that was
    made first.

    Returns:
        How many there were, and whether that was all of them.
    """
    given: list[int] | None = []
    count = 0
    while given is not None:
        if count == most:
            return count, False
        choices = Choices(given)
        run_one(run, choices)
        count += 1
        given = choices.following(departures)
    return count, True


def run_one(run: Callable[[Scheduler], None], choices: Choices) -> None:
    """Run a program once; an error says by which schedule."""
    try:
        run(Scheduler(choices))
    except BaseException as error:
        made = [chosen for chosen, _ in choices.made]
        error.add_note(f"schedule: {made}") if hasattr(error, "add_note") else None
        raise
