"""Random programs of corrections, replacements and merges against a plain model."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import campaign
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.folders import fastest
from helpers.lifecycle import kept
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from vecall import MemoryEntry, MemoryService, NotFoundError, StorageOptions
from vecall.store import examine, make_memory_id

USERS = ({"app_name": "a", "user_id": "b"}, {"app_name": "a", "user_id": "B"})
# Of one number they all say the same.
FORMS = ("a gnu {}", "A Gnu {}!", "a the gnu, {}")

users = st.integers(0, len(USERS) - 1)
facts = st.sampled_from([f"fact {n}" for n in range(5)])
versions = st.integers(0, 3)
texts = st.builds(str.format, st.sampled_from(FORMS), versions)
turns = st.dictionaries(st.integers(0, 2), versions, max_size=3)


@dataclass
class Known:
    """What the model knows of a memory.

    Attributes:
        text: What it says.
        live: Whether it is found.
        by: What stands in its place.
        supersedes: In whose place it stands.
        edited: What corrections have overwritten.
        turn: Whether it is a turn of a session.
    """

    text: str
    live: bool = True
    by: str | None = None
    supersedes: str | None = None
    edited: set[str] = field(default_factory=set)
    turn: bool = False

    def archive(self, by: str | None) -> None:
        self.live, self.by = False, by

    def revive(self) -> None:
        self.live, self.by = True, None


class Model:
    """One user's memories, by id, in the order of their making."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.buried: set[str] = set()

    def told(
        self,
        id_: str,
        text: str,
        supersedes: str | None = None,
        *,
        restore: bool = False,
        turn: bool = False,
    ) -> bool:
        """Whether there is such a memory then."""
        if id_ in self.buried and not restore:
            return False
        self.buried.discard(id_)
        old = self.known.get(id_)
        if old is None:
            self.known[id_] = Known(text, supersedes=supersedes, turn=turn)
        else:
            same = old.text == text and supersedes in (None, old.supersedes)
            stays = (same and old.live) if restore else (same or text in old.edited)
            if stays:
                return True
            old.text = text
            old.supersedes = supersedes or old.supersedes
            old.revive()
        self._supersede(id_, supersedes)
        return True

    def _supersede(self, id_: str, supersedes: str | None) -> None:
        older = self.known.get(supersedes or "")
        if older is not None and older.live:
            older.archive(id_)

    def restored(self, id_: str) -> None:
        self.known[id_].revive()
        self._supersede(id_, self.known[id_].supersedes)

    def deleted(self, id_: str) -> None:
        if id_ in self.known:
            del self.known[id_]
            self.buried.add(id_)
            for older in [each for each, m in self.known.items() if m.by == id_]:
                self.deleted(older)

    def merged(self) -> int:
        groups: dict[str, list[str]] = {}
        for id_, memory in self.known.items():
            if memory.live and not memory.turn:
                number = memory.text.rstrip("!")[-1]
                groups.setdefault(number, []).append(id_)
        gone = 0
        for ids in groups.values():
            for id_ in ids[:-1]:
                self.known[id_].archive(ids[-1])
                gone += 1
        return gone

    def of(self, *, live: bool) -> dict[str, str]:
        return {id_: m.text for id_, m in self.known.items() if m.live is live}


