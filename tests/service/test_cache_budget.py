"""Many users in little memory: the answers are those of a service with plenty."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import campaign
from helpers.folders import fastest
from helpers.processes import child, said, tell
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from vecall import ConfigError, MemoryEntry, MemoryService, StorageOptions

USERS = 60
BUDGET = 100_000  # the users below take some 600,000 bytes when all are loaded
WORDS = "zebra okapi tapir quagga gnu ibex".split()


def scope(user: object) -> dict[str, str]:
    return {"app_name": "app", "user_id": f"user{user}"}


def texts_of(user: int) -> list[str]:
    rng = random.Random(user)
    size = rng.randint(1, 12)
    return [f"{rng.choice(WORDS)} {user} {i} " + "x" * 50 for i in range(size)]


def answer(service: MemoryService, user: object, query: str) -> list[tuple[Any, ...]]:
    found = service.sync.search_memory(**scope(user), query=query, top_k=1000)
    return [(m.id, m.text, m.score) for m in found.memories]


def spent(service: MemoryService) -> int:
    stats = service.sync.admin.stats()
    return int(stats["loaded_bytes"] + stats["cached_text_bytes"])


@pytest.fixture
def path(open_service, tmp_path) -> Path:
    path = tmp_path / "m.db"
    with open_service(path, durability="process") as service:
        for user in range(USERS):
            service.sync.add_memory(**scope(user), memories=texts_of(user))
    return path


@pytest.fixture
def plenty(open_service, path) -> MemoryService:
    """The reference: nothing is ever evicted."""
    return open_service(path, durability="process", cache_bytes=1 << 30)


def test_users_come_and_go_and_every_answer_is_the_same(open_service, path, plenty):
    """Guarantees 3 and 7: memory costs time, never an answer."""
    poor = open_service(path, durability="process", cache_bytes=BUDGET)
    rng = random.Random(1)
    for _ in range(300):
        user, query = rng.randrange(USERS + 3), rng.choice(WORDS)
        assert answer(poor, user, query) == answer(plenty, user, query)
    everybody = plenty.sync.admin.stats()
    assert everybody["loaded_users"] > USERS // 2
    assert everybody["loaded_bytes"] > BUDGET
    assert 0 < poor.sync.admin.stats()["loaded_users"] < everybody["loaded_users"]


@pytest.mark.parametrize("budget", [0, 20_000, BUDGET])
def test_the_budget_is_kept_after_every_call(open_service, path, budget):
    """Guarantee 7. Only the user who was asked last may exceed it."""
    service = open_service(path, durability="process", cache_bytes=budget)
    largest = 0
    with open_service(path, durability="process") as other:
        for user in range(USERS):
            before = other.sync.admin.stats()["loaded_bytes"]
            other.sync.admin.warm(**scope(user))
            after = other.sync.admin.stats()["loaded_bytes"]
            largest = max(largest, after - before)
    rng = random.Random(2)
    for _ in range(200):
        user = rng.randrange(USERS)
        if rng.random() < 0.2:
            service.sync.add_memory(**scope(user), memories=[f"gnu {rng.random()}"])
        else:
            answer(service, user, rng.choice(WORDS))
        stats = service.sync.admin.stats()
        assert spent(service) <= max(budget, largest + 2_000), stats


@pytest.mark.parametrize("budget", [0, 1, 30_000])
def test_many_searches_at_once_in_no_memory(
    open_service, path, plenty, budget, in_time
):
    """Whoever is being searched is not evicted before the answer is there."""
    service = open_service(path, durability="process", cache_bytes=budget)
    expected = {user: answer(plenty, user, "zebra") for user in range(50)}

    async def ask(user: int) -> None:
        found = await service.search_memory(**scope(user), query="zebra", top_k=1000)
        got = [(m.id, m.text, m.score) for m in found.memories]
        assert got == expected[user]

    async def all_at_once() -> None:
        for _ in range(4):
            await asyncio.gather(*(ask(user) for user in range(50)))

    in_time(lambda: asyncio.run(all_at_once()), timeout_s=30.0)


def test_writes_reach_users_who_are_loaded_or_not(open_service, path, plenty):
    """Guarantee 4, whether the partition is in memory or was just dropped."""
    poor = open_service(path, durability="process", cache_bytes=20_000)
    rng = random.Random(3)
    for i in range(120):
        user = rng.randrange(USERS)
        if rng.random() < 0.5:
            answer(poor, user, "zebra")
        (id_,) = poor.sync.add_memory(**scope(user), memories=[f"zebra new{i}"])
        if rng.random() < 0.3:
            answer(poor, (user + 1) % USERS, "zebra")
        if rng.random() < 0.3:
            poor.sync.delete_memory(**scope(user), memory_id=id_)
        assert answer(poor, user, "zebra") == answer(plenty, user, "zebra")


def test_an_evicted_user_can_be_deleted_and_forgotten(open_service, path):
    poor = open_service(path, durability="process", cache_bytes=0)
    for user in range(0, 20, 2):
        count = len(texts_of(user))
        assert answer(poor, user + 1, "zebra okapi tapir quagga gnu ibex")
        assert poor.sync.delete_user(**scope(user), forget=user % 4 == 0) == count
        assert answer(poor, user, " ".join(WORDS)) == []
        poor.sync.add_memory(**scope(user), memories=["zebra afresh"])
        assert [text for _, text, _ in answer(poor, user, "zebra")] == ["zebra afresh"]
        assert len(answer(poor, user + 1, " ".join(WORDS))) == len(texts_of(user + 1))


WRITER = """
import sys, vecall
service = vecall.MemoryService(
    sys.argv[1], storage=vecall.StorageOptions(durability="process", cache_bytes=5000),
    embedder=None)
