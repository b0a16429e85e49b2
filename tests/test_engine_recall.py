"""Engine.recall and Engine.search against references.py: words, vectors, sessions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from vecall import Engine

KEY = ("app", "user")
DIM = 4
NEVER = 2**63 - 1
EARLIEST, LATEST = -(2**63), 2**63 - 1
# Entries of 1 and -1 in four dimensions: every cosine is exact in float32.
CORNERS = [
    np.array([1 - 2 * (n >> bit & 1) for bit in range(DIM)], dtype=np.float32)
    for n in range(2**DIM)
]


def corner(n: int) -> np.ndarray:
    return CORNERS[n]


def engine_of(references, rows: list, dim: int = DIM) -> Engine:
    engine = Engine(dim)
    references.add_rows(engine, KEY, rows)
    return engine


def found_ids(references, engine: Engine, query) -> list[int]:
    return references.ask(engine, KEY, query)[0].tolist()


def random_row(references, rng: np.random.Generator, row_id: int, dim: int):
    return references.Row(
        id=row_id,
        words=tuple(rng.integers(1, 15, rng.integers(0, 12)).tolist()),
        vector=rng.standard_normal(dim).astype(np.float32)
        if dim and rng.random() < 0.8
        else None,
        time=int(rng.integers(0, 6)),
        expires=NEVER if rng.random() < 0.7 else int(rng.integers(0, 6)),
        session=int(rng.integers(0, 4)),
        position=int(rng.integers(-2, 9)),
    )


def random_query(references, rng: np.random.Generator, dim: int):
    options: dict[str, object] = {}
    for name, value in {
        "session": int(rng.integers(0, 5)),
        "after": int(rng.integers(0, 6)),
        "before": int(rng.integers(0, 7)),
        "now": int(rng.integers(0, 7)),
        "min_similarity": float(rng.uniform(-0.7, 0.7)),
        "dense_weight": float(rng.choice([0, 0.4, 0.7, 1])),
        "neighbour_weight": float(rng.choice([0, 0.5, 1])),
        "candidates": int(rng.integers(1, 60)),
    }.items():
        if rng.random() < 0.2:
            options[name] = value
    return references.Query(
        vector=rng.standard_normal(dim).astype(np.float32)
        if dim and rng.random() < 0.8
        else None,
        words=tuple(rng.integers(1, 18, rng.integers(0, 6)).tolist()),
        k=int(rng.integers(1, 30)),
        options=options,
    )


# Everything at once.


@pytest.mark.parametrize("dim", [0, 1, 3, 24])
@pytest.mark.parametrize("seed", range(12))
def test_recall_of_random_rows_is_what_the_reference_finds(references, seed, dim):
    rng = np.random.default_rng([seed, dim])
    engine, rows, compared = Engine(dim), {}, 0
    for _ in range(12):
        new = [
            random_row(references, rng, int(rng.integers(0, 40)), dim)
            for _ in range(rng.integers(0, 12))
        ]
        references.put(rows, new)
        references.add_rows(engine, KEY, new)
        gone = rng.integers(0, 40, 4).astype(np.int64)
        assert engine.remove(KEY, gone) == len(set(gone.tolist()) & rows.keys())
        for row_id in gone.tolist():
            rows.pop(row_id, None)
        for _ in range(4):
            query = random_query(references, rng, dim)
            try:
                expected = references.recall(rows, query)
            except references.UndecidedError:
                continue
            found = references.ask(engine, KEY, query)
            references.assert_answers(found, expected, query.k, tolerance=5e-4)
            compared += 1
    assert compared > 20


@settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    phases=[Phase.generate],  # add Phase.shrink for the smallest case: minutes
)
@given(data=st.data())
def test_recall_of_rows_with_exact_cosines_is_what_the_reference_finds(
    references, data
):
    corners = st.none() | st.sampled_from(CORNERS)
    words = st.lists(st.integers(1, 6), max_size=5).map(tuple)
    row = st.builds(
        references.Row,
        id=st.integers(-3, 20),
        words=words,
        vector=corners,
        time=st.integers(0, 2),
        expires=st.just(NEVER) | st.integers(0, 3),
        session=st.integers(0, 2),
        position=st.integers(0, 5),
    )
    options = st.fixed_dictionaries(
        {},
        optional={
            "session": st.integers(0, 3),
            "after": st.integers(0, 3),
            "before": st.integers(0, 3),
            "now": st.integers(0, 3),
            "min_similarity": st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]),
            "dense_weight": st.sampled_from([0.0, 0.25, 0.4, 1.0]),
            "neighbour_weight": st.sampled_from([0.0, 0.5, 1.0]),
            "candidates": st.integers(1, 5),
        },
    )
    rows, engine = {}, Engine(DIM)
    for batch in data.draw(st.lists(st.lists(row, max_size=8), max_size=3)):
        references.put(rows, batch)
        references.add_rows(engine, KEY, batch)
    queries = st.builds(
        references.Query,
        vector=corners,
        words=words,
        k=st.integers(1, 8),
        options=options,
    )
    for query in data.draw(st.lists(queries, min_size=1, max_size=4)):
        try:
            expected = references.recall(rows, query)
        except references.UndecidedError:
            continue
        found = references.ask(engine, KEY, query)
        references.assert_answers(found, expected, query.k)


def test_recall_of_more_rows_than_candidates_is_what_the_reference_finds(references):
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(12):
        rows = {}
        references.put(
            rows,
            [
                references.Row(
                    id=row_id,
                    words=tuple(rng.zipf(1.5, rng.integers(0, 20)).tolist()),
                    vector=rng.standard_normal(16).astype(np.float32),
                    time=row_id % 7,
                    session=row_id // 30 + 1,
                    position=row_id % 30,
                )
                for row_id in range(400)
            ],
        )
        engine = engine_of(references, list(rows.values()), 16)
        for _ in range(6):
            query = references.Query(
                vector=rng.standard_normal(16).astype(np.float32),
                words=tuple(rng.integers(2, 12, 3).tolist()),
                k=int(rng.choice([5, 20, 70])),
            )
            try:
                expected = references.recall(rows, query)
            except references.UndecidedError:
                continue
            assert len(expected) < 400
            found = references.ask(engine, KEY, query)
            references.assert_answers(found, expected, query.k, tolerance=5e-4)
            compared += 1
    assert compared > 20


# Words.


def test_bm25_is_the_formula_with_the_statistics_of_the_partition(references):
    texts = [(1, 1, 2), (1, 3, 3, 3, 4, 5, 6), (), (2,), (7, 8, 9, 7), ()]
    rows = [references.Row(i, words) for i, words in enumerate(texts)]
    engine = engine_of(references, rows, dim=0)
    # N = 4 rows with words, of 15 words in all; word 1 is in 2 of them, word 3 in 1.
    idf = {1: np.log(1 + 2.5 / 2.5), 3: np.log(1 + 3.5 / 1.5)}

    def part(word: int, count: int, length: int) -> float:
        norm = 0.9 * (1 - 0.4 + 0.4 * length / (15 / 4))
        return idf[word] * count * 1.9 / (count + norm)

    ids, _, _, lexical = engine.recall(KEY, None, [1, 3], 5)
    assert ids.tolist() == [1, 0]
    assert lexical[1] == pytest.approx(part(1, 2, 3), rel=1e-5)
    assert lexical[0] == pytest.approx(part(1, 1, 7) + part(3, 3, 7), rel=1e-5)


def test_rows_without_words_do_not_change_a_bm25_score(references):
    rows = [references.Row(1, (1, 2)), references.Row(2, (2, 3, 4))]
    engine = engine_of(references, rows)
    before = references.ask(engine, KEY, references.Query(None, (1, 2)))
    more = [references.Row(n, (), corner(n % 16)) for n in range(10, 90)]
    references.add_rows(engine, KEY, more)
    after = references.ask(engine, KEY, references.Query(None, (1, 2)))
    assert [c.tobytes() for c in before] == [c.tobytes() for c in after]


def test_statistics_are_exact_after_updates_and_removals(references):
    rng = np.random.default_rng(5)
    engine = Engine(0)
    for _ in range(60):
        ids = rng.permutation(30)[:10].tolist()
        references.add_rows(
            engine, KEY, [random_row(references, rng, i, 0) for i in ids]
        )
        engine.remove(KEY, rng.integers(0, 30, 5).astype(np.int64))
    final = [random_row(references, rng, i, 0) for i in range(20)]
    engine.remove(KEY, np.arange(30, dtype=np.int64))
    references.add_rows(engine, KEY, final)
    fresh = engine_of(references, final, dim=0)
    for word in range(1, 16):
        query = references.Query(None, (word, 3), k=30)
        old, new = (references.ask(e, KEY, query) for e in (engine, fresh))
        assert [c.tobytes() for c in old] == [c.tobytes() for c in new]


def test_words_and_rows_that_are_gone_leave_no_memory_behind(references):
    engine = Engine(DIM)
    held = []
    for turn in range(8):
        rows = [
            references.Row(
                id=1000 * turn + n,
                words=tuple(range(10_000 * turn + 20 * n, 10_000 * turn + 20 * n + 20)),
                vector=corner(n % 16),
                session=turn + 1,
                position=n,
            )
            for n in range(300)
        ]
        references.add_rows(engine, KEY, rows)
        held.append(engine.nbytes)
        ids = np.array([row.id for row in rows], dtype=np.int64)
        assert engine.remove(KEY, ids) == len(rows)
    assert max(held[2:]) <= 1.1 * held[1]


def test_a_repeated_word_of_the_query_counts_as_often_as_it_occurs(references):
    rows = [references.Row(1, (1, 2, 3)), references.Row(2, (2, 4, 5))]
    engine = engine_of(references, rows, dim=0)
    once = references.ask(engine, KEY, references.Query(None, (1,)))[3]
    thrice = references.ask(engine, KEY, references.Query(None, (1, 1, 1)))[3]
    assert thrice.tolist() == pytest.approx((3 * once).tolist(), rel=1e-5)


def test_the_order_of_the_words_means_nothing(references):
    rng = np.random.default_rng(6)
    rows = [random_row(references, rng, i, 0) for i in range(30)]
    turned = [
        references.Row(
            r.id, r.words[::-1], None, r.time, r.expires, r.session, r.position
        )
        for r in rows
    ]
    engines = engine_of(references, rows, 0), engine_of(references, turned, 0)
    words = (3, 1, 4, 1, 5, 9, 2, 6)
    answers = [
        references.ask(engine, KEY, references.Query(None, asked, k=30))
        for engine in engines
        for asked in (words, words[::-1], tuple(sorted(words)))
    ]
    assert len({tuple(c.tobytes() for c in answer) for answer in answers}) == 1


def test_unknown_words_find_nothing(references):
    engine = engine_of(references, [references.Row(1, (1, 2))])
    assert found_ids(references, engine, references.Query(None, (8, 9))) == []


def test_unknown_words_weaken_the_words_but_not_the_order(references):
    rows = [references.Row(n, (1,) * n + (2,) * (9 - n)) for n in range(1, 9)]
    engine = engine_of(references, rows, dim=0)
    plain = references.ask(engine, KEY, references.Query(None, (1,)))
    vague = references.ask(engine, KEY, references.Query(None, (1, 77, 78)))
    assert plain[0].tolist() == vague[0].tolist()
    assert np.all(vague[1] < plain[1])
    assert vague[3].tolist() == plain[3].tolist()


def test_a_question_without_words_and_vector_finds_nothing(references):
    engine = engine_of(references, [references.Row(1, (1, 2), corner(3))])
    assert found_ids(references, engine, references.Query()) == []
    zero = np.zeros(DIM, dtype=np.float32)
    assert found_ids(references, engine, references.Query(zero)) == []


# Vectors.


def test_a_zero_vector_asks_by_words_alone(references):
    rows = [references.Row(n, (n % 3 + 1,), corner(n)) for n in range(9)]
    engine = engine_of(references, rows)
    zero = np.zeros(DIM, dtype=np.float32)
    by_words = references.ask(engine, KEY, references.Query(None, (1,)))
    assert by_words[0].tolist() == [0, 3, 6]
    assert np.all(np.isnan(by_words[2]))
    for value in (0.0, -0.0, 1e-42):
        found = references.ask(engine, KEY, references.Query(zero + value, (1,)))
        assert [c.tobytes() for c in found] == [c.tobytes() for c in by_words]


def test_a_question_without_words_ranks_by_cosine(references):
    rng = np.random.default_rng(7)
    rows = [
        references.Row(n, (1,), rng.standard_normal(DIM).astype(np.float32))
        for n in range(40)
    ]
    engine = engine_of(references, rows)
    query = rng.standard_normal(DIM).astype(np.float32)
    nearest, cosines = engine.search(KEY, query, 10)
    found = references.ask(engine, KEY, references.Query(query, k=10))
    assert found[0].tolist() == nearest.tolist()
    assert found[2].tolist() == cosines.tolist()
    assert found[1][0] == pytest.approx(0.4)
    assert np.all(found[3] == 0)


def test_rows_without_a_vector_have_no_similarity(references):
    rows = [references.Row(1, (1,), corner(0)), references.Row(2, (1,))]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(corner(0), (1,)))
    assert found[0].tolist() == [1, 2]
    assert found[2][0] == 1
    assert np.isnan(found[2][1])
    assert engine.search(KEY, corner(0), 5)[0].tolist() == [1]


def test_an_update_without_a_vector_or_words_takes_them_away(references):
    engine = engine_of(references, [references.Row(1, (1,), corner(0))])
    references.add_rows(engine, KEY, [references.Row(1, (), corner(0))])
    assert found_ids(references, engine, references.Query(None, (1,))) == []
    references.add_rows(engine, KEY, [references.Row(1, (1,))])
    assert engine.search(KEY, corner(0), 5)[0].tolist() == []
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]
    engine.add(KEY, np.array([1], dtype=np.int64), corner(0)[None])
    assert found_ids(references, engine, references.Query(None, (1,))) == []
    assert engine.search(KEY, corner(0), 5)[0].tolist() == [1]


@pytest.mark.parametrize("dim", [1, 3, 4, 8, 19])
def test_search_is_exact_with_and_without_filters(references, dim):
    rng = np.random.default_rng(dim)
    rows = {}
    references.put(
        rows, [random_row(references, rng, n * 3 - 100, dim) for n in range(300)]
    )
    engine = engine_of(references, list(rows.values()), dim)
    for options in (
        {},
        {"session": 2},
        {"session": 0},
        {"session": 99},
        {"after": 3},
        {"before": 3},
        {"after": 2, "before": 4},
        {"after": 4, "before": 4},
        {"session": 1, "after": 1, "before": 5},
    ):
        query = rng.standard_normal(dim).astype(np.float32)
        expected = references.nearest(rows, query, options)
        for k in (1, 7, 299, references.HUGE_K):
            found = engine.search(KEY, query, k, **options)
            references.assert_nearest(found, expected, k, rows)


# Filters.


def test_a_filter_is_half_open_in_time_and_an_end_is_exclusive(references):
    rows = [references.Row(t, (1,), corner(0), time=t, expires=t) for t in range(6)]
    engine = engine_of(references, rows)

    def found(**options: int) -> list[int]:
        query = references.Query(corner(0), (1,), k=9, options=options)
        return sorted(found_ids(references, engine, query))

    assert found() == [0, 1, 2, 3, 4, 5]
    assert found(after=2) == [2, 3, 4, 5]
    assert found(before=2) == [0, 1]
    assert found(after=2, before=4) == [2, 3]
    assert found(now=2) == [3, 4, 5]
    assert found(now=5) == []


@pytest.mark.parametrize("by", ["words", "vector"])
def test_rows_that_do_not_pass_never_crowd_out_those_that_do(references, by):
    # 200 better rows are of another session, too old, too new, or have ended.
    better = [references.Row(n, (1,), corner(0), time=50, session=2) for n in range(50)]
    better += [references.Row(n, (1,), corner(0), time=9) for n in range(50, 100)]
    better += [references.Row(n, (1,), corner(0), time=90) for n in range(100, 150)]
    better += [
        references.Row(n, (1,), corner(0), time=50, expires=60, session=1)
        for n in range(150, 200)
    ]
    worse = references.Row(
        999, (1, 2, 3, 4), corner(1), time=50, session=1, position=77
    )
    engine = engine_of(references, [*better, worse])
    query = references.Query(
        corner(0) if by == "vector" else None,
        (1,) if by == "words" else (),
        k=1,
        options={
            "session": 1,
            "after": 10,
            "before": 90,
            "now": 60,
            "candidates": 1,
        },
    )
    assert found_ids(references, engine, query) == [999]


def test_a_neighbour_that_does_not_pass_is_neither_found_nor_counted(references):
    rows = [
        references.Row(1, (9,), time=1, session=1, position=1),
        references.Row(2, (1,), time=5, session=1, position=2),
        references.Row(3, (9,), time=5, expires=7, session=1, position=3),
    ]
    engine = engine_of(references, rows, dim=0)
    alone = references.Query(None, (1,), options={"after": 2, "now": 8})
    ids, scores, _, _ = references.ask(engine, KEY, alone)
    assert (ids.tolist(), scores.tolist()) == ([2], [1.0])
    assert found_ids(references, engine, references.Query(None, (1,))) == [2, 3, 1]


@pytest.mark.parametrize("session", [0, 1, 2**63, 2**64 - 1])
def test_a_session_may_be_any_64_bit_hash(references, session):
    rows = [
        references.Row(n, (1,), corner(0), session=s)
        for n, s in enumerate([0, 1, 2**63, 2**64 - 1])
    ]
    engine = engine_of(references, rows)
    query = references.Query(corner(0), (1,), options={"session": session})
    wanted = [row.id for row in rows if row.session == session]
    assert found_ids(references, engine, query) == wanted
    assert engine.search(KEY, corner(0), 9, session=session)[0].tolist() == wanted


@pytest.mark.parametrize("time", [EARLIEST, EARLIEST + 1, 0, LATEST - 1, LATEST])
@pytest.mark.parametrize("others", [0, 1])
def test_a_row_of_any_time_is_found_where_no_time_is_asked(references, time, others):
    # A row that ends makes a scan ask every row.
    rows = [references.Row(1, (1,), corner(0), time=time)]
    rows += [references.Row(2, (2,), corner(15), expires=5)] * others
    engine = engine_of(references, rows)
    assert engine.search(KEY, corner(0), 1)[0].tolist() == [1]
    assert found_ids(references, engine, references.Query(corner(0), k=1)) == [1]
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]


@pytest.mark.parametrize("now", [0, LATEST - 1, LATEST])
def test_a_row_without_an_end_never_ends(references, now):
    rows = [references.Row(1, (1,), corner(0)), references.Row(2, (1,), expires=-1)]
    engine = engine_of(references, rows)
    for vector, words in ((corner(0), ()), (None, (1,)), (corner(0), (1,))):
        query = references.Query(vector, words, options={"now": now})
        assert found_ids(references, engine, query) == [1]


@pytest.mark.parametrize("expires", [EARLIEST, -1, 0, 5])
def test_without_a_now_no_row_has_ended(references, expires):
    rows = [
        references.Row(1, (1,), corner(0), expires=expires),
        references.Row(2, (1,), corner(15)),
    ]
    engine = engine_of(references, rows)
    for _ in range(2):
        assert engine.search(KEY, corner(0), 1)[0].tolist() == [1]
        query = references.Query(None, (1,), k=9)
        assert 1 in found_ids(references, engine, query)
        references.add_rows(engine, KEY, [references.Row(3, (2,))])
        engine.remove(KEY, np.array([3], dtype=np.int64))  # leaves a hole in the scan


def test_min_similarity_is_inclusive(references):
    # Cosines with corner 0: 1, 0.5, 0, -0.5 and -1.
    rows = [references.Row(n, (1,), corner(2**n - 1)) for n in range(5)]
    engine = engine_of(references, [*rows, references.Row(5, (1,))])
    for floor, wanted in [
        (1.0, {0}),
        (0.5, {0, 1}),
        (float(np.nextafter(np.float32(0.5), 1)), {0}),
        (0.0, {0, 1, 2}),
        (-0.5, {0, 1, 2, 3}),
        (-1.0, {0, 1, 2, 3, 4}),
        (-5.0, {0, 1, 2, 3, 4}),
        (1.5, set()),
        (None, {0, 1, 2, 3, 4, 5}),
    ]:
        query = references.Query(
            corner(0), (1,), k=9, options={"min_similarity": floor}
        )
        assert set(found_ids(references, engine, query)) == wanted


def test_min_similarity_cuts_the_answer_and_changes_no_score(references):
    rng = np.random.default_rng(8)
    rows = [random_row(references, rng, n, DIM) for n in range(40)]
    engine = engine_of(references, rows)
    query = rng.standard_normal(DIM).astype(np.float32)
    whole = references.ask(engine, KEY, references.Query(query, (1, 2, 3), k=99))
    options = {"min_similarity": 0.2}
    cut = references.ask(engine, KEY, references.Query(query, (1, 2, 3), 99, options))
    kept = whole[2] >= np.float32(0.2)
    assert 0 < kept.sum() < len(kept)
    assert [c.tolist() for c in cut] == [c[kept].tolist() for c in whole]


def test_without_a_vector_nothing_reaches_a_similarity(references):
    engine = engine_of(references, [references.Row(1, (1,), corner(0))])
    options = {"min_similarity": -1.0}
    assert found_ids(references, engine, references.Query(None, (1,), 5, options)) == []


# Ties.


def test_ties_go_to_the_newer_row_then_to_the_smaller_id(references):
    rng = np.random.default_rng(9)
    rows = [
        references.Row(int(n), (1,), corner(5), time=int(n) % 3)
        for n in rng.permutation(30)
    ]
    engine = engine_of(references, rows)
    wanted = sorted(range(30), key=lambda n: (-(n % 3), n))
    assert engine.search(KEY, corner(5), 30)[0].tolist() == wanted
    assert engine.search(KEY, corner(5), 13)[0].tolist() == wanted[:13]
    for vector, words in ((corner(5), ()), (None, (1,)), (corner(5), (1,))):
        query = references.Query(vector, words, k=30)
        assert found_ids(references, engine, query) == wanted


@pytest.mark.parametrize("k", [1, 3, 10, 11, 19, 20, 21, 29, 30])
@pytest.mark.parametrize("by", ["words", "vector", "both"])
def test_rows_that_tie_with_the_kth_in_score_and_time_all_come(references, by, k):
    rng = np.random.default_rng(k)
    rows = [
        references.Row(int(n), (1,), corner(5), time=int(n) % 3)
        for n in rng.permutation(30)
    ]
    engine = engine_of(references, rows)
    wanted = sorted(range(30), key=lambda n: (-(n % 3), n))
    query = references.Query(
        None if by == "words" else corner(5), () if by == "vector" else (1,), k=k
    )
    found = found_ids(references, engine, query)
    assert found == wanted[: -(-k // 10) * 10]


def test_rows_that_tie_with_the_kth_are_in_order_too(references):
    # The neighbours join after the rows with the word, with ids that lie between.
    rows = []
    for n in range(24):
        rows.append(references.Row(100 - n, (1,), session=n + 1, position=5))
        rows.append(references.Row(n, (2,), session=n + 1, position=6))
    engine = engine_of(references, rows, dim=0)
    everything = references.Query(None, (1,), k=48, options={"neighbour_weight": 1.0})
    ids, scores, _, _ = references.ask(engine, KEY, everything)
    assert ids.tolist() == [*range(24), *range(77, 101)]
    assert set(scores.tolist()) == {1.0}
    for k in (1, 2, 5, 23, 24, 25, 40):
        query = references.Query(None, (1,), k, everything.options)
        assert found_ids(references, engine, query) == ids.tolist()


def test_a_smaller_k_gives_the_beginning_of_the_same_answer(references):
    rng = np.random.default_rng(10)
    rows = [random_row(references, rng, n, DIM) for n in range(45)]
    engine = engine_of(references, rows)
    for _ in range(20):
        query = random_query(references, rng, DIM)
        query.options.pop("candidates", None)
        whole = references.Query(query.vector, query.words, 45, query.options)
        wanted = references.ask(engine, KEY, whole)
        for k in (1, 2, 3, 10):
            less = references.Query(query.vector, query.words, k, query.options)
            found = references.ask(engine, KEY, less)
            assert len(found[0]) >= min(k, len(wanted[0]))
            for got, all_of_it in zip(found, wanted, strict=True):
                assert got.tobytes() == all_of_it[: len(got)].tobytes()


def test_an_answer_does_not_depend_on_where_rows_lie(references):
    rng = np.random.default_rng(11)
    rows = [
        references.Row(
            id=n,
            words=tuple(rng.integers(1, 9, rng.integers(0, 6)).tolist()),
            vector=rng.standard_normal(DIM).astype(np.float32),
            time=int(rng.integers(0, 4)),
            session=n % 3,
            position=n // 3,
        )
        for n in range(40)
    ]
    engines = []
    for _ in range(5):
        engine = Engine(DIM)
        junk = [random_row(references, rng, 1000 + n, DIM) for n in range(50)]
        references.add_rows(engine, KEY, junk)
        engine.remove(KEY, 1000 + rng.permutation(50)[:25])
        for at in rng.permutation(40).tolist():
            references.add_rows(engine, KEY, [rows[at]])
        engine.remove(KEY, np.arange(1000, 1050, dtype=np.int64))
        engines.append(engine)
    for _ in range(20):
        query = random_query(references, rng, DIM)
        answers = [references.ask(engine, KEY, query) for engine in engines]
        assert len({answer[0].tobytes() for answer in answers}) == 1
        for answer in answers:
            np.testing.assert_allclose(answer[1], answers[0][1], rtol=1e-4, atol=1e-4)


def test_equal_positions_do_not_make_an_answer_depend_on_the_order_of_arrival(
    references,
):
    rows = [
        references.Row(1, (9,), session=1, position=1),
        references.Row(2, (1,), session=1, position=2),
        references.Row(3, (2,), session=1, position=2),
        references.Row(4, (9,), session=1, position=3),
    ]
    other = [rows[at] for at in (0, 2, 1, 3)]
    engines = engine_of(references, rows, 0), engine_of(references, other, 0)
    for word in (1, 2):
        query = references.Query(None, (word,))
        first, second = (found_ids(references, engine, query) for engine in engines)
        assert first == second


# Sessions.


def test_a_row_lifts_those_one_position_beside_it(references):
    rows = [references.Row(n, (n,), session=1, position=n) for n in range(1, 8)]
    engine = engine_of(references, rows, dim=0)
    ids, scores, _, lexical = references.ask(engine, KEY, references.Query(None, (4,)))
    assert ids.tolist() == [4, 3, 5]
    assert scores.tolist() == pytest.approx([1.0, 0.5, 0.5])
    assert lexical[1:].tolist() == [0, 0]


def test_the_better_of_two_neighbours_counts(references):
    rows = [
        references.Row(1, (1, 1, 1), session=1, position=1),
        references.Row(2, (), session=1, position=2),
        references.Row(3, (1, 5, 6, 7, 8), session=1, position=3),
    ]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(engine, KEY, references.Query(None, (1,)))
    scores = dict(zip(found[0].tolist(), found[1].tolist(), strict=True))
    lexical = dict(zip(found[0].tolist(), found[3].tolist(), strict=True))
    weaker = lexical[3] / lexical[1]
    assert 0 < weaker < 1
    assert scores == pytest.approx({1: 1.0, 2: 0.5, 3: weaker}, rel=1e-5)


def test_rows_of_no_session_or_another_one_are_no_neighbours(references):
    rows = [
        references.Row(1, (1,), session=0, position=1),
        references.Row(2, (2,), session=0, position=2),
        references.Row(3, (2,), session=7, position=0),
    ]
    engine = engine_of(references, rows, dim=0)
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]


def test_a_gap_in_a_session_parts_it_until_it_is_filled(references):
    rows = [references.Row(n, (n,), session=1, position=n) for n in (1, 2, 4, 5)]
    engine = engine_of(references, rows, dim=0)
    query = references.Query(None, (2,))
    assert found_ids(references, engine, query) == [2, 1]
    late = references.Row(3, (3,), session=1, position=3)
    references.add_rows(engine, KEY, [late])
    assert found_ids(references, engine, query) == [2, 1, 3]
    engine.remove(KEY, np.array([3], dtype=np.int64))
    assert found_ids(references, engine, query) == [2, 1]
    engine.remove(KEY, np.array([5, 1], dtype=np.int64))
    assert found_ids(references, engine, query) == [2]


def test_a_row_that_moves_to_another_session_leaves_its_neighbours(references):
    rows = [references.Row(n, (n,), session=1, position=n) for n in (1, 2, 3)]
    rows += [references.Row(8, (8,), session=2, position=3)]
    engine = engine_of(references, rows, dim=0)
    moved = references.Row(2, (2,), session=2, position=2)
    references.add_rows(engine, KEY, [moved])
    assert found_ids(references, engine, references.Query(None, (2,))) == [2, 8]
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]


def test_positions_may_be_any_int32(references):
    low, high = -(2**31), 2**31 - 1
    positions = [low, low + 1, -1, 0, high - 1, high, high]
    rows = [
        references.Row(n, (n,), session=1, position=position)
        for n, position in enumerate(positions)
    ]
    engine = engine_of(references, rows, dim=0)
    beside = {
        n: sorted(found_ids(references, engine, references.Query(None, (n,))))
        for n in range(6)
    }
    assert beside == {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3], 4: [4, 5], 5: [4, 5]}


def test_a_session_told_out_of_order_has_the_same_neighbours(references):
    rng = np.random.default_rng(12)
    rows = [references.Row(n, (n,), session=1, position=n) for n in range(60)]
    for _ in range(5):
        told = [rows[at] for at in rng.permutation(60)]
        engine = engine_of(references, told, dim=0)
        for n in range(60):
            wanted = [n, *(m for m in (n - 1, n + 1) if 0 <= m < 60)]
            query = references.Query(None, (n,))
            assert found_ids(references, engine, query) == wanted


# A bad embedder.


@settings(derandomize=True, max_examples=100, deadline=None)
@given(data=st.data())
def test_an_exact_rare_word_is_at_rank_1_whatever_the_vectors_say(references, data):
    count = data.draw(st.integers(1, 60))
    rare = data.draw(st.integers(0, count - 1))
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    query = rng.standard_normal(DIM).astype(np.float32)
    # From all rows near the query and the rare one opposite, to pure noise.
    noise = data.draw(st.sampled_from([0.0, 0.01, 0.3, 3.0]))
    vectors = query + noise * rng.standard_normal((count, DIM)).astype(np.float32)
    if data.draw(st.booleans()):
        vectors[rare] = -query
    rows = [
        references.Row(
            id=n,
            words=(77, 1, 2) if n == rare else (1, 2, 3),
            vector=vectors[n],
            session=1,
            position=n,
        )
        for n in range(count)
    ]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(query, (77,), k=1))
    assert found[0][0] == rare
    assert found[3][0] > 0


def test_an_exact_rare_word_is_found_among_a_thousand_rows_that_look_nearer(references):
    rng = np.random.default_rng(13)
    query = rng.standard_normal(DIM).astype(np.float32)
    near = query + 0.1 * rng.standard_normal((1000, DIM)).astype(np.float32)
    rows = [
        references.Row(n, (1, 2, 3), near[n], session=n // 20 + 1, position=n % 20)
        for n in range(1000)
    ]
    rows[517] = references.Row(517, (77, 1, 2, 3, 4, 5, 6), -query, time=-5)
    engine = engine_of(references, rows)
    assert engine.search(KEY, query, 999)[0].tolist().count(517) == 0
    for candidates in (1, 50):
        options = {"candidates": candidates}
        asked = references.Query(query, (77,), 1, options)
        assert found_ids(references, engine, asked) == [517]


def test_an_embedder_that_tells_no_texts_apart_changes_no_order(references):
    rng = np.random.default_rng(14)
    for _ in range(20):
        rows = [
            references.Row(n, tuple(rng.integers(1, 30, rng.integers(1, 9)).tolist()))
            for n in range(40)
        ]
        blind = [references.Row(row.id, row.words, corner(6)) for row in rows]
        words = tuple(rng.integers(1, 34, 3).tolist())
        lexical = engine_of(references, rows)
        hybrid = engine_of(references, blind)
        wanted = found_ids(references, lexical, references.Query(None, words, k=40))
        found = found_ids(references, hybrid, references.Query(corner(2), words, k=40))
        assert found[: len(wanted)] == wanted