class Lives(RuleBasedStateMachine):
    """A service over a file, and the model of each of its users."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.path = self.folder / "m.db"
        self.clock = SettableClock()
        self.service = self.opened()
        self.models = [Model() for _ in USERS]

    def opened(self) -> MemoryService:
        return MemoryService(
            self.path,
            embedder=Recorder(),
            storage=StorageOptions(
                clock=self.clock, maintenance_interval=None, durability="process"
            ),
        )

    def teardown(self) -> None:
        self.service.close()
        findings = [(each.level, each.message) for each in examine(self.path)]
        bad = [said for level, said in findings if level in ("error", "warning")]
        # The model's time passes faster than the wall clock, which is not its own.
        assert not [said for said in bad if "by which memories expire" not in said]
        shutil.rmtree(self.folder)

    def drawn(self, data: st.DataObject, user: int) -> str:
        """A memory of some user, which may be another one's, or nobody's."""
        every = sorted({id_ for model in self.models for id_ in model.known})
        buried = sorted(self.models[user].buried)[:2]
        return data.draw(st.sampled_from([*every, *buried, "nobody"]))

    def refused_unless(self, there: bool, name: str, *args: Any, **named: Any) -> None:
        """Do something that is possible only if a memory is there."""
        call = getattr(self.service.sync, name)
        if there:
            call(*args, **named)
            return
        with pytest.raises(NotFoundError):
            call(*args, **named)

    @rule(user=users, id_=facts, text=texts, restore=st.booleans(), data=st.data())
    def tell_fact(
        self, user: int, id_: str, text: str, restore: bool, data: st.DataObject
    ) -> None:
        model = self.models[user]
        older = [None, None, *sorted((model.known.keys() | model.buried) - {id_})]
        supersedes = data.draw(st.sampled_from(older))
        entry = MemoryEntry(text, id=id_, supersedes=supersedes)
        returned = self.service.sync.add_memory(
            **USERS[user], memories=[entry], restore=restore
        )
        there = model.told(id_, text, supersedes, restore=restore)
        assert returned == [id_ if there else None]

    @rule(user=users, told=turns, session=st.sampled_from("st"))
    def tell_session(self, user: int, told: dict[int, int], session: str) -> None:
        who, model = USERS[user], self.models[user]
        events = [
            {"id": f"e{n}", "author": "user", "text": f"gnu {session} {n} {version}"}
            for n, version in sorted(told.items())
        ]
        for event in events:
            model.told(make_memory_id(session, event["id"]), event["text"], turn=True)
        returned = self.service.sync.add_session_to_memory(
            {**who, "id": session, "events": events}
        )
        ids = [make_memory_id(session, event["id"]) for event in events]
        assert returned == [id_ if id_ in model.known else None for id_ in ids]

    @rule(user=users, text=texts, data=st.data())
    def correct(self, user: int, text: str, data: st.DataObject) -> None:
        id_ = self.drawn(data, user)
        memory = self.models[user].known.get(id_)
        live = memory is not None and memory.live
        self.refused_unless(
            live, "update_memory", **USERS[user], memory_id=id_, content=text
        )
        if live and memory is not None and memory.text != text:
            memory.edited.add(memory.text)
            memory.text = text

    @rule(user=users, data=st.data())
    def archive(self, user: int, data: st.DataObject) -> None:
        id_ = self.drawn(data, user)
        memory = self.models[user].known.get(id_)
        live = memory is not None and memory.live
        self.refused_unless(live, "archive_memory", **USERS[user], memory_id=id_)
        if live and memory is not None:
            memory.archive(None)

    @rule(user=users, data=st.data())
    def restore(self, user: int, data: st.DataObject) -> None:
        id_ = self.drawn(data, user)
        memory = self.models[user].known.get(id_)
        away = memory is not None and not memory.live
        self.refused_unless(away, "restore_memory", **USERS[user], memory_id=id_)
        if away:
            self.models[user].restored(id_)

    @rule(user=users, data=st.data())
    def delete(self, user: int, data: st.DataObject) -> None:
        id_ = self.drawn(data, user)
        self.service.sync.delete_memory(**USERS[user], memory_id=id_)
        self.models[user].deleted(id_)

    @rule(user=users)
    def consolidate(self, user: int) -> None:
        done = self.service.sync.consolidate(**USERS[user])
        assert done.merged == self.models[user].merged()
        assert self.service.sync.consolidate(**USERS[user]).merged == 0

    @rule()
    def reopen(self) -> None:
        self.service.close()
        self.service = self.opened()

    @invariant()
    def what_is_found_is_what_is_known(self) -> None:
        self.clock.let_pass(1.0)
        for who, model in zip(USERS, self.models, strict=True):
            assert kept(self.service, **who) == model.of(live=True)
            assert kept(self.service, "archived", **who) == model.of(live=False)
            response = self.service.sync.search_memory(**who, query="gnu", top_k=1000)
            assert {m.id: m.text for m in response.memories} == model.of(live=True)
        stats = self.service.sync.admin.stats()
        rows = [memory for model in self.models for memory in model.known.values()]
        assert stats["memories"] == sum(memory.live for memory in rows)
        assert stats["archived"] == sum(not memory.live for memory in rows)
        assert stats["embedded"] == len(rows)
        assert stats["deleted_ids"] == sum(len(model.buried) for model in self.models)

    @invariant()
    def histories_end_with_what_is(self) -> None:
        for who, model in zip(USERS, self.models, strict=True):
            for id_, memory in model.known.items():
                *_, last = self.service.sync.memory_history(**who, memory_id=id_)
                assert (last.memory.text, last.state == "live") == (
                    memory.text,
                    memory.live,
                )
                assert last.by == memory.by


TestLives = pytest.mark.campaign(Lives.TestCase)
TestLives.settings = campaign(20, 25)
