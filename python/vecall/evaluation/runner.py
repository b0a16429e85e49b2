"""Tells conversations to a durable file and asks it every question."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from vecall.embedders import CachedEmbedder, Embedder, has_local
from vecall.embedders.base import is_async
from vecall.embedders.resolve import resolve
from vecall.errors import ConfigError
from vecall.evaluation.datasets import Conversation, Question
from vecall.prompts.budget import estimate_tokens
from vecall.ranking.calibration import Calibration, Signals
from vecall.ranking.options import COSINE_ALONE, Ranking
from vecall.service.memory_service import MemoryService
from vecall.types import MemoryEntry

APP = "eval"
DEPTHS = (5, 10, 20)
DEEPEST = max(DEPTHS)
TOP_K = 5
"""How many memories an answer has by default; what confidence is judged on."""

READ = 10
"""How many memories the estimate of tokens counts."""

_CACHE_BYTES = 1 << 30


class Progress(Protocol):
    """Shows how far a long run is."""

    def add(self, count: int) -> None:
        """Count some more as done."""

    def finish(self) -> None:
        """Remove what was shown."""


class Silent:
    """Shows nothing."""

    def __init__(self, label: str, total: int) -> None:
        """Ignore what a shown progress would begin with."""

    def add(self, count: int) -> None:
        """Ignore the count."""

    def finish(self) -> None:
        """Do nothing."""


class Mode(NamedTuple):
    """One column of the evaluation.

    Attributes:
        name: As it was asked for.
        embedder: What embeds, one object for all modes of a name; None is words alone.
        ranking: Other than the default only for "vectors" and "rrf".
    """

    name: str
    embedder: Embedder | None
    ranking: Ranking

    @property
    def is_default(self) -> bool:
        """Whether it ranks as a service does that nothing is said to."""
        return self.name not in _COMPARED


_COMPARED = {
    "vectors": Ranking(fusion="vectors", weights=COSINE_ALONE),
    "rrf": Ranking(fusion="rrf"),
}


def chosen_modes(given: str | None) -> list[Mode]:
    """Return the modes of a comma-separated list; by default all that is installed.

    Raises:
        ConfigError: A name that is neither a mode nor an embedder.
        ImportError: The extra that an embedder needs is not installed.
    """
    if given is None:
        given = "lexical,local" if has_local() else "lexical"
    names = list(dict.fromkeys(name.strip() for name in given.split(",")))
    named = [name for name in names if name not in (*_COMPARED, "lexical")]
    first = named[0] if named else "local"
    embedders: dict[str, Embedder | None] = {"lexical": None}
    modes = []
    for name in names:
        of = first if name in _COMPARED else name
        if of not in embedders:
            embedders[of] = _resolved(of)
        modes.append(Mode(name, embedders[of], _COMPARED.get(name, Ranking())))
    return modes


def _resolved(name: str) -> Embedder | None:
    try:
        return resolve(name)
    except ConfigError as error:
        msg = (
            "--modes: lexical, vectors, rrf and names of embedders, separated by "
            f"commas; {error}"
        )
        raise ConfigError(msg) from None


class Hit(NamedTuple):
    """One of an answer's first memories, and whether it is evidence."""

    confidence: float | None
    signals: Signals
    relevant: int


@dataclass(frozen=True, slots=True)
class Answer:
    """How one question went.

    Attributes:
        user: Whose memory was asked.
        question: What was asked; without evidence, nothing there answers it.
        ranked: The turns that were found, best first.
        hits: The first `TOP_K`, where the search explained itself.
        seconds: How long it took, warm; 0 where it was not measured.
        tokens: What an agent reads for the texts of the first `READ`, estimated.
    """

    user: str
    question: Question
    ranked: tuple[str, ...]
    hits: tuple[Hit, ...] = ()
    seconds: float = 0.0
    tokens: int = 0


def name_of(found: MemoryEntry) -> str:
    """Return the id by which evidence names a memory: its event's, or its own."""
    return str(found.id if found.event_id is None else found.event_id)


class Timed:
    """An embedder that notes how long each query took."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap one; `queries` are seconds, in the order of asking."""
        self.model_id = embedder.model_id
        self.dimensions = embedder.dimensions
        self.probe = getattr(embedder, "probe", None)
        self.scripts = getattr(embedder, "scripts", None)
        self.queries: list[float] = []
        self.embed: Callable[[Sequence[str]], Any] = embedder.embed
        self._ask = getattr(embedder, "embed_queries", embedder.embed)
        if is_async(embedder.embed):
            self.embed_queries = self._queries_async  # type: ignore[method-assign]

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        begin = time.perf_counter()
        vectors = self._ask(texts)
        self.queries.append(time.perf_counter() - begin)
        return vectors

    async def _queries_async(self, texts: Sequence[str]) -> Any:
        begin = time.perf_counter()
        vectors = await cast("Awaitable[Any]", self._ask(texts))
        self.queries.append(time.perf_counter() - begin)
        return vectors


