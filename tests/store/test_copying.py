"""A copy has all that its source has, and gives the same answers."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.postgres_server import MISSING, Schema, is_available
from helpers.processes import child, said
from vecall import (
    ConfigError,
    ConflictError,
    CorruptFileError,
    Drop,
    EmbeddingMismatchError,
    Filter,
    FunctionEmbedder,
    MemoryService,
    Put,
)
from vecall.cli.main import main
from vecall.store import copy_storage, examine, open_storage
from vecall.store.rows import TABLES

DIM = 16
WORDS = "parrot bicycle garden window train evening doctor summer yellow sea".split()
USERS = [("hotel", "alice"), ("hotel", "bob"), ("bank", "alice"), ("hotel", "Zoë")]


def embed(texts):
    seeds = [sum(map(ord, text)) for text in texts]
    rows = [np.random.default_rng(seed).standard_normal(DIM) for seed in seeds]
    return np.array(rows, np.float32)


def opened(place):
    return MemoryService(place, embedder=FunctionEmbedder(embed, dimensions=DIM))


def fill(memory, owners=USERS, count=40):
    """Facts, sessions, corrections, uses, deletions, a TTL, items, for each user."""
    for number, (app, user) in enumerate(owners):
        choose = random.Random(number)
        owner = {"app_name": app, "user_id": user}
        memory.sync.add_memory(
            **owner,
            memories=[
                {
                    "content": " ".join(choose.choices(WORDS, k=6)) + f" {n}\x00\x01",
                    "id": f"fact {n}",
                    "timestamp": 1.7e9 + n,
                    "custom_metadata": {"n": n % 3},
                }
                for n in range(count)
            ],
            idempotency_key=f"first {count}",
        )
        memory.sync.add_memory(
            **owner, memories=["a note"], custom_metadata={"ttl": 3600}
        )
        memory.sync.add_events_to_memory(
            **owner,
            session_id="s",
            events=[
                {"content": f"{word} turn", "id": f"e{n}", "author": "user"}
                for n, word in enumerate(WORDS)
            ],
        )
        memory.sync.update_memory(**owner, memory_id="fact 3", content="corrected sea")
        memory.sync.delete_memory(**owner, memory_id="fact 4")
        memory.sync.mark_used(**owner, memory_ids=["fact 5"])
        items = memory.items.sync
        puts = [
            Put(("notes", "x"), "k", {"v": [number, 0.5]}, embed(["sea"])),
            Put(("notes",), "gone", {}),
            Put(("notes",), "timed", {"t": 1}, ttl=600),
            Put(("notes",), "large", {"photo": f"{number}" * 300_000}),
        ]
        items.write(puts, **owner)
        items.write([Drop(("notes",), "gone")], **owner)


def answers(place, owners=USERS):
    """What searches of several kinds return, with their scores."""
    found = []
    with opened(place) as memory:
        for app, user in owners:
            owner = {"app_name": app, "user_id": user}
            for query in (*WORDS, "yellow doctor in the evening"):
                result = memory.sync.search_memory(**owner, query=query, top_k=20)
                found += [
                    (e.id, e.text, e.score, e.similarity, e.confidence, e.timestamp)
                    for e in result.memories
                ]
            narrowed = Filter(metadata={"n": 1})
            entries = memory.sync.search_memory(
                **owner, query="sea", filter=narrowed
            ).memories
            found += [(e.id, e.score) for e in entries]
            found += [
                (r.memory.text, r.state, r.why)
                for r in memory.sync.memory_history(**owner, memory_id="fact 3")
            ]
            items = memory.items.sync.find(vector=embed(["sea"])[0], **owner)
            found += [(i.namespace, i.key, i.value, i.version, i.score) for i in items]
    return found


def rows_of(place):
    """Each user's copy as a storage reads it."""
    storage = open_storage(place, "full", read_only=True)
    try:
        with storage.read() as reads:
            now = storage.expiry_clock.now()
            return {
                (names.app, names.user): reads.partition_copy(names, now)
                for names in reads.partitions_after(0, 1000)
            }
    finally:
        storage.end_writes()
        storage.close()


KINDS = ["file", "database"] if is_available() else ["file"]


