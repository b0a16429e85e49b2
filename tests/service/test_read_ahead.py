"""Batches that another thread reads while the caller uses the one before."""

from __future__ import annotations

import threading

import pytest
from vecall.index import partition_cache
from vecall.index.partition_cache import read_batches_ahead

IN_TIME_S = 20


def test_the_items_come_in_order_and_the_next_is_made_while_one_is_used():
    made = [threading.Event() for _ in range(5)]

    def items():
        for number in range(4):
            made[number].set()
            yield number
        made[4].set()

    seen = []
    for number in read_batches_ahead(items()):
        assert made[number + 1].wait(IN_TIME_S)
        seen.append(number)
    assert seen == [0, 1, 2, 3]


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield "first"
        yield "second"
        raise LookupError

    seen = []
    with pytest.raises(LookupError):
        seen.extend(read_batches_ahead(items()))
    assert seen == ["first", "second"]


def test_after_close_nothing_is_made_any_more():
    running = threading.Event()
    ended = threading.Event()

    def items():
        yield 0
        running.set()
        ended.wait(0.05)  # it is being made when the caller closes
        ended.set()
        yield 1
        raise AssertionError

    ahead = read_batches_ahead(items())
    assert next(ahead) == 0
    assert running.wait(IN_TIME_S)
    ahead.close()
    assert ended.is_set()


def test_without_a_thread_the_items_are_made_by_the_caller(monkeypatch):
    def refuses(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(partition_cache.Pool, "submit", refuses)
    own = threading.get_ident()
    assert (
        list(read_batches_ahead(threading.get_ident() for _ in range(3))) == [own] * 3
    )


def test_no_items_are_none():
    assert list(read_batches_ahead(iter(()))) == []
