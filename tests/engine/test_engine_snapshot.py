"""Engine.snapshot and Engine.restore: whole partitions, and bytes that lie cleverly."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from helpers.campaigns import SCALE, scaled
from helpers.engines import KEY, NEVER, random_query, random_row
from helpers.processes import run
from vecall import Engine
from vecall.errors import (
    CorruptFileError,
    IncompatibleFileError,
    InvalidArgumentError,
    InvalidTypeError,
)

OTHER = ("app", "other")


def filled(references, dim: int, seed: int, **options) -> Engine:
    """Rows of all that a row can have, some removed and some replaced."""
    engine = Engine(dim, m=4, ef_construction=20, **options)
    rng = np.random.default_rng(seed)
    rows = []
    for row_id in range(220):
        row = random_row(references, rng, row_id, dim)
        rows.append(
            references.Row(
                **{**row.__dict__, "author": row_id % 4, "kind": row_id % 3 * 10**18}
            )
        )
    references.add_rows(engine, KEY, rows[:150])
    engine.remove(KEY, np.arange(0, 150, 4))
    references.add_rows(engine, KEY, rows[150:] + rows[:30])
    engine.remove(KEY, np.arange(5, 220, 9))
    return engine


def assert_same_answers(
    references, a: Engine, key_a, b: Engine, key_b, dim: int
) -> None:
    rng = np.random.default_rng(4)
    assert a.size(key_a) == b.size(key_b)
    for at in range(60):
        query = random_query(references, rng, dim)
        query.options["author"] = [None, 0, 1, 9][at % 4]
        query.options["kind"] = [None, None, 10**18, 0, 5][at % 5]
        if at % 7 == 0:
            query.options["only"] = np.arange(0, 220, 3)
        first = references.ask(a, key_a, query)
        second = references.ask(b, key_b, query)
        assert [x.tobytes() for x in first] == [x.tobytes() for x in second]


@pytest.mark.parametrize("dim", [0, 4, 40])
@pytest.mark.parametrize("kind", ["auto", "flat", "hnsw"])
def test_a_restored_partition_recalls_the_same_scores_by_every_filter(
    references, dim, kind
):
    engine = filled(references, dim, 1, kind=kind, flat_bytes=1000)
    # A copy that the background does not touch any more: it is all in the graph.
    other = Engine(dim, kind="flat", m=4, ef_construction=20)
    other.restore(OTHER, engine.snapshot(KEY))
    again = Engine(dim, kind="flat", m=4, ef_construction=20)
    again.restore(KEY, other.snapshot(OTHER))
    assert_same_answers(references, other, OTHER, again, KEY, dim)
    if kind == "flat":
        assert_same_answers(references, engine, KEY, again, KEY, dim)
    # Both go on, with rows that join the sessions and names that are there.
    rng = np.random.default_rng(8)
    more = [random_row(references, rng, row_id, dim) for row_id in range(200, 260)]
    for one, key in ((other, OTHER), (again, KEY)):
        references.add_rows(one, key, more)
        one.remove(key, np.arange(50, 90))
    assert_same_answers(references, other, OTHER, again, KEY, dim)


def test_a_snapshot_of_a_graph_is_restored_with_it(references):
    engine = filled(references, 40, 2, kind="hnsw")
    engine.restore(OTHER, engine.snapshot(KEY))
    query = np.random.default_rng(3).standard_normal(40).astype(np.float32)
    found = [engine.search(key, query, 20, exact=True) for key in (KEY, OTHER)]
    assert [x.tobytes() for x in found[0]] == [x.tobytes() for x in found[1]]


def test_tags_come_back_and_are_at_most_48_bytes(references):
    engine = filled(references, 4, 1)
    for tag in (b"", b"epoch 7", bytes(range(48))):
        snapshot = engine.snapshot(KEY, tag)
        assert engine.restore(OTHER, snapshot) == tag.ljust(48, b"\0")
    with pytest.raises(InvalidArgumentError):
        engine.snapshot(KEY, bytes(49))
    for wrong in ("text", None, 5):
        with pytest.raises(InvalidTypeError):
            engine.snapshot(KEY, wrong)
        with pytest.raises(InvalidTypeError):
            engine.restore(KEY, wrong)


def test_an_unknown_key_has_no_snapshot_and_restore_replaces(references):
    engine = filled(references, 4, 1)
    assert engine.snapshot(("app", "nobody")) is None
    assert ("app", "nobody") not in engine
    engine.add(OTHER, np.arange(500, 510), np.ones((10, 4), np.float32))
    engine.restore(OTHER, engine.snapshot(KEY))
    assert engine.size(OTHER) == engine.size(KEY)
    assert 505 not in engine.search(OTHER, np.ones(4, np.float32), 999)[0]
    size = engine.size(OTHER)
    engine.drop(KEY)
    assert engine.size(OTHER) == size


def test_what_cannot_be_held_or_is_damaged_changes_nothing(references):
    snapshot = filled(references, 40, 1).snapshot(KEY)
    for dim, options in (
        (41, {}),
        (0, {}),
        (40, {"codec": "int4"}),
        (40, {"keep_float32": True}),
    ):
        engine = Engine(dim, **options)
        with pytest.raises(IncompatibleFileError):
            engine.restore(KEY, snapshot)
        assert len(engine) == 0
    engine = filled(references, 40, 2, kind="flat")
    twin = filled(references, 40, 2, kind="flat")
    rng = np.random.default_rng(1)
    for _ in range(100):
        damaged = bytearray(snapshot)
        damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
        with pytest.raises((CorruptFileError, IncompatibleFileError)):
            engine.restore(KEY, bytes(damaged))
    with pytest.raises(IncompatibleFileError):
        engine.restore(KEY, b"")
    assert_same_answers(references, engine, KEY, twin, KEY, 40)


def test_nothing_of_a_removed_row_is_in_a_snapshot():
    secret = 0x1122334455667788
    columns = {
        "ids": np.array([1, secret]),
        "times": np.array([5, secret + 1]),
        "expires": np.array([NEVER, secret + 2]),
        "sessions": np.array([3, secret + 3], np.uint64),
        "positions": np.array([0, 12345.678901]),
        "terms": np.array([4, secret + 4], np.uint64),
        "offsets": np.array([0, 1, 2]),
        "vectors": np.eye(2, 40, dtype=np.float32) + np.float32(0.01),
        "authors": np.array([6, secret + 5], np.uint64),
        "kinds": np.array([7, secret + 6], np.uint64),
    }
    engine = Engine(40, keep_float32=True)
    engine.add_rows(KEY, **columns)
    told = engine.snapshot(KEY)
    engine.remove(KEY, np.array([secret]))
    after = engine.snapshot(KEY)
    numbers = [(secret + i).to_bytes(8, "little") for i in range(7)]
    for number in (*numbers, np.float64(12345.678901).tobytes()):
        assert number in told
        assert number not in after


# Mutates snapshots, repairs their checksums and uses what is loaded. The number of a
# mutation is printed before it is tried, so that the last one printed is a crash's.
MUTATIONS = """
    import random, struct, sys
    import numpy as np
    from vecall import Engine, Index
    from vecall.errors import CorruptFileError, IncompatibleFileError

    folder, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    REFUSED = (CorruptFileError, IncompatibleFileError)
    FRONT = 128 + 24 * 16
    TABLE = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        TABLE.append(n)

    def crc32c(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
        return crc ^ 0xFFFFFFFF

    def take_apart(data):
        sections, at = [], FRONT
        for i in range(struct.unpack_from("<I", data, 112)[0]):
            kind, _, size = struct.unpack_from("<IIQ", data, 128 + 16 * i)
            sections.append([kind, bytearray(data[at : at + size])])
            at += -(-size // 64) * 64
        return bytearray(data[:128]), sections

    def put_together(header, sections):
        table = b"".join(
            struct.pack("<IIQ", kind, crc32c(b), len(b)) for kind, b in sections
        )
        struct.pack_into("<I", header, 112, len(sections))
        struct.pack_into("<I", header, 124, 0)
        front = bytes(header) + table.ljust(24 * 16, b"\\0")
        front = front[:124] + struct.pack("<I", crc32c(front)) + front[128:]
        return front + b"".join(bytes(b) + bytes(-len(b) % 64) for _, b in sections)

    def snapshots():
        rng = np.random.default_rng(1)
        for dim, kind, codec, floats in (
            (3, "hnsw", "int4", True), (40, "hnsw", "int4+8", False),
            (33, "auto", "int4+8+4", True), (40, "flat", "int4+8", False),
        ):
            n = 24
            engine = Engine(dim, kind=kind, m=2, ef_construction=8, codec=codec,
                            keep_float32=floats, flat_bytes=100)
            engine.add_rows(
                ("a", "u"), np.arange(n), np.arange(n), np.arange(n) + 2**62,
                np.arange(n, dtype=np.uint64) % 4, np.arange(n, dtype=np.int32),
                np.arange(2 * n, dtype=np.uint64) % 9, np.arange(n + 1) * 2,
                rng.standard_normal((n, dim)).astype(np.float32), None,
                np.arange(n, dtype=np.uint64) % 3, np.arange(n, dtype=np.uint64) % 2)
            path = folder + "/whole"
            index = Index(dim, kind, 2, 8, codec, floats, flat_bytes=100)
            index.add(np.arange(n), rng.standard_normal((n, dim)).astype(np.float32))
            index.build()
            index.remove(np.arange(0, n, 5))
            index.save(path, mmap=dim == 40)
            yield dim, kind, codec, floats, open(path, "rb").read()
            engine.remove(("a", "u"), np.arange(0, n, 5))
            yield dim, kind, codec, floats, engine.snapshot(("a", "u"))

    NUMBERS = [0, 1, 2, 7, 8, 9, 23, 24, 25, 63, 127, 128, 255, 256, 4096, 65536,
               2**31 - 1, 2**31, 2**31 + 3, 2**32 - 2, 2**32 - 1, 2**63, 2**64 - 1]
    FLOATS = [0.0, -0.0, -1.0, 1e-45, 1.0, 3e38, -3e38, 1e30, float("inf"),
              float("-inf"), float("nan")]

    def spoil(rnd, data, floats):
        at = rnd.randrange(len(data))
        how = rnd.randrange(4)
        if how == 0:
            data[at] ^= 1 << rnd.randrange(8)
        elif how == 1:
            data[at] = rnd.choice([0, 1, 2, 4, 5, 8, 9, 13, 15, 127, 128, 255])
        else:
            size = rnd.choice([4, 4, 8])
            at -= at % size
            if at + size > len(data):
                return
            number = rnd.choice(NUMBERS) % 2 ** (8 * size)
            new = number.to_bytes(size, "little")
            data[at : at + size] = (
                struct.pack("<f", rnd.choice(FLOATS)) if floats and how == 2 else new)

    def mutate(rnd, header, sections):
        for _ in range(rnd.choice([1, 1, 2, 5])):
            how = rnd.randrange(12)
            chosen = rnd.choice(sections)
            if how == 0:
                spoil(rnd, header, False)
            elif how == 1:
                sections.remove(chosen)
                if not sections:
                    sections.append(chosen)
            elif how == 2:
                sections.insert(rnd.randrange(len(sections)), [chosen[0], chosen[1][:]])
            elif how == 3:
                chosen[0] = rnd.randrange(22)
            elif how == 4:
                del chosen[1][rnd.randrange(len(chosen[1]) + 1) :]
            elif how == 5:
                chosen[1] += bytes(rnd.choice([1, 4, 8, 64]))
            elif chosen[1]:
                spoil(rnd, chosen[1], chosen[0] in (4, 5, 6))
        del sections[24:]

    def use_index(data):
        path = folder + "/mutated"
        open(path, "wb").write(data)
        use_mapped(path)
        index = Index.load(path)
        rng = np.random.default_rng(2)
        new = rng.standard_normal((30, index.dim)).astype(np.float32)
        check(index.search(new[0], 5), index.search(new[1], 99, 99, exact=True))
        check(index.search(new[2], 9, only=np.arange(20)))
        index.add(np.arange(10, 40), new)
        index.remove(np.arange(0, 15))
        if index.dim < 500:
            index.build()
        check(index.search(new[20], 50))
        assert 39 in index and 3 not in index
        index.save(path)
        assert len(Index.load(path)) == len(index)

    def use_mapped(path):
        try:
            index = Index.load(path, mmap=True)
            query = np.random.default_rng(4).standard_normal(index.dim)
            for asked in ({}, {"exact": True}, {"ef": 999}, {"only": np.arange(20)}):
                _, cosines = index.search(query, 99, **asked)
                assert np.all((cosines >= -1) & (cosines <= 1)), "no cosine"
            assert 10**9 not in index
            index.save(path + "2")
        except REFUSED:
            pass

    def use_engine(dim, kind, codec, floats, data):
        engine = Engine(dim, kind=kind, m=2, ef_construction=8, codec=codec,
                        keep_float32=floats, flat_bytes=100)
        key = ("b", "v")
        engine.restore(key, data)
        rng = np.random.default_rng(3)
        new = rng.standard_normal((30, dim)).astype(np.float32)
        words = list(range(9))
        for asked in ({}, {"session": 1}, {"author": 2, "now": 2**62 + 9}):
            engine.recall(key, new[0], words, 6, **asked)
            engine.recall(key, None, words, 6, **asked)
        n = 30
        engine.add_rows(
            key, np.arange(10, 40), np.arange(n), np.arange(n) + 2**62,
            np.arange(n, dtype=np.uint64) % 4, np.arange(n, dtype=np.int32),
            np.arange(n, dtype=np.uint64) % 9, np.arange(n + 1), new)
        engine.remove(key, np.arange(0, 15))
        engine.recall(key, new[20], words, 60)
        check(engine.search(key, new[20], 60))
        copied = engine.snapshot(key)
        engine.restore(key, copied)
        engine.drop(key)

    def check(*answers):
        for ids, cosines in answers:
            assert len(set(ids.tolist())) == len(ids)
            assert np.all((cosines >= -1) & (cosines <= 1)), "no cosine"

    wholes = list(snapshots())
    for whole in wholes:
        assert put_together(*take_apart(whole[4])) == whole[4]
    survived = 0
    for number in range(count):
        print(number, flush=True)
        rnd = random.Random(seed * 10**9 + number)
        dim, kind, codec, floats, data = wholes[number % len(wholes)]
        header, sections = take_apart(data)
        mutate(rnd, header, sections)
        data = put_together(header, sections)
        for use in (use_index, lambda d: use_engine(dim, kind, codec, floats, d)):
            try:
                use(data)
                survived += 1
            except REFUSED:
                pass
    assert survived > count // 20, survived
    print("survived", survived)
"""


@pytest.mark.campaign
def test_bytes_with_right_checksums_are_refused_or_do_no_harm(tmp_path):
    done = run(
        textwrap.dedent(MUTATIONS),
        *(tmp_path, scaled(600), 1),
        timeout_s=90 * max(1, SCALE),
        check=False,
    )
    last = done.stdout.split()[-1:]
    assert done.returncode == 0, f"{done.returncode} at {last}: {done.stderr[-2000:]}"
