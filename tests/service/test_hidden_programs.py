"""Random programs of a caller with fewer rights, on twins.

One twin also gets memories that the caller does not see, between the calls. Every call
answers the same on both, and leaves what is hidden as it was.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from helpers.campaigns import scaled
from helpers.clocks import SettableClock
from helpers.hidden_memories import exported, outcome
from helpers.memories import ALICE
from vecall import MemoryEntry, MemoryService, NotFoundError, Rights
from vecall.hooks import ALLOW, QUARANTINE

OWN, HIDDEN = [f"v{n}" for n in range(8)], [f"h{n}" for n in range(6)]
SESSIONS = ["s", "t"]
WORDS = ["emu", "okapi", "zebra", "tapir"]
TIERS = ["first-party", "third-party-private", "unknown", None]
RIGHTS = [
    Rights(min_trust="third-party-private"),
    Rights(review=False),
    Rights(min_trust="first-party", review=False),
]


class Program:
    """A random program of one caller."""

    def __init__(self, seed: int, open_service: Any) -> None:
        self.chance = random.Random(seed)
        self.clocks = [SettableClock(), SettableClock()]
        self.full, self.bare = (
            open_service(
                clock=clock,
                maintenance_interval=None,
                on_write=lambda write: (
                    QUARANTINE if "held" in write.memory.text else ALLOW
                ),
            )
            for clock in self.clocks
        )
        self.rights = self.chance.choice(RIGHTS)
        views = [each.restricted(self.rights) for each in (self.full, self.bare)]
        self.views: list[MemoryService] = views
        self.turns: list[str] = []

    def run(self, steps: int) -> int:
        """Run it; return how many calls did not fail."""
        done = 0
        for _ in range(steps):
            if self.chance.random() < 0.3:
                self.hide()
            name, given = self.call()
            before = self.hidden()
            users = [each.sync.user(**ALICE) for each in self.views]
            full, bare = (outcome(partial(getattr(u, name), **given)) for u in users)
            if name == "search":
                full, bare = (_matches(each, given["query"]) for each in (full, bare))
            assert full == bare, (name, given)
            assert self.hidden() == before, (name, given)
            done += "Error:" not in full
            for clock in self.clocks:
                clock.let_pass(1)
        return done

    def hide(self) -> None:
        """Store, archive or replace a memory that the caller does not see."""
        chance, sync = self.chance, self.full.sync.user(**ALICE)
        low = self.rights.has_floor and (self.rights.review or chance.random() < 0.5)
        word = chance.choice(WORDS)
        text, trust = (word, "unknown") if low else (f"held {word}", "first-party")
        id_ = chance.choice(HIDDEN)
        if chance.random() < 0.3:
            turn = {"id": f"turn of {id_}", "content": text, "trust": trust}
            sync.add_events([turn], session_id=chance.choice(SESSIONS))
            return
        sync.add([MemoryEntry(text, id=id_, trust=trust, kind="fact")])
        if low and chance.random() < 0.3:
            with suppress(NotFoundError):  # it is archived
                sync.archive(id_)

    def hidden(self) -> list[str]:
        """The lines of an export of what only one twin has."""
        lines = []
        for line in exported(self.full):
            values = json.loads(line).get("mem", {})
            if values.get("id") in HIDDEN or "turn of" in str(values.get("event")):
                values.pop("pos", None)  # turns between others move them
                lines.append(json.dumps(values))
        return lines

    def call(self) -> tuple[str, dict[str, Any]]:
        """A random call, as a name and arguments."""
        chance = self.chance
        id_ = chance.choice([*OWN, *HIDDEN, "absent"])
        ids = chance.sample([*OWN, *HIDDEN], 3)
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("add", {"memories": self.facts(), "if_absent": chance.random() < 0.2}),
            ("add", {"memories": self.facts()}),
            ("add_events", self.events()),
            ("add_events", self.events()),
            ("get_many", {"memory_ids": ids, "include_expired": True}),
            ("list", {"cursor": id_, "limit": chance.randint(1, 4)}),
            ("list", {"state": chance.choice(["live", "archived"])}),
            ("count", {"filter": {"kind": "fact"}}),
            ("count", {}),
            ("figures", {"state": chance.choice(["live", "archived"])}),
            ("list_sessions", {"limit": chance.randint(1, 3)}),
            ("history", {"memory_id": id_}),
            ("search", {"query": chance.choice(WORDS), "top_k": 100}),
            ("explain", {"query": "none of these", "memory_id": id_}),
            ("touch", {"memory_ids": ids, "ttl": chance.choice([3.0, 60.0, None])}),
            ("mark_used", {"memory_ids": ids}),
            ("update", {"memory_id": id_, "content": chance.choice(WORDS)}),
            ("archive", {"memory_id": id_}),
            ("restore", {"memory_id": id_}),
            ("delete", {"memory_id": id_}),
            ("delete_many", {"memory_ids": ids}),
            ("delete_where", {"filter": {"session_id": chance.choice(SESSIONS)}}),
            ("delete_where", {"filter": {"trust": "unknown"}}),
            ("delete_session", {"session_id": chance.choice(SESSIONS)}),
        ]
        live = [e for e in self.views[1].sync.user(**ALICE).list() if e.event_id]
        if live:
            turn = chance.choice(live).id
            kinds.append(("expand_session", {"memory_id": turn, "turns_before": 3}))
        return chance.choice(kinds)

    def facts(self) -> list[dict[str, Any]]:
        chance = self.chance
        return [
            {
                "id": id_,
                "content": chance.choice([*WORDS, "held okapi"]),
                "trust": chance.choice(TIERS),
                "kind": chance.choice(["fact", None]),
                "supersedes": chance.choice([None, None, *OWN, *HIDDEN]),
            }
            for id_ in chance.sample(OWN, chance.randint(1, 2))
        ]

    def events(self) -> dict[str, Any]:
        chance = self.chance
        turns = [
            {
                "id": f"e{n}",
                "content": f"{chance.choice(WORDS)} {n}",
                "trust": chance.choice(TIERS),
                "author": "user",
            }
            for n in sorted(chance.sample(range(6), 3))
        ]
        return {"events": turns, "session_id": chance.choice(SESSIONS)}


def _matches(answer: str, word: str) -> str:
    """The memories that have the word; scores decide on their neighbours and order."""
    found = json.loads(answer)["memories"]
    return str(sorted(each["id"] for each in found if word in each["content"]))


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(4))
def test_random_programs_do_not_tell_twins_apart(open_service, part):
    done = 0
    for seed in range(part, scaled(40, 4), 4):
        done += Program(seed, open_service).run(60)
    assert done > 20
