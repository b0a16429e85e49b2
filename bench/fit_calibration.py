"""Fits what turns scores into confidence, and writes it into the package.

    python bench/fit_calibration.py

Fitted on bench/conversations/assistants.jsonl, languages.jsonl and the demo's; neither
people.jsonl nor LoCoMo is looked at, so that `vecall eval` can judge on them. Every
conversation is told three times: each session as a user of its own, as it is, and all
of a file as one user, so that the weights hold for a dozen memories and for a thousand.
Every user is also asked as many questions that belong to another user of the same file,
to which he has no answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vecall import MemoryService
from vecall.calibration import Calibration, Signals, fit
from vecall.cli.datasets import Conversation, Question, read_demo, read_jsonl
from vecall.embedders import CachedEmbedder
from vecall.embedders.local import LocalEmbedder
from vecall.types import Event, Session

APP = "calibration"
FOLDER = Path(__file__).parent / "conversations"
PACKAGE = Path(__file__).parent.parent / "python/vecall/calibrated.json"
TOP_K = 5


@dataclass(frozen=True)
class Case:
    """One user's memory and the questions to it."""

    sessions: list[Session]
    questions: list[Question]


def renamed(told: Conversation, user: str, prefix: str) -> Case:
    """Move a conversation to another user; ids and sessions get a prefix."""

    def name(event: Event) -> Event:
        return replace(event, id=f"{prefix}{event.id}")

    sessions = [
        Session(APP, user, prefix + s.id, [name(event) for event in s.events])
        for s in told.sessions
    ]
    questions = [
        replace(q, evidence=frozenset(f"{prefix}{id_}" for id_ in q.evidence))
        for q in told.questions
    ]
    return Case(sessions, questions)


def cases(conversations: list[Conversation], source: str) -> Iterator[Case]:
    """Tell conversations session by session, as they are, as one, and ask strangers."""
    chance = random.Random(0)
    everything = Case([], [])
    for told in conversations:
        user = f"{source}-{told.user_id}"
        yield renamed(told, user, "")
        whole = renamed(told, f"{source}-all", f"{told.user_id}:")
        everything.sessions.extend(whole.sessions)
        everything.questions.extend(whole.questions)
        for session in told.sessions:
            ids = {str(event.id) for event in session.events}
            here = [q for q in told.questions if q.evidence and q.evidence <= ids]
            gone = [q for q in told.questions if not q.evidence & ids]
            few = [replace(q, evidence=frozenset()) for q in gone[:3]]
            alone = replace(session, app_name=APP, user_id=f"{user}-{session.id}")
            yield Case([alone], here + few)
        others = [
            replace(q, evidence=frozenset())
            for other in conversations
            if other is not told
            for q in other.questions
            if q.evidence
        ]
        asked = chance.sample(others, min(len(told.questions), len(others)))
        yield Case(renamed(told, f"{user}-asked", "").sessions, asked)
    yield everything


def collect(memory: MemoryService, told: list[Case]) -> tuple[list[Signals], list[int]]:
    """Ask all questions; return the signals of all hits and which were right."""
    signals: list[Signals] = []
    relevant: list[int] = []
    for case in told:
        for session in case.sessions:
            memory.sync.add_session_to_memory(session)
        user = case.sessions[0].user_id
        for question in case.questions:
            found = memory.sync.search_memory(
                app_name=APP,
                user_id=user,
                query=question.text,
                top_k=TOP_K,
                explain=True,
            )
            for entry in found.memories:
                signals.append(Signals.of(entry))
                relevant.append(int(entry.event_id in question.evidence))
    return signals, relevant


def main() -> None:
    """Fit both weights and write them."""
    sources = {
        "assistants": read_jsonl(FOLDER / "assistants.jsonl", APP),
        "languages": read_jsonl(FOLDER / "languages.jsonl", APP),
        "demo": read_demo(APP),
    }
    told = [case for name, one in sources.items() for case in cases(one, name)]
    embedder = CachedEmbedder(LocalEmbedder())
    fitted = []
    for chosen in (None, embedder):
        with MemoryService(embedder=chosen, warn_raw=False) as memory:
            signals, relevant = collect(memory, told)
        weights = fit(signals, relevant, vectors=chosen is not None)
        share = sum(relevant) / len(relevant)
        print(f"{len(relevant):,} hits, {100 * share:.1f} % relevant: {weights}")
        fitted.append(weights)
    Calibration(fitted[0], {embedder.model_id: fitted[1]}).save(PACKAGE)


if __name__ == "__main__":
    main()
