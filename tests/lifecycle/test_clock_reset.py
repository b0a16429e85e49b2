"""A wall clock that stood wrong: it is logged, and its trace in a file is mended."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.clocks import DAY, START, YEAR, SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, texts
from vecall import MemoryService, Put
from vecall.cli.main import main
from vecall.clock import ExpiryClock
from vecall.index.partition_cache import examine_storage
from vecall.store import examine, reset_expiry_clock

AHEAD = 9 * YEAR


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


def lived_ahead(
    open_service: Callable[..., MemoryService], path: Path, clock: SettableClock
) -> MemoryService:
    """A file that was opened while the wall clock stood years ahead, once."""
    clock.jump(AHEAD)
    open_service(path, clock=clock, maintenance_interval=None).close()
    clock.restart(off=-AHEAD)
    return open_service(path, clock=clock, maintenance_interval=None)


def add(service: MemoryService, text: str, **more: Any) -> None:
    ttl = more.pop("ttl", None)
    meta = {} if ttl is None else {"custom_metadata": {"ttl": ttl}}
    entry = {"id": text, "content": text, **more}
    service.sync.add_memory(**ALICE, memories=[entry], **meta)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("jump", [2 * DAY, -2 * DAY])
def test_a_jump_of_more_than_a_day_is_logged_once(
    open_service, tmp_path, clock, caplog, jump
):
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    add(service, "zebra")
    assert warnings_of(caplog) == []
    clock.jump(jump)
    for number in range(3):
        add(service, f"zebra {number}")
    (said,) = warnings_of(caplog)
    assert "2.0 days" in said
    assert ("behind" if jump > 0 else "ahead of") in said


@pytest.mark.parametrize("jump", [0.9 * DAY, -0.9 * DAY])
def test_a_smaller_jump_is_not_logged(open_service, tmp_path, clock, caplog, jump):
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    clock.jump(jump)
    add(service, "zebra")
    assert warnings_of(caplog) == []


def test_a_machine_that_was_off_for_a_month_logs_nothing(
    open_service, tmp_path, clock, caplog
):
    open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None).close()
    clock.restart(off=30 * DAY)
    open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_whose_time_is_ahead_says_so_where_it_is_opened(
    open_service, tmp_path, clock, caplog, read_only
):
    path = tmp_path / "m.db"
    lived_ahead(open_service, path, clock).close()
    caplog.clear()
    open_service(path, clock=clock, maintenance_interval=None, read_only=read_only)
    (said,) = warnings_of(caplog)
    assert f"{AHEAD / DAY:.1f} days ahead of" in said


def test_a_reset_finds_a_date_that_has_not_come_and_keeps_what_is_left_of_a_ttl(
    open_service, tmp_path, clock
):
    path = tmp_path / "m.db"
    service = lived_ahead(open_service, path, clock)
    add(service, "zebra one", valid_until=START + 30 * DAY)
    add(service, "zebra two", ttl=100.0)
    add(service, "zebra three", ttl=100.0, valid_until=START + 50.0)
    add(service, "zebra four")
    clock.let_pass(40.0)
    assert texts(service) == ["zebra four", "zebra two"]
    service.close()
    (done,) = reset_expiry_clock(path, clock)
    assert (
        done
        == f"the clock was set back by {AHEAD / DAY:.1f} days; 2 ttls moved with it"
    )
    assert reset_expiry_clock(path, clock) == []
    service = open_service(path, clock=clock, maintenance_interval=None)
    everything = ["zebra four", "zebra one", "zebra three", "zebra two"]
    assert texts(service) == everything
    clock.let_pass(10.0)  # the date of the third
    assert texts(service) == ["zebra four", "zebra one", "zebra two"]
    clock.let_pass(49.0)
    assert texts(service) == ["zebra four", "zebra one", "zebra two"]
    clock.let_pass(1.0)  # 100 seconds since they were added
    assert texts(service) == ["zebra four", "zebra one"]
    service.sync.admin.run_due()
    clock.let_pass(30 * DAY)
    assert texts(service) == ["zebra four"]


def test_a_reset_keeps_what_is_left_of_the_ttl_of_an_item(
    open_service, tmp_path, clock
):
    """Of a small one and of one in pieces."""
    path = tmp_path / "m.db"
    service = lived_ahead(open_service, path, clock)
    long = "zebra " * 200_000
    written = [Put(("n",), "small", 1, ttl=100.0), Put(("n",), "long", long, ttl=100.0)]
    service.items.sync.write([*written, Put(("n",), "lasts", 2)], **ALICE)
    clock.let_pass(40.0)
    service.close()
    (done,) = reset_expiry_clock(path, clock)
    assert done.endswith("; 2 ttls moved with it")

    def keys() -> list[str]:
        return sorted(item.key for item in service.items.sync.find_all(("n",), **ALICE))

    service = open_service(path, clock=clock, maintenance_interval=None)
    assert service.items.sync.get([(("n",), "long")], **ALICE)[0].value == long
    clock.let_pass(59.0)
    assert keys() == ["lasts", "long", "small"]
    clock.let_pass(1.0)  # 100 seconds since they were written
    assert keys() == ["lasts"]
    assert service.items.sync.sweep(**ALICE) == 2
    service.close()
    assert [each.level for each in examine_storage(path)].count("error") == 0


def test_a_time_that_is_behind_the_wall_clock_is_set_forward(
    open_service, tmp_path, clock
):
    path = tmp_path / "m.db"
    clock.jump(-YEAR)
    service = open_service(path, clock=clock, maintenance_interval=None)
    add(service, "zebra", ttl=100.0)
    service.close()
    clock.jump(YEAR)
    (done,) = reset_expiry_clock(path, clock)
    assert "forward by 365.0 days" in done
    service = open_service(path, clock=clock, maintenance_interval=None)
    assert service._memory.storage.expiry_clock.now() == START
    clock.let_pass(99.0)
    assert texts(service) == ["zebra"]
    clock.let_pass(1.0)
    assert texts(service) == []


def test_a_reset_moves_all_that_is_counted_and_keeps_every_row_whole(
    open_service, tmp_path, clock
):
    """Also of what a snapshot holds, of vectors, and of what is archived or held."""
    path = tmp_path / "m.db"
    options = {"clock": clock, "maintenance_interval": None, "embedder": Recorder(4)}
    lived_ahead(open_service, path, clock).close()
    service = open_service(path, **options, history_ttl=50.0)
    for who in (ALICE, BOB):
        entries = [{"id": f"m{n}", "content": f"zebra {n}"} for n in range(600)]
        service.sync.add_memory(**who, memories=entries, custom_metadata={"ttl": 100.0})
    service.sync.archive_memory(**ALICE, memory_id="m1")
    service.sync.update_memory(**ALICE, memory_id="m2", content="zebra new")
    key = {"idempotency_key": "once"}
    kept = service.sync.add_memory(**ALICE, memories=["zebra key"], **key)
    service.sync.propose_forget(**ALICE, query="zebra 7")
    order = in_order(service)  # loaded, so that there is a snapshot
    service.close()
    before = times(path)
    reset_expiry_clock(path, clock)
    assert times(path) == pytest.approx([each - AHEAD for each in before])
    assert [each for each in examine(path) if each.level == "error"] == []
    service = open_service(path, **options)
    assert service.sync.add_memory(**ALICE, memories=["zebra key"], **key) == kept
    clock.let_pass(99.0)
    assert len(texts(service)) == 600
    assert in_order(service) == order
    clock.let_pass(1.0)
    service.sync.admin.run_due()
    assert texts(service, **BOB) == []
    assert texts(service) == ["zebra key"]


def in_order(service: MemoryService) -> list[str]:
    found = service.sync.search_memory(**BOB, query="zebra", top_k=1000).memories
    assert len(found) == 600
    return [memory.id for memory in found]


def times(path: Path) -> list[float]:
    """All that is counted in a file."""
    query = (
        "SELECT expires_at FROM mem UNION ALL SELECT expires_at FROM hist "
        "UNION ALL SELECT due_at FROM trig UNION ALL SELECT at FROM idem"
    )
    with closing(sqlite3.connect(path)) as connection:
        return sorted(each for (each,) in connection.execute(query) if each is not None)


def test_doctor_sees_a_time_that_is_years_ahead_and_resets_it(
    open_service, tmp_path, capsys
):
    path = tmp_path / "m.db"
    wrong = SettableClock(ExpiryClock(SettableClock()).wall() + AHEAD)
    open_service(path, clock=wrong, maintenance_interval=None).close()
    assert main(["doctor", "--path", str(path)]) == 0
    assert "--reset-clock" in capsys.readouterr().out
    assert main(["doctor", "--path", str(path), "--reset-clock"]) == 0
    said = capsys.readouterr().out
    assert "the clock was set back by" in said
    assert "as the wall clock says" in said
