"""Fixtures that several test files share."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from vecall import MemoryService

if TYPE_CHECKING:
    from types import ModuleType


def load(name: str, path: Path) -> ModuleType:
    """Makes a module importable by name: test files cannot import from their folder."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


TESTS = Path(__file__).parent
load("helpers", TESTS / "helpers" / "__init__.py")  # from helpers.memories import ...


@pytest.fixture(scope="session")
def references() -> ModuleType:
    """The module references.py."""
    return load("vecall_test_references", TESTS / "references.py")


@pytest.fixture
def open_service() -> Iterator[Callable[..., MemoryService]]:
    """Opens memory services as `MemoryService` does, and closes every one of them."""
    opened: list[MemoryService] = []

    def open_one(*args: Any, **kwargs: Any) -> MemoryService:
        service = MemoryService(*args, **{"embedder": None, **kwargs})
        opened.append(service)
        return service

    yield open_one
    for service in reversed(opened):
        service.close()


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
