"""Random programs: every counter equals what an export of everything shows."""

from __future__ import annotations

import io
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import counted
from helpers.campaigns import campaign
from helpers.clocks import SettableClock
from helpers.folders import fastest
from helpers.postgres_server import MISSING, Schema, is_available
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from vecall import (
    MemoryService,
    Put,
    Quota,
    Scopes,
    StorageOptions,
    VecallError,
    WritePolicy,
)
from vecall.hooks import ALLOW, QUARANTINE
from vecall.store import copy_storage

OWNERS = [("hotel", "alice"), ("hotel", "bob"), ("bank", "alice"), ("b\x01nk", "Ü")]
SCOPES = ("user", "app", "shared")

owners = st.sampled_from(OWNERS)
scopes = st.sampled_from([*SCOPES, "user", "user"])
ids = st.sampled_from([f"m{n}" for n in range(5)])
sessions = st.sampled_from([None, "s", "s2", "S\x01"])
texts = st.sampled_from(["zebra", "okapi é", "held tapir", "\x01\x02 emu\x02\x01"])
ttls = st.sampled_from([None, None, 5.0, 100.0])
times = st.sampled_from([None, 1_000.0, 2_000.5, -3.0])


class Programs(RuleBasedStateMachine):
    """A service over a file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.places: list[Any] = []
        self.place = self.new_place()
        self.clock = SettableClock()
        self.service = self.opened(self.place)
        self.saved: list[str] = []

    def new_place(self) -> Path | str:
        self.places.append(self.folder / f"{len(self.places)}.db")
        return Path(self.places[-1])

    def opened(self, place: Path | str) -> MemoryService:
        return MemoryService(
            place,
            storage=StorageOptions(
                durability="process", maintenance_interval=None, clock=self.clock
            ),
            writes=WritePolicy(
                scopes=Scopes(read=SCOPES[1:], write=SCOPES[1:]),
                quota=Quota(memories=9, eviction="oldest"),
                on_write=lambda write: (
                    QUARANTINE if "held" in write.memory.text else ALLOW
                ),
            ),
            embedder=None,
        )

    def teardown(self) -> None:
        assert counted.wrong_counters(self.service) == ""
        self.service.close()
        shutil.rmtree(self.folder)

    def call(self, name: str, owner: tuple[str, str], **given: Any) -> None:
        """Call a method; one that is refused changes nothing."""
        app, user = owner
        with suppress(VecallError):
            getattr(self.service.sync, name)(app_name=app, user_id=user, **given)

    @rule(
        owner=owners, id_=ids, session=sessions, text=texts, time=times, ttl=ttls,
        absent=st.booleans(), scope=scopes,
    )  # fmt: skip
    def add(self, owner, id_, session, text, time, ttl, absent, scope):
        entry = {"id": id_, "content": text, "timestamp": time, "session_id": session}
        entry = {name: value for name, value in entry.items() if value is not None}
        self.call(
            "add_memory", owner, memories=[entry, f"{text} too"], ttl=ttl,
            if_absent=absent, scope=scope,
        )  # fmt: skip

    @rule(
        owner=owners,
        turns=st.lists(st.tuples(ids, texts, times), max_size=4),
        session=sessions,
        restore=st.booleans(),
        ttl=ttls,
    )
    def ingest(self, owner, turns, session, restore, ttl):
        events = [
            {"id": id_, "content": text, "author": "user", "timestamp": time or 7.0}
            for id_, text, time in turns
        ]
        self.call(
            "add_events_to_memory", owner, events=events, session_id=session or "t",
            restore=restore, ttl=ttl,
        )  # fmt: skip

    @rule(owner=owners, ids=st.lists(ids, max_size=3), session=sessions)
    def observe(self, owner, ids, session):
        events = [{"id": f"e{n}{id_}", "content": "said"} for n, id_ in enumerate(ids)]
        app, user = owner
        told = {"id": session or "t", "app_name": app, "user_id": user}
        with suppress(VecallError):
            self.service.sync.observe_session({**told, "events": events})

    @rule(owner=owners, session=sessions)
    def end_session(self, owner, session):
        self.call("end_session", owner, session_id=session or "t")

    @rule(owner=owners, id_=ids, text=texts)
    def update(self, owner, id_, text):
        self.call("update_memory", owner, memory_id=id_, content=text)

    @rule(owner=owners, id_=ids, until=st.sampled_from([10.0, -10.0]))
    def end(self, owner, id_, until):
        until += self.clock.wall()
        self.call("update_memory", owner, memory_id=id_, valid_until=until)

    @rule(
        owner=owners,
        id_=ids,
        name=st.sampled_from(
            "archive_memory restore_memory release_memory delete_memory".split()
        ),
    )
    def change_one(self, owner, id_, name):
        self.call(name, owner, memory_id=id_)

    @rule(owner=owners, some=st.lists(ids, min_size=1), ttl=ttls)
    def touch(self, owner, some, ttl):
        self.call("mark_used", owner, memory_ids=some)
        self.call("touch_memories", owner, memory_ids=some, ttl=ttl)

    @rule(owner=owners, session=sessions)
    def delete_session(self, owner, session):
        self.call("delete_session", owner, session_id=session or "t")

    @rule(owner=owners, session=sessions)
    def delete_where(self, owner, session):
        self.call("delete_where", owner, filter={"session_id": session or "t"})

    @rule(owner=owners, forget=st.booleans())
    def delete_user(self, owner, forget):
        self.call("delete_user", owner, forget=forget)

    @rule(owner=owners, key=ids, ttl=ttls, large=st.booleans())
    def put_item(self, owner, key, ttl, large):
        value = "x" * 300_000 if large else 1
        app, user = owner
        with suppress(VecallError):
            self.service.items.sync.write(
                [Put(("n",), key, value, ttl=ttl)], app_name=app, user_id=user
            )

    @rule(owner=owners)
    def delete_items(self, owner):
        app, user = owner
        self.service.items.sync.delete((), app_name=app, user_id=user)

    @rule(seconds=st.sampled_from([1.0, 50.0]))
    def wait(self, seconds):
        self.clock.let_pass(seconds)

    @rule()
    def maintain(self):
        self.service.sync.admin.run_due()

    @rule()
    def consolidate(self):
        for app, user in OWNERS:
            self.call("consolidate", (app, user))

    @rule()
    def purge(self):
        self.service.sync.admin.purge()

    @rule()
    def save(self):
        stream = io.StringIO()
        self.service.sync.admin.export_jsonl(stream)
        self.saved.append(stream.getvalue())

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), restore=st.booleans())
    def load(self, data, restore):
        text = data.draw(st.sampled_from(self.saved))
        with suppress(VecallError):
            self.service.sync.admin.import_jsonl(io.StringIO(text), restore=restore)

    @rule()
    def reopen(self):
        self.service.close()
        self.service = self.opened(self.place)

    @rule()
    def move(self):
        """Go on with a copy."""
        self.service.close()
        before, self.place = self.place, self.new_place()
        assert copy_storage(before, self.place).is_complete
        self.service = self.opened(self.place)

    @invariant()
    def counters_are_what_is_there(self):
        users = counted.exported(self.service)
        now = self.service._memory.storage.expiry_clock.now()
        sync = self.service.sync
        stats, expected = sync.admin.stats(), counted.stats(users)
        assert {name: stats[name] for name in expected} == expected
        named = {
            key: own
            for key, own in users.items()
            if own["mem"] and not any(name.startswith("\x01") for name in key)
        }
        apps = sorted({app for app, _ in named})
        assert [self.app(each) for each in sync.admin.list_apps()] == [
            self.expected_app(app, users, named) for app in apps
        ]
        for app in apps:
            assert [
                (u.user_id, u.memories, u.text_bytes, u.created_at, u.updated_at,
                 u.sessions, u.items)
                for u in sync.admin.list_users(app_name=app)
            ] == [
                (user, *counted.user(own))
                for (of, user), own in sorted(named.items())
                if of == app
            ]  # fmt: skip
        for app, user in OWNERS:
            own = users.get((app, user), {"mem": []})
            me = {"app_name": app, "user_id": user}
            assert [
                (s.session_id, s.memories, s.text_bytes, s.first_at, s.last_at)
                for s in sync.list_sessions(**me)
            ] == counted.sessions(own, now)
            for state in ("live", "archived", "quarantined"):
                found = counted.in_state(own["mem"], state)
                for expired in (True, False):
                    assert sync.count_memories(
                        **me, state=state, include_expired=expired
                    ) == len([each for each in found if expired or left(each, now)])

    @staticmethod
    def app(each: Any) -> tuple[Any, ...]:
        return (
            each.app_name, each.users, each.memories, each.text_bytes, each.updated_at
        )  # fmt: skip

    @staticmethod
    def expected_app(app: str, users: Any, named: Any) -> tuple[Any, ...]:
        own = [counted.user(own) for key, own in named.items() if key[0] == app]
        columns = list(zip(*own, strict=True))
        return app, len(own), sum(columns[0]), sum(columns[1]), max(columns[3])


def left(memory: dict[str, Any], now: float) -> bool:
    """Whether the end of a memory has not come."""
    ends = [memory.get("expires_at", 9e99)]
    if memory["state"] == "live":
        ends.append(memory.get("valid_until", 9e99))
    return min(ends) > now


class DatabasePrograms(Programs):
    """A service over a database."""

    def new_place(self) -> str:
        self.places.append(Schema())
        return str(self.places[-1].url)

    def teardown(self) -> None:
        super().teardown()
        for schema in self.places:
            schema.drop()


TestFile = pytest.mark.campaign(Programs.TestCase)
TestFile.settings = campaign(examples=40, steps=30)


@pytest.mark.campaign
@pytest.mark.skipif(not is_available(), reason=MISSING)
class TestDatabase(DatabasePrograms.TestCase):
    settings = campaign(examples=12, steps=30, least=1)