@pytest.fixture
def place(tmp_path):
    """Makes empty storages of a kind."""
    schemas = []
    numbers = itertools.count()

    def make(kind):
        if kind == "file":
            return tmp_path / f"{next(numbers)}.db"
        if not is_available():
            pytest.skip(MISSING)
        schemas.append(Schema())
        return schemas[-1].url

    yield make
    for schema in schemas:
        schema.drop()


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_copy_answers_as_its_source_to_the_last_bit(place, source, target):
    before, after = place(source), place(target)
    with opened(before) as memory:
        fill(memory)
        memory.sync.delete_user(app_name="hotel", user_id="bob")
        fill(memory, [("hotel", "bob")], count=8)
    report = copy_storage(before, after)
    assert (report.users, report.is_complete) == (len(USERS), True)
    ours, theirs = rows_of(before), rows_of(after)
    assert ours.keys() == theirs.keys() == set(USERS)
    for owner, copied in ours.items():
        assert theirs[owner].digest == copied.digest
        shift = theirs[owner].expiry_now - copied.expiry_now
        assert copied.latest_difference(theirs[owner], shift) < 30.0
    assert all(any(copy.tables[name] for copy in ours.values()) for name in
               TABLES.keys() - {"trig", "replaced", "told"})  # fmt: skip
    expected = answers(before)
    assert len(expected) > 200
    assert answers(after) == expected
    if isinstance(after, Path):
        assert [f for f in examine(after) if f.level == "error"] == []
    again = copy_storage(before, after)
    assert (again.users, again.unchanged, again.is_complete) == (0, len(USERS), True)


def test_a_copied_service_goes_on_as_its_source_would(place):
    """Ids, deletions, idempotency keys, versions and TTLs are those of the source."""
    before, after = place("file"), place(KINDS[-1])
    owner = {"app_name": "hotel", "user_id": "alice"}
    with opened(before) as memory:
        fill(memory, USERS[:1])
        version = memory.items.sync.get([(("notes", "x"), "k")], **owner)[0].version
    copy_storage(before, after)
    with opened(after) as memory:
        with pytest.raises(ConflictError):  # the key is known
            memory.sync.add_memory(
                **owner, memories=["else"], idempotency_key="first 40"
            )
        count = len(memory.sync.list_memories(**owner, limit=100))
        memory.sync.add_events_to_memory(
            **owner,
            session_id="s",
            events=[{"content": "sea turn", "id": "e1", "author": "user"}],
        )
        put = Put(("notes", "x"), "k", {"v": 2}, if_version=version)
        memory.items.sync.write([put], **owner)
        memory.sync.add_memory(**owner, memories=[{"content": "new", "id": "new"}])
        assert memory.sync.get_memory(**owner, memory_id="new").text == "new"
        listed = memory.sync.list_memories(**owner, limit=100)
        assert len(listed) == count + 1


def test_what_the_target_has_of_a_user_is_left_alone_unless_replaced(place):
    before, after = place("file"), place(KINDS[-1])
    with opened(before) as memory:
        fill(memory, USERS[:2])
    with opened(after) as memory:
        fill(memory, USERS[1:2], count=7)
        fill(memory, USERS[2:3], count=7)
    kept = rows_of(after)
    report = copy_storage(before, after)
    assert (report.users, report.different, report.is_complete) == (1, 1, False)
    now = rows_of(after)
    for owner in USERS[1:3]:
        assert now[owner].digest == kept[owner].digest
    report = copy_storage(before, after, replace=True)
    assert (report.users, report.unchanged, report.is_complete) == (1, 1, True)
    now = rows_of(after)
    assert now[USERS[1]].digest == rows_of(before)[USERS[1]].digest
    assert now[USERS[2]].digest == kept[USERS[2]].digest


def test_a_dry_run_says_what_a_copy_does_and_writes_nothing(place, tmp_path):
    before, after = place("file"), tmp_path / "new.db"
    with opened(before) as memory:
        fill(memory)
    planned = copy_storage(before, after, dry_run=True)
    assert not after.exists()
    done = copy_storage(before, after)
    assert (planned.users, planned.memories, planned.items, planned.bytes) == (
        done.users,
        done.memories,
        done.items,
        done.bytes,
    )


def test_only_the_app_and_user_that_are_named_are_copied(place):
    before, after = place("file"), place("file")
    with opened(before) as memory:
        fill(memory)
    assert copy_storage(before, after, app="hotel", user="alice").users == 1
    assert rows_of(after).keys() == {("hotel", "alice")}
    assert copy_storage(before, after, user="alice").users == 1
    assert rows_of(after).keys() == {("hotel", "alice"), ("bank", "alice")}


def test_deletions_of_a_purged_user_hold_in_a_copy(place):
    """Such a user has digests alone, under a key that the copy adopts."""
    before, after = place("file"), place(KINDS[-1])
    owner = {"app_name": "hotel", "user_id": "alice"}
    turn = {"content": "sea turn", "id": "e1", "author": "user"}
    with opened(before) as memory:
        memory.sync.add_events_to_memory(**owner, session_id="s", events=[turn])
        memory.sync.delete_session(**owner, session_id="s")
        memory.sync.admin.purge()
    assert copy_storage(before, after).is_complete
    with opened(after) as memory:
        memory.sync.add_events_to_memory(**owner, session_id="s", events=[turn])
        assert memory.sync.search_memory(**owner, query="sea").memories == []
    other = place("file")
    with opened(other) as memory:
        fill(memory, USERS[2:3], count=6)
    assert copy_storage(before, other).hidden == 1


