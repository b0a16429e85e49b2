"""Random programs over names that are easily confused: the wall between users holds."""

from __future__ import annotations

import itertools
import os
import random
import unicodedata
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import REPEATS, scaled
from helpers.workloads import Hashed
from vecall import (
    Filter,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
)

CALLS = scaled(1_500)  # of each variant
NAMES = [
    *("a", "b", "c", "a/b", "b/c", "a/b/c", "/", "a/", "/a", "..", "../a", "a/../b"),
    *("A", "\u00e9", "e\u0301", "E\u0301", "\u00df", "ss", "\u0130", "i", "\u2126"),
    *(" ", "a ", " a", "a\t", "a\n", "a\x01b", "a\x1fb", "a\x7f", "\ufeffa", "a\u200b"),
    *("a:b", "a,b", "a|b", "a\\b", "a%", "%", "_", "*", "?", "a;b", "'", '"', "--"),
    *("null", "None", "0", "00", "0.0", "-1", "1e0", "True", "[]", "{}", "a b", "ab"),
    *("aa", "aaa", "x" * 511, "x" * 512, "\U0001f99c", "\u05d0\u05d1", "\u202ea"),
    *("\uff41", "\u0430", "\u00e9" * 256, "'; DROP TABLE mem; --", "app\ud7ff"),
]
REFUSED = ["", "\0", "a\0", "\0a", "a\0b", "\ud800", "x" * 513, "\u00e9" * 257]
WORDS = "zebra okapi tapir quagga gnu kudu ibex oryx".split()
IDS = ["0", "1", "a", "a/b", "%", "fact"]
SESSIONS = ["s", "s/t", "a", "%"]

Pair = tuple[str, str]


def scope(pair: Pair) -> dict[str, str]:
    return {"app_name": pair[0], "user_id": pair[1]}


def secret(pair: Pair) -> str:
    """A word that is in all memories of this user and in no other's."""
    digest = blake2b(repr(pair).encode(), digest_size=6).hexdigest()
    return f"key{digest}"


def pairs(rng: random.Random, count: int) -> list[Pair]:
    """Some pairs, and for each those that a joined or swapped key would mix it up with.

    Normalised, folded and trimmed twins are among the names.
    """
    found: dict[Pair, None] = dict.fromkeys(
        [
            ("a", "b/c"),
            ("a/b", "c"),
            ("a", "b"),
            ("b", "a"),
            ("\u00e9", "a"),
            ("a", "A"),
        ]
    )
    found[unicodedata.normalize("NFD", "\u00e9"), "a"] = None
    while len(found) < count:
        app, user = rng.choice(NAMES), rng.choice(NAMES)
        for pair in ((app, user), (user, app), (app, app), (app, user.swapcase())):
            if len(pair[1].encode()) <= 512:
                found[pair] = None
    return list(found)


