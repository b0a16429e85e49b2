"""The schedules find what was wrong: each test puts one mended mistake back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from helpers import schedule_programs
from helpers.schedule_explorer import every_schedule
from helpers.scheduled_world import Program, play
from helpers.scheduler import Scheduler
from vecall.concurrency.locks import SharedWork
from vecall.errors import VecallError
from vecall.index.partition_cache import PartitionCache
from vecall.index.snapshots import LoadedPartition
from vecall.store.file.database import Database

MOST = 2_000
USERS = {"a": 2, "b": 1, "new": 0}


@pytest.fixture(params=["file", "memory"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    path = tmp_path_factory.mktemp("defects") / "m.db"
    database = Database(path if request.param == "file" else None, "process")
    yield database
    database.close()


class _EnoughError(Exception):
    """All that was looked for was found."""


def finds(database: Database, program: Program, *wanted: str) -> bool:
    """Whether schedules of a program end in errors that say so."""
    left = set(wanted)

    def run(scheduler: Scheduler) -> None:
        try:
            play(scheduler, database, USERS, program)
        except (AssertionError, pytest.fail.Exception, VecallError) as error:
            said = f"{type(error).__name__}: {error}"
            left.difference_update([words for words in left if words in said])
            if not left:
                raise _EnoughError from None

    with suppress(_EnoughError):
        every_schedule(run, MOST)
    return not left


def test_a_promise_that_one_caller_can_cancel_for_all_is_found(database, monkeypatch):
    """All who waited for a user shared the future of the thread pool itself."""

    def small_load(
        loader: PartitionCache, key: Any, done: Callable[[BaseException | None], None]
    ) -> Future[Any]:
        return loader._threads.run_small_load(loader._load_on_its_thread, key, done)

    def ask(work: SharedWork, key: Any, *, afresh: bool = False) -> Any:
        run = work._runs.get(key)
        if run is None:
            loader: PartitionCache = work._start.__self__  # type: ignore[attr-defined]

            def done(error: BaseException | None) -> None:
                work._runs.pop(key, None)
                if error is not None:
                    raise error

            run = work._runs[key] = small_load(loader, key, done)
        return run

    monkeypatch.setattr(SharedWork, "ask_for_run", ask)
    assert finds(
        database,
        schedule_programs.gives_up_behind_another_user,
        "cancelled, and no caller had cancelled it",
    )


def test_an_eviction_that_does_not_wait_for_a_loading_is_found(database, monkeypatch):
    """The entry was taken out, and then the partition dropped, whoever loaded it."""

    def evict(loader: PartitionCache, key: Any) -> bool:
        loader._drop_partition(key)
        return True

    def holds(loader: PartitionCache, key: Any, entry: LoadedPartition, _: int) -> bool:
        return loader._residents.get(key) is entry

    monkeypatch.setattr(PartitionCache, "_evict_if_free", evict)
    monkeypatch.setattr(PartitionCache, "holds_unchanged", holds)
    assert finds(
        database,
        schedule_programs.evicted_while_loaded,
        "AssertionError: not found: ['a0', 'a1']",
        "CorruptFileError: the file is damaged",
    )