def test_vectors_of_another_model_are_refused(place):
    before, after = place("file"), place("file")
    with opened(before) as memory:
        fill(memory, USERS[:1])
    wider = FunctionEmbedder(lambda t: np.ones((len(t), 3)), dimensions=3)
    with MemoryService(after, embedder=wider) as memory:
        memory.sync.add_memory(app_name="a", user_id="b", memories=["x"])
    kept = after.read_bytes()
    with pytest.raises(EmbeddingMismatchError):
        copy_storage(before, after)
    assert after.read_bytes() == kept


def test_a_storage_is_not_copied_to_itself(place, tmp_path):
    before = place("file")
    with opened(before) as memory:
        fill(memory, USERS[:1], count=6)
    (tmp_path / "link").symlink_to(tmp_path)
    for same in (before, tmp_path / "link" / before.name):
        with pytest.raises(ConfigError, match="the same storage"):
            copy_storage(before, same)


def test_a_damaged_row_is_not_copied(place):
    before, after = place("file"), place("file")
    with opened(before) as memory:
        fill(memory, USERS[:1])
    data = before.read_bytes()
    before.write_bytes(data.replace(b"corrected sea", b"corrupted sea"))
    with pytest.raises(CorruptFileError):
        copy_storage(before, after)
    assert rows_of(after) == {}


def test_users_that_change_during_a_copy_are_counted(place):
    before, after = place("file"), place("file")
    with opened(before) as memory:
        fill(memory, USERS[:3], count=7)
        written = []

        def write_once(_):
            if not written:
                written.append(memory.sync.add_memory(
                    app_name="hotel", user_id="alice", memories=["later"]
                ))  # fmt: skip

        report = copy_storage(before, after, progress=write_once)
        assert (report.users, report.changed, report.is_complete) == (3, 1, False)
        assert copy_storage(before, after, replace=True).is_complete
    assert rows_of(after)[USERS[0]].digest == rows_of(before)[USERS[0]].digest


COPY = """
import sys
from pathlib import Path
from vecall.store import copy_storage
place = lambda text: text if "://" in text else Path(text)
print("copies", flush=True)
copy_storage(place(sys.argv[1]), place(sys.argv[2]))
"""


@pytest.mark.parametrize("target", KINDS)
def test_a_copy_that_is_killed_continues(place, target):
    before, after = place("file"), place(target)
    owners = [("hotel", f"user {n}") for n in range(30)]
    with opened(before) as memory:
        fill(memory, owners, count=10)
    expected = {owner: copied.digest for owner, copied in rows_of(before).items()}
    for pause in (0.02, 0.05, 0.1):
        with child(COPY, before, after) as running:
            assert said(running) == "copies"
            time.sleep(pause)
    assert copy_storage(before, after).is_complete
    assert {o: copied.digest for o, copied in rows_of(after).items()} == expected


def test_a_running_service_of_the_target_sees_the_users(place):
    before, after = place("file"), place(KINDS[-1])
    with opened(before) as memory:
        fill(memory, USERS[:2])
    with opened(after) as memory:
        owner = {"app_name": "hotel", "user_id": "alice"}
        assert memory.sync.search_memory(**owner, query="sea").memories == []
        copying = threading.Thread(target=copy_storage, args=(before, after))
        copying.start()
        copying.join()
        assert memory.sync.search_memory(**owner, query="corrected sea")
        memory.sync.add_memory(**owner, memories=["and more"])
    assert copy_storage(before, after).different == 1


def test_the_command_says_what_it_copied_and_what_is_missing(place, capsys):
    before, after = place("file"), place(KINDS[-1])
    with opened(before) as memory:
        fill(memory, USERS[:2], count=8)
    with opened(after) as memory:
        fill(memory, USERS[1:2], count=6)
    assert main(["copy", str(before), str(after), "--dry-run"]) == 1
    assert "1 user would be copied" in capsys.readouterr().out
    assert main(["copy", str(before), str(after)]) == 1
    said = capsys.readouterr().out
    assert "1 user copied and compared" in said
    assert "other memories in the target" in said
    assert main(["copy", str(before), str(after), "--replace", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["users"], facts["unchanged"], facts["different"]) == (1, 1, 0)
    assert main(["copy", str(before) + ".missing", str(before)]) == 1