class Program:
    """Random calls, and what every user must have after them."""

    def __init__(self, open_one: Callable[[], MemoryService], seed: int) -> None:
        self._open_one = open_one
        self._service = open_one()
        self._random = random.Random(seed)
        self._pairs = pairs(self._random, 60)
        self._held: dict[Pair, dict[str, str]] = {pair: {} for pair in self._pairs}
        self._sessions: dict[tuple[Pair, str], set[str]] = {}
        self._numbers = itertools.count()
        self.calls = 0
        self._steps: list[tuple[int, Callable[[Pair], None]]] = [
            (30, self.add_memory),
            (10, self.add_events),
            (8, self.add_session),
            (20, self.search),
            (6, self.search_all),
            (8, self.others_change_no_score),
            (10, self.get),
            (8, self.delete),
            (1, self.refuse),
            (1, self.reopen),
        ]
        for name in ("delete_session", "delete_where", "delete_user"):
            self._steps.append((2, getattr(self, name)))

    def run(self, calls: int) -> None:
        weights = [weight for weight, _ in self._steps]
        steps = [step for _, step in self._steps]
        while self.calls < calls:
            (step,) = self._random.choices(steps, weights)
            step(self._someone())
        for pair in self._pairs:
            self.search_all(pair)

    def _someone(self) -> Pair:
        return self._random.choice(self._pairs)

    def _call(self, name: str, **arguments: Any) -> Any:
        self.calls += 1
        return getattr(self._service.sync, name)(**arguments)

    def _text(self, pair: Pair) -> str:
        words = self._random.choices(WORDS, k=self._random.randint(1, 6))
        return f"{secret(pair)} {' '.join(words)} nr{next(self._numbers)}"

    def _query(self, pair: Pair) -> str:
        """Common words, perhaps the asker's own secret or that of another."""
        words = self._random.choices(WORDS, k=self._random.randint(1, 3))
        if self._random.random() < 0.3:
            words.append(secret(self._random.choice([pair, self._someone()])))
        return " ".join(words)

    def _keep(self, pair: Pair, ids: list[str], texts: list[str]) -> None:
        assert len(ids) == len(texts)
        self._held[pair].update(zip(ids, texts, strict=True))

    def add_memory(self, pair: Pair) -> None:
        texts = [self._text(pair) for _ in range(self._random.randint(1, 3))]
        ids = self._random.sample(IDS, len(texts))
        if self._random.random() < 0.5:
            entries: list[Any] = list(texts)
        else:
            entries = list(map(_entry, texts, ids))
        got = self._call("add_memory", **scope(pair), memories=entries, restore=True)
        self._keep(pair, got, texts)

    def _turns(self, pair: Pair) -> list[dict[str, str]]:
        chosen = self._random.sample(IDS, self._random.randint(1, 4))
        return [{"id": id_, "text": self._text(pair)} for id_ in chosen]

    def _told(self, pair: Pair, session: str, turns: list[Any], ids: list[str]) -> None:
        self._keep(pair, ids, [turn["text"] for turn in turns])
        self._sessions.setdefault((pair, session), set()).update(ids)

    def add_events(self, pair: Pair) -> None:
        session = self._random.choice(SESSIONS)
        turns = self._turns(pair)
        ids = self._call(
            "add_events_to_memory",
            **scope(pair),
            events=turns,
            session_id=session,
            restore=True,
        )
        self._told(pair, session, turns, ids)

    def add_session(self, pair: Pair) -> None:
        session = self._random.choice(SESSIONS)
        turns = self._turns(pair)
        replace = self._random.random() < 0.3
        ids = self._call(
            "add_session_to_memory",
            session={**scope(pair), "id": session, "events": turns},
            restore=True,
            replace=replace,
        )
        if replace:
            self._forget(pair, self._sessions.get((pair, session), set()) - set(ids))
        self._told(pair, session, turns, ids)

    def _forget(self, pair: Pair, ids: set[str]) -> int:
        gone = [self._held[pair].pop(id_, None) for id_ in ids]
        return sum(text is not None for text in gone)

    def _search(self, pair: Pair, query: str, **options: Any) -> Any:
        answer = self._call("search_memory", **scope(pair), query=query, **options)
        held = self._held[pair]
        for memory in answer.memories:
            assert memory.text.split()[0] == secret(pair), "another user's memory"
            assert held.get(memory.id) == memory.text
        return answer

    def search(self, pair: Pair) -> None:
        options: dict[str, Any] = {"top_k": self._random.choice([1, 5, 100])}
        if self._random.random() < 0.3:
            options["filter"] = Filter(session_id=self._random.choice(SESSIONS))
        self._search(pair, self._query(pair), **options)

    def search_all(self, pair: Pair) -> None:
        """The user finds all that is held, by the word that all of it has."""
        answer = self._search(pair, secret(pair), top_k=1_000)
        found = sorted(memory.text for memory in answer.memories)
        assert found == sorted(self._held[pair].values())

    def others_change_no_score(self, pair: Pair) -> None:
        """Guarantee 5: another tenant's data does not change results or scores."""
        query = self._query(pair)
        before = self._search(pair, query, top_k=20)
        for _ in range(self._random.randint(1, 4)):
            other = self._someone()
            if other != pair:
                change = self._random.choice([self.add_memory, self.delete])
                change(other)
        assert self._search(pair, query, top_k=20) == before

    def _any_id(self, pair: Pair) -> str:
        """An id of this user or of another, or one that anybody may have."""
        other = self._random.choice([pair, self._someone()])
        return self._random.choice([*self._held[other], *IDS])

    def get(self, pair: Pair) -> None:
        id_ = self._any_id(pair)
        held = self._held[pair].get(id_)
        try:
            text = self._call("get_memory", **scope(pair), memory_id=id_).text
        except NotFoundError:
            text = None
        assert text == held

    def delete(self, pair: Pair) -> None:
        id_ = self._any_id(pair)
        self._call("delete_memory", **scope(pair), memory_id=id_)
        self._forget(pair, {id_})

    def delete_session(self, pair: Pair) -> None:
        session = self._random.choice(SESSIONS)
        count = self._call("delete_session", **scope(pair), session_id=session)
        gone = self._forget(pair, self._sessions.pop((pair, session), set()))
        assert count == gone

    def delete_where(self, pair: Pair) -> None:
        session = self._random.choice(SESSIONS)
        asked = Filter(session_id=session)
        count = self._call("delete_where", **scope(pair), filter=asked)
        gone = self._forget(pair, self._sessions.pop((pair, session), set()))
        assert count == gone

    def delete_user(self, pair: Pair) -> None:
        forget = self._random.random() < 0.5
        count = self._call("delete_user", **scope(pair), forget=forget)
        assert count == self._forget(pair, set(self._held[pair]))

    def refuse(self, pair: Pair) -> None:
        """Names that cannot be told apart once stored are refused everywhere."""
        bad = self._random.choice(REFUSED)
        who = {"app_name": bad, "user_id": pair[1]}
        if self._random.random() < 0.5:
            who = {"app_name": pair[0], "user_id": bad}
        for name, arguments in [
            ("search_memory", {"query": "zebra"}),
            ("add_memory", {"memories": ["zebra"]}),
            ("add_events_to_memory", {"events": [{"text": "zebra"}]}),
            ("get_memory", {"memory_id": "0"}),
            ("delete_memory", {"memory_id": "0"}),
        ]:
            with pytest.raises(InvalidArgumentError):
                self._call(name, **who, **arguments)
        with pytest.raises(InvalidArgumentError):
            self._call(
                "add_session_to_memory", session={**who, "id": "s", "events": []}
            )

    def reopen(self, pair: Pair) -> None:
        reopened = self._open_one()
        if reopened is not self._service:
            self._service.close()
            self._service = reopened


