"""Rows that C++ makes of what was read: those that Python's check accepts, alike."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidTypeError
from vecall._core import joined_values, row_checksum, whole_rows
from vecall.store.rows import Row, RowWithVector, checksum, is_undamaged_row

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


def read(row: Row, vec: object = VECTOR, crc: object = None) -> tuple:
    """The values as a read returns them, with the right checksum if none is given."""
    model = None if vec is None else MODEL
    return (*row, vec, model, checksum(row, vec) if crc is None else crc)


def made(*values: tuple) -> list[RowWithVector | None]:
    return whole_rows(list(values), Row, RowWithVector)


def test_a_whole_row_becomes_a_row_with_its_vector():
    (found,) = made(read(WHOLE))
    assert found == RowWithVector(WHOLE, VECTOR, MODEL)
    assert (type(found), type(found.row)) == (RowWithVector, Row)


def test_a_row_without_a_vector_is_made_of_its_values():
    assert made(read(WHOLE, None)) == [RowWithVector(WHOLE, None, None)]


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
def test_exactly_the_rows_that_vecall_can_have_written_are_whole(changed, vec, wrong):
    row = WHOLE._replace(**changed)
    own = reference_checksum(row, vec)
    crc = 1 if own is None else own + wrong
    is_written = own is not None and not wrong
    (found,) = made(read(row, vec, crc))
    assert (found is not None) == is_undamaged_row(row, vec, crc) == is_written
    if found is not None:
        assert repr(found) == repr(read_entry(row, vec))  # -0.0 is not 0.0
    assert row_checksum(row, vec) == own


def read_entry(row: Row, vec: bytes | None) -> RowWithVector:
    return RowWithVector(row, vec, None if vec is None else MODEL)


TIMES = "pos ts created_at expires_at last_used valid_until updated_at".split()


def is_time(value: object) -> bool:
    """Whether it is a number of the years 1 to 9999."""
    return type(value) in (int, float) and -62_135_596_800 <= value <= 253_402_300_799


def reference_checksum(row: Row, vec: object) -> int | None:
    """The checksum of allowed values as the format says it; None for others."""
    texts = set(Row._fields) - {"rid", "uses", *TIMES}
    allowed = {
        **{name: lambda it: type(it) is str for name in texts},
        **dict.fromkeys(TIMES, is_time),
        "rid": lambda it: type(it) is int,
        "uses": lambda it: type(it) is int and it >= 0,
        "importance": lambda it: is_time(it) and 0 <= it <= 1,
    }
    for name, value in row._asdict().items():
        may_be_none = name not in ("rid", "id", "created_at", "text")
        if not (may_be_none if value is None else allowed[name](value)):
            return None
    if type(vec) not in (bytes, type(None)):
        return None
    values = list(row[: Row._fields.index("uses")])
    if (row.uses, row.last_used) != (None, None):
        values += [row.uses, row.last_used]
    if (row.valid_until, row.supersedes) != (None, None):
        values += ["valid", row.valid_until, row.supersedes]
    spelled = ["" if value is None else str(value) for value in values]
    try:
        summed = "\0".join(spelled).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return None
    return zlib.crc32(vec or b"", zlib.crc32(summed))


@pytest.mark.parametrize("crc", [None, True, "1", 2**70, 1.0], ids=repr)
def test_a_checksum_of_another_type_is_doubted(crc):
    values = list(read(WHOLE))
    values[-1] = crc
    assert made(tuple(values)) == [None]


@settings(max_examples=examples(2_000), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**53)
    .flatmap(lambda whole: st.sampled_from([whole / 1e6, whole / 1e5, whole / 1e7]))
    .flatmap(lambda time: st.sampled_from([time, np.nextafter(time, 0).item()]))
)
def test_times_are_spelled_as_python_spells_them(time):
    assert joined_values([time, -time]) == f"{time!r}\0{-time!r}".encode()


@pytest.mark.parametrize("rows", [None, (), [None], [()], [("short",) * 23]], ids=repr)
def test_what_is_no_list_of_rows_is_refused_without_quoting_it(rows):
    with pytest.raises(InvalidTypeError) as caught:
        whole_rows(rows, Row, RowWithVector)
    assert str(caught.value) == "rows: expected a list of tuples of 24 values"


@pytest.mark.parametrize("types", [(Row, dict), (1, Row)], ids=repr)
def test_what_is_no_class_of_tuples_is_refused(types):
    with pytest.raises(InvalidTypeError, match=r"\Aexpected a class of tuples\Z"):
        whole_rows([], *types)


@pytest.mark.parametrize("row", [None, [], (), tuple(WHOLE[:-1])], ids=repr)
def test_what_is_no_row_has_no_checksum(row):
    with pytest.raises(
        InvalidTypeError, match=r"\Arow: expected a tuple of 21 values\Z"
    ):
        row_checksum(row, None)
