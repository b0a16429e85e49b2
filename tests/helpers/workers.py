"""A plugin of pytest: how many processes run the tests, and which tests go together.

pytest-xdist runs a file in one process, so that what a module shares is made once.
Tests that read clocks run one after the other: `@pytest.mark.xdist_group("timing")`.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helpers import fork_server

MOST_WORKERS = 8
# Threads of OpenBLAS wait for each other by spinning where all cores are taken.
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
BLAS_SET = pytest.StashKey[bool]()
# Where VECALL_TEST_STRICT_TIME is set, an unmarked test that takes longer fails: in CPU
# seconds of the test and of its children, which the load of the machine changes little.
MOST_CPU_S = float(os.environ.get("VECALL_TEST_STRICT_TIME") or "inf")
# A folder to which each process writes what its tests took: `.ci/mark_slow` reads it.
TIMES = os.environ.get("VECALL_TEST_TIMES")
TESTS = Path(__file__).parents[1]
SLOW = TESTS / "slow.txt"


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _names_one_file(config: pytest.Config) -> bool:
    names = [Path(str(argument).split("::")[0]) for argument in config.args]
    return len(names) == 1 and names[0].is_file()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Without `-n` one process more than cores runs (tests wait); one for one file."""
    # What tests start imports from bytecode, whatever the shell has set: 0.2 s each.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    option = config.option
    if hasattr(config, "workerinput"):  # this is one of the processes
        option.loadgroup = config.workerinput["dist"] == "loadgroup"
        option.benchmark_disable = True
        if config.workerinput["blas"]:
            import numpy as np  # noqa: F401 (it reads the variable)

            del os.environ[BLAS_THREADS]  # what tests start is as it is for users
        return
    if (
        not config.pluginmanager.hasplugin("xdist")
        or option.numprocesses is not None
        or option.dist != "no"
        or option.usepdb
        or option.capture == "no"
        or option.collectonly
        or _names_one_file(config)
    ):
        return
    if cores() > 1:
        count = min(cores() + 1, MOST_WORKERS)
        option.numprocesses = count
        option.dist = "loadgroup"
        option.loadscopereorder = False
        config.stash[BLAS_SET] = BLAS_THREADS not in os.environ
        os.environ.setdefault(BLAS_THREADS, "1")
        option.benchmark_disable = True  # else pytest-benchmark warns that it is


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A process gets the words of the command line, not what was set above."""
    node.workerinput["dist"] = node.config.getvalue("dist")
    node.workerinput["blas"] = node.config.stash.get(BLAS_SET, False)


class _Names(list[str]):
    """Names of tests whose places are looked up."""

    def __init__(self, names: Any) -> None:
        super().__init__(names)
        self._places = {name: at for at, name in reversed([*enumerate(names)])}

    def index(self, name: Any, *_: Any) -> int:
        return self._places[name]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `--dist loadgroup` a file is a group, unless a marker names another."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class FilesAndGroups(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return super()._split_scope(nodeid).split("::")[0]

        # Of thousands of tests xdist searches all names for each test that it gives
        # out, and counts all that were given out after each test.

        def add_node_collection(self, node: Any, collection: Any) -> None:
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = _Names(collection)

        def _assign_work_unit(self, node: Any) -> None:
            given = self.assigned_work.get(node, {})
            for scope in [each for each in given if all(given[each].values())]:
                del given[scope]
            super()._assign_work_unit(node)

    return FilesAndGroups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark slow tests; long groups come first, so that all processes end together."""
    slow = set(SLOW.read_text("utf-8").split())
    for item in items:
        if function_of(item) in slow or item.get_closest_marker("campaign"):
            item.add_marker("slow")
    if getattr(config.option, "loadgroup", False):
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (_turn(item), -tests[item.path]))


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("campaign"):
        return 0
    return 1 if item.get_closest_marker("xdist_group") else 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Almost nothing of what is imported and collected is garbage: no search for it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """No search for garbage looks at what was imported and collected."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Iterator[None]:
    """After a file its garbage is freed, and no later search looks at what is left."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    begin = _cpu_s()
    yield
    took = _cpu_s() - begin
    if took > MOST_CPU_S and item.get_closest_marker("slow") is None:
        pytest.fail(f"{took:.1f} CPU seconds, more than {MOST_CPU_S:g}: .ci/mark_slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    begin, cpu = time.monotonic(), _cpu_s()
    result = yield
    if TIMES and item.get_closest_marker("campaign") is None:
        took = f"{_cpu_s() - cpu:.3f} {time.monotonic() - begin:.3f}"
        with (Path(TIMES) / str(os.getpid())).open("a", encoding="utf-8") as file:
            file.write(f"{function_of(item)} {took}\n")
    return result


def function_of(item: pytest.Item) -> str:
    """The name of a test without its parameters, as tests/slow.txt has it."""
    path = _below_tests(item.path)
    return "::".join([path, *item.nodeid.partition("[")[0].split("::")[1:]])


@cache
def _below_tests(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def _cpu_s() -> float:
    of = os.times()
    children = of.children_user + of.children_system + fork_server.spent.cpu_s
    return of.user + of.system + children
