"""Uses in the file: checked, moved, copied, saved; old files stay as they were."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vecall.index.embedding
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, texts
from helpers.paths import TESTS
from helpers.use_counts import changed, mark, told, used_at, uses
from vecall import CorruptFileError, InvalidArgumentError, MemoryService
from vecall.store import examine, recover_file, repair_file

FIXTURE = TESTS / "fixtures" / "schema-1.db"
WAIT_S = 20.0
ROWS = 150


class Named(Recorder):
    """An embedder whose vectors depend on its name, too."""

    def vector(self, text: str) -> np.ndarray:
        return super().vector(f"{self.model_id} {text}")


class Gated(Named):
    """Embeds a first batch, and the rest when it is let go."""

    def __init__(self) -> None:
        super().__init__(5, "new")
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if len(self.asked) >= 64 and len(texts) > 1:
            self.reached.set()
            assert self.go_on.wait(WAIT_S), "nobody let the embedder go"
        return super().embed(texts)


OLD = Named(7, "old")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.db"


@pytest.fixture
def service(open_service, path) -> MemoryService:
    """A service with memories a, b and c of alice, of which a and b were used."""
    service = open_service(path, embedder=OLD)
    service.sync.add_memory(**ALICE, memories=told("a", "b", "c"))
    service.sync.add_memory(**BOB, memories=told("a"))
    assert [mark(service, "a", "b"), mark(service, "a")] == [2, 1]
    return service


def checksums(path: Path) -> dict[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT rid, crc FROM mem").fetchall())


def faults(path: Path) -> list[str]:
    return [found.about for found in examine(path) if found.level == "error"]


DAMAGE = [
    ("a", "uses", 3),
    ("a", "uses", None),
    ("a", "uses", "many"),
    ("a", "uses", b"\xff"),
    ("a", "uses", 2.5),
    ("a", "last_used", 1.0),
    ("a", "last_used", None),
    ("a", "last_used", "late"),
    ("c", "uses", 1),
    ("c", "uses", 0),
    ("c", "last_used", 0.0),
]


@pytest.mark.parametrize(("id_", "column", "value"), DAMAGE)
def test_a_changed_use_is_damage_like_any_other(
    open_service, service, path, id_, column, value
):
    """Found by whoever reads the row and by the doctor; repaired, and told again."""
    service.close()
    where = f"UPDATE mem SET {column} = ? WHERE part = 1 AND id = ?"
    assert changed(path, where, value, id_) == 1
    with open_service(path, embedder=OLD) as damaged:
        for work in (
            lambda: damaged.sync.get_memory(**ALICE, memory_id=id_),
            lambda: texts(damaged),
            lambda: mark(damaged, "a", "b", "c"),
            lambda: damaged.sync.admin.export_jsonl(path.with_name("out")),
        ):
            with pytest.raises(CorruptFileError):
                work()
        assert texts(damaged, **BOB) == ["zebra a"]
    assert faults(path) == ["memories"]
    repair_file(path)
    assert faults(path) == []
    with open_service(path, embedder=OLD) as repaired:
        rest = {"a", "b", "c"} - {id_}
        assert set(texts(repaired)) == {f"zebra {other}" for other in rest}
        repaired.sync.add_memory(**ALICE, memories=told("a", "b", "c"))
        assert uses(path)[id_] is None, "nobody knows how often it was"
        assert mark(repaired, "a", "b", "c") == 3
        assert len(texts(repaired)) == 3
    assert faults(path) == []


def test_what_is_told_anew_over_damage_takes_no_count_from_it(
    open_service, service, path
):
    """The row is not set aside yet, and its new text has a checksum that holds."""
    service.close()
    changed(path, "UPDATE mem SET uses = 'many' WHERE id = 'a' AND part = 1")
    changed(path, "UPDATE mem SET uses = 7 WHERE id = 'b' AND part = 1")
    with open_service(path, embedder=OLD) as again:
        again.sync.add_memory(**ALICE, memories=told("a", "b", word="zebra new"))
        assert uses(path) == {"a": None, "b": None, "c": None}
        assert mark(again, "a", "b") == 2
        assert len(texts(again)) == 3


def test_a_row_that_was_never_used_keeps_its_checksum(open_service, path):
    """The fixture's checksums are those of before uses were counted."""
    shutil.copyfile(FIXTURE, path)
    before = checksums(path)
    with pytest.warns(UserWarning, match="hashed"):
        service = open_service(path)
    out = path.with_name("out")
    assert service.sync.admin.export_jsonl(out) == len(before), "every checksum holds"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    scope = {}
    for line in lines:
        scope = line.get("part", scope)
        if line.get("mem", {}).get("state") == "live":
            id_ = line["mem"]["id"]
            break
    who = {"app_name": scope["app"], "user_id": scope["user"]}
    service.sync.get_memory(**who, memory_id=id_)
    assert checksums(path) == before
    assert mark(service, id_, **who) == 1
    after = checksums(path)
    assert len([rid for rid in before if before[rid] != after[rid]]) == 1
    service.close()
    assert faults(path) == []


