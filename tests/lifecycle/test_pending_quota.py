"""Turns that wait until memories are made of them count as their user's, too."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.memories import ALICE, BOB
from helpers.observed_sessions import Llm
from helpers.sessions import session, turn, turns
from vecall import (
    Compaction,
    Inactivity,
    LimitExceededError,
    MemoryEntry,
    MemoryService,
    MessageCount,
    Quota,
    SessionEnd,
    SummaryError,
)

TRIGGERS = {
    "none": None,
    "end": SessionEnd(),
    "count": MessageCount(100),
    "pause": Inactivity(600_000),
    "compaction": Compaction(),
}
POLICIES = ["reject", "oldest", "lru", "lowest_value"]


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def limited(open_service, path):
    def make(quota: Quota, **more: Any) -> MemoryService:
        return open_service(path, maintenance_interval=None, quota=quota, **more)

    return make


def add(service: MemoryService, *names: str) -> list[str]:
    entries = [MemoryEntry(f"zebra {name}", id=name) for name in names]
    return service.sync.add_memory(**ALICE, memories=entries)


def texts(service: MemoryService) -> list[str]:
    return [entry.text for entry in service.sync.list_memories(**ALICE)]


def waiting(path: Path) -> tuple[int, int]:
    """Turns that wait and their bytes, counted one by one."""
    with closing(sqlite3.connect(path)) as connection:
        events = connection.execute("SELECT event FROM told").fetchall()
    sizes = [len(event.encode()) for (event,) in events if event is not None]
    return len(sizes), sum(sizes)


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("summarizer", [False, True])
@pytest.mark.parametrize("policy", POLICIES[:2])
def test_what_waits_counts(limited, path, trigger, summarizer, policy):
    quota = Quota(memories=5, eviction=policy)
    provider = Llm().provider if summarizer else None
    service = limited(quota, trigger=TRIGGERS[trigger], summarizer=provider)
    add(service, "a", "b")
    service.sync.observe_session(session(*turns(1, 2, 3)))
    with pytest.raises(LimitExceededError, match="6 turns that wait"):
        service.sync.observe_session(session(*turns(1, 2, 3, 4, 5, 6)))
    assert waiting(path)[0] == 3
    assert len(texts(service)) == 2
    if policy == "reject":
        with pytest.raises(LimitExceededError, match="3 turns that wait"):
            add(service, "c")
    else:
        add(service, "c")  # the oldest makes room
        service.sync.observe_session(session(*turns(4)))  # and once more
        assert waiting(path)[0] == 4
    assert len(texts(service)) == (2 if policy == "reject" else 1)
    service.sync.observe_session({**session(*turns(7)), **BOB})  # has a quota too
    if trigger == "compaction":
        return
    made = service.sync.end_session(**ALICE, session_id="s")
    assert len(made) == (1 if summarizer else waiting_before(policy))
    assert len(texts(service)) <= 5


def waiting_before(policy: str) -> int:
    return 3 if policy == "reject" else 4


@pytest.mark.parametrize("policy", POLICIES)
def test_the_bytes_of_what_waits_count(limited, path, policy):
    quota = Quota(bytes=2_000, eviction=policy)
    service = limited(quota, trigger=SessionEnd())
    service.sync.observe_session(session(turn(1, "x" * 1_500)))
    with pytest.raises(LimitExceededError, match=r"quota\.bytes = 2000"):
        service.sync.observe_session(session(turn(2, "y" * 1_500), id_="t"))
    assert waiting(path)[0] == 1
    service.sync.delete_session(**ALICE, session_id="s")
    service.sync.observe_session(session(turn(2, "y" * 1_500), id_="t"))


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_new_never_goes_because_of_what_waits(limited, policy):
    service = limited(Quota(memories=3, eviction=policy))
    service.sync.observe_session(session(*turns(1, 2, 3)))
    with pytest.raises(LimitExceededError, match="end_session"):
        add(service, "a")
    assert texts(service) == []


def test_a_session_that_ends_may_have_more_turns_than_there_may_be_memories(limited):
    """A summary is made of them at once; where it fails, they count."""
    llm = Llm()
    service = limited(Quota(memories=3), summarizer=llm.provider)
    ended = session(*turns(1, 2, 3, 4, 5))
    assert len(service.sync.add_session_to_memory(ended)) == 1
    llm.failures = 1
    with pytest.raises(SummaryError):
        service.sync.end_session(session(*turns(11, 12, 13, 14), id_="t"))
    with pytest.raises(LimitExceededError, match="4 turns that wait"):
        service.sync.end_session(session(*turns(21), id_="u"))
    assert len(service.sync.end_session(**ALICE, session_id="t")) == 1
    assert len(texts(service)) == 2


def test_imported_turns_that_wait_count(open_service, limited, tmp_path):
    origin = open_service(tmp_path / "o.db", trigger=SessionEnd())
    origin.sync.observe_session(session(*turns(1, 2, 3, 4)))
    origin.sync.admin.export_jsonl(tmp_path / "out.jsonl")
    service = limited(Quota(memories=3), trigger=SessionEnd())
    with pytest.raises(LimitExceededError, match="4 turns that wait"):
        service.sync.admin.import_jsonl(tmp_path / "out.jsonl")
    service.sync.admin.export_jsonl(tmp_path / "back.jsonl")
    assert "waits" not in (tmp_path / "back.jsonl").read_text()


@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_what_waits_is_always_right(limited, path, tmp_path, seed):
    """After any program of calls it is what counting one by one gives."""
    rng = random.Random(seed)
    service = limited(Quota(memories=60), trigger=MessageCount(7))
    out = tmp_path / "out.jsonl"
    number = 0
    for step in range(60):
        name = rng.choice("stu")
        what = rng.choice(
            ["observe"] * 5 + "add end delete one due purge import user".split()
        )
        number += 3
        if what == "observe":
            more = turns(*range(number, number + rng.randint(1, 3)))
            service.sync.observe_session(session(*more, id_=name))
        elif what == "add":
            add(service, rng.choice("abc"))
        elif what == "end":
            service.sync.end_session(**ALICE, session_id=name)
        elif what == "delete":
            service.sync.delete_session(**ALICE, session_id=name)
        elif what == "one":
            ids = told_ids(path)
            if ids:
                service.sync.delete_memory(**ALICE, memory_id=rng.choice(ids))
        elif what == "due":
            service.sync.admin.run_due()
        elif what == "purge":
            service.sync.admin.purge()
        elif what == "user" and step % 3 == 0:
            service.sync.delete_user(**ALICE, forget=rng.random() < 0.5)
        elif what == "import":
            out.unlink(missing_ok=True)
            service.sync.admin.export_jsonl(out)
            service.sync.admin.import_jsonl(out)
        with closing(sqlite3.connect(path)) as connection:
            told = connection.execute("SELECT state FROM trig WHERE kind = 'waits'")
            sums = [tuple(json.loads(state)) for (state,) in told]
        assert sums in ([], [waiting(path)])


def told_ids(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT id FROM told WHERE event IS NOT NULL")
        return [id_ for (id_,) in found]


def test_what_waited_before_there_was_a_sum_counts(limited, open_service, path):
    """As in a file without a quota until now."""
    service = open_service(path, trigger=SessionEnd())
    service.sync.observe_session(session(*turns(1, 2, 3)))
    service.close()
    service = limited(Quota(memories=3), trigger=SessionEnd())
    with pytest.raises(LimitExceededError, match="4 turns that wait"):
        service.sync.observe_session(session(*turns(4), id_="t"))
