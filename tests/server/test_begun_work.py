"""Work that is begun at once does what it does in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar

import pytest
from starlette.responses import Response
from vecall.concurrency.join import await_within
from vecall.server.app import _begin_work

_NAME: ContextVar[str] = ContextVar("name", default="caller's")


async def ended(work: Awaitable[Response], at_once: bool) -> Response:
    begun = _begin_work(work, at_once)
    return begun if isinstance(begun, Response) else await begun


async def told(waits: int, fails: bool, done: list[str]) -> Response:
    """Wait some times, in each of the ways of asyncio; keep a context variable."""
    token = _NAME.set("work's")
    try:
        for number in range(waits):
            done.append(f"wait {number}")
            if number % 3 == 0:
                await asyncio.sleep(0)
            elif number % 3 == 1:
                await asyncio.sleep(0.001)
            else:
                await asyncio.to_thread(done.append, "thread")
        if fails:
            raise KeyError(waits)
        return Response(_NAME.get())
    finally:
        _NAME.reset(token)  # fails in another context
        done.append("end")


@pytest.mark.parametrize("waits", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("fails", [False, True])
def test_work_that_is_begun_at_once_ends_as_in_a_task(waits, fails):
    def outcome(at_once: bool) -> tuple[object, list[str], str]:
        done: list[str] = []

        async def asked() -> object:
            try:
                return (await ended(told(waits, fails, done), at_once)).body
            except KeyError as error:
                return error.args
            finally:
                done.append(_NAME.get())

        return asyncio.run(asked()), done, _NAME.get()

    assert outcome(True) == outcome(False)


def test_work_that_waits_for_nothing_has_its_answer_at_once():
    async def asked() -> bool:
        return isinstance(_begin_work(told(0, False, []), True), Response)

    assert asyncio.run(asked())


def test_cancelled_work_that_was_begun_at_once_cleans_up():
    done: list[str] = []

    async def asked() -> None:
        begun = _begin_work(told(100, False, done), True)
        assert isinstance(begun, asyncio.Task)
        await asyncio.sleep(0)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun

    asyncio.run(asked())
    assert done[0] == "wait 0"
    assert done[-1] == "end"


def test_only_work_that_waits_longer_than_its_time_is_ended():
    done: list[str] = []
    for waits in (0, 3):
        assert asyncio.run(await_within(60, told(waits, False, done))).body == b"work's"
    with pytest.raises(TimeoutError):
        asyncio.run(await_within(0.01, told(100_000, False, done)))
    assert done[-1] == "end"