def test_the_checksum_of_a_new_row_is_the_one_of_old(service, path):
    """As this version's predecessors computed it."""
    columns = (
        "rid, id, session, event, pos, ts, created_at, expires_at, author, kind, "
        "source, trust, text, content, meta, importance_prior, vec, crc"
    )
    with closing(sqlite3.connect(path)) as connection:
        *values, vec, crc = connection.execute(
            f"SELECT {columns} FROM mem WHERE id = 'c'"
        ).fetchone()
    parts = [
        "" if value is None else value if isinstance(value, str) else repr(value)
        for value in values
    ]
    assert zlib.crc32(vec, zlib.crc32("\0".join(parts).encode())) == crc


def test_a_use_while_the_file_is_moved_to_another_model(open_service, path):
    """Before and behind the place it has come to; nothing is embedded again for it."""
    service = open_service(path, embedder=OLD, durability="process")
    ids = [f"m{i}" for i in range(ROWS)]
    service.sync.add_memory(**ALICE, memories=told(*ids))
    gate = Gated()
    moving = threading.Thread(target=lambda: service.sync.admin.reembed(gate))
    moving.start()
    try:
        assert gate.reached.wait(WAIT_S)
        assert mark(service, *ids[:100:2], *ids[100:]) == 100
        assert mark(service, "m0") == 1
        service.sync.add_memory(**ALICE, memories=told("m2", word="zebra new"))
        assert mark(service, "m2") == 1
        spoiled = "UPDATE vec_next SET vec = zeroblob(20) WHERE rid = ?"
        assert changed(path, spoiled, (1 << 32) + 5) == 1
        assert mark(service, "m4") == 1
    finally:
        gate.go_on.set()
        moving.join(WAIT_S)
    assert not moving.is_alive()
    embedded = sorted(text for text in gate.asked if text.startswith("zebra"))
    assert embedded == sorted(
        [f"zebra {id_}" for id_ in ids] + ["zebra new m2", "zebra m4"]
    )
    counts = uses(path)
    assert (counts["m0"], counts["m1"], counts["m2"], counts["m4"]) == (2, None, 2, 2)
    assert sum(count or 0 for count in counts.values()) == 103
    for i in (0, 1, 2, 4, 149):
        text = "zebra new m2" if i == 2 else f"zebra m{i}"
        best = service.sync.search_memory(**ALICE, query=text, top_k=1000).memories
        similarity = {memory.id: memory.similarity for memory in best}[f"m{i}"]
        assert similarity == pytest.approx(1.0, abs=1e-5)
    service.close()
    assert faults(path) == []


def test_a_use_right_after_the_switch_moves_the_vector(
    open_service, service, path, monkeypatch
):
    """The new vectors are still beside the rows, and they count."""
    new = Named(5, "new")
    mark(service, "a", **BOB)
    with monkeypatch.context() as patch:
        patch.setattr(
            vecall.index.embedding.Backfill, "_move_migrated_vectors", lambda _: None
        )
        assert service.sync.admin.reembed(new) == 4
        assert mark(service, "a", "c") == 2
        assert texts(service) == ["zebra a", "zebra b", "zebra c"]
        service.sync.add_memory(**BOB, memories=told("a", word="zebra new"))
        assert uses(path, "bob") == {"a": 1}, "a change keeps it here, too"
        service.close()
        with closing(sqlite3.connect(path)) as connection:
            waiting = connection.execute("SELECT count(*) FROM vec_next").fetchone()
        assert waiting == (1,)
        assert faults(path) == []
    with open_service(path, embedder=new) as again:
        assert texts(again) == ["zebra a", "zebra b", "zebra c"]
        again.sync.admin.reembed(new)
        assert mark(again, "a", "b") == 2
        for id_ in "abc":
            best = again.sync.search_memory(**ALICE, query=f"zebra {id_}").memories
            similarity = {memory.id: memory.similarity for memory in best}[id_]
            assert similarity == pytest.approx(1.0, abs=1e-5)
    assert uses(path) == {"a": 4, "b": 2, "c": 1}
    assert faults(path) == []


def test_a_row_without_a_vector_gets_one_and_keeps_its_uses(open_service, path):
    with open_service(path) as bare:
        bare.sync.add_memory(**ALICE, memories=told("a", "b"))
        mark(bare, "a")
    with open_service(path, embedder=OLD) as service:
        service.sync.admin.reembed(OLD)  # waits for the vectors
        assert mark(service, "a") == 1
        assert service.sync.admin.stats()["embedded"] == 2
        assert texts(service) == ["zebra a", "zebra b"]
    assert uses(path) == {"a": 2, "b": None}
    assert faults(path) == []