print("ready", flush=True)
for line in sys.stdin:
    user, text = line.split(" ", 1)
    service.sync.add_memory(app_name="app", user_id="user" + user, memories=[text])
    print("ok", flush=True)
"""


def test_another_process_writes_to_users_who_come_and_go(open_service, path):
    """Guarantee 4 across processes, under pressure in both."""
    poor = open_service(path, durability="process", cache_bytes=20_000)
    held = {user: set(texts_of(user)) for user in range(USERS)}
    rng = random.Random(4)
    with child(WRITER, path) as other:
        assert said(other) == "ready"
        for i in range(150):
            user = rng.randrange(USERS)
            text = f"zebra elsewhere{i}"
            tell(other, f"{user} {text}")
            assert said(other) == "ok"
            held[user].add(text)
            for asked in (user, rng.randrange(USERS)):
                found = {t for _, t, _ in answer(poor, asked, " ".join(WORDS))}
                assert {t.strip() for t in found} == {t.strip() for t in held[asked]}


@pytest.mark.parametrize("budget", [-1, 1.5, "many", None, True])
def test_a_budget_is_a_number_of_bytes(open_service, tmp_path, budget):
    with pytest.raises(ConfigError, match="cache_bytes"):
        open_service(tmp_path / "m.db", cache_bytes=budget)
    assert not list(tmp_path.iterdir())


users = st.integers(0, 4)
numbers = st.integers(0, 6)


class Programs(RuleBasedStateMachine):
    """Two services over one file, both short of memory, and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.services = [self.opened(), self.opened()]
        self.held: dict[int, dict[str, tuple[str, str | None]]] = {}
        self.buried: dict[int, set[str]] = {}
        self.hidden: set[int] = set()  # purged without memories, counted as no user
        self.told = 0

    def opened(self) -> MemoryService:
        return MemoryService(
            self.folder / "m.db",
            storage=StorageOptions(durability="process", cache_bytes=4_000),
            embedder=None,
        )

    def teardown(self) -> None:
        for service in self.services:
            service.close()
        shutil.rmtree(self.folder)

    @rule(
        who=st.integers(0, 1),
        user=users,
        ids=st.lists(numbers, min_size=1, max_size=4, unique=True),
        session=st.none() | st.sampled_from(["s", "t"]),
        restore=st.booleans(),
    )
    def add(
        self, who: int, user: int, ids: list[int], session: str | None, restore: bool
    ) -> None:
        self.told += 1
        texts = {f"m{i}": f"{WORDS[i % 6]} told{self.told} part{i}" for i in ids}
        got = self.services[who].sync.add_memory(
            **scope(user),
            memories=[
                MemoryEntry(text, id=id_, session_id=session)
                for id_, text in texts.items()
            ],
            restore=restore,
        )
        held = self.held.setdefault(user, {})
        buried = self.buried.setdefault(user, set())
        if restore:
            buried.difference_update(texts)
        assert got.stored == [id_ for id_ in texts if id_ not in buried]
        if got.stored:
            self.hidden.discard(user)
        held.update({id_: (texts[id_], session) for id_ in got.stored})

    @rule(who=st.integers(0, 1), user=users, number=numbers)
    def delete(self, who: int, user: int, number: int) -> None:
        id_ = f"m{number}"
        self.services[who].sync.delete_memory(**scope(user), memory_id=id_)
        if self.held.get(user, {}).pop(id_, None):
            self.buried[user].add(id_)

    @rule(who=st.integers(0, 1), user=users, session=st.sampled_from(["s", "t"]))
    def delete_session(self, who: int, user: int, session: str) -> None:
        held = self.held.get(user, {})
        gone = {id_ for id_, (_, where) in held.items() if where == session}
        count = self.services[who].sync.delete_session(
            **scope(user), session_id=session
        )
        assert count == len(gone)
        for id_ in gone:
            del held[id_]
            self.buried[user].add(id_)

    @rule(who=st.integers(0, 1), user=users, forget=st.booleans())
    def delete_user(self, who: int, user: int, forget: bool) -> None:
        count = self.services[who].sync.delete_user(**scope(user), forget=forget)
        held = self.held.pop(user, {})
        assert count == len(held)
        if forget:
            self.buried.pop(user, None)
        else:
            self.buried.setdefault(user, set()).update(held)

    @rule(who=st.integers(0, 1), user=users)
    def search(self, who: int, user: int) -> None:
        found = {
            text for _, text, _ in answer(self.services[who], user, " ".join(WORDS))
        }
        assert found == {text for text, _ in self.held.get(user, {}).values()}

    @rule(who=st.integers(0, 1))
    def press(self, who: int) -> None:
        """Searches of others drop whoever was loaded."""
        for user in range(5):
            self.search(who, user)

    @rule(who=st.integers(0, 1))
    def reopen(self, who: int) -> None:
        self.services[who].close()
        self.services[who] = self.opened()

    @rule(who=st.integers(0, 1))
    def purge(self, who: int) -> None:
        self.services[who].sync.admin.purge()
        self.hidden |= {user for user in self.buried if not self.held.get(user)}

    @invariant()
    def counts_are_right(self) -> None:
        for service in self.services:
            stats = service.sync.admin.stats()
            assert stats["memories"] == sum(map(len, self.held.values()))
            seen = [ids for user, ids in self.buried.items() if user not in self.hidden]
            assert stats["deleted_ids"] == sum(map(len, seen))


TestPrograms = pytest.mark.campaign(Programs.TestCase)
TestPrograms.settings = campaign(12, 30)