def _entry(text: str, id_: str) -> MemoryEntry:
    return MemoryEntry(text, id=id_)


def openers(
    open_service: Callable[..., MemoryService], path: Path, variant: str
) -> Callable[[], MemoryService]:
    """What opens the service again and again; the one in memory is always the same."""
    if variant == "memory":
        service = open_service()
        return lambda: service
    options: dict[str, Any] = {"durability": "process"}
    if variant == "small budget":
        options["cache_bytes"] = 20_000
    if variant == "embedder":
        options["embedder"] = Hashed("hashed", 6)
    return lambda: open_service(path, **options)


@pytest.mark.campaign
@pytest.mark.parametrize("variant", ["memory", "file", "small budget", "embedder"])
def test_no_program_reads_changes_or_feels_another_user(
    open_service, tmp_path, variant
):
    """Guarantee 5, over names that a joined, folded or escaped key would confuse."""
    opener = openers(open_service, tmp_path / "m.db", variant)
    seed = 31 if REPEATS else int.from_bytes(os.urandom(4), "little")
    print("seed", seed)  # noqa: T201
    Program(opener, seed).run(CALLS)


def test_one_users_idempotency_key_is_nothing_to_another(open_service):
    """Guarantees 5 and 9: the same key of another user is another call."""
    service = open_service()
    everyone = pairs(random.Random(1), 60)
    for pair in everyone * 2:
        service.sync.add_memory(
            **scope(pair), memories=[f"{secret(pair)} zebra"], idempotency_key="key"
        )
    for pair in everyone:
        answer = service.sync.search_memory(**scope(pair), query="zebra", top_k=99)
        assert [memory.text for memory in answer.memories] == [f"{secret(pair)} zebra"]
