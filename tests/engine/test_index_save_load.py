"""Index.save and Index.load: the same answers, whole files, untrusted bytes."""

from __future__ import annotations

import os
import stat
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.engines import KEY
from helpers.indexes import assert_same_answers, ids_of, made, random_vectors
from helpers.processes import run
from vecall import Engine, Index
from vecall.errors import CorruptFileError, IncompatibleFileError, StorageError

KINDS = ["auto", "flat", "hnsw"]
CODECS = ["int4", "int4+8", "int4+8+4"]
HEADER, ENTRY, ENTRIES = 128, 16, 24
FRONT = HEADER + ENTRY * ENTRIES


def reloaded(index: Index, folder: Path) -> Index:
    path = folder / "index"
    index.save(path)
    return Index.load(path)


@pytest.mark.parametrize("rows", ["empty", "full", "holes", "tail"])
@pytest.mark.parametrize("dim", [3, 33, 130])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_index_answers_as_the_saved_one_and_goes_on(tmp_path, kind, dim, rows):
    for codec in CODECS:
        for floats in (False, True):
            index = made(kind, codec, dim, floats=floats, rows=rows)
            if rows != "tail":
                loaded = reloaded(index, tmp_path)
            else:
                # Which rows wait is the background's affair; a copy of a copy has them.
                index = reloaded(index, tmp_path)
                index.build()
                loaded = reloaded(index, tmp_path)
            assert_same_answers(index, loaded, dim)
            assert [i in loaded for i in range(420)] == [i in index for i in range(420)]
            new = random_vectors(7, 60, dim)
            for one in (index, loaded):
                one.add(np.arange(290, 350), new)
                assert one.remove(np.arange(100, 120)) == (
                    0 if rows == "empty" else 16 if rows in ("holes", "tail") else 20
                )
                one.build()
            assert len(index) == len(loaded)
            for one in (index, loaded):
                for at in range(0, 60, 7):
                    found = one.search(new[at], 1, 400, exact=True)[0]
                    assert found.tolist() == [290 + at]


def test_a_scan_by_signs_is_the_same_after_loading(tmp_path):
    """Signs are in no snapshot: they are made from the codes that are."""
    vectors = random_vectors(3, 5_000, 130)
    index = Index(130, "flat")
    index.add(np.arange(5_000), vectors)
    index.remove(np.arange(0, 5_000, 9))
    loaded = reloaded(index, tmp_path)
    assert loaded.nbytes == pytest.approx(index.nbytes, rel=0.1)
    near = vectors[:100] + 0.5 * random_vectors(4, 100, 130)
    for a, b in zip(
        index.search_batch(near, 5), loaded.search_batch(near, 5), strict=True
    ):
        assert a.tobytes() == b.tobytes()
    for other in (index, loaded):
        other.add(np.arange(0, 5_000, 9), near[:1].repeat(556, 0))
        assert other.search(near[0], 3)[0].tolist() == [0, 9, 18]


def test_the_rows_of_a_loaded_index_are_found_by_id_where_most_were_removed(tmp_path):
    # Few rows are looked through, but these stand far behind, in the third chunk.
    vectors = random_vectors(3, 10_000, 8)
    index = Index(8)
    index.add(np.arange(10_000), vectors)
    index.remove(np.arange(9_900))
    loaded = reloaded(index, tmp_path)
    assert all(i in loaded for i in range(9_900, 10_000))
    assert 5 not in loaded
    assert loaded.search(vectors[9_950], 3, only=ids_of(9_950))[0].tolist() == [9_950]
    loaded.add(ids_of(9_950), vectors[:1])  # replaces
    assert len(loaded) == 100
    assert loaded.remove(np.arange(10_000)) == 100
    assert len(loaded) == 0


def test_a_snapshot_of_a_snapshot_is_the_same_bytes(tmp_path):
    index = made("hnsw", "int4+8", 40, floats=True, rows="holes")
    index.save(tmp_path / "one")
    Index.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_is_its_owners_alone_and_replaces_the_old_one(tmp_path):
    path = tmp_path / "index"
    path.write_bytes(b"old")
    path.chmod(0o644)
    made("flat", "int4+8", 8, floats=False, rows="full").save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    assert len(Index.load(path)) == 300


SAVE_TOO_LARGE = """
    import resource, signal, sys
    import numpy as np
    from vecall import Index
    from vecall.errors import StorageError

    index = Index(64)
    index.add(np.arange(500), np.eye(500, 64, dtype=np.float32) + np.float32(0.1))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
    try:
        index.save(sys.argv[1])
    except StorageError as error:
        assert sys.argv[1] not in str(error)
        print("refused")
"""


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "index"
    index = made("flat", "int4+8", 8, floats=False, rows="full")
    index.save(path)
    before = path.read_bytes()
    assert (
        run(textwrap.dedent(SAVE_TOO_LARGE), path, timeout_s=600).stdout == "refused\n"
    )
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    for bad in (tmp_path / "none" / "index", tmp_path, path / "below"):
        with pytest.raises(StorageError):
            index.save(bad)
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}.*"))


