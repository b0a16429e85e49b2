"""Index.load(mmap=True): the answers of a plain load, read only, untrusted bytes."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.engines import KEY
from helpers.indexes import (
    assert_same_answers,
    filled,
    found_ids,
    ids_of,
    made,
    random_vectors,
)
from vecall import Engine, Index
from vecall.errors import (
    CorruptFileError,
    IncompatibleFileError,
    MissingFileError,
    ReadOnlyError,
    StorageError,
)

HEADER, ENTRY, ENTRIES = 128, 16, 24
FRONT = HEADER + ENTRY * ENTRIES
BOTH = [False, True]  # whether the file was saved to be mapped


@pytest.mark.parametrize("for_mapping", BOTH)
@pytest.mark.parametrize("rows", ["empty", "full", "holes", "tail"])
@pytest.mark.parametrize("dim", [3, 33, 130])
@pytest.mark.parametrize("kind", ["auto", "flat", "hnsw"])
def test_a_mapped_index_answers_as_a_loaded_one(tmp_path, kind, dim, rows, for_mapping):
    path = tmp_path / "index"
    for codec in ("int4", "int4+8", "int4+8+4"):
        for floats in (False, True):
            made(kind, codec, dim, floats=floats, rows=rows).save(
                path, mmap=for_mapping
            )
            mapped, loaded = Index.load(path, mmap=True), Index.load(path)
            queries = random_vectors(4, 5, dim)
            if rows != "tail":
                assert_same_answers(mapped, loaded, dim)
            for query in queries:  # in the tail, the background links rows of one
                a, b = (one.search(query, 9, exact=True) for one in (mapped, loaded))
                assert [x.tobytes() for x in a] == [x.tobytes() for x in b]
                assert mapped.search(query, 400)[0].size == len(loaded)
            assert mapped.ids.tolist() == loaded.ids.tolist()
            assert [i in mapped for i in range(420)] == [
                i in loaded for i in range(420)
            ]
            for a, b in zip(
                mapped.search_batch(queries, 9, exact=True),
                loaded.search_batch(queries, 9, exact=True),
                strict=True,
            ):
                assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("for_mapping", BOTH)
def test_several_chunks_with_a_graph_answer_as_loaded_and_as_numpy(
    tmp_path, for_mapping
):
    vectors = random_vectors(1, 9_000, 64)
    vectors[4_000:4_200] = vectors[8_000:8_200]  # copies, which searches begin at
    index = Index(64, "hnsw", m=5, keep_float32=True)  # lists of no whole lines
    index.add(np.arange(9_000), vectors)
    index.build()
    index.remove(np.arange(0, 9_000, 11))
    index.save(tmp_path / "index", mmap=for_mapping)
    mapped, loaded = (Index.load(tmp_path / "index", mmap=m) for m in (True, False))
    assert mapped.linked == loaded.linked == len(mapped)
    queries = np.concatenate([vectors[4_000:4_050], random_vectors(2, 50, 64)])
    kept = np.array([i for i in range(9_000) if i % 11])
    unit = vectors[kept].astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for query in queries:
        for asked in ({}, {"exact": True}, {"only": kept[::7]}, {"ef": 400}):
            a, b = (one.search(query, 10, **asked) for one in (mapped, loaded))
            assert [x.tobytes() for x in a] == [x.tobytes() for x in b]
        cosines = unit @ query.astype(np.float64) / np.linalg.norm(query)
        best = np.sort(cosines)[::-1][:10]
        found = mapped.search(query, 10, exact=True)
        assert found[1] == pytest.approx(best, abs=1e-5)
        at = np.searchsorted(kept, found[0])
        assert found[1] == pytest.approx(cosines[at], abs=1e-5)


def test_threads_may_be_the_first_to_scan_by_signs(tmp_path):
    """Signs are in no file: the first scan makes them, in whichever thread."""
    vectors = random_vectors(3, 13_000, 130)
    filled(vectors).save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    near = vectors[:40] + 0.5 * random_vectors(4, 40, 130)
    wanted = [[x.tobytes() for x in loaded.search(q, 5, exact=True)] for q in near]
    mapped = Index.load(tmp_path / "index", mmap=True)
    before = mapped.nbytes
    found: dict[int, list] = {}

    def search(number: int) -> None:
        found[number] = [
            [x.tobytes() for x in mapped.search(q, 5, exact=True)] for q in near
        ]

    threads = [threading.Thread(target=search, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(4)] == [wanted] * 4
    assert before < mapped.nbytes < loaded.nbytes / 4


def test_a_mapped_index_cannot_be_changed_and_says_so(tmp_path):
    path = tmp_path / "index"
    made("hnsw", "int4+8", 8, floats=False, rows="full").save(path)
    before = path.read_bytes()
    mapped = Index.load(path, mmap=True)
    vector = np.ones((1, 8), np.float32)
    for change in (
        lambda: mapped.add([7], vector),
        lambda: mapped.add([], vector[:0]),
        lambda: mapped.remove([7]),
        lambda: mapped.remove([]),
        mapped.build,
    ):
        with pytest.raises(ReadOnlyError, match="load it without mmap"):
            change()
    assert len(mapped) == 300
    assert path.read_bytes() == before
    assert repr(mapped).endswith(", mmap)")
    assert "mmap" not in repr(Index.load(path))


def test_a_file_may_be_replaced_and_deleted_while_it_is_mapped(tmp_path):
    path = tmp_path / "index"
    vectors = random_vectors(1, 500, 24)
    filled(vectors).save(path)
    mapped = Index.load(path, mmap=True)
    filled(vectors[:3]).save(path)
    again = Index.load(path, mmap=True)
    assert (len(mapped), len(again)) == (500, 3)
    mapped.save(path)  # over the file that another index maps
    path.unlink()
    assert found_ids(again, vectors[2], 1) == [2]
    assert [found_ids(mapped, vectors[at], 1) for at in (0, 499)] == [[0], [499]]


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_what_is_mapped_is_saved_and_pickled_as_what_is_loaded(tmp_path, kind):
    index = made(kind, "int4+8", 40, floats=True, rows="holes")
    index.save(tmp_path / "plain")
    index.save(tmp_path / "more", mmap=True)
    plain, more = ((tmp_path / name).read_bytes() for name in ("plain", "more"))
    assert (plain == more) == (kind == "flat")  # a graph's lists of copies
    for name in ("plain", "more"):
        for mmap in BOTH:
            one = Index.load(tmp_path / name, mmap=mmap)
            one.save(tmp_path / "again")
            assert (tmp_path / "again").read_bytes() == plain
            one.save(tmp_path / "again", mmap=True)
            assert (tmp_path / "again").read_bytes() == more
            copy = pickle.loads(pickle.dumps(one))
            copy.add([7_000], np.ones((1, 40), np.float32))
            assert (7_000 in copy, 7_000 in one) == (True, False)


def test_a_child_of_fork_searches_what_its_parent_mapped(tmp_path):
    vectors = random_vectors(1, 500, 24)
    filled(vectors).save(tmp_path / "index")
    mapped = Index.load(tmp_path / "index", mmap=True)
    child = os.fork()
    if child == 0:  # no table of ids yet
        right = 7 in mapped and found_ids(mapped, vectors[7], 1) == [7]
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_files_that_cannot_be_mapped_have_their_errors(references, tmp_path):
    with pytest.raises(MissingFileError):
        Index.load(tmp_path / "none", mmap=True)
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe"):
        with pytest.raises(StorageError):
            Index.load(tmp_path / name, mmap=True)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "foreign").write_bytes(b"SQLite format 3\0" + bytes(5000))
    engine = Engine(4)
    references.add_rows(
        engine, KEY, [references.Row(1, (7,), np.ones(4, np.float32), session=3)]
    )
    (tmp_path / "times").write_bytes(engine.snapshot(KEY))
    for name in ("empty", "foreign", "times"):
        with pytest.raises(IncompatibleFileError):
            Index.load(tmp_path / name, mmap=True)
    assert len(Index.load(tmp_path / "times")) == 1


def small(path: Path) -> bytes:
    """A graph of two levels, holes and a float32 column."""
    index = Index(3, "hnsw", 2, 4, "int4", keep_float32=True)
    index.add(np.arange(9), random_vectors(5, 9, 3))
    index.build()
    index.remove(ids_of(2, 7))
    index.save(path)
    return path.read_bytes()


def searched(path: Path) -> str:
    """Every kind of search, which must answer or raise a typed error."""
    try:
        mapped = Index.load(path, mmap=True)
    except (CorruptFileError, IncompatibleFileError):
        return "refused"
    query = np.ones(3, np.float32)
    for asked in ({}, {"exact": True}, {"ef": 1}):
        ids, scores = mapped.search(query, 9, **asked)
        assert len(ids) == len(scores) <= 9
    try:
        mapped.search(query, 9, only=ids_of(1, 3))
        list(mapped)
        pickle.dumps(mapped)
    except CorruptFileError:
        return "found out"
    return "read"


def test_a_cut_file_is_refused_when_it_is_opened(tmp_path):
    whole = small(tmp_path / "small")
    path = tmp_path / "cut"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert searched(path) == "refused"
    for more in (b"\0", bytes(64)):
        path.write_bytes(whole + more)
        assert searched(path) == "refused"


def test_no_flipped_bit_goes_into_a_saved_file(tmp_path):
    whole = small(tmp_path / "small")
    path = tmp_path / "damaged"
    seen = set()
    for bit in range(0, len(whole) * 8, 5):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        seen.add(searched(path))
    assert seen == {"refused", "found out"}


CRC_TABLE = np.zeros(256, np.uint64)
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = _crc >> 1 ^ (0x82F63B78 if _crc & 1 else 0)
    CRC_TABLE[_byte] = _crc


def crc32c(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = int(CRC_TABLE[(crc ^ byte) & 255]) ^ crc >> 8
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def places(snapshot: bytes) -> dict[int, tuple[int, int, int]]:
    """Where each section's entry and bytes are, and how many."""
    found, at = {}, FRONT
    for i in range(int.from_bytes(snapshot[112:116], "little")):
        entry = HEADER + ENTRY * i
        kind = int.from_bytes(snapshot[entry : entry + 4], "little")
        size = int.from_bytes(snapshot[entry + 8 : entry + 16], "little")
        found[kind] = entry, at, size
        at += (size + 63) // 64 * 64
    return found


