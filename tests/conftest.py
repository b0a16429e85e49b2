"""Fixtures that several test files share."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers import references as reference_module
from helpers.folders import fast_folder
from helpers.options import grouped
from hypothesis import settings
from vecall import MemoryService
from vecall.embedders import LocalEmbedder

if TYPE_CHECKING:
    from types import ModuleType

pytest_plugins = [
    "helpers.workers",
    "helpers.storage_option",
    "helpers.time_bound",
    "helpers.on_windows",
]

# A machine that does other work is slow; no test may fail for that.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")

_numbers = itertools.count()


@pytest.fixture(scope="session")
def references() -> ModuleType:
    """The module helpers/references.py."""
    return reference_module


@pytest.fixture(scope="session", autouse=True)
def local_weights() -> Iterator[None]:
    """The local embedder reads its weights once, not for each service."""
    try:
        held = LocalEmbedder()
    except ImportError:
        held = None
    yield
    del held


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    """A folder in memory where there is room, until the last test of the file ends."""
    with fast_folder() as folder:
        yield folder


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An empty folder of the test's own.

    It is in memory where there is room: a disk takes milliseconds for each write that
    is synced. Tests of durability get a folder on the disk.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30] + f"-{next(_numbers)}"
    if "durability" in request.path.parts:
        return tmp_path_factory.mktemp(name, numbered=False)
    folder = Path(request.getfixturevalue("module_folder")) / name
    folder.mkdir()
    return folder


@pytest.fixture
def open_service() -> Iterator[Callable[..., MemoryService]]:
    """Opens memory services as `MemoryService` does, and closes every one of them."""
    opened: list[MemoryService] = []

    def open_one(*args: Any, **kwargs: Any) -> MemoryService:
        service = MemoryService(*args, **grouped(**{"embedder": None, **kwargs}))
        opened.append(service)
        return service

    yield open_one
    for service in reversed(opened):
        service.close()


@pytest.fixture
def three_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's time zone is three hours ahead of UTC."""
    monkeypatch.setenv("TZ", "EAST-3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def in_time() -> Callable[..., Any]:
    """Calls a function on a thread of its own, so that what hangs fails."""

    def call(work: Callable[..., Any], *args: Any, timeout_s: float = 20.0) -> Any:
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(work(*args))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            return done.result(timeout_s)
        except FutureTimeoutError:
            if done.done():
                raise  # the work's own
            pytest.fail(f"still running after {timeout_s:g} s")

    return call