def test_files_that_are_no_snapshots_have_their_errors(tmp_path):
    for missing in (tmp_path / "none", tmp_path, tmp_path / "none" / "none"):
        with pytest.raises(StorageError):
            Index.load(missing)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "foreign").write_bytes(b"SQLite format 3\0" + bytes(5000))
    for name in ("empty", "foreign"):
        with pytest.raises(IncompatibleFileError):
            Index.load(tmp_path / name)


def small(folder: Path) -> bytes:
    """A graph, holes and a float32 column in less than 3 KB."""
    index = Index(3, "hnsw", 2, 4, "int4", keep_float32=True)
    index.add(np.arange(9), random_vectors(5, 9, 3))
    index.build()
    index.remove(ids_of(2, 7))
    index.save(folder / "small")
    return (folder / "small").read_bytes()


def test_every_flipped_bit_and_every_cut_is_refused(tmp_path):
    whole = small(tmp_path)
    assert len(whole) < 3000
    engine = Engine(3, codec="int4", keep_float32=True)
    engine.restore(KEY, whole)
    path = tmp_path / "damaged"
    tried = 0

    def assert_refused(damaged: bytes) -> None:
        nonlocal tried
        with pytest.raises((CorruptFileError, IncompatibleFileError)):
            engine.restore(KEY, damaged)
        tried += 1
        if tried % 50 == 0:  # files are read the same way, but slowly
            path.write_bytes(damaged)
            with pytest.raises((CorruptFileError, IncompatibleFileError)):
                Index.load(path)

    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert_refused(bytes(damaged))
    for length in range(len(whole)):
        assert_refused(whole[:length])
    for more in (b"\0", bytes(64), whole):
        assert_refused(whole + more)
    assert engine.size(KEY) == 7


def test_nothing_of_a_removed_row_is_saved_but_the_graphs_4_bit_code(tmp_path):
    # Values that are easy to find again: ids, and float32 vectors of one direction.
    secret_ids = np.array([0x1122334455667788 + i for i in range(5)], dtype=np.int64)
    axis = np.eye(5, 40, dtype=np.float32)[[4] * 5] + np.float32(1e-3)
    for kind in KINDS:
        index = Index(40, kind, 4, 20, "int4+8+4", keep_float32=True)
        index.add(np.arange(50), random_vectors(8, 50, 40))
        index.build()
        index.save(tmp_path / "without")
        index.add(secret_ids, axis)
        index.build()
        index.save(tmp_path / "with")
        index.remove(secret_ids)
        index.save(tmp_path / "after")
        told, after = ((tmp_path / n).read_bytes() for n in ("with", "after"))
        unit = (axis[0] / np.linalg.norm(axis[0].astype(np.float64))).astype("<f4")
        for secret in [*(i.tobytes() for i in secret_ids), unit[:4].tobytes()]:
            assert secret in told
            assert secret not in after
        columns, bare = sections(told), sections(after)
        slots = 55
        for kind_of_section in (2, 3, 4, 6, 8):  # low, rest, floats, steps, ids
            width = len(columns[kind_of_section]) // slots
            assert not any(bare[kind_of_section][50 * width :])


def sections(snapshot: bytes) -> dict[int, bytes]:
    count = int.from_bytes(snapshot[112:116], "little")
    found, at = {}, FRONT
    for i in range(count):
        entry = snapshot[HEADER + ENTRY * i :][:ENTRY]
        kind, size = (
            int.from_bytes(entry[:4], "little"),
            int.from_bytes(entry[8:], "little"),
        )
        found[kind] = snapshot[at : at + size]
        at += (size + 63) // 64 * 64
    return found


def test_a_fifo_is_refused_at_once_not_waited_for(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    errors: list[BaseException] = []

    def load() -> None:
        try:
            Index.load(path)
        except StorageError as error:
            errors.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join(20)
    waits = thread.is_alive()
    if waits:  # a writer lets it go
        os.close(os.open(path, os.O_WRONLY))
        thread.join()
    assert not waits
    assert len(errors) == 1


def test_a_save_that_fails_leaves_what_stood_there(tmp_path):
    # A folder that may be written and not read cannot be synced.
    result = run(
        textwrap.dedent(
            """
            import os, sys
            import numpy as np
            from vecall import Index
            from vecall.errors import StorageError
            folder = sys.argv[1]
            os.chdir(folder)
            if os.getuid() == 0:
                os.chown(".", 65533, 65533)
                os.setgid(65533)
                os.setuid(65533)
            index = Index(4)
            index.add([1], np.ones((1, 4), np.float32))
            index.save("old")
            index.add([2], np.ones((1, 4), np.float32))
            os.chmod(".", 0o300)
            for name in ("old", "new"):
                try:
                    index.save(name)
                except StorageError:
                    print("refused")
            os.chmod(".", 0o700)
            print(len(Index.load("old")), sorted(os.listdir(".")))
            """
        ),
        tmp_path,
        imports="numpy",
    )
    assert result.stdout.split("\n")[:3] == ["refused", "refused", "1 ['old']"]
