"""Walks through all schedules of a program, one of each set that must end alike.

Two schedules end alike if one comes of the other by swapping neighbouring steps that
use nothing in common, or only read it. So it is enough to run one schedule for each
order of the steps that do use something in common. That is dynamic partial-order
reduction by source sets (Abdulla, Aronis, Jonsson and Sagonas, 2014) with sleep sets
(Godefroid, 1996). After each run, whoever could have been first to what two threads
used gets to be first in another run. A thread whose turn at some point was seen is not
run there again before a step that concerns it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from helpers.scheduler import HangError, Mode, Scheduler, Step, Task, run_one

Used = Mapping[Hashable, Mode]


@dataclass(slots=True)
class Count:
    """What was run.

    Attributes:
        schedules: How many ran to their end.
        cut_short: How many others turned out to be like one that had been run.
        complete: Whether these were all.
    """

    schedules: int = 0
    cut_short: int = 0
    complete: bool = False


@dataclass(slots=True)
class _Node:
    """A moment of the schedule that is being run, before a step."""

    enabled: list[str]
    asleep: dict[str, Used]
    chosen: str
    wanted: set[str]
    explored: dict[str, Used] = field(default_factory=dict)


class _Path:
    """Repeats a schedule and goes on with the thread that ran, as long as it can."""

    def __init__(self, nodes: list[_Node]) -> None:
        self._nodes = nodes

    def choose(self, scheduler: Scheduler, ready: list[Task]) -> Task | None:
        at = len(scheduler.steps)
        if at < len(self._nodes):
            node = self._nodes[at]
            by_name = {task.name: task for task in ready}
            if sorted(by_name) != node.enabled:
                scheduler.task_failed(HangError("a schedule cannot be repeated"))
            return by_name[node.chosen]
        asleep: dict[str, Used] = {}
        if at:
            before, step = self._nodes[at - 1], scheduler.steps[-1]
            both = {**before.asleep, **before.explored}
            asleep = {
                name: used
                for name, used in both.items()
                if name != step.task and not _conflict(used, step.used)
            }
        awake = [task for task in ready if task.name not in asleep]
        if not awake:
            return None
        names = sorted(task.name for task in ready)
        chosen = awake[0].name
        self._nodes.append(_Node(names, asleep, chosen, {chosen}))
        return awake[0]


def every_schedule(run: Callable[[Scheduler], None], most: int) -> Count:
    """Run a program under all its schedules, or as many as `most`."""
    count = Count()
    nodes: list[_Node] = []
    while True:
        scheduler = run_one(run, _Path(nodes))
        if scheduler.is_cut_short:
            count.cut_short += 1
        else:
            count.schedules += 1
        steps = scheduler.steps
        _want_races(steps, nodes)
        while nodes:
            node = nodes[-1]
            node.explored[node.chosen] = steps[len(nodes) - 1].used
            left = sorted(node.wanted - node.explored.keys() - node.asleep.keys())
            if left:
                node.chosen = left[0]
                break
            nodes.pop()
        if not nodes:
            count.complete = True
            return count
        if count.schedules + count.cut_short >= most:
            return count


def _conflict(one: Used, other: Used) -> bool:
    if len(other) < len(one):
        one, other = other, one
    return any(
        mode == "w" or other[what] != mode
        for what, mode in one.items()
        if what in other
    )


@dataclass(slots=True)
class _Past:
    """The steps of a run so far, and which of them had to be before which."""

    nodes: list[_Node]
    steps: list[Step] = field(default_factory=list)
    clocks: list[dict[str, int]] = field(default_factory=list)
    """By step, by thread: the last step of the thread that had to be before it."""

    def is_before(self, one: int, other: int) -> bool:
        """Whether a step had to be before another one."""
        return self.clocks[other].get(self.steps[one].task, -1) >= one


def _want_races(steps: list[Step], nodes: list[_Node]) -> None:
    """Want each thread to be first where another one was, if it could have been."""
    past = _Past(nodes)
    last: dict[str, int] = {}
    users: dict[Hashable, list[int]] = {}
    for at, step in enumerate(steps):
        clock: dict[str, int] = {}
        for earlier in (last.get(step.task), *step.after):
            if earlier is not None and earlier >= 0:
                _join(clock, past.clocks[earlier], steps[earlier].task, earlier)
        concerned = sorted(
            {
                i
                for what, mode in step.used.items()
                for i in users.get(what, ())
                if mode == "w" or steps[i].used[what] != mode
            },
            reverse=True,
        )
        _want_race(past, step, clock, concerned)
        for i in concerned:
            if clock.get(steps[i].task, -1) < i:
                _join(clock, past.clocks[i], steps[i].task, i)
        past.steps.append(step)
        past.clocks.append(clock)
        last[step.task] = at
        for what in step.used:
            users.setdefault(what, []).append(at)


def _want_race(
    past: _Past, step: Step, before: Mapping[str, int], concerned: list[int]
) -> None:
    """Want other schedules in which a step is before one that was before it."""
    raced: list[int] = []
    for i in concerned:
        earlier = past.steps[i]
        if before.get(earlier.task, -1) >= i:
            continue  # it had to be first
        if step.guard is not None and step.guard in earlier.held:
            continue  # who waits for a lock cannot go before who holds it
        if any(past.is_before(i, k) for k in raced):
            continue  # once that is turned round, this may be
        raced.append(i)
        # What could run in place of the earlier step: all that need not follow it.
        rest = [k for k in range(i + 1, len(past.steps)) if not past.is_before(i, k)]
        rest = [k for k in rest if past.steps[k].task != earlier.task]
        able: set[str] = set()
        seen: set[str] = set()
        for k in rest:
            task = past.steps[k].task
            if task not in seen and not any(
                past.is_before(m, k) for m in rest if m < k
            ):
                able.add(task)
            seen.add(task)
        follows = any(
            before.get(past.steps[k].task, -1) >= k or k in concerned for k in rest
        )
        if step.task not in seen and not follows:
            able.add(step.task)
        node = past.nodes[i]
        able.intersection_update(node.enabled)
        if not able:
            node.wanted.update(node.enabled)
        elif not able & (node.wanted | node.asleep.keys()):
            node.wanted.add(step.task if step.task in able else min(able))


def _join(
    clock: dict[str, int], other: Mapping[str, int], task: str, step: int
) -> None:
    for name, number in other.items():
        if clock.get(name, -1) < number:
            clock[name] = number
    if clock.get(task, -1) < step:
        clock[task] = step
