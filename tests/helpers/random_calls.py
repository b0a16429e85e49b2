"""The same random calls on a file, in memory and over PostgreSQL, answer by answer.

A program opens two services on each storage, on one clock that only the program moves.
Each call goes to the same service of every storage. All answers must be equal: every
field, every digit, every error with its text.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from vecall import (
    Filter,
    FunctionEmbedder,
    Limits,
    MemoryService,
    PendingWrite,
    Quota,
    Scopes,
    StorageOptions,
    VecallError,
    Verdict,
    WritePolicy,
    redact,
)
from vecall.content import get_field, text_parts
from vecall.hooks import ALLOW, QUARANTINE, REJECT
from vecall.summaries import SessionSummary

from helpers.clocks import SettableClock
from helpers.counted import wrong_counters
from helpers.postgres_server import Schema
from helpers.random_calls_made import CALLS

WORDS = (
    "parrot bicycle garden window train evening doctor summer yellow sea Zürich "
    "naïve 東京 🎻 held refused dropped secret I not 17 2024"
).split()
DIMENSIONS = 16
APPS, USERS = ("hotel", "bank"), ("alice", "bob", "Zoë")
SESSIONS, KINDS = ("s1", "s2", "s3"), ("fact", "plan", "preference", None)
TIERS = ("first-party", "third-party-public", "unknown", "of my own", None)


def embed(texts: Sequence[str]) -> np.ndarray:
    """A vector for each text, of its words."""
    rows = []
    for text in texts:
        seeds = [sum(map(ord, word)) for word in text.split()] or [0]
        draws = [np.random.default_rng(s).standard_normal(DIMENSIONS) for s in seeds]
        rows.append(np.mean(draws, axis=0))
    return np.array(rows, np.float32)


def review(write: PendingWrite) -> Verdict:
    """A write hook that decides by words."""
    text = write.memory.text
    if "refused" in text:
        return REJECT
    if "held" in text:
        return QUARANTINE
    if "dropped" in text:
        return redact(" ")
    return redact(text.replace("secret", "***")) if "secret" in text else ALLOW


class Summaries:
    """A provider of summaries that depend on nothing but the turns."""

    async def get_summaries(self, session: Any) -> list[SessionSummary]:
        """Name the number of turns and the first words of each."""
        events = get_field(session, "events")
        texts = [text_parts(get_field(event, "content"))[0][:6] for event in events]
        return [SessionSummary(f"{len(texts)} turns: {' '.join(texts)}")]


def plain(value: Any) -> Any:
    """Return an answer as values that compare by themselves."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value) if f.compare]
        own = {name: plain(getattr(value, name)) for name in fields}
        return (type(value).__name__, own)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        left_out = [plain(each) for each in getattr(value, "left_out", ())]
        return [[plain(each) for each in value], *left_out]
    if isinstance(value, float):
        return repr(value)
    return value


