"""Which keys the engine accepts, in every call that takes one."""

from __future__ import annotations

import pytest
from helpers.arrays import (
    QUERY,
    TWO_IDS,
    TWO_VECTORS,
    assert_says_nothing,
    columns,
    engine_with_two_rows,
)
from vecall.errors import InvalidArgumentError, InvalidTypeError


@pytest.mark.parametrize(
    "key",
    [
        ("", "user"),
        ("app", ""),
        ("", ""),
        ("s3cret\0", "user"),
        ("app", "\0s3cret"),
        ("app", "s3c\0ret"),
        ("s3cret\ud800", "user"),
        ("app", "\udfffs3cret"),
    ],
    ids=ascii,
)
def test_a_key_with_an_empty_or_broken_name_is_refused(key):
    for call in every_key_call(key):
        with pytest.raises(InvalidArgumentError, match=r"app_name|user_id") as raised:
            call()
        assert type(raised.value) is InvalidArgumentError
        assert_says_nothing(raised.value)


@pytest.mark.parametrize(
    "key",
    [
        "s3cret",
        "ab",
        ("s3cret",),
        ("app", "s3cret", "x"),
        ["app", "s3cret"],
        (),
        None,
        31337,
        (b"s3cret", "user"),
        ("app", b"s3cret"),
        (31337, "user"),
        ("app", None),
        ("app", ("s3cret",)),
    ],
    ids=ascii,
)
def test_a_key_of_another_type_is_refused(key):
    for call in every_key_call(key):
        with pytest.raises(InvalidTypeError, match=r"app_name|user_id|key") as raised:
            call()
        assert isinstance(raised.value, TypeError)
        assert_says_nothing(raised.value)


def every_key_call(key: object) -> list:
    engine = engine_with_two_rows()
    return [
        lambda: engine.add(key, TWO_IDS, TWO_VECTORS),
        lambda: engine.add_rows(**columns(key=key)),
        lambda: engine.search(key, QUERY, 5),
        lambda: engine.recall(key, QUERY, [7], 5),
        lambda: engine.remove(key, TWO_IDS),
        lambda: engine.drop(key),
        lambda: engine.size(key),
        lambda: key in engine,
    ]
