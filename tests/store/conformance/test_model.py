"""Random programs of jobs against dictionaries."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from helpers.campaigns import campaign
from helpers.clocks import SettableClock
from helpers.folders import fastest
from helpers.storage_contents import APP, applied, replayed, state_of, write
from helpers.storage_model import (
    DELAY_S,
    LEASE_S,
    TTL_S,
    User,
    is_over,
    vector_of,
)
from helpers.storage_places import PLACES
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from vecall.errors import ConflictError, NotFoundError
from vecall.filters.rights import FULL
from vecall.store import (
    AddMemories,
    ArchiveMemories,
    BufferTurns,
    Change,
    ClaimSession,
    DeleteMemories,
    Draft,
    EmbeddingModel,
    ForgetUser,
    MarkUsed,
    RestoreMemory,
    Storage,
    Sweep,
)

USERS = ("a", "A", "a\0b")
FACTS = [f"fact {n}" for n in range(4)] + ["brief 0", "brief 1"]
TURNS = [f"turn {n}" for n in range(4)]
ALL = FACTS + TURNS
SESSIONS = ("one", "two")
EARLIER = 3  # states of each user that are held to be replayed

users = st.sampled_from(USERS)
some_ids = st.lists(st.sampled_from(ALL), min_size=1, max_size=3, unique=True)
versions = st.integers(0, 2)


class Programs(RuleBasedStateMachine):
    """Jobs of three users, and what is read after each."""

    kind: ClassVar[str]

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.mkdtemp(dir=fastest())
        self.place = PLACES[self.kind](Path(self.folder))
        self.clock = SettableClock()
        self.storage: Storage = self.place.open(self.clock)
        self.seers = [self.storage]
        if self.place.is_shared:
            self.seers.append(self.place.open(self.clock))
        self.users = {user: User() for user in USERS}
        self.parts: set[int] = set()  # of users who were forgotten
        self.model: EmbeddingModel | None = None
        self.published: list[Change] = []
        self.storage.publish = self.published.append
        self.states = {user: [state_of(self.storage, user)] for user in USERS}

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.close()
            shutil.rmtree(self.folder)

    @property
    def now(self) -> float:
        return self.storage.expiry_clock.now()

    def run_job(self, job: Any) -> Change:
        """Write, and compare the change with what is read before and after."""
        before = self.states[job.user][-1]
        change = write(self.storage, job)
        assert self.published.pop() is change
        assert not self.published
        after = state_of(self.storage, job.user)
        if change.forgotten:
            assert before.version is not None
            self.parts.add(before.version[0])
            assert after.version is None
        elif after.version is not None:
            assert (change.part, change.seq, change.head) == after.version
            known = before.version or (0, 0, 0)
            assert (change.seq_before, change.head_before) == known[1:]
            is_changed = bool(change.stored or change.removed or change.marked)
            # Also what is not live may change, and nothing else does.
            assert change.seq > change.seq_before or not is_changed
            assert applied(before, change) == after.live
            assert after.version[0] not in self.parts
        self.states[job.user] = [*self.states[job.user][-EARLIER:], after]
        return change

    def draft(self, user: str, id_: str, version: int) -> Draft:
        """A draft, with a vector where there is a model."""
        del user
        text = f"{id_} {version}"
        return Draft(
            id_,
            text,
            session="talk" if id_ in TURNS else None,
            ttl=TTL_S if id_.startswith("brief") else None,
            vec=None if self.model is None else vector_of(text),
            ordered=id_ in TURNS,
        )

    @rule(
        user=users,
        ids=st.lists(st.sampled_from(FACTS), min_size=1, max_size=3, unique=True),
        version=versions,
        restore=st.booleans(),
        again=st.booleans(),
    )
    def add_facts(
        self, user: str, ids: list[str], version: int, restore: bool, again: bool
    ) -> None:
        self.add(user, ids, version, restore=restore, again=again)

    @rule(user=users, count=st.integers(1, len(TURNS)), restore=st.booleans())
    def add_session(self, user: str, count: int, restore: bool) -> None:
        self.add(user, TURNS[:count], 0, restore=restore, again=False)

    def add(
        self, user: str, ids: list[str], version: int, *, restore: bool, again: bool
    ) -> None:
        drafts = [self.draft(user, id_, version) for id_ in ids]
        number = None if self.model is None else self.model.id
        job = AddMemories(APP, user, drafts, number, restore, again=again)
        change = self.run_job(job)
        stored = {
            draft.id
            for draft in drafts
            if self.users[user].add(
                draft.id,
                draft.text,
                self.now,
                ttl=draft.ttl,
                vec=draft.vec,
                restore=restore,
                again=again,
                is_turn=draft.ordered,
            )
        }
        self.users[user].place(
            [each.id for each in drafts if each.id in stored and each.ordered]
        )
        assert set(change.ids) == stored
        assert job.left_out.keys() == set(ids) - stored

    @rule(user=users, ids=some_ids)
    def delete(self, user: str, ids: list[str]) -> None:
        change = self.run_job(DeleteMemories(APP, user, ids))
        assert set(change.ids) == self.users[user].delete(ids)

    @rule(user=users)
    def forget(self, user: str) -> None:
        self.run_job(ForgetUser(APP, user))
        self.users[user] = User()

    @rule(user=users, ids=some_ids)
    def archive(self, user: str, ids: list[str]) -> None:
        change = self.run_job(ArchiveMemories(APP, user, ids))
        assert len(change.removed) == len(self.users[user].archive(ids))

    @rule(user=users, id_=st.sampled_from(ALL))
    def restore(self, user: str, id_: str) -> None:
        if self.users[user].restore(id_, self.now):
            assert list(self.run_job(RestoreMemory(APP, user, id_)).ids) == [id_]
        else:
            with pytest.raises(NotFoundError):
                write(self.storage, RestoreMemory(APP, user, id_))

    @rule(user=users, ids=some_ids)
    def mark(self, user: str, ids: list[str]) -> None:
        change = self.run_job(MarkUsed(APP, user, ids))
        assert set(change.ids) == self.users[user].mark(ids, self.now)

    @rule(
        user=users,
        session=st.sampled_from(SESSIONS),
        numbers=st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    )
    def buffer(self, user: str, session: str, numbers: list[int]) -> None:
        turns = {f"{session} {n}": {"content": f"said {n}"} for n in numbers}
        change = self.run_job(BufferTurns(APP, user, session, turns, DELAY_S))
        new = self.users[user].buffer(session, turns, self.now)
        assert set(change.ids) == new

    @rule(user=users, session=st.sampled_from(SESSIONS))
    def claim(self, user: str, session: str) -> None:
        change = self.run_job(ClaimSession(APP, user, session, LEASE_S))
        had = self.users[user].claim(session, self.now)
        assert list(change.ids) == [session] * had

    @rule(
        user=users,
        session=st.sampled_from(SESSIONS),
        numbers=st.sets(st.integers(0, 5), min_size=1, max_size=3),
        version=versions,
    )
    def finish(self, user: str, session: str, numbers: set[int], version: int) -> None:
        """What is made of turns is written if they all wait, else nothing is."""
        ids = [f"{session} {n}" for n in sorted(numbers)]
        made = self.draft(user, "fact 0", version)
        number = None if self.model is None else self.model.id
        job = AddMemories(APP, user, [made], number, done=(session, ids))
        if self.users[user].finish(session, ids):
            self.run_job(job)
            self.users[user].add("fact 0", made.text, self.now, vec=made.vec)
        else:
            with pytest.raises(ConflictError):
                write(self.storage, job)

    @rule(seconds=st.sampled_from([1.0, 15.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.let_pass(seconds)

    @rule()
    def sweep(self) -> None:
        with self.storage.read() as reads:
            due = reads.due_users(self.now)
        assert sorted(due) == sorted(
            (APP, user)
            for user, known in self.users.items()
            if any(is_over(memory, self.now) for memory in known.memories.values())
        )
        for app, user in due:
            change = self.run_job(Sweep(app, user, 100))
            assert set(change.ids) == self.users[user].sweep(self.now)

    @rule()
    def adopt(self) -> None:
        given = EmbeddingModel("toy", 4)
        self.model = self.storage.adopt_model(given)
        assert (self.model.name, self.model.dim) == ("toy", 4)

    @rule()
    def reopen(self) -> None:
        if self.place.is_shared:
            for storage in self.seers:
                storage.close()
            self.seers = [self.place.open(self.clock) for _ in self.seers]
            self.storage = self.seers[0]
            self.storage.publish = self.published.append

    @invariant()
    def memories_are_those_of_the_model(self) -> None:
        for storage in getattr(self, "seers", ()):
            for user, known in self.users.items():
                self.check_user(storage, user, known)

    def check_user(self, storage: Storage, user: str, known: User) -> None:
        now = self.now
        state = state_of(storage, user)
        assert state == self.states[user][-1]
        assert storage.version(APP, user) == state.version
        live = {i: m for i, m in known.memories.items() if m.state == "live"}
        assert {
            entry.row.id: (
                entry.row.text,
                entry.row.uses or 0,
                entry.row.expires_at,
                entry.vec,
            )
            for entry in state.live.values()
        } == {i: (m.text, m.uses, m.expires_at, m.vec) for i, m in live.items()}
        with storage.read() as reads:
            for id_ in ALL:
                row = reads.find(APP, user, id_, now, FULL)
                assert (row is not None) == known.is_found(id_, now)
            for name in ("live", "archived"):
                rows = reads.listed(APP, user, name, None, -1, now)
                assert [row.id for row in rows] == [
                    id_
                    for id_, memory in known.memories.items()
                    if memory.state == name and not is_over(memory, now)
                ]
            turns = [id_ for id_ in known.order if known.is_found(id_, now)]
            for id_ in turns:
                row = reads.find(APP, user, id_, now, FULL)
                assert row is not None
                around = reads.turns_around(row, 9, 9, now)
                assert [turn.id for turn in around] == turns

    @invariant()
    def waiting_turns_are_those_of_the_model(self) -> None:
        for storage in getattr(self, "seers", ()):
            now = self.now
            due, ends = set(), []
            with storage.read() as reads:
                for user, known in self.users.items():
                    for session in SESSIONS:
                        waiting = known.sessions.get(session)
                        names = (APP, user, session)
                        ids = [f"{session} {n}" for n in range(6)]
                        found = reads.buffered_turns(*names)
                        seen = reads.seen_turn_ids(*names, ids)
                        if waiting is None:
                            assert (found, seen) == ([], set())
                            continue
                        assert {turn.id: turn.event for turn in found} == waiting.turns
                        assert [turn.id for turn in found] == list(waiting.turns)
                        assert seen == waiting.seen
                        if waiting.due_at is not None:
                            ends.append(waiting.due_at)
                            if waiting.due_at <= now:
                                due.add(names)
                assert {tuple(each) for each in reads.due_sessions(now)} == due
                assert reads.next_due() == min(ends, default=None)

    @invariant()
    def earlier_states_can_be_brought_up_to_date(self) -> None:
        for storage in getattr(self, "seers", ()):
            for user, states in self.states.items():
                now = states[-1]
                for old in states[:-1]:
                    if old.version is None or now.version is None:
                        continue
                    if old.version[0] != now.version[0]:
                        assert replayed(storage, user, old) is None
                    else:
                        assert replayed(storage, user, old) == now

    @invariant()
    def totals_are_those_of_the_model(self) -> None:
        for storage in getattr(self, "seers", ()):
            with storage.read() as reads:
                totals = reads.totals()
                model = reads.active_model()
                bare = reads.without_vector(0, -1)
                users = reads.users_of(APP)
            assert model == self.model
            memories = [
                memory
                for known in self.users.values()
                for memory in known.memories.values()
            ]
            live = [memory for memory in memories if memory.state == "live"]
            assert totals["memories"] == len(live)
            assert totals["archived"] == len(memories) - len(live)
            assert totals["text_bytes"] == sum(len(m.text.encode()) for m in live)
            assert totals["deleted_ids"] == sum(
                len(known.gone) for known in self.users.values()
            )
            assert totals["waiting_turns"] == sum(
                len(session.turns)
                for known in self.users.values()
                for session in known.sessions.values()
            )
            assert len(bare) == sum(memory.vec is None for memory in live)
            there = {user for user in USERS if self.states[user][-1].version}
            assert set(users) == there
            assert totals["users"] == len(there)


# Programs at scale 1, and the fewest. All kinds run the same ones, most of them where
# they are fastest: a job over a connection takes ten times as long.
SIZES = {"sqlite memory": (60, 8), "sqlite file": (60, 4), "postgres": (20, 1)}


@pytest.mark.campaign
@pytest.mark.parametrize("kind", PLACES)
def test_every_program_of_jobs_leaves_what_plain_dictionaries_say(kind: str) -> None:
    programs = type("Programs", (Programs,), {"kind": kind})
    examples, least = SIZES[kind]
    run_state_machine_as_test(programs, settings=campaign(examples, 40, least))