@dataclass
class Place:
    """One storage with its two services.

    Attributes:
        name: The storage.
        open: Opens a service on it.
        services: Both services; the same one twice where only one can be open.
        drop: Deletes the storage.
        tokens: The tokens of proposals by their number.
    """

    name: str
    open: Callable[[], MemoryService]
    services: list[MemoryService]
    drop: Callable[[], None] = lambda: None
    tokens: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Close both services."""
        for service in self.services:
            service.close()


@dataclass
class DifferenceError(Exception):
    """Two storages gave different answers.

    Attributes:
        seed: The program.
        number: The call's number in the program.
        call: The name of the call.
        answers: The answer of each storage.
    """

    seed: int
    number: int
    call: str
    answers: dict[str, Any]

    def __str__(self) -> str:
        """Return the call, and where the answers begin to differ."""
        texts = {name: str(answer) for name, answer in self.answers.items()}
        shared = len(os.path.commonprefix(list(texts.values())))
        rows = [
            f"  {n}: …{text[max(0, shared - 200) :][:500]}" for n, text in texts.items()
        ]
        head = f"program {self.seed}, call {self.number}: {self.call}"
        return "\n".join([head, *rows])


class Program:
    """A random program of calls over three storages."""

    def __init__(self, seed: int, folder: Path) -> None:
        """Choose the options of the services and open them."""
        self.seed = seed
        self.choose = choose = random.Random(seed)
        self.clock = SettableClock()
        self.calls = 0
        self.ids = [f"m{n}" for n in range(20)]
        self._has_vectors = choose.random() < 0.5
        options = self._options()
        schema = Schema()
        path = folder / f"{seed}.db"

        def opener(place: str | None) -> Callable[[], MemoryService]:
            return lambda: MemoryService(place, **options())

        self.places = [
            Place("file", opener(str(path)), []),
            Place("memory", opener(None), []),
            Place("PostgreSQL", opener(schema.url), [], schema.drop),
        ]
        for place in self.places:
            first = place.open()
            second = first if place.name == "memory" else place.open()
            place.services = [first, second]

    def _options(self) -> Callable[[], dict[str, Any]]:
        choose = self.choose
        quota = choose.choice(
            [Quota(), Quota(memories=30, eviction=choose.choice(["oldest", "lru"])),
             Quota(memories=25, eviction="lowest_value"), Quota(bytes=2_000)]
        )  # fmt: skip
        scopes = Scopes()
        self._has_scopes = choose.random() < 0.4
        if self._has_scopes:
            scopes = Scopes(read=("shared", "app"), write=("shared", "app"))
        writes = WritePolicy(
            on_write=review if choose.random() < 0.5 else None,
            history_ttl=choose.choice([None, 3_000]),
            quota=quota,
            scopes=scopes,
        )
        ttl = choose.choice([None, None, 5_000])
        trigger = choose.choice([None, {"type": "message_count", "message_count": 5}])
        summarizer = Summaries() if choose.random() < 0.4 else None

        def options() -> dict[str, Any]:
            embedder = None
            if self._has_vectors:
                embedder = FunctionEmbedder(embed, model_id="w", dimensions=DIMENSIONS)
            return {
                "embedder": embedder,
                "ttl": ttl,
                "trigger": trigger,
                "summarizer": summarizer,
                "writes": writes,
                "limits": Limits(max_text_bytes=2_000, max_metadata_bytes=500),
                "storage": StorageOptions(
                    durability="process",
                    maintenance_interval=None,
                    min_free_bytes=0,
                    clock=self.clock,
                ),
            }

        return options

    def close(self) -> None:
        """Close all services and delete the storages."""
        for place in self.places:
            place.close()
            place.drop()

    def run(self, calls: int) -> int:
        """Do a number of calls; return it.

        Raises:
            DifferenceError: Two storages gave different answers.
        """
        names = list(CALLS)
        weights = [weight for weight, _ in CALLS.values()]
        for _ in range(calls):
            self.clock.let_pass(self.choose.choice([0.001, 0.5, 1.0, 60.0, 900.0]))
            (name,) = self.choose.choices(names, weights)
            call = CALLS[name][1](self)
            number = self.choose.randrange(2)
            answers = {
                place.name: self._answer(place, number, call) for place in self.places
            }
            self.calls += 1
            first = answers["file"]
            if any(answer != first for answer in answers.values()):
                raise DifferenceError(self.seed, self.calls, name, answers)
            self._learn(first)
        for place in self.places:
            assert wrong_counters(place.services[0]) == ""
        return calls

    def _answer(
        self, place: Place, number: int, call: Callable[[MemoryService, Place], Any]
    ) -> Any:
        try:
            return plain(call(place.services[number], place))
        except VecallError as error:
            return (type(error).__name__, str(error))

    def _learn(self, answer: Any) -> None:
        """Remember ids that an answer shows, for later calls."""
        text = json.dumps(answer, default=str)
        for piece in text.split('"'):
            if len(piece) == 32 and piece.isalnum():
                self.ids[self.choose.randrange(8, 20)] = piece
                return

    # What calls are made of.

    def owner(self) -> dict[str, str]:
        """One of six users, one of them mostly."""
        if self.choose.random() < 0.7:
            return {"app_name": APPS[0], "user_id": USERS[0]}
        return {
            "app_name": self.choose.choice(APPS),
            "user_id": self.choose.choice(USERS),
        }

    def text(self) -> str:
        """Some words, rarely none, or too many."""
        roll = self.choose.random()
        if roll < 0.01:
            return " "
        if roll < 0.02:
            return "parrot " * 400
        return " ".join(self.choose.choices(WORDS, k=self.choose.randint(1, 9)))

    def metadata(self) -> dict[str, Any] | None:
        """Metadata, or none."""
        choose = self.choose
        return choose.choice(
            [None, {"n": choose.randrange(4), "tags": ["a", choose.choice("bc")]},
             {"deep": {"x": choose.choice([1, 1.0, True, None, "1"])}},
             {"ttl": choose.choice([60, "3600s"]), "n": 2.5}]
        )  # fmt: skip

    def entry(self) -> dict[str, Any]:
        """A fact, with some of its fields."""
        choose = self.choose
        made: dict[str, Any] = {"content": self.text()}
        for name, values in {
            "id": self.ids,
            "kind": KINDS,
            "author": ("user", "agent"),
            "trust": TIERS,
            "source": ("web", None),
            "timestamp": (1.7e9 + choose.randrange(10**6), "2024-02-30", None),
            "importance": (0.1, 1.0, 0, 1.5),
            "session_id": SESSIONS,
            "valid_until": (self.clock.wall() + 1_000, 1.0),
            "supersedes": self.ids,
            "custom_metadata": (self.metadata(),),
        }.items():
            if choose.random() < (0.6 if name == "id" else 0.15):
                made[name] = choose.choice(values)
        return made

    def events(self) -> list[dict[str, Any]]:
        """Some turns of a session, each with an id."""
        start = self.choose.randrange(12)
        return [
            {
                "id": f"e{n}",
                "content": f"turn {n % 7} {self.text()}",
                "author": self.choice_of("user", "agent"),
                "timestamp": 1.7e9 + 60 * n,
            }
            for n in range(start, start + self.choose.randint(1, 4))
        ]

    def choice_of(self, *values: Any) -> Any:
        """One of some values."""
        return self.choose.choice(values)

    def filter(self) -> Any:
        """A filter with up to two fields, or none."""
        choose = self.choose
        fields: dict[str, Sequence[Any]] = {
            "session_id": SESSIONS,
            "kind": ("fact", ["fact", "plan"]),
            "not_kind": ("plan",),
            "author": ("user",),
            "trust": ("third-party-public",),
            "min_trust": ("third-party-public", "unknown"),
            "after": (1.7e9 + 400_000,),
            "before": (1.7e9 + 400_000, self.clock.wall() - 3_600),
            "not_id": (self.ids[:3],),
            "session_prefix": ("s",),
            "kind_prefix": ("p",),
            "metadata": ({"n": {"$gt": 1}}, {"deep.x": 1}, {"n": {"$nin": [1, 2]}},
                         {"$or": [{"n": 2}, {"deep.x": None}]}, {"n": {"$bad": 1}}),
        }  # fmt: skip
        names = choose.sample(list(fields), choose.choice([0, 1, 1, 2]))
        return Filter(**{n: choose.choice(fields[n]) for n in names}) if names else None

    def scope(self) -> str:
        """Mostly the user's own."""
        odds = [8, 1, 1] if self._has_scopes else [100, 1, 1]
        return self.choose.choices(["user", "shared", "app"], odds)[0]

    def some_ids(self) -> list[str]:
        """Some ids of memories, most of which there are."""
        return self.choose.choices(self.ids, k=self.choose.randint(1, 4))
