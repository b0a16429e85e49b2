"""Runs threads one at a time and chooses, at hooked points, which one goes on.

The threads are real, and so is the code that they run; only its locks and thread pools
are replaced by those of `scheduled_parts`, which have a hooked point before every
acquisition and every piece of work. What a thread does from one point to the next is a
step. A schedule is the list of threads whose steps were run, so it can be repeated.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

_MOST_POINTS = 20_000

Mode = Literal["r", "c", "w"]
"""How a step uses something: it reads, it makes a change that commutes with changes of
this kind, or it writes."""


class Stopped(BaseException):
    """Ends the threads of a run that is over."""


class HangError(AssertionError):
    """No thread can go on, or the run does not end."""


@dataclass(slots=True, eq=False)
class Step:
    """What a thread did from one point to the next.

    Attributes:
        task: The thread's name.
        enabled: The threads that could go on when it was chosen.
        guard: What the thread had waited for, if it is a lock.
        held: The locks that the thread held at the beginning.
        after: Steps without which it could not have begun.
        used: What it used, and how.
    """

    task: str
    enabled: list[str]
    guard: Hashable | None = None
    held: frozenset[Hashable] = frozenset()
    after: list[int] = field(default_factory=list)
    used: dict[Hashable, Mode] = field(default_factory=dict)


class Task:
    """A thread of a run."""

    def __init__(self, name: str, *, background: bool, began_by: int | None) -> None:
        """Wait for the first turn."""
        self.name = name
        self.background = background
        self.ready: Callable[[], bool] = _always
        self.waits_for = ""
        self.guard: Hashable | None = None
        self.after: Callable[[], list[int]] = list
        self.held: set[Hashable] = set()
        self.made = 0  # objects, which are named by it
        self.done = False
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        if began_by is not None:
            self.after = lambda: [began_by]


class Strategy(Protocol):
    """Chooses the thread that goes on."""

    def choose(self, scheduler: Scheduler, ready: list[Task]) -> Task | None:
        """Choose one; the first is the one that ran, if it can go on. None: stop."""


class ByChance:
    """Goes on with the same thread, or by chance with another one."""

    def __init__(self, rng: random.Random) -> None:
        """Choose by the numbers of `rng`."""
        self._rng = rng

    def choose(self, scheduler: Scheduler, ready: list[Task]) -> Task:
        """Choose one."""
        stays = ready[0].name == scheduler.last and self._rng.random() >= 0.3
        return ready[0] if stays or len(ready) == 1 else self._rng.choice(ready)


class Scheduler:
    """One run of a program of several threads."""

    def __init__(self, strategy: Strategy) -> None:
        """Begin without threads."""
        self._strategy = strategy
        self._tasks: list[Task] = []
        self._over = threading.Event()
        self._stopping = False
        self._asking = False  # which threads can go on
        self._made = 0  # objects before the first thread
        self._running: Task | None = None
        self.steps: list[Step] = []
        self.last = ""
        self.error: BaseException | None = None
        self.is_cut_short = False

    def spawn(
        self, name: str, work: Callable[[], object], *, background: bool = False
    ) -> None:
        """Add a thread. One in the background need not end."""
        began_by = self.now() if self._running else None
        task = Task(name, background=background, began_by=began_by)

        def run() -> None:
            task.turn.acquire()
            try:
                if not self._stopping:
                    work()
            except Stopped:
                pass
            except BaseException as error:
                self._fail(error)
            self.use(("end", task.name), "w")
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

        def idle(task: Task) -> bool:
            return task.done or (task.background and not task.ready())

        self.point(
            lambda: all(idle(t) for t in self._tasks if t is not mine),
            "others",
            after=lambda: list(range(len(self.steps))),
        )

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

    @property
    def is_running(self) -> bool:
        """Whether one of the run's threads is running, and is the caller."""
        return self._running is not None and not self._asking

    @property
    def task(self) -> Task:
        """The thread that runs."""
        assert self._running is not None
        return self._running

    def now(self) -> int:
        """Return the number of the step that runs; -1 before the first one."""
        return len(self.steps) - 1

    def name(self, kind: str) -> tuple[Any, ...]:
        """Name a new object by the thread that makes it."""
        task = self._running
        if task is None:
            self._made += 1
            return kind, "before", self._made
        task.made += 1
        return kind, task.name, task.made

    def use(self, what: Hashable, mode: Mode) -> None:
        """Note that the step that runs uses something which others may use."""
        if self._running is None or self._asking:
            return
        used = self.steps[-1].used
        if used.setdefault(what, mode) != mode:
            used[what] = "w"

    def point(
        self,
        ready: Callable[[], bool] | None = None,
        waits_for: str = "",
        *,
        lock: Hashable | None = None,
        after: Callable[[], list[int]] = list,
    ) -> None:
        """Let another thread go on, or this one, once `ready` is true.

        Args:
            ready: Whether this one can go on.
            waits_for: What it waits for, in words.
            lock: The lock that it waits for.
            after: The steps that made `ready` true, if no others could have done so.
        """
        task = self._running
        if self._stopping or task is None:
            if self._stopping and threading.current_thread().daemon:
                raise Stopped
            return  # outside of a run
        task.ready = ready or _always
        task.waits_for = waits_for
        task.guard = lock
        task.after = after
        if len(self.steps) > _MOST_POINTS:
            self._fail(HangError("the run does not end"))
            raise Stopped
        self._switch(task)
        if self._stopping:
            raise Stopped

    def _switch(self, task: Task | None) -> None:
        self._asking = True
        ready = [t for t in self._tasks if not t.done and t.ready()]
        self._asking = False
        if task is not None and task in ready:
            ready.remove(task)
            ready.insert(0, task)
        following = self._strategy.choose(self, ready) if ready else None
        if following is None:
            left = [t for t in self._tasks if not t.done and not t.background]
            self.is_cut_short = bool(ready)
            if left and not ready:
                waits = ", ".join(f"{t.name} for {t.waits_for}" for t in left)
                self._fail(HangError(f"no thread can go on: {waits}"))
            self._running = None
            self._stopping = self._stopping or self.is_cut_short
            self._over.set()
        else:
            held = frozenset(following.held)
            names = sorted(t.name for t in ready)
            step = Step(following.name, names, following.guard, held, following.after())
            self.steps.append(step)
            self.last = following.name
            self._running = following
            if following is task:
                return
            following.turn.release()
        if task is not None and not task.done:
            task.turn.acquire()

    def task_failed(self, error: BaseException) -> None:
        """End the run with an error."""
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self._stopping = True
        self._running = None
        self._over.set()


def _always() -> bool:
    return True


def run_one(run: Callable[[Scheduler], None], strategy: Strategy) -> Scheduler:
    """Run a program once; an error says by which schedule."""
    scheduler = Scheduler(strategy)
    try:
        run(scheduler)
    except BaseException as error:
        made = [step.task for step in scheduler.steps]
        error.add_note(f"schedule: {made}") if hasattr(error, "add_note") else None
        raise
    return scheduler
