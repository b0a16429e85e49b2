"""Random programs against a plain dict: what is remembered is what was told."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import campaign
from helpers.folders import fastest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from vecall import AddedIds, MemoryEntry, MemoryService, NotFoundError, StorageOptions

PAIRS = [("a", "b/c"), ("a/b", "c"), ("A", "b/c")]
SESSIONS = ["s", "s/e", "S"]

pairs = st.sampled_from(PAIRS)
sessions = st.sampled_from(SESSIONS)
numbers = st.integers(0, 5)
versions = st.integers(0, 2)
turns = st.lists(st.tuples(numbers, versions), max_size=5)


def scope(pair: tuple[str, str]) -> dict[str, str]:
    return {"app_name": pair[0], "user_id": pair[1]}


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["id"] for event in events]


class Programs(RuleBasedStateMachine):
    """A service over a file, and dicts of what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.service = MemoryService(
            self.folder / "m.db",
            storage=StorageOptions(durability="process"),
            embedder=None,
        )
        self.ids: dict[tuple[tuple[str, str], str | None, str], str] = {}
        # pair -> id -> (session, text); and what was deleted for good
        self.held: dict[tuple[str, str], dict[str, tuple[str | None, str]]] = {
            pair: {} for pair in PAIRS
        }
        self.buried: dict[tuple[str, str], set[str]] = {pair: set() for pair in PAIRS}
        self.words: dict[str, str] = {}

    def teardown(self) -> None:
        self.service.close()
        shutil.rmtree(self.folder)

    def word(self, *parts: object) -> str:
        """A word that no other text has."""
        key = repr(parts)
        return self.words.setdefault(key, f"unique{len(self.words)}x")

    def learn(
        self,
        pair: tuple[str, str],
        session: str | None,
        told: dict[str, str],
        names: list[str],
        returned: AddedIds,
        restore: bool,
    ) -> None:
        """Apply an ingest to the model; `told` is name -> text."""
        assert len(returned) == len(names)
        ids = dict(zip(names, returned, strict=True))
        left_out = {names[each.index]: each.reason for each in returned.left_out}
        for name, text in told.items():
            id_ = ids[name]
            known = self.ids.get((pair, session, name))
            if known in self.buried[pair] and not restore:
                assert id_ is None
                assert left_out.pop(name) == "deleted"
                continue
            if known is not None:
                self.buried[pair].discard(known)
            assert known in {None, id_}
            self.ids[(pair, session, name)] = id_
            self.held[pair][id_] = (session, text)
        assert left_out == {}

    def events(
        self, pair: tuple[str, str], session: str | None, told: list[tuple[int, int]]
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        events, texts = [], {}
        for number, version in told:
            text = f"turn {self.word(pair, session, number, version)}"
            events.append({"id": f"e{number}", "author": "user", "text": text})
            texts[f"e{number}"] = text
        return events, texts

    @initialize(pair=pairs)
    def begin_with_something(self, pair: tuple[str, str]) -> None:
        self.tell_entry(pair, 0, 0, False)

    @rule(
        pair=pairs,
        session=sessions,
        told=turns,
        restore=st.booleans(),
        replace=st.booleans(),
    )
    def tell_session(
        self,
        pair: tuple[str, str],
        session: str,
        told: list[tuple[int, int]],
        restore: bool,
        replace: bool,
    ) -> None:
        events, texts = self.events(pair, session, told)
        returned = self.service.sync.add_session_to_memory(
            {**scope(pair), "id": session, "events": events},
            restore=restore,
            replace=replace,
        )
        self.learn(pair, session, texts, names(events), returned, restore)
        if replace:
            held = self.held[pair]
            for id_ in [i for i, (where, _) in held.items() if where == session]:
                if id_ not in returned:
                    del held[id_]

    @rule(pair=pairs, session=st.none() | sessions, told=turns)
    def tell_events(
        self, pair: tuple[str, str], session: str | None, told: list[tuple[int, int]]
    ) -> None:
        events, texts = self.events(pair, session, told)
        returned = self.service.sync.add_events_to_memory(
            **scope(pair), events=events, session_id=session
        )
        self.learn(pair, session, texts, names(events), returned, False)

    @rule(
        pair=pairs,
        number=numbers,
        version=versions,
        restore=st.sampled_from([None, False, True]),
    )
    def tell_entry(
        self, pair: tuple[str, str], number: int, version: int, restore: bool | None
    ) -> None:
        text = f"fact {self.word(pair, number, version)}"
        entry = MemoryEntry(text, id=f"fact/{number}")
        returned = self.service.sync.add_memory(
            **scope(pair), memories=[entry], restore=restore
        )
        again = restore is not False
        name = f"fact/{number}"
        self.learn(pair, None, {name: text}, [name], returned, again)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), asking=pairs)
    def delete(self, data: st.DataObject, asking: tuple[str, str]) -> None:
        every = sorted({id_ for held in self.held.values() for id_ in held})
        id_ = data.draw(st.sampled_from(every))
        self.service.sync.delete_memory(**scope(asking), memory_id=id_)
        if id_ in self.held[asking]:
            del self.held[asking][id_]
            self.buried[asking].add(id_)

    @rule()
    def reopen(self) -> None:
        self.service.close()
        self.service = MemoryService(
            self.folder / "m.db",
            storage=StorageOptions(durability="process"),
            embedder=None,
        )

    @rule(pair=pairs)
    def change_in_another_service(self, pair: tuple[str, str]) -> None:
        text = f"fact {self.word(pair, 'elsewhere')}"
        entry = MemoryEntry(text, id="elsewhere")
        with MemoryService(
            self.folder / "m.db",
            storage=StorageOptions(durability="process"),
            embedder=None,
        ) as other:
            returned = other.sync.add_memory(
                **scope(pair), memories=[entry], restore=True
            )
        self.learn(pair, None, {"elsewhere": text}, ["elsewhere"], returned, True)

    @invariant()
    def exactly_what_was_told_is_remembered(self) -> None:
        every = {
            id_ for ids in (self.held, self.buried) for p in PAIRS for id_ in ids[p]
        }
        for pair, held in self.held.items():
            for id_ in every:
                try:
                    got = self.service.sync.get_memory(**scope(pair), memory_id=id_)
                except NotFoundError:
                    assert id_ not in held
                else:
                    assert held[id_] == (got.session_id, got.text)
            for word in self.words.values():
                found = self.service.sync.search_memory(
                    **scope(pair), query=word, top_k=1000
                )
                # Neighbours of a hit come with it; only the hit has the word.
                hits = {m.id for m in found.memories if word in m.text.split()}
                assert hits == {
                    id_ for id_, (_, text) in held.items() if word in text.split()
                }
                assert {memory.id for memory in found.memories} <= set(held)
        total = sum(len(held) for held in self.held.values())
        assert self.service.sync.admin.stats()["memories"] == total


TestPrograms = pytest.mark.campaign(Programs.TestCase)
TestPrograms.settings = campaign(25, 20)
