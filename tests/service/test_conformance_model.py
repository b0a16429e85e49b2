"""Every memory service against a model of what it was told."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from helpers.campaigns import examples
from helpers.folders import fast_folder
from helpers.services import KINDS, PAIRS, scope, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import MemoryEntry

USERS = PAIRS[:3]
SESSIONS = st.sampled_from(["s", "t"])
NUMBERS = st.integers(0, 3)
TURNS = st.lists(
    st.tuples(NUMBERS, st.sampled_from(["", "one", "two"])),
    max_size=4,
    unique_by=lambda turn: turn[0],
)
STEPS = st.one_of(
    st.tuples(
        st.sampled_from(["session", "events"]), st.sampled_from(USERS), SESSIONS, TURNS
    ),
    st.tuples(st.just("memory"), st.sampled_from(USERS), st.just("m"), TURNS),
    st.tuples(
        st.just("delete"), st.sampled_from(USERS), st.sampled_from("stm"), NUMBERS
    ),
)


class Model:
    """What a service should know, as dicts; ids are learnt from what it returns."""

    def __init__(self, buries):
        self.buries = buries
        self.ids = {}
        self.texts = defaultdict(dict)
        self.buried = defaultdict(set)

    def deleted(self, pair, session, number):
        if self.texts[pair].pop((session, number), None) and self.buries:
            self.buried[pair].add((session, number))


async def take(service, model, step):
    call, pair, session, told = step
    who = scope(pair)
    if call == "delete":
        id_ = model.ids.get((session, told), "never told")
        await service.delete_memory(**who, memory_id=id_)
        model.deleted(pair, session, told)
        return
    texts = {n: f"zebra {session} {n} {word}" for n, word in told if word}
    if call == "memory":
        entries = [MemoryEntry(text, id=f"m{n}") for n, text in texts.items()]
        ids = await service.add_memory(**who, memories=entries)
    else:
        events = [turn(n, texts.get(n, "")) for n, _ in told]
        if call == "session":
            ids = await service.add_session_to_memory(
                {**who, "id": session, "events": events}
            )
        else:
            ids = await service.add_events_to_memory(
                **who, events=events, session_id=session
            )
    kept = {(session, n): text for n, text in texts.items()}
    if call == "memory":
        model.buried[pair] -= kept.keys()  # a fact that is given again is stored
    for key in model.buried[pair] & kept.keys():
        del kept[key]
    for (key, text), id_ in zip(kept.items(), ids.stored, strict=True):
        assert model.ids.setdefault(key, id_) == id_
        model.texts[pair][key] = text


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@settings(max_examples=examples(25), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=14))
def test_it_remembers_what_was_told_and_not_deleted(kind, steps):
    """S0.30, S4.65: against a model, after every step, for every user."""

    async def live(service):
        model = Model(kind.buries)
        for step in steps:
            await take(service, model, step)
            for pair in USERS:
                answer = await service.search_memory(
                    **scope(pair), query="zebra", top_k=1000
                )
                found = {memory.id: memory.text for memory in answer.memories}
                assert len(found) == len(answer.memories)
                assert found == {
                    model.ids[key]: text for key, text in model.texts[pair].items()
                }

    with fast_folder() as folder, kind.open(folder) as service:
        asyncio.run(live(service))
