"""The columns that C++ makes of stored rows, beside what each of them means."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidArgumentError, InvalidTypeError
from vecall._core import row_columns
from vecall.clock import to_micros
from vecall.store.rows import Row, RowWithVector

DIM = 3
MODEL = 2
NEVER = 2**63 - 1
NAMES = {"s1": 11, "s2": 12, "user": 21, "fact": 31}

times = st.floats(-6e10, 2.5e11) | st.integers(-(6 * 10**10), 25 * 10**10)
vectors = st.binary(min_size=4 * DIM, max_size=4 * DIM) | st.sampled_from(
    [b"", b"1234"]
)
rows = st.builds(
    Row,
    rid=st.integers(-(2**63), 2**63 - 1),
    id=st.just("id"),
    session=st.sampled_from([None, "s1", "s2"]),
    event=st.none(),
    pos=st.none() | st.floats(-1e9, 1e9) | st.integers(0, 10**6),
    ts=st.none() | times,
    created_at=times,
    expires_at=st.none() | times,
    author=st.sampled_from([None, "user"]),
    kind=st.sampled_from([None, "fact"]),
    source=st.none(),
    trust=st.none(),
    text=st.text(max_size=3),
    content=st.none(),
    meta=st.none(),
    importance=st.none(),
    valid_until=st.none() | times,
)
stored = st.builds(
    RowWithVector, rows, st.none() | vectors, st.sampled_from([None, 1, MODEL])
)


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.lists(stored, max_size=4))
def test_each_column_has_what_the_rows_say(given):
    memories, *columns, matrix, has_vector, authors, kinds = row_columns(
        given, NAMES, DIM, MODEL
    )
    kept = [entry.row for entry in given]
    assert memories == [(row.text, row.author, row.ts) for row in kept]
    ids, when, ends, sessions, positions = columns
    assert ids.tolist() == [row.rid for row in kept]
    assert when.tolist() == [to_micros(row.time) for row in kept]
    assert ends.tolist() == [
        NEVER if row.end is None else to_micros(row.end) for row in kept
    ]
    unknown = [int(row.pos is not None) for row in kept]  # a turn without a session
    assert sessions.tolist() == [
        NAMES.get(row.session, other) for row, other in zip(kept, unknown, strict=True)
    ]
    assert np.array_equal(
        positions, np.array([row.pos for row in kept], np.float64), equal_nan=True
    )
    assert authors.tolist() == [NAMES.get(row.author, 0) for row in kept]
    assert kinds.tolist() == [NAMES.get(row.kind, 0) for row in kept]
    used = [
        entry.vec is not None and entry.model == MODEL and len(entry.vec) == 4 * DIM
        for entry in given
    ]
    assert has_vector.tolist() == used
    assert matrix.tobytes() == b"".join(
        entry.vec if its else bytes(4 * DIM)
        for entry, its in zip(given, used, strict=True)
    )


ROW = Row(1, "id", *[None] * 4, 1.7e9, *[None] * 5, "tea", None, None, None)


def test_without_vectors_there_is_no_matrix():
    columns = row_columns([RowWithVector(ROW, b"1234")], NAMES, 0, MODEL)
    assert columns[6:8] == (None, None)


def test_a_number_of_a_name_is_asked_for_once_known():
    class Names(dict[str, int]):
        def __missing__(self, name: str) -> int:
            self[name] = number = len(self) + 2
            return number

    turns = [RowWithVector(ROW._replace(session=name), None) for name in "abab"]
    assert row_columns(turns, Names(), 0, None)[4].tolist() == [2, 3, 2, 3]


def test_what_a_name_raises_is_raised():
    with pytest.raises(KeyError):
        row_columns([RowWithVector(ROW._replace(kind="new"), None)], NAMES, 0, None)


@pytest.mark.parametrize("seconds", [float("nan"), np.float64("nan")])
def test_a_time_that_is_no_number_is_refused(seconds):
    entry = RowWithVector(ROW._replace(created_at=seconds), None)
    with pytest.raises(InvalidArgumentError, match=r"\Astored: a time is no number\Z"):
        row_columns([entry], NAMES, 0, None)


@pytest.mark.parametrize(
    "given",
    [None, (), [None], [(ROW, None)], [((1,), None, None)], [(ROW, "no bytes", None)]],
    ids=repr,
)
def test_what_is_no_list_of_rows_is_refused_without_quoting_it(given):
    with pytest.raises(InvalidTypeError) as caught:
        row_columns(given, NAMES, 0, None)
    assert str(caught.value) == "stored: expected a list of (row, vector, model)"
