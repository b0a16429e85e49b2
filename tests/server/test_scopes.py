"""Places that requests share: how many, whose turn, and what one token may cost."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, bearing, door_to, error_of, serving
from vecall.server import HttpLimits, TokenFile, Tokens, create_app, mint
from vecall.server.limits import Places, Turns
from vecall.server.responses import HttpError

MEMORIES = f"{ALICE}/memories"
SEARCH = f"{MEMORIES}/search"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


def test_places_go_round_by_token():
    """A token with one request waits for one of each other token, not for all."""
    order: list[str] = []

    async def one(places: Places, token: str) -> None:
        async with places.place(token):
            order.append(token)
            await asyncio.sleep(0)

    async def scenario() -> None:
        places = Places(1, 1, 5.0)
        await asyncio.gather(*(one(places, token) for token in "aaaaaabbc"))

    asyncio.run(scenario())
    assert "".join(order) == "abcabaaaa"


def test_one_token_leaves_places_to_others():
    """With its own share taken it waits, although places are free."""

    async def scenario() -> None:
        places = Places(3, 2, 0.01)
        async with places.place("a"), places.place("a"):
            with pytest.raises(HttpError) as refused:
                async with places.place("a"):
                    pass
            assert (refused.value.status, refused.value.code) == (503, "busy")
            async with places.place("b"):
                pass

    asyncio.run(scenario())


def test_who_waits_for_several_places_is_not_overtaken_by_others():
    order: list[str] = []

    async def one(places: Places, token: str, size: int) -> None:
        async with places.place(token, size):
            order.append(token)

    async def scenario() -> None:
        places = Places(2, 2, 5.0)
        async with places.place("a"):
            waits = [
                asyncio.ensure_future(one(places, token, size))
                for token, size in (("b", 2), ("c", 1))
            ]
            for _ in range(3):
                await asyncio.sleep(0)
            assert order == []  # one place is free, and c came later than b
        await asyncio.gather(*waits)

    asyncio.run(scenario())
    assert order == ["b", "c"]


@pytest.mark.parametrize("seed", range(4))
def test_no_place_is_lost_or_given_twice(seed):
    """Whoever is cancelled, waiting or just let in; sizes and tokens by chance."""
    rng = random.Random(seed)
    most, most_each = 8, 5
    taken: Counter[str] = Counter()
    served = 0

    async def one(places: Places, token: str, size: int) -> None:
        nonlocal served
        async with places.place(token, size):
            taken[token] += size
            assert taken[token] <= most_each
            assert taken.total() <= most
            try:
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
            finally:
                taken[token] -= size
        served += 1

    async def scenario() -> None:
        places = Places(most, most_each, 60.0)
        for _ in range(50):
            tasks = []
            for _ in range(rng.randrange(1, 12)):
                work = one(places, rng.choice("abc"), rng.randint(1, most_each))
                tasks.append(asyncio.ensure_future(work))
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
                rng.choice(tasks).cancel()
            await asyncio.wait(tasks)
            assert not taken.total()
        # All are free again: as many as there are fit at once, without waiting.
        async with places.place("a", most_each), places.place("b", most - most_each):
            pass
        assert not places._last_turns

    asyncio.run(scenario())
    assert served > 50


def test_a_burst_of_one_token_is_answered_in_turns_with_other_tokens(open_service):
    """Requests that arrived before it, of another token, do not all go first."""
    made = [mint(app="hotel"), mint(app="hotel")]
    tokens = Tokens([token for _, token in made])
    app = create_app(open_service(), tokens=tokens)
    bursting, other = (Door(app, bearer) for bearer, _ in made)
    order: list[str] = []

    async def one(who: str, door: Door, path: str, status: int) -> None:
        (answer,) = await door.ask_all([("GET", path, {})])
        assert answer.status_code == status
        order.append(who)

    async def scenario() -> None:
        forbidden = "/apps/motel/users/alice/memories"
        burst = [one("a", bursting, forbidden, 403) for _ in range(100)]
        unknown = [one("-", Door(app, "x"), forbidden, 401) for _ in range(100)]
        await asyncio.gather(*burst, *unknown, one("b", other, forbidden, 403))

    asyncio.run(scenario())
    assert Counter(order) == {"a": 100, "-": 100, "b": 1}
    assert order.index("b") < 30


def test_a_request_that_is_cancelled_takes_no_turn():
    """Those behind it go on, also on another event loop."""
    turns = Turns()

    async def scenario() -> int:
        tasks = [asyncio.ensure_future(turns.wait_for_turn("a")) for _ in range(50)]
        await asyncio.sleep(0)
        for task in tasks[10:40]:
            task.cancel()
        await asyncio.wait(tasks)
        return sum(task.cancelled() for task in tasks)

    async def cut_short() -> None:
        for _ in range(9):
            task = asyncio.ensure_future(turns.wait_for_turn("a"))
        await asyncio.sleep(0)
        assert not task.done()

    for _ in range(2):
        assert asyncio.run(scenario()) == 30
        asyncio.run(cut_short())


def test_another_event_loop_leaves_those_alone_who_wait():
    turns = Turns()

    async def scenario() -> int:
        tasks = [asyncio.ensure_future(turns.wait_for_turn("a")) for _ in range(50)]
        await asyncio.sleep(0)
        other = threading.Thread(target=lambda: asyncio.run(turns.wait_for_turn("a")))
        other.start()
        other.join()
        done, _ = await asyncio.wait(tasks, timeout=20)
        return len(done)

    assert asyncio.run(scenario()) == 50


SIZES = {
    ("POST", SEARCH): 256 * 1024,
    ("POST", f"{MEMORIES}/used"): 256 * 1024,
    ("POST", f"{MEMORIES}/delete"): 256 * 1024,
    ("PATCH", f"{ALICE}/memory"): 256 * 1024,
    ("PATCH", f"{MEMORIES}/x"): MIB,
    ("POST", MEMORIES): 4 * MIB,
    ("POST", f"{ALICE}/events"): 4 * MIB,
    ("POST", f"{ALICE}/sessions/s/observe"): 4 * MIB,
    ("POST", f"{ALICE}/sessions/s/end"): 4 * MIB,
}


@pytest.mark.parametrize(("method", "path"), SIZES)
def test_each_route_has_its_own_limit_on_bytes(open_service, method, path):
    """One byte more is 413, whatever else is wrong with it."""
    door = door_to(open_service(), limits=HttpLimits(body_bytes_per_second=10**9))
    most = SIZES[method, path]
    for size, expected in ((most, 400), (most + 1, 413)):
        answer = door.ask(method, path, content=b" " * size, headers=JSON)
        assert error_of(answer)[0] == expected


@pytest.mark.parametrize("part", ["[]", '{"a":0}', "0"])
def test_a_body_of_too_many_parts_is_refused_before_it_is_parsed(open_service, part):
    """Objects of a few bytes each take many times their size in memory."""
    door = door_to(open_service())
    count = 100_001 // (1 + (part != "0")) + 1
    body = f'{{"memories":[{",".join([part] * count)}]}}'.encode()
    answer = door.ask("POST", MEMORIES, content=body, headers=JSON)
    assert error_of(answer) == (422, "invalid")
    assert "100000" in answer.json()["error"]["message"]


def test_a_text_may_have_as_many_commas_as_fit_the_limit(open_service):
    """256 long texts of prose are no attack."""
    door = door_to(open_service())
    text = "Tea and bread and jam in the morning, and at nine more tea. " * 240
    body = {"memories": [f"{n} {text}" for n in range(256)]}
    assert len(json.dumps(body)) > 3.5 * MIB
    answer = door.ask("POST", MEMORIES, json=body)
    assert len(answer.json()["ids"]) == 256


def test_bytes_beyond_the_budget_wait_and_are_not_lost(open_service):
    """A token that sends more than its share is slowed down; another one is not."""
    memory, made = open_service(), [mint(app="hotel") for _ in range(2)]
    limits = HttpLimits(body_bytes_per_second=100_000)
    app = create_app(memory, tokens=Tokens([token for _, token in made]), limits=limits)
    door, other = (Door(app, bearer) for bearer, _ in made)
    bodies = [{"memories": [f"{n}{'x' * 60_000}"]} for n in range(4)]

    async def timed(asked: Door, body: Any) -> float:
        begin = asyncio.get_running_loop().time()
        (answer,) = await asked.ask_all([("POST", MEMORIES, {"json": body})])
        assert answer.status_code == 201
        return asyncio.get_running_loop().time() - begin

    async def scenario() -> list[float]:
        first = [await timed(door, body) for body in bodies]
        return [sum(first), await timed(other, bodies[0])]

    spent, others = asyncio.run(scenario())
    assert spent > 0.6  # 180 kB before the last of them, of which 100 kB at once
    assert others < spent


def peak_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise OSError(process)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("path", [SEARCH, MEMORIES])
def test_large_bodies_of_one_token_take_little_memory_and_stop_nobody(tmp_path, path):
    """24 bodies of 4 MiB at once, all of lists: each would be 100 MB, parsed."""
    body = b'{"memories":[' + b"[]," * (4 * MIB // 3 - 50) + b"[]]}"
    with serving(tmp_path) as (server, process):
        bearer, token = mint(app="hotel", user="bob")
        file = TokenFile(f"{server.path}.tokens")
        file.change(lambda tokens: [*tokens, token])
        before, served = peak_mb(process.pid), threading.Event()

        def search() -> list[int]:
            try:
                with server.client() as client:
                    client.headers.update(bearing(bearer))
                    bob = SEARCH.replace("alice", "bob")
                    asked = [client.post(bob, json={"query": "tea"}) for _ in range(3)]
                    return [answer.status_code for answer in asked]
            finally:
                served.set()

        def send() -> int:
            connection = http.client.HTTPConnection(*server.address, timeout=60)
            with closing(connection), suppress(ConnectionError):
                told = {**JSON, **bearing(server.bearer)}
                connection.request("POST", path, body, told)
                return connection.getresponse().status
            return 0  # the server closed it before all was sent

        def send_until_bob_is_served(_: int) -> set[int]:
            statuses = {send()}
            while not served.is_set():
                statuses.add(send())
            return statuses

        with ThreadPoolExecutor(25) as pool:
            others = pool.submit(search)
            statuses = set().union(*pool.map(send_until_bob_is_served, range(24)))
            assert others.result() == [200] * 3
        assert statuses <= {0, 413, 422, 429, 503}
        assert peak_mb(process.pid) - before < 256
