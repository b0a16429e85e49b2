"""The cost of ingesting a whole session again after every turn."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from vecall import Event, MemoryService, Session, StorageOptions
from vecall.embedders import LocalEmbedder
from vecall.evaluation.datasets import read_locomo

from bench.service.lifecycle_data import APP, head, median, opened, row
from bench.service.lifecycle_data import texts as made_up

LENGTHS = (10, 30, 100, 300, 1_000, 3_000)
TURNS = 15


class Counting(LocalEmbedder):
    """The local embedder, and how many texts it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return super().embed(texts)


def prefixes(session: Session) -> Iterator[Session]:
    for count in range(1, len(session.events) + 1):
        yield replace(session, events=session.events[:count])


def add_once(memory: MemoryService, session: Session) -> None:
    memory.sync.add_session_to_memory(session)


def add_turns(memory: MemoryService, session: Session) -> None:
    for event in session.events:
        memory.sync.add_events_to_memory(
            app_name=APP,
            user_id=session.user_id,
            session_id=session.id,
            events=[event],
        )


def add_again(memory: MemoryService, session: Session) -> None:
    for begun in prefixes(session):
        memory.sync.add_session_to_memory(begun)


def observe_again(memory: MemoryService, session: Session) -> None:
    for begun in prefixes(session):
        memory.sync.observe_session(begun)
    memory.sync.end_session(session)


WAYS: dict[str, Callable[[MemoryService, Session], None]] = {
    "each session once": add_once,
    "each turn alone": add_turns,
    "the session so far, after every turn": add_again,
    "the same, observed, then ended": observe_again,
}


def reingest(file: Path, durability: str) -> None:
    """Print what a data set costs told in several ways, and one call by its length."""
    sessions = [session for one in read_locomo(file, APP) for session in one.sessions]
    turns = sum(len(session.events) for session in sessions)
    texts = len(
        {(s.user_id, e.author, str(e.content)) for s in sessions for e in s.events}
    )
    print(f"{turns:,} turns, {texts:,} of them not told before by the same user")
    head("embedder", "told", "calls", "turns given", "s", "ratio", "embedded", "rows")
    for embedded in (False, True):
        base = 0.0
        for name, tell in WAYS.items():
            calls, given = _told(name, sessions)
            seconds, count, rows = _ingest(tell, sessions, durability, embedded)
            base = base or seconds
            row(
                "local" if embedded else "none",
                name,
                f"{calls:,}",
                f"{given:,}",
                f"{seconds:.2f}",
                f"{seconds / base:.1f} x",
                f"{count:,}" if embedded else "",
                f"{rows:,}",
            )
    _by_length(durability)


def _told(name: str, sessions: list[Session]) -> tuple[int, int]:
    sizes = [len(session.events) for session in sessions]
    if name == "each session once":
        return len(sizes), sum(sizes)
    if name == "each turn alone":
        return sum(sizes), sum(sizes)
    return sum(sizes), sum(size * (size + 1) // 2 for size in sizes)


def _idle(durability: Literal["full", "process"]) -> StorageOptions:
    return StorageOptions(durability=durability, maintenance_interval=None)


def _ingest(
    tell: Callable[[MemoryService, Session], None],
    sessions: list[Session],
    durability: str,
    embedded: bool,
) -> tuple[float, int, int]:
    """Seconds, texts embedded, rows written."""
    embedder = Counting() if embedded else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.db"
        with opened(path, embedder=embedder, storage=_idle(durability)) as memory:
            begin = time.perf_counter()
            for session in sessions:
                tell(memory, session)
            seconds = time.perf_counter() - begin
        with sqlite3.connect(path) as connection:
            (rows,) = connection.execute("SELECT sum(seq) FROM part").fetchone()
        connection.close()
    return seconds, 0 if embedder is None else embedder.texts, rows


def _by_length(durability: str) -> None:
    """One more call for a session that is known already, by its length."""
    head(
        "turns known",
        "one turn alone, ms",
        "the session and one turn, ms",
        "the session as it is, ms",
        "us a turn",
        "of these reading it",
        "observed, ms",
        "us a turn",
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(
            Path(folder) / "m.db", embedder=Counting(), storage=_idle(durability)
        ) as memory,
    ):
        for length in LENGTHS:
            _one_length(memory, length)


def _one_length(memory: MemoryService, length: int) -> None:
    events = [
        Event(text, "user", 1.7e9 + i, f"e{i}")
        for i, text in enumerate(made_up(length + 3 * TURNS, length))
    ]
    known = Session(APP, f"user of {length}", "known", events[:length])
    memory.sync.add_session_to_memory(known)
    memory.sync.observe_session(known)
    times: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[[], object]) -> None:
        begin = time.perf_counter()
        call()
        times.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))

    for turn in range(TURNS):
        alone = replace(known, id="other", events=[events[length + TURNS + turn]])
        more = replace(known, events=events[: length + 1 + turn])
        timed("alone", lambda told=alone: add_turns(memory, told))
        timed("more", lambda told=more: memory.sync.add_session_to_memory(told))
        timed("again", lambda told=more: memory.sync.add_session_to_memory(told))
        timed("observed", lambda: memory.sync.observe_session(known))
        timed("read", lambda told=more: _read(memory, told))
    spent = {name: median(values) for name, values in times.items()}
    row(
        f"{length:,}",
        *(f"{spent[name]:.2f}" for name in ("alone", "more", "again")),
        f"{1e3 * spent['again'] / length:.1f}",
        f"{1e3 * spent['read'] / length:.1f}",
        f"{spent['observed']:.2f}",
        f"{1e3 * spent['observed'] / length:.1f}",
    )


def _read(memory: MemoryService, session: Session) -> None:
    """What cannot be spared: check the turns that are given, and hash them."""
    from vecall.ingest.drafts import CallMetadata, event_drafts

    event_drafts(session.events, session.id, CallMetadata({}), memory.limits)
