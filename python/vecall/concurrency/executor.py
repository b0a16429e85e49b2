"""Threads: plugins off the caller's event loop, fair pools, periodic work.

A plugin is a user's function: an embedder, a hook, a summarizer. A plugin may call the
service that called it. If that call needs the plugin's own thread, the two calls
deadlock. A context variable therefore records, across threads and tasks, the executors
that wait for the current call. A call to one of these executors raises
`ReentrantCallError`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
import time
import traceback
import weakref
from _thread import RLock
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, thread
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import watch_work
from vecall.errors import ClosedError, ReentrantCallError, VecallError

# Futures and thread pools that stay usable after an interrupt, such as Ctrl-C.
#
# Python runs a signal handler in the main thread, between any two bytecode
# instructions. `threading.Condition` and `threading.Semaphore` acquire their locks in
# Python code. If a handler raises an exception there, the lock stays locked and the
# next caller deadlocks. The classes here acquire their locks in C code, which a handler
# cannot interrupt.

P = ParamSpec("P")
T = TypeVar("T")


class _Condition(RLock):  # type: ignore[misc]
    """The part of `threading.Condition` that `Future` uses.

    A thread must not acquire it twice: `wait` releases it only once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiters: list[threading.Lock] = []

    def wait(self, timeout: float | None = None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        try:
            self.release()
            return waiter.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if not self._is_owned():  # type: ignore[attr-defined]
                self.acquire()
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def notify_all(self) -> None:
        while self._waiters:
            self._waiters.pop().release()


_PENDING = Future()._state


class InterruptibleFuture(Future[T]):
    """A future that stays usable if a signal handler interrupts a waiting thread."""

    def __init__(self) -> None:
        """Create a pending future."""
        # Not super().__init__(): it makes a threading.Condition, which costs more than
        # the rest of the future. A test compares the attributes.
        self._condition = _Condition()  # type: ignore[assignment]
        self._state = _PENDING
        self._result = None
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []


class _Count:
    """A pool's count of idle threads: the part of `Semaphore` that the pool uses."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[None] = queue.SimpleQueue()

    def release(self) -> None:
        self._idle.put(None)

    def acquire(self, timeout: float) -> bool:
        del timeout  # always 0
        try:
            self._idle.get_nowait()
        except queue.Empty:
            return False
        return True


@dataclass(slots=True, repr=False, eq=False)
class _InterruptibleWork:
    """A call in the queue of a pool.

    `ThreadPoolExecutor.submit` would make a plain future for it, beside the promise.
    """

    future: InterruptibleFuture[Any]
    call: Callable[[], Any]

    def run(self, *_context: object) -> None:
        """Run the call; since Python 3.14 a pool passes a context of its thread."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Pool(ThreadPoolExecutor):
    """A thread pool that stays usable if a signal handler interrupts `submit`."""

    def __init__(self, threads: int, *, thread_name_prefix: str) -> None:
        """Create the pool without threads; `submit` starts them as needed."""
        super().__init__(threads, thread_name_prefix=thread_name_prefix)
        self._idle_semaphore = _Count()  # type: ignore[assignment]

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Queue a call of `fn` and return the future of its result."""
        promise: InterruptibleFuture[T] = InterruptibleFuture()
        work: Any = _InterruptibleWork(promise, partial(fn, *args, **kwargs))
        with self._shutdown_lock, thread._global_shutdown_lock:
            if self._shutdown or thread._shutdown:
                raise RuntimeError("the pool is shut down")
            self._work_queue.put(work)
            self._adjust_thread_count()
        return promise


_waiting: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar(
    "vecall_waiting", default=()
)  # id() of each executor whose function waits for the current call
_running: contextvars.ContextVar[Sequence[Future[Any]]] = contextvars.ContextVar(
    "vecall_running", default=()
)  # the future of the current call, which its caller may cancel

MAX_CONCURRENT_CALLS = 8  # of coroutine functions, in one executor


class PluginCancelledError(RuntimeError):
    """A plugin's function raised CancelledError, though nobody cancelled it.

    A task that awaits it would look as if it had been cancelled itself.
    """


async def await_result(result: Awaitable[T]) -> T:
    """Await what a plugin's function returned, on the event loop of its executor."""
    try:
        return await result
    except asyncio.CancelledError:
        if any(future.cancelled() for future in _running.get()):
            raise
        raise PluginCancelledError from None


class PluginExecutor:
    """Runs the calls of one plugin, such as an embedding model.

    Plain functions run in a thread pool, of one thread by default. Coroutines run on a
    single event loop in a thread of its own, so that a client bound to an event loop
    always sees the same one. At most eight calls of coroutine functions run at once.
    """

    def __init__(self, name: str, at_once: int = 1) -> None:
        """Create the executor; the first call starts a thread."""
        self._name = name
        self._pool = Pool(at_once, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        self._slots: asyncio.Semaphore | None = None
        self._closed = False
        self._stop: weakref.finalize[..., PluginExecutor] | None = None

    def refuse_nested_call(self) -> None:
        """Raise if a function of this executor waits for the current call."""
        if id(self) in _waiting.get():
            raise ReentrantCallError(
                "a function that the service calls (an embedder, a hook, a summarizer, "
                "a rewriter, a reranker) called the same service where it would wait "
                "for itself"
            )

    def run(self, function: Callable[[], Any], *, concurrent: bool) -> Future[Any]:
        """Call a function on another thread; if it returns an awaitable, await it."""
        # A `concurrent` function is a coroutine function, which is called on the event
        # loop, with others at the same time. A call from a function of this executor is
        # refused.
        self.refuse_nested_call()
        context = contextvars.copy_context()
        context.run(_waiting.set, (*_waiting.get(), id(self)))
        try:
            if not concurrent:
                return self._pool.submit(context.run, self._call_function, function)
            running: list[Future[Any]] = []
            running.append(
                context.run(
                    self._schedule_on_loop, self._await_in_slot(function, running)
                )
            )
            return running[0]
        except RuntimeError:
            raise ClosedError("the memory service is closed") from None

    async def call_plugin(
        self,
        function: Callable[[], Any],
        *,
        concurrent: bool,
        name: str,
        failed: type[VecallError],
        nested: str,
        passed: type[VecallError] = ClosedError,
    ) -> Any:
        """Return what a function returns that `run` calls; raise `failed` if it fails.

        The message says `nested` if the function called its own service. Errors of the
        class `passed` are raised as they are.
        """
        self.refuse_nested_call()
        try:
            return await Join(self.run(function, concurrent=concurrent))
        except ReentrantCallError:
            raise failed(f"{name} {nested}") from None
        except passed:
            raise
        except Exception as error:
            # The error's message may contain a memory's text; its type does not.
            raise failed(f"{name} failed with {type(error).__name__}") from None

    def close(self) -> None:
        """Finish the calls in progress and end the threads. Idempotent."""
        self.refuse_nested_call()
        self._pool.shutdown(wait=True)  # first: its functions may need the loop
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._loop_thread
        if loop is not None and thread is not None:
            if thread.is_alive():
                with suppress(RuntimeError):  # another call stopped the loop
                    asyncio.run_coroutine_threadsafe(_finish_all_tasks(), loop).result()
            if self._stop is not None:
                self._stop()
            thread.join()

    def _call_function(self, function: Callable[[], Any]) -> Any:
        try:
            result = function()
        except (StopIteration, asyncio.CancelledError) as error:
            # An asyncio future does not accept StopIteration: a task that awaits it
            # would never resume. CancelledError would look as if the caller had been
            # cancelled.
            raise RuntimeError(type(error).__name__) from None
        if isinstance(result, Awaitable):
            result = self._schedule_on_loop(await_result(result)).result()
        return result

    async def _await_in_slot(
        self, function: Callable[[], Awaitable[Any]], running: list[Future[Any]]
    ) -> Any:
        if self._slots is None:
            self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
        _running.set(running)
        async with self._slots:
            return await await_result(function())

    def _schedule_on_loop(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the event loop; the first call starts the loop."""
        with self._lock:  # so that `close` waits for every coroutine accepted here
            if self._closed:
                work.close()
                raise RuntimeError
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop_thread = threading.Thread(
                    target=_run_plugin_loop,
                    args=(self._loop,),
                    name=f"{self._name}-loop",
                    daemon=True,
                )
                self._loop_thread.start()
                self._stop = weakref.finalize(self, _stop_plugin_loop, self._loop)
                self._stop.atexit = False  # type: ignore[misc]
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _run_plugin_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop_plugin_loop(loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(loop.stop)


async def _finish_all_tasks() -> None:
    """Wait for every other task of the running loop."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    await asyncio.gather(*others, return_exceptions=True)


# A thread pool whose callers take turns: the work of one does not delay another's.
#
# Work may take seconds, and a pool that serves in the order of arrival makes everybody
# wait for a caller with much of it. Here each owner has one piece of work under way,
# the next one is chosen round robin by owner, and while more is under way than may go
# on at once, each goes on for some milliseconds in turn. Work stops when its caller is
# gone.

_TURN_S = 0.01
_LONGEST_WAIT_S = 0.05  # then it goes on: who has the turn may wait for its connection


class AbandonedError(BaseException):
    """Ends work whose caller is gone. Nobody receives it."""


class _Scan(InterruptibleFuture[T]):
    """The future of work that ends early if its caller cancels it."""

    is_abandoned = False

    def cancel(self) -> bool:
        """Drop the work, or ask it to end if it is under way."""
        if super().cancel():
            return True
        self.is_abandoned = True
        return False


class _Turns:
    """Lets a number of threads go on at once, and the others in turn."""

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._free = at_once  # negative: some did not wait any longer
        self._waiting: deque[threading.Lock] = deque()

    def begin_turn(self) -> None:
        """Wait for a turn, but not for long."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=_LONGEST_WAIT_S):
            return
        with self._lock:
            if mine in self._waiting:  # else it has just been given a turn
                self._waiting.remove(mine)
                self._free -= 1

    def end_turn(self) -> None:
        """Give the turn to the one that has waited longest."""
        with self._lock:
            if self._waiting and self._free >= 0:
                self._waiting.popleft().release()
            else:
                self._free += 1

    @property
    def are_turns_wanted(self) -> bool:
        """Whether a thread waits for a turn."""
        return bool(self._waiting)


@dataclass(slots=True, repr=False, eq=False)
class _FairWork:
    """One piece of work: in the queue, then under way."""

    scan: _Scan[Any]
    call: Callable[[], Any]
    turns: _Turns
    since: float = 0.0

    def is_abandoned(self) -> bool:
        return self.scan.is_abandoned

    def pause(self) -> None:
        """End the work if its caller is gone; else let others have a turn."""
        if self.scan.is_abandoned:
            raise AbandonedError
        if self.turns.are_turns_wanted and time.perf_counter() - self.since > _TURN_S:
            self.turns.end_turn()
            self._begin_turn()

    def run(self) -> None:
        if not self.scan.set_running_or_notify_cancel():
            return
        self._begin_turn()
        try:
            with watch_work(self):
                result = self.call()
        except BaseException as error:
            self.scan.set_exception(error)
        else:
            self.scan.set_result(result)
        finally:
            self.turns.end_turn()

    def _begin_turn(self) -> None:
        self.turns.begin_turn()
        self.since = time.perf_counter()


class FairPool:
    """Runs work in threads, fairly by owner. Thread-safe.

    The loops of the work must use `vecall.concurrency.time_slices`: between two slices
    others get their turn, and work whose caller is gone ends.
    """

    def __init__(self, threads: int, at_once: int, *, thread_name_prefix: str) -> None:
        """Create the pool; `submit` starts up to `threads` threads as needed."""
        # So many owners have work under way, and `at_once` of these go on at the same
        # time.
        self._pool = Pool(threads, thread_name_prefix=thread_name_prefix)
        self._turns = _Turns(at_once)
        self._lock = threading.Lock()
        self._waiting: dict[
            Hashable, deque[_FairWork]
        ] = {}  # whose turn is next is first
        self._busy: set[Hashable] = set()

    def submit(
        self, owner: Hashable, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Queue a call of `fn` and return the future of its result."""
        # Cancel the future to drop the call, also while it runs.
        scan: _Scan[T] = _Scan()
        work = _FairWork(scan, partial(fn, *args, **kwargs), self._turns)
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(work)
        try:
            self._pool.submit(self._run_queued_work)
        except RuntimeError:
            scan.cancel()
            raise
        return scan

    def shutdown(self) -> None:
        """Finish queued work and end the threads."""
        self._pool.shutdown(wait=True)

    def _run_queued_work(self) -> None:
        while (taken := self._take_next_work()) is not None:
            owner, work = taken
            try:
                work.run()
            finally:
                with self._lock:
                    self._busy.discard(owner)
            del taken, work  # its result is the caller's

    def _take_next_work(self) -> tuple[Hashable, _FairWork] | None:
        """Return the next work, and its owner; None if those who wait are busy."""
        with self._lock:
            for owner, queue in self._waiting.items():
                if owner in self._busy:
                    continue
                work = queue.popleft()
                del self._waiting[owner]
                if queue:
                    self._waiting[owner] = queue  # the last one now
                self._busy.add(owner)
                return owner, work
        return None


# Frees the local variables in an error's traceback, such as open SQLite cursors.


def free_error_frames(error: BaseException) -> None:
    """Clear the local variables in the frames of an error's traceback."""
    # A stored error would otherwise keep cursors alive. An open cursor keeps the file
    # open and holds a read snapshot of it. Frames that still run are not cleared.
    traceback.clear_frames(error.__traceback__)


def freeing_error_frames(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that an error it raises has its frames cleared."""
    # The frame that uses a connection still runs when the connection is returned. A
    # cursor in a variable of that frame can be freed only here.

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except BaseException as error:
            free_error_frames(error)
            raise

    return run


# A thread for periodic work, such as deleting expired memories.

_log = logging.getLogger("vecall")


class PeriodicWorker:
    """Calls a function periodically and on request, in a thread, until `close`.

    The thread also ends when the object is garbage-collected.
    """

    def __init__(
        self, work: Callable[[], float | None], interval: float | None
    ) -> None:
        """Start the thread, which waits before the first call; None starts no thread.

        `work` returns the seconds until more is due, or None if that is unknown.
        `interval` is the longest pause in seconds.
        """
        self._work = work
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if interval is not None:
            wake = self._wake
            keeper = weakref.ref(self, lambda _: wake.set())
            self._thread = threading.Thread(
                target=_run_periodically,
                args=(keeper, wake, interval),
                name="vecall-housekeeper",
                daemon=True,
            )
            self._thread.start()

    def wake_thread(self) -> None:
        """Make the thread run now."""
        self._wake.set()

    def close(self) -> None:
        """Finish the call in progress and end the thread. Idempotent."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def work(self) -> float | None:
        """Do what is due; return the seconds until more is, None if unknown."""
        # Any error but ClosedError is logged and not raised.
        if self._closed.is_set():
            raise ClosedError("the housekeeper is closed")
        try:
            return self._work()
        except ClosedError:
            raise
        except Exception as error:
            # The work stays due: the disk or the embedder may recover meanwhile.
            _log.warning("what was due could not be done: %s", type(error).__name__)
            return None


def _run_periodically(
    keeper: weakref.ref[PeriodicWorker], wake: threading.Event, longest: float
) -> None:
    """Run the thread. It holds no reference to the worker while it waits."""
    pause: float | None = None
    longest = min(longest, threading.TIMEOUT_MAX / 2)  # a wait adds the time of now
    while True:
        wake.wait(longest if pause is None else min(max(pause, 0.0), longest))
        wake.clear()
        worker = keeper()
        if worker is None:
            return
        try:
            pause = worker.work()
        except ClosedError:
            return
        del worker
