"""Items in the operations on a whole file: deletion, purge, export, backup, doctor."""

from __future__ import annotations

import sqlite3

import pytest
from vecall import EmbeddingMismatchError, Put, ReadOnlyError
from vecall.cli.main import main

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}
NOTES = ("notes",)


def test_deleting_a_user_or_an_app_deletes_the_items(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    items = service.items.sync
    for forget in (False, True):
        for who in (ALICE, BOB):
            items.write([Put(("xyzzy",), "xyzzy", "xyzzy", [1.0, 2.0])], **who)
        service.sync.delete_user(**ALICE, forget=forget)
        assert items.find(vector=[1.0, 2.0], **ALICE) == []
        assert items.count(**BOB) == 1
        service.admin.sync.delete_app(app_name="app", confirm=True, forget=forget)
        assert items.count(**BOB) == 0
    service.admin.sync.purge()
    service.close()
    assert b"xyzzy" not in path.read_bytes()
    assert b"alice" not in path.read_bytes()


def test_a_purge_leaves_items_and_the_names_of_their_users(open_service, tmp_path):
    service = open_service(tmp_path / "m.db")
    items = service.items.sync
    items.write([Put(NOTES, "k", 1, [1.0, 2.0])], **ALICE)
    service.admin.sync.purge()
    assert [i.value for i in items.find(vector=[1, 1], **ALICE)] == [1]


def test_items_cross_an_export_and_a_backup(open_service, tmp_path):
    service = open_service(tmp_path / "m.db")
    batch = [
        Put(("a", "b\x1f"), "k", {"z": 1, "a": None}, [[1.0, 2.0], [3.0, 4.0]]),
        Put(NOTES, "none", None),
        Put(NOTES, "late", [1], ttl=1000),
    ]
    service.items.sync.write(batch, embedder="e", **ALICE)
    service.admin.sync.export_jsonl(tmp_path / "all.jsonl")
    service.admin.sync.backup(tmp_path / "copy.db")
    other = open_service(tmp_path / "new.db")
    for _ in range(2):
        other.admin.sync.import_jsonl(tmp_path / "all.jsonl")
        other.admin.sync.export_jsonl(tmp_path / f"again{_}.jsonl")
        same = (tmp_path / f"again{_}.jsonl").read_text()
        assert same == (tmp_path / "all.jsonl").read_text()
    copy = open_service(tmp_path / "copy.db")
    for one in (other, copy):
        found = one.items.sync.find(vector=[1.0, 2.0], **ALICE)
        assert [item.value for item in found] == [{"z": 1, "a": None}, [1], None]
        assert found[0].score == pytest.approx(1.0)
        with pytest.raises(EmbeddingMismatchError):
            one.items.sync.find(vector=[1.0, 2.0], embedder="x", **ALICE)
    # A newer item of the target stays.
    other.items.sync.write([Put(NOTES, "none", "newer")], **ALICE)
    other.admin.sync.import_jsonl(tmp_path / "all.jsonl")
    assert other.items.sync.get([(NOTES, "none")], **ALICE)[0].value == "newer"


def test_a_damaged_item_is_reported_set_aside_and_the_others_recovered(
    open_service, tmp_path, capsys
):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.items.sync.write([Put(NOTES, k, k, [1.0, 2.0]) for k in "abc"], **ALICE)
    service.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE item SET value = '\"x\"' WHERE key = 'b'")
    connection.commit()
    connection.close()
    assert main(["doctor", "--path", str(path)]) != 0
    assert "1 of 3 fail their checksum" in capsys.readouterr().out
    main(["doctor", "--path", str(path), "--recover", str(tmp_path / "saved.db")])
    said = capsys.readouterr().out
    assert f"0 memories saved to {tmp_path / 'saved.db'}, 0 lost" in said
    assert f"2 items saved to {tmp_path / 'saved.db'}, 1 lost" in said
    assert main(["doctor", "--path", str(path), "--repair"]) == 0
    for name in ("m.db", "saved.db"):
        items = open_service(tmp_path / name).items.sync
        found = items.find(vector=[1.0, 2.0], **ALICE)
        assert sorted(item.value for item in found) == ["a", "c"]
        assert found[0].score == pytest.approx(1.0)


def test_a_read_only_service_reads_and_searches_items(open_service, tmp_path):
    service = open_service(tmp_path / "m.db")
    service.items.sync.write([Put(NOTES, "k", 1, [1.0, 2.0], ttl=90)], **ALICE)
    service.close()
    items = open_service(tmp_path / "m.db", read_only=True).items.sync
    assert items.get([(NOTES, "k")], refresh=True, **ALICE)[0].value == 1
    assert len(items.find(vector=[1.0, 2.0], **ALICE)) == 1
    with pytest.raises(ReadOnlyError):
        items.write([Put(NOTES, "k", 2)], **ALICE)
