"""How much one user may have: what goes when it is more, and what never does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.clocks import DAY, SettableClock
from helpers.memories import ALICE, BOB, SECRET, texts
from helpers.processes import child, said, tell
from helpers.sessions import session, turn, turns
from vecall import ConfigError, LimitExceededError, MemoryEntry, MemoryService, Quota
from vecall.hooks import ALLOW, QUARANTINE, PendingWrite, Verdict
from vecall.store import examine

POLICIES = ["oldest", "lru", "lowest_value"]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def limited(open_service, path, clock) -> Callable[..., MemoryService]:
    """Opens services with a limit on the file."""

    def open_one(**quota: Any) -> MemoryService:
        return open_service(
            path, clock=clock, maintenance_interval=None, quota=Quota(**quota)
        )

    return open_one


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def seq(path: Path) -> int:
    return int(rows(path, "SELECT seq FROM part WHERE user = 'alice'")[0][0])


def add(service: MemoryService, *names: str, **meta: Any) -> list[str]:
    entries = [MemoryEntry(f"zebra {name}", id=name) for name in names]
    return service.sync.add_memory(**ALICE, memories=entries, custom_metadata=meta)


def left(service: MemoryService) -> str:
    return "".join(sorted(text.removeprefix("zebra ") for text in texts(service)))


def is_well(path: Path) -> None:
    levels = {finding.about: finding.level for finding in examine(path)}
    assert "error" not in levels.values()
    assert levels["counts"] == "ok"


def test_the_oldest_by_what_was_said_go_first(limited, clock, path):
    """S4.62: a turn of long ago that is told today is old."""
    service = limited(memories=3, eviction="oldest")
    add(service, "a", "b")
    clock.let_pass(1.0)
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry("zebra t", timestamp=clock.wall() - DAY)]
    )
    add(service, "c")
    assert left(service) == "abc"
    add(service, "d")
    assert left(service) == "bcd"
    is_well(path)


def test_what_was_neither_told_nor_used_for_longest_goes_first(limited, clock, path):
    """S4.62: a use, and a change, count as the telling does; no news is no news."""
    service = limited(memories=3, eviction="lru")
    for name in "abc":
        add(service, name)
        clock.let_pass(1.0)
    service.sync.mark_used(**ALICE, memory_ids=["a"])
    add(service, "b")  # as it was
    clock.let_pass(1.0)
    add(service, "d")
    assert left(service) == "acd"
    service.sync.update_memory(**ALICE, memory_id="c", importance=0.9)
    clock.let_pass(1.0)
    add(service, "e")
    assert left(service) == "cde"
    is_well(path)


def test_what_is_worth_least_goes_first(limited, clock, path):
    """S4.62: by what it was stored with, its age and its use."""
    service = limited(memories=3, eviction="lowest_value")
    for name, importance in (("a", 0.2), ("b", 0.9), ("c", 0.21)):
        entry = MemoryEntry(f"zebra {name}", id=name, importance=importance)
        service.sync.add_memory(**ALICE, memories=[entry])
    service.sync.mark_used(**ALICE, memory_ids=["a"])
    add(service, "d")
    assert left(service) == "abd"
    clock.let_pass(365 * DAY)
    add(service, "e", "f")
    assert left(service) == "bef"
    is_well(path)


@pytest.mark.parametrize("policy", POLICIES)
def test_bytes_are_counted_in_utf8(limited, path, policy):
    """S4.62: as they lie in the file."""
    service = limited(bytes=40, eviction=policy)
    for name in "abc":
        service.sync.add_memory(**ALICE, memories=[f"zebra \u00e9\u00e9\u00e9 {name}"])
        assert rows(path, "SELECT bytes <= 40 FROM part") == [(1,)]
    assert left(service) == "\u00e9\u00e9\u00e9 b\u00e9\u00e9\u00e9 c"
    is_well(path)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_has_just_been_written_goes_last(limited, path, policy):
    """S4.62: more than fits leaves as much as fits, the latest of it."""
    service = limited(memories=2, eviction=policy)
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry("zebra a", id="a", importance=1.0)]
    )
    assert add(service, "b", "c", "d") == ["b", "c", "d"]
    assert left(service) == "cd"
    assert rows(path, "SELECT id, why FROM tomb ORDER BY id") == [
        ("a", "evicted"),
        ("b", "evicted"),
    ]
    is_well(path)


@pytest.mark.parametrize(
    ("quota", "named", "unnamed"),
    [
        ({"memories": 2}, "quota.memories = 2", "quota.bytes"),
        ({"bytes": 20}, "quota.bytes = 20", "quota.memories"),
        (
            {"memories": 9, "bytes": 20},
            "quota.bytes = 20",
            "quota.memories",
        ),
    ],
)
def test_rejecting_writes_nothing_and_says_which_limit_it_is(
    limited, path, quota, named, unnamed
):
    """S4.62: all of a call or none of it, and no text in the message."""
    service = limited(**quota)
    add(service, "a", "b")
    before = rows(path, "SELECT * FROM mem"), rows(path, "SELECT * FROM part")
    with pytest.raises(LimitExceededError, match=named) as caught:
        add(service, "c", SECRET)
    assert unnamed not in str(caught.value)
    assert SECRET not in str(caught.value)
    assert (rows(path, "SELECT * FROM mem"), rows(path, "SELECT * FROM part")) == before
    assert add(service, "b") == ["b"]
    service.sync.delete_memory(**ALICE, memory_id="a")
    add(service, "d")
    assert left(service) == "bd"
    is_well(path)


def test_a_correction_that_is_too_long_is_rejected(limited):
    """S4.62: a limit holds for every write."""
    service = limited(bytes=20)
    add(service, "a")
    with pytest.raises(LimitExceededError, match=r"quota\.bytes = 20"):
        service.sync.update_memory(**ALICE, memory_id="a", content="zebra " + "a" * 15)
    assert left(service) == "a"


def test_a_correction_that_grows_makes_others_go(limited, path):
    """S4.62: what is corrected goes last, though it is the oldest."""
    service = limited(bytes=24, eviction="oldest")
    add(service, "a", "b", "c")
    service.sync.update_memory(**ALICE, memory_id="a", content="zebra aaaaaa")
    assert left(service) == "aaaaaac"
    is_well(path)


def test_each_user_has_a_limit_of_their_own(limited, path):
    """S4.62: nobody's memories go because somebody else has many."""
    service = limited(memories=2, eviction="oldest")
    service.sync.add_memory(**BOB, memories=["zebra 1", "zebra 2"])
    bob = "SELECT * FROM mem WHERE part = (SELECT id FROM part WHERE user = 'bob')"
    before = rows(path, bob)
    for name in "abcde":
        add(service, name)
    assert left(service) == "de"
    assert rows(path, bob) == before
    assert texts(service, **BOB) == ["zebra 1", "zebra 2"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_session_longer_than_the_limit_settles(limited, path, policy):
    """S4.62: an agent that ingests it after every turn writes what is new, no more."""
    service = limited(memories=4, eviction=policy)
    service.sync.add_session_to_memory(session(*turns(*range(10))))
    assert texts(service, "turn") == [f"turn word{number}" for number in (6, 7, 8, 9)]
    for last in range(10, 13):
        before = seq(path)
        for _ in range(2):
            returned = service.sync.add_session_to_memory(session(*turns(*range(last))))
            assert len(returned) == last
            assert len(returned.stored) == 4
            assert {each.reason for each in returned.left_out} == {"evicted"}
        assert seq(path) == before
        service.sync.add_session_to_memory(session(*turns(*range(last + 1))))
        assert seq(path) == before + 2  # one came, one went
        assert len(texts(service, "turn")) == 4
    is_well(path)


@pytest.mark.parametrize("ingest", ["session", "events"])
def test_an_evicted_turn_stays_away_and_a_fact_told_again_does_not(
    limited, path, ingest
):
    """S4.62: whoever tells a fact again means it; restoring brings back a turn."""
    service = limited(memories=2, eviction="oldest")
    service.sync.add_session_to_memory(session(turn(1, "zebra 1")))
    add(service, "a", "b")
    add(service, "c")
    assert left(service) == "bc"
    if ingest == "session":
        service.sync.add_session_to_memory(session(turn(1, "zebra 1")))
    else:
        service.sync.add_events_to_memory(
            **ALICE, events=[turn(1, "zebra 1")], session_id="s"
        )
    assert left(service) == "bc"
    assert add(service, "a") == ["a"]
    assert left(service) == "ac"
    service.sync.add_session_to_memory(session(turn(1, "zebra 1")), restore=True)
    assert left(service) == "1a"  # c is older than the a that was told again
    is_well(path)


def test_one_memory_larger_than_the_limit_is_never_kept(limited, path):
    """S4.62: the limit holds after every write that was acknowledged."""
    service = limited(bytes=20, eviction="oldest")
    add(service, "a" * 20)
    assert left(service) == ""
    assert rows(path, "SELECT live, bytes FROM part") == [(0, 0)]


def test_archived_memories_are_in_nobodys_way(limited, path):
    """S4.62: the limit is on what can be found."""
    service = limited(memories=2)
    add(service, "a", "b")
    service.sync.archive_memory(**ALICE, memory_id="a")
    add(service, "c")
    assert left(service) == "bc"
    is_well(path)


@pytest.mark.parametrize("policy", ["reject", *POLICIES])
@pytest.mark.parametrize("over", ["ttl", "valid_until"])
def test_what_is_over_makes_room_before_anything_that_lives(
    limited, path, clock, policy, over
):
    """S4.58, S4.62: even before the sweep, and where nothing may be evicted."""
    service = limited(memories=2, eviction=policy)
    add(service, "a")
    clock.let_pass(1.0)
    end = clock.wall() + 60.0 if over == "valid_until" else None
    service.sync.add_memory(
        **ALICE,
        memories=[MemoryEntry("zebra b", id="b", valid_until=end, importance=1.0)],
        custom_metadata={"ttl": 60} if over == "ttl" else None,
    )
    clock.let_pass(60.0)
    add(service, "c")
    assert left(service) == "ac"
    assert service.sync.admin.run_due() == 0
    kept = rows(path, "SELECT state FROM mem WHERE id = 'b'")
    assert kept == ([] if over == "ttl" else [("archived",)])
    is_well(path)


def test_a_limit_that_was_lowered_holds_from_the_next_write_on(limited, path):
    """S4.62: opening a file deletes nothing."""
    service = limited()
    add(service, *"abcdef")
    service.close()
    service = limited(memories=2, eviction="oldest")
    assert left(service) == "abcdef"
    add(service, "g")
    assert left(service) == "fg"
    is_well(path)


def test_a_call_with_the_same_key_does_not_bring_back_what_went(limited, path):
    """S4.62: it changes nothing, as it is one call."""
    service = limited(memories=1, eviction="oldest")
    entries = [MemoryEntry("zebra a", id="a")]
    for _ in range(2):
        service.sync.add_memory(**ALICE, memories=entries, idempotency_key="key")
        add(service, "b")
    assert left(service) == "b"


@pytest.mark.parametrize(
    "wrong",
    [
        {"memories": 0},
        {"bytes": -1},
        {"bytes": 1.5},
        {"memories": True},
        {"eviction": "newest"},
        {"eviction": None},
    ],
)
def test_what_is_no_limit_is_refused(wrong):
    """S4.62: at once, and not at the first write."""
    with pytest.raises(ConfigError, match=rf"quota\.{next(iter(wrong))}"):
        Quota(**wrong)


WRITER = """
import sqlite3, sys
import vecall
path, number = sys.argv[1:]
quota = vecall.Quota(memories=10, bytes=2_000, eviction="oldest")
who = dict(app_name="app", user_id="alice")
options = {
    "writes": vecall.WritePolicy(quota=quota),
    "storage": vecall.StorageOptions(durability="process"),
    "embedder": None,
}
with vecall.MemoryService(path, **options) as service:
    print("ready", flush=True)
    sys.stdin.readline()
    for each in range(40):
        word = f"zebra {number} {each}"
        ids = service.sync.add_memory(**who, memories=[word, word + " too"])
        with sqlite3.connect(path) as connection:
            counts = "SELECT live <= 10, bytes <= 2000 FROM part"
            assert connection.execute(counts).fetchone() == (1, 1)
        connection.close()
    print("done", flush=True)
"""


def test_a_limit_holds_for_several_processes_together(limited, path):
    """S4.62: whoever writes, there is never more."""
    with child(WRITER, path, 1) as one, child(WRITER, path, 2) as two:
        for process in (one, two):
            assert said(process) == "ready"
        for process in (one, two):
            tell(process, "go")
        assert [said(one), said(two)] == ["done", "done"]
    service = limited()
    assert len(texts(service)) == 10
    assert service.sync.admin.stats()["memories"] == 10
    is_well(path)


@pytest.mark.parametrize("policy", ["lru", "lowest_value"])
@pytest.mark.parametrize("limit", ["memories", "bytes"])
def test_a_hundredth_more_goes_so_that_the_order_is_rarely_found(
    limited, clock, policy, limit
):
    """Of 300 there are 297 after the 301st, and none goes until it is 301 again."""
    names = [f"{number:03d}" for number in range(300)]
    unit = 1 if limit == "memories" else len("zebra 000")
    service = limited(**{limit: 300 * unit}, eviction=policy)
    add(service, *names)
    clock.let_pass(1)
    service.sync.mark_used(**ALICE, memory_ids=names[:2])
    counts = []
    for number in range(300, 306):
        add(service, f"{number}")
        counts.append(len(all_texts(service)))
    assert counts == [297, 298, 299, 300, 297, 298]
    assert {f"zebra {name}" for name in names[:2]} <= set(all_texts(service))


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_that_is_new_goes_for_the_hundredth(limited, policy):
    """A call that fills the whole limit stays whole."""
    service = limited(memories=200, eviction=policy)
    add(service, *(f"old{number}" for number in range(200)))
    add(service, *(f"new{number}" for number in range(200)))
    assert set(all_texts(service)) == {f"zebra new{number}" for number in range(200)}


def all_texts(service: MemoryService) -> list[str]:
    listed = service.sync.list_memories(**ALICE, limit=1_000)
    return [memory.text for memory in listed]


def test_a_quota_does_not_count_what_is_held_for_review(open_service):
    def hold(write: PendingWrite) -> Verdict:
        return QUARANTINE if "held" in write.memory.text else ALLOW

    service = open_service(quota=Quota(memories=1), on_write=hold)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.sync.add_memory(**ALICE, memories=["held zebra"])
    with pytest.raises(LimitExceededError):
        service.sync.add_memory(**ALICE, memories=["zebra 2"])
