"""Rows that C++ makes of what was read: those that Python's check accepts, alike."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidTypeError
from vecall._core import joined_values, whole_rows
from vecall.store.rows import Row, RowWithVector, checksum, is_whole

MODEL = 3
VECTOR = np.arange(8, dtype="<f4").tobytes()
WHOLE = Row(
    rid=(7 << 32) | 1,
    id="a" * 32,
    session="s",
    event=None,
    pos=2,
    ts=1_700_000_060.0,
    created_at=1_795_764_364.9497526,
    expires_at=None,
    author="user",
    kind="episode",
    source=None,
    trust=None,
    text="Tea at 5 o'clock, señor.",
    content=None,
    meta='{"a": 1}',
    importance=None,
    updated_at=1_795_764_364.9497526,
)


def read(row: Row, vec: object = VECTOR, crc: object = None, **others: object) -> tuple:
    """The values as a read returns them, with the right checksum if none is given."""
    if crc is None:
        crc = checksum(row, vec)
    last = {"model": MODEL, "ahead": (None, None, None), "in_use": MODEL} | others
    return (*row, vec, last["model"], crc, *last["ahead"], last["in_use"])


def made(*values: tuple) -> list[RowWithVector | None]:
    return whole_rows(list(values), Row, RowWithVector)


def test_a_whole_row_becomes_a_row_with_its_vector():
    (found,) = made(read(WHOLE))
    assert found == RowWithVector(WHOLE, VECTOR, MODEL)
    assert (type(found), type(found.row)) == (RowWithVector, Row)


def test_a_vector_that_is_not_in_its_place_yet_comes_first():
    new = VECTOR[::-1]
    crc = checksum(WHOLE, new)
    (found,) = made(read(WHOLE, ahead=(new, 4, crc), in_use=4))
    assert found == RowWithVector(WHOLE, new, 4)
    assert made(read(WHOLE, ahead=(new, 4, crc + 1), in_use=4)) == [None]


def test_a_vector_of_another_model_is_doubted_and_a_row_without_one_is_not():
    assert made(read(WHOLE, in_use=4), read(WHOLE, None, model=None, in_use=4)) == [
        None,
        RowWithVector(WHOLE, None, None),
    ]


def test_a_damaged_row_is_doubted_and_its_neighbours_are_not():
    damaged = read(WHOLE._replace(text="Tea"), crc=checksum(WHOLE, VECTOR))
    found = made(read(WHOLE), damaged, read(WHOLE))
    assert [entry is None for entry in found] == [False, True, False]


whole = st.integers(-(2**63), 2**63 - 1)
numbers = st.none() | st.floats() | whole | st.sampled_from([0.5, 1, -0.0, 1e16])
texts = st.none() | st.text() | st.sampled_from(["", "\ud800", "a\0b"])
anything = texts | numbers | st.booleans() | st.binary(max_size=3)


@settings(max_examples=examples(1_500), deadline=None, derandomize=True)
@given(
    st.dictionaries(st.sampled_from(Row._fields), anything, max_size=3),
    st.none() | st.just(VECTOR) | st.just("no bytes") | st.binary(max_size=3),
    st.integers(0, 1),
)
def test_no_row_is_made_that_the_check_in_python_refuses(changed, vec, wrong):
    row = WHOLE._replace(**changed)
    try:
        crc: object = checksum(row, vec) + wrong
    except (TypeError, ValueError, OverflowError):
        crc = 1
    expected = RowWithVector(row, vec, MODEL) if is_whole(row, vec, crc) else None
    (found,) = made(read(row, vec, crc))
    assert repr(found) == repr(expected)  # a NaN is refused, and -0.0 is not 0.0


@pytest.mark.parametrize("crc", [None, True, "1", 2**70, 1.0], ids=repr)
def test_a_checksum_of_another_type_is_doubted(crc):
    values = list(read(WHOLE))
    values[len(Row._fields) + 2] = crc
    assert made(tuple(values)) == [None]


@settings(max_examples=examples(2_000), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**53)
    .flatmap(lambda whole: st.sampled_from([whole / 1e6, whole / 1e5, whole / 1e7]))
    .flatmap(lambda time: st.sampled_from([time, np.nextafter(time, 0).item()]))
)
def test_times_are_spelled_as_python_spells_them(time):
    assert joined_values([time, -time]) == f"{time!r}\0{-time!r}".encode()


@pytest.mark.parametrize("rows", [None, (), [None], [()], [("short",) * 27]], ids=repr)
def test_what_is_no_list_of_rows_is_refused_without_quoting_it(rows):
    with pytest.raises(InvalidTypeError) as caught:
        whole_rows(rows, Row, RowWithVector)
    assert str(caught.value) == "rows: expected a list of tuples of 28 values"


@pytest.mark.parametrize("types", [(Row, dict), (1, Row)], ids=repr)
def test_what_is_no_class_of_tuples_is_refused(types):
    with pytest.raises(InvalidTypeError, match=r"\Aexpected a class of tuples\Z"):
        whole_rows([], *types)