def forged(snapshot: bytes, kind: int, at: int, new: bytes) -> bytes:
    """Other bytes in a section, with the checksums of an attacker who knows how."""
    made = bytearray(snapshot)
    entry, begin, size = places(snapshot)[kind]
    made[begin + at : begin + at + len(new)] = new
    made[entry + 4 : entry + 8] = crc32c(bytes(made[begin : begin + size]))
    made[HEADER - 4 : HEADER] = bytes(4)
    made[HEADER - 4 : HEADER] = crc32c(bytes(made[:FRONT]))
    return bytes(made)


@pytest.mark.parametrize("for_mapping", BOTH)
def test_forged_sections_are_answered_or_refused_and_never_crash(tmp_path, for_mapping):
    small(tmp_path / "small")
    Index.load(tmp_path / "small").save(tmp_path / "small", mmap=for_mapping)
    whole = (tmp_path / "small").read_bytes()
    assert forged(whole, 8, 0, b"") == whole
    path = tmp_path / "forged"
    rng = np.random.default_rng(1)
    tried = set()
    for kind, (_, _, size) in places(whole).items():
        for _ in range(60):
            at = int(rng.integers(0, max(1, min(size, 600) // 2))) * 2
            new = rng.bytes(4) if rng.integers(2) else b"\xff\xff\xff\x7f"
            path.write_bytes(forged(whole, kind, at, new[: size - at]))
            tried.add((kind, searched(path)))
    assert {kind for kind, _ in tried} == set(places(whole))
    assert (7, "refused") in tried  # flags that contradict each other
    assert (18, "read") in tried  # links
    assert not for_mapping or (21, "refused") in tried  # lists of copies


def test_two_rows_of_one_id_are_found_out_by_the_first_look_for_an_id(tmp_path):
    vectors = random_vectors(1, 400, 8)
    filled(vectors).save(tmp_path / "index")
    whole = (tmp_path / "index").read_bytes()
    (tmp_path / "index").write_bytes(
        forged(whole, 8, 8 * 20, (21).to_bytes(8, "little"))
    )
    mapped = Index.load(tmp_path / "index", mmap=True)
    assert found_ids(mapped, vectors[3], 1) == [3]
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="two rows have one id"):
            mapped.search(vectors[3], 1, only=ids_of(3))
        with pytest.raises(CorruptFileError, match="two rows have one id"):
            3 in mapped  # noqa: B015


def test_a_number_that_is_none_comes_last(tmp_path):
    index = Index(3, "flat", keep_float32=True)
    vectors = random_vectors(1, 50, 3)
    index.add(np.arange(50), vectors)
    index.save(tmp_path / "index")
    whole = (tmp_path / "index").read_bytes()
    nan = np.full(3, np.nan, "<f4").tobytes()
    width = places(whole)[4][2] // 50
    (tmp_path / "index").write_bytes(forged(whole, 4, 7 * width, nan))
    with pytest.raises(CorruptFileError):
        Index.load(tmp_path / "index")
    ids, scores = Index.load(tmp_path / "index", mmap=True).search(vectors[0], 50)
    assert len(ids) == 50
    assert ids[-1] == 7
    assert np.isfinite(scores).all()