def test_a_snapshot_from_before_the_uses_is_still_good(open_service, path):
    with open_service(path, durability="process") as service:
        ids = [f"m{i}" for i in range(600)]
        service.sync.add_memory(**ALICE, memories=told(*ids))
        assert len(texts(service)) == 600
        file = path.with_name("m.db.snap") / "1.vs"
        end = time.monotonic() + WAIT_S
        while not file.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
    with open_service(path) as service:
        assert mark(service, *ids[:50]) == 50
        service.sync.delete_memory(**ALICE, memory_id="m0")
        assert mark(service, "m0", "m1") == 1
    with open_service(path) as service:
        assert len(texts(service)) == 599
        rows = service._memory.search_index.partitions.read_rows(
            ("app", "alice"), [(1 << 32) + 2]
        )
        assert [row.uses for row in rows] == [2]
        assert mark(service, *ids) == 599


def test_copies_have_the_uses(open_service, service, path, tmp_path):
    """A backup, a purge, and what is saved of a damaged file."""
    before = uses(path), used_at(path)
    assert before[0] == {"a": 2, "b": 1, "c": None}
    service.sync.admin.backup(tmp_path / "copy.db")
    service.sync.admin.purge()
    service.close()
    assert (uses(path), used_at(path)) == before
    assert recover_file(path, tmp_path / "saved.db") == (4, 0, 0, 0)
    for copy in (tmp_path / "copy.db", tmp_path / "saved.db"):
        assert (uses(copy), used_at(copy)) == before
        assert faults(copy) == []
        with open_service(copy, embedder=OLD) as again:
            assert texts(again) == ["zebra a", "zebra b", "zebra c"]
            assert mark(again, "a") == 1


def test_an_export_of_an_import_is_the_same_byte_for_byte(
    open_service, service, path, tmp_path
):
    out, again = tmp_path / "out", tmp_path / "again"
    assert service.sync.admin.export_jsonl(out) == 4
    with open_service(tmp_path / "new.db", embedder=OLD) as other:
        assert other.sync.admin.import_jsonl(out) == 4
        assert texts(other) == ["zebra a", "zebra b", "zebra c"]
        other.sync.admin.export_jsonl(again)
    assert again.read_bytes() == out.read_bytes()
    assert uses(tmp_path / "new.db") == {"a": 2, "b": 1, "c": None}
    assert used_at(tmp_path / "new.db") == used_at(path)


def rewritten(out: Path, **fields: Any) -> Path:
    """An export in which alice's memory a, in bob's name too, says something else."""
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    for line in lines:
        if line.get("mem", {}).get("id") == "a":
            line["mem"] = {**line["mem"], **fields}
            line["mem"] = {k: v for k, v in line["mem"].items() if v is not ...}
    new = out.with_name("rewritten")
    new.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return new


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("uses", -1),
        ("uses", 2**31),
        ("uses", 1.5),
        ("uses", "2"),
        ("uses", True),
        ("uses", [1]),
        ("last_used", "2026-01-01T00:00:00Z"),
        ("last_used", float("nan")),
        ("last_used", 1e300),
        ("last_used", True),
        ("last_used", {}),
    ],
)
def test_a_damaged_use_in_an_export_is_refused(
    open_service, service, tmp_path, field, value
):
    service.sync.admin.export_jsonl(tmp_path / "out")
    bad = rewritten(tmp_path / "out", **{field: value})
    with open_service(tmp_path / "new.db", embedder=OLD) as other:
        with pytest.raises(InvalidArgumentError, match=rf"line 3: {field}"):
            other.sync.admin.import_jsonl(bad)
        assert other.sync.admin.stats()["memories"] == 0


def test_an_import_never_takes_a_use_away(open_service, service, path, tmp_path):
    """Of a memory that it replaces the greater count is kept, and the later time."""
    service.sync.admin.export_jsonl(tmp_path / "out")
    at = used_at(path)["a"]
    assert at is not None
    now = time.time()
    later = now + 10
    for told_, kept in (
        ({"uses": ..., "last_used": ...}, (2, at)),  # from before uses were counted
        ({"uses": 1, "last_used": 5.0}, (2, at)),
        ({"uses": 9, "last_used": 6.0}, (9, at)),
        ({"uses": 4, "last_used": now}, (9, now)),
    ):
        later += 1
        newer = rewritten(tmp_path / "out", updated_at=later, **told_)
        assert service.sync.admin.import_jsonl(newer) == 2
        assert (uses(path)["a"], used_at(path)["a"]) == kept
        assert texts(service) == ["zebra a", "zebra b", "zebra c"]
    most = 2**31 - 1
    full = rewritten(tmp_path / "out", updated_at=later + 1, uses=most)
    service.sync.admin.import_jsonl(full)
    assert mark(service, "a") == 1
    assert uses(path)["a"] == most, "an import takes no more"
    assert texts(service) == ["zebra a", "zebra b", "zebra c"]
    service.close()
    assert faults(path) == []