class Subject:
    """A service to which all conversations were told.

    Attributes:
        memory: The service, on a durable file.
        model_id: Its embedding model; None is words alone.
        ingest_s: How long the telling took, with what had to be embedded.
        queries: Seconds that the embedder took for each query that it had not seen.
    """

    def __init__(self, memory: MemoryService, timed: Timed | None) -> None:
        """Begin with nothing told."""
        self.memory = memory
        self.model_id = None if timed is None else timed.model_id
        self.ingest_s = 0.0
        self.queries: list[float] = [] if timed is None else timed.queries

    def tell(self, conversations: Iterable[Conversation], progress: Progress) -> None:
        """Store every turn."""
        begin = time.perf_counter()
        for told in conversations:
            for session in told.sessions:
                self.memory.sync.add_session_to_memory(session)
                progress.add(len(session.events))
            if told.memories:
                self.memory.sync.add_memory(
                    app_name=APP, user_id=told.user_id, memories=told.memories
                )
                progress.add(len(told.memories))
        self.ingest_s = time.perf_counter() - begin
        progress.finish()

    def ask(
        self,
        asked: Sequence[tuple[str, Question]],
        mode: Mode,
        progress: Progress,
        *,
        fully: bool = True,
    ) -> list[Answer]:
        """Ask users' memories.

        Args:
            asked: Pairs of user and question.
            mode: How to rank.
            progress: Told of every question.
            fully: Whether answers have hits and times, for two more searches.
        """
        answers = []
        for user, question in asked:
            answers.append(self._answer(user, question, mode, fully))
            progress.add(1)
        progress.finish()
        return answers

    def _answer(self, user: str, question: Question, mode: Mode, fully: bool) -> Answer:
        found = self._search(user, question.text, mode, explain=fully)
        seconds = 0.0
        if fully:  # the search before loaded the user and embedded the question
            begin = time.perf_counter()
            self._search(user, question.text, mode)
            seconds = time.perf_counter() - begin
        hits: tuple[Hit, ...] = ()
        if fully:
            hits = tuple(
                Hit(
                    one.confidence,
                    Signals.of(one),
                    int(name_of(one) in question.evidence),
                )
                for one in found[:TOP_K]
            )
        ranked = tuple(name_of(one) for one in found[:DEEPEST])
        tokens = sum(estimate_tokens(one.text) for one in found[:READ])
        return Answer(user, question, ranked, hits, seconds, tokens)

    def _search(
        self,
        user: str,
        text: str,
        mode: Mode,
        *,
        explain: bool = False,
    ) -> list[MemoryEntry]:
        found = self.memory.sync.search_memory(
            app_name=APP,
            user_id=user,
            query=text,
            top_k=DEEPEST,
            ranking=mode.ranking,
            explain=explain,
        )
        return found.memories


@contextmanager
def told(
    conversations: Sequence[Conversation],
    embedder: Embedder | None,
    calibration: Calibration | None,
    progress: Callable[[str, int], Progress] = Silent,
) -> Iterator[Subject]:
    """Tell all conversations to a service of one embedder; it closes after the block.

    The embedder sees every text once, however many modes and settings follow.

    Args:
        conversations: What is stored.
        embedder: None is words alone.
        calibration: None is the one that ships.
        progress: Makes what shows the progress, of a label and a number of turns.
    """
    timed = None if embedder is None else Timed(embedder)
    cached = None if timed is None else CachedEmbedder(timed, max_bytes=_CACHE_BYTES)
    turns = turns_of(conversations)
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryService(
            Path(folder) / "eval.db",
            embedder=cached,
            calibration=calibration,
            warn_raw=False,
        ) as memory,
    ):
        subject = Subject(memory, timed)
        name = subject.model_id or "words"
        subject.tell(conversations, progress(f"{name}: ingest", turns))
        yield subject


def turns_of(conversations: Iterable[Conversation]) -> int:
    """Return the number of turns and memories."""
    return sum(
        len(one.memories) + sum(len(session.events) for session in one.sessions)
        for one in conversations
    )


def own_questions(conversations: Iterable[Conversation]) -> list[tuple[str, Question]]:
    """Return every user's questions."""
    return [(one.user_id, asked) for one in conversations for asked in one.questions]


def strangers(conversations: Sequence[Conversation]) -> list[tuple[str, Question]]:
    """Return as many questions a user that only another user's memory can answer."""
    chance = random.Random(0)
    found = []
    for one in conversations:
        others = [
            Question(asked.text, asked.category, frozenset())
            for other in conversations
            if other is not one
            for asked in other.questions
            if asked.evidence
        ]
        count = min(len(one.questions), len(others))
        found += [(one.user_id, asked) for asked in chance.sample(others, count)]
    return found
