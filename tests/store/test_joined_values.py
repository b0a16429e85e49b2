"""What a row's checksum is of: its values as texts, joined in C++."""

from __future__ import annotations

import enum

import numpy as np
import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidTypeError
from vecall._core import joined_values
from vecall.store.values import canonical_column_text

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.lists(st.none() | texts | st.floats() | st.integers(-(2**63), 2**63 - 1))


class Text(str):
    """A subclass, as a framework may give."""

    __slots__ = ()


class Kind(enum.IntEnum):
    ONE = 1


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(values)
def test_values_are_joined_as_python_spells_them(given):
    assert joined_values(given) == "\0".join(map(canonical_column_text, given)).encode()


@pytest.mark.parametrize(
    "value",
    [True, 2**63, -(2**63) - 1, b"x", Text("x"), Kind.ONE, np.float64(1), np.int64(1)],
    ids=repr,
)
def test_a_value_of_another_type_is_left_to_the_caller(value):
    assert joined_values(["tea", value, 1.5]) is None


def test_a_lone_surrogate_is_refused_as_by_encode():
    with pytest.raises(UnicodeEncodeError):
        joined_values(["tea", "\ud800"])


@pytest.mark.parametrize("given", [("tea",), None, "tea", {}], ids=repr)
def test_what_is_no_list_is_refused_without_quoting_it(given):
    with pytest.raises(InvalidTypeError) as caught:
        joined_values(given)
    assert str(caught.value) == "values: expected a list"
