"""Ingests conversations, searches for every question, and measures what it found."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from vecall.embedders import CachedEmbedder, Embedder, Vectors, has_local
from vecall.embedders.base import WrappedEmbedder, is_async
from vecall.embedders.local import LocalEmbedder
from vecall.embedders.query_map import Example, QueryMap
from vecall.embedders.query_map import fit_query_map as fit_map
from vecall.embedders.resolve import resolve
from vecall.errors import ConfigError
from vecall.evaluation import metrics
from vecall.evaluation.datasets import Conversation, Question
from vecall.index.embedding import text_to_embed
from vecall.lexical.features import query_message
from vecall.prompts.render import estimate_tokens
from vecall.ranking.calibration import Calibration, Signals, Weights, fit_weights
from vecall.ranking.options import CONTEXT, COSINE_ALONE, FACTORS, Ranking
from vecall.search.searcher import SearchOptions
from vecall.service.memory_service import MemoryService
from vecall.types import Filter, MemoryEntry

APP = "eval"
DEPTHS = (5, 10, 20)
DEEPEST = max(DEPTHS)
TOP_K = 5
"""Confidence is evaluated on this number of first memories."""

READ = 10
"""Tokens are counted in this number of first memories."""

_CACHE_BYTES = 1 << 30


class Progress(Protocol):
    """A progress display for a long run."""

    def add(self, count: int) -> None:
        """Count `count` more items as done."""

    def finish(self) -> None:
        """Remove the display."""


class Silent:
    """A `Progress` that displays nothing."""

    def __init__(self, label: str, total: int) -> None:
        """Ignore the label and the total."""

    def add(self, count: int) -> None:
        """Ignore the count."""

    def finish(self) -> None:
        """Do nothing."""


class Mode(NamedTuple):
    """An embedder, None for words alone, and a ranking to evaluate."""

    name: str
    embedder: Embedder | None
    ranking: Ranking

    @property
    def is_default_mode(self) -> bool:
        """Whether the mode uses the default ranking of a service."""
        return self.name not in _COMPARED


_COMPARED = {
    "vectors": Ranking(fusion="vectors", weights=COSINE_ALONE),
    "rrf": Ranking(fusion="rrf"),
}


def choose_eval_modes(selection: str | None) -> list[Mode]:
    """Return the modes that a comma-separated list names; None: the usual ones."""
    if selection is None:
        selection = "lexical,local" if has_local() else "lexical"
    names = list(dict.fromkeys(name.strip() for name in selection.split(",")))
    named = [name for name in names if name not in (*_COMPARED, "lexical")]
    first = named[0] if named else "local"
    embedders: dict[str, Embedder | None] = {"lexical": None}
    modes = []
    for name in names:
        embedder_name = first if name in _COMPARED else name
        if embedder_name not in embedders:
            embedders[embedder_name] = _resolve_embedder(embedder_name)
        modes.append(
            Mode(name, embedders[embedder_name], _COMPARED.get(name, Ranking()))
        )
    return modes


def _resolve_embedder(name: str) -> Embedder | None:
    try:
        return resolve(name)
    except ConfigError as error:
        raise ConfigError(
            "--modes: lexical, vectors, rrf and names of embedders, separated by "
            f"commas; {error}"
        ) from None


class Hit(NamedTuple):
    """One of the first memories of a result, and whether it is evidence (1 or 0)."""

    confidence: float | None
    signals: Signals
    relevant: int


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The search result of one question."""

    user: str
    question: Question
    ranked: tuple[str, ...]  # the evidence ids of the found memories, best first
    # The first `TOP_K` memories with their signals; empty without explanations.
    hits: tuple[Hit, ...] = ()
    seconds: float = 0.0  # the time of a warm search; 0 if not measured
    tokens: int = 0  # estimated, of the texts of the first `READ` memories


def evidence_id(found: MemoryEntry) -> str:
    """Return the id that evidence uses for a memory: its event's id, else its own."""
    return str(found.id if found.event_id is None else found.event_id)


class TimedEmbedder(WrappedEmbedder):
    """An embedder that measures the time of each query."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder; `queries` collects the seconds of each call, in order."""
        super().__init__(embedder)
        self.queries: list[float] = []
        self.embed: Callable[[Sequence[str]], Any] = embedder.embed
        self._embed_queries = getattr(embedder, "embed_queries", embedder.embed)
        if is_async(embedder.embed):
            self.embed_queries = self._queries_async  # type: ignore[method-assign]

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        begin = time.perf_counter()
        vectors = self._embed_queries(texts)
        self.queries.append(time.perf_counter() - begin)
        return vectors

    async def _queries_async(self, texts: Sequence[str]) -> Any:
        begin = time.perf_counter()
        vectors = await cast("Awaitable[Any]", self._embed_queries(texts))
        self.queries.append(time.perf_counter() - begin)
        return vectors


class SystemUnderTest:
    """A service that holds the conversations and is searched for the questions.

    It has the seconds of the ingest, and of each query that was not in the cache.
    """

    def __init__(self, memory: MemoryService, timed: TimedEmbedder | None) -> None:
        """Wrap an empty service."""
        self.memory = memory
        self.model_id = None if timed is None else timed.model_id
        self.ingest_s = 0.0
        self.queries: list[float] = [] if timed is None else timed.queries

    def ingest(self, conversations: Iterable[Conversation], progress: Progress) -> None:
        """Store all turns and memories."""
        begin = time.perf_counter()
        for conversation in conversations:
            for session in conversation.sessions:
                self.memory.sync.add_session_to_memory(session)
                progress.add(len(session.events))
            memories = conversation.memories
            if memories:
                self.memory.sync.add_memory(
                    app_name=APP, user_id=conversation.user_id, memories=memories
                )
                progress.add(len(memories))
        self.ingest_s = time.perf_counter() - begin
        progress.finish()

    def run_questions(
        self,
        questions: Sequence[tuple[str, Question]],
        mode: Mode,
        progress: Progress,
        *,
        fully: bool = True,
    ) -> list[QuestionResult]:
        """Search for every question; `fully` searches again for hits and times."""
        results = []
        for user, question in questions:
            results.append(self._ask_question(user, question, mode, fully))
            progress.add(1)
        progress.finish()
        return results

    def _ask_question(
        self, user: str, question: Question, mode: Mode, fully: bool
    ) -> QuestionResult:
        found = self._search_question(user, question, mode, explain=fully)
        seconds = 0.0
        if fully:  # warm: the first search loaded the user and cached the vector
            begin = time.perf_counter()
            self._search_question(user, question, mode)
            seconds = time.perf_counter() - begin
        hits: tuple[Hit, ...] = ()
        if fully:
            hits = tuple(
                Hit(
                    entry.confidence,
                    Signals.signals_of_memory(entry),
                    int(evidence_id(entry) in question.evidence),
                )
                for entry in found[:TOP_K]
            )
        ranked = tuple(evidence_id(entry) for entry in found[:DEEPEST])
        tokens = sum(estimate_tokens(entry.text) for entry in found[:READ])
        return QuestionResult(user, question, ranked, hits, seconds, tokens)

    def _search_question(
        self, user: str, question: Question, mode: Mode, *, explain: bool = False
    ) -> list[MemoryEntry]:
        found = self.memory.sync.search_memory(
            app_name=APP,
            user_id=user,
            query=question.text,
            top_k=DEEPEST,
            filter=Filter(before=question.before),
            ranking=mode.ranking,
            explain=explain,
        )
        return found.memories


@contextmanager
def ingested(
    conversations: Sequence[Conversation],
    embedder: Embedder | None,
    calibration: Calibration | None,
    progress: Callable[[str, int], Progress] = Silent,
) -> Iterator[SystemUnderTest]:
    """Open a service that holds all conversations; close it after the block."""
    # The embedder embeds every text once, for all modes and settings.
    timed = None if embedder is None else TimedEmbedder(embedder)
    cached = None if timed is None else CachedEmbedder(timed, max_bytes=_CACHE_BYTES)
    turns = count_dataset_turns(conversations)
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryService(
            Path(folder) / "eval.db",
            embedder=cached,
            search=SearchOptions(calibration=calibration),
        ) as memory,
    ):
        subject = SystemUnderTest(memory, timed)
        name = subject.model_id or "words"
        subject.ingest(conversations, progress(f"{name}: ingest", turns))
        yield subject


def count_dataset_turns(conversations: Iterable[Conversation]) -> int:
    """Return the number of turns and memories."""
    return sum(
        len(conversation.memories)
        + sum(len(session.events) for session in conversation.sessions)
        for conversation in conversations
    )


def own_questions(conversations: Iterable[Conversation]) -> list[tuple[str, Question]]:
    """Return every user's questions."""
    return [
        (conversation.user_id, question)
        for conversation in conversations
        for question in conversation.questions
    ]


def stranger_pairs(conversations: Sequence[Conversation]) -> list[tuple[str, Question]]:
    """Return pairs of a user and a question that another user's memory answers."""
    # Each user gets as many such questions as the user has own questions.
    rng = random.Random(0)
    pairs = []
    for conversation in conversations:
        others = [
            Question(question.text, question.category, frozenset())
            for other in conversations
            if other is not conversation
            for question in other.questions
            if question.evidence
        ]
        count = min(len(conversation.questions), len(others))
        pairs += [
            (conversation.user_id, question) for question in rng.sample(others, count)
        ]
    return pairs


# The settings that `vecall eval` compares: each disables one part of ranking.

NO_NEIGHBOURS = dict.fromkeys(CONTEXT[:-1], 0.0)
NO_MARKS = dict.fromkeys(FACTORS, 1.0)
PREVIOUS = 0.4
"""The default weight of the previous turn; see bench/results/recall.md."""

FIRST = {
    **NO_MARKS,
    "next": 0.5,
    "previous": 0.5,
    "after_question": 0.5,
    "second": 0.0,
    "session": 0.0,
    "coverage_power": 0.0,
}
"""The ranking of vecall's first version: words, vectors and a hit's neighbours."""


class Setting(NamedTuple):
    """One row of the ablation table."""

    name: str
    ranking: Ranking


DEFAULT = Setting("default", Ranking())


def ablation_settings(*, vectors: bool) -> list[Setting]:
    """Return the default, then the settings that differ from it in one option."""
    weights = {**_WEIGHTS, **(_WEIGHTS_OF_VECTORS if vectors else {})}
    found = [DEFAULT]
    found += [Setting(name, Ranking(weights=each)) for name, each in weights.items()]
    if vectors:
        found.append(Setting("with RRF", Ranking(fusion="rrf")))
    found += [
        Setting("with half-life 30 days", Ranking(half_life=timedelta(days=30))),
        Setting("with half-life 1 year", Ranking(half_life=timedelta(days=365))),
        Setting("with diversity 0.3", Ranking(diversity=0.3)),
        Setting("with collapse 0.8", Ranking(collapse=0.8)),
    ]
    return found


_WEIGHTS = {
    "no covered share": {"coverage_power": 0.0},
    "no neighbours": NO_NEIGHBOURS,
    "no answer after question": {"after_question": PREVIOUS},
    "no second neighbour": {"second": 0.0},
    "no session": {"session": 0.0},
    "no question factor": {"question": 1.0},
    "no time factor": {"time": 1.0},
    "no author factor": {"author": 1.0},
    "no author favoured": {"favoured": 1.0},
    "no reply factor": {"reply": 1.0},
    "no period factor": {"outside": 1.0},
    "first table: none but 0.5 beside": FIRST,
}
_WEIGHTS_OF_VECTORS = {
    "vectors weigh 0.2, not 0.4": {"dense": 0.2},
    "vectors weigh 0.6, not 0.4": {"dense": 0.6},
}


# `vecall eval --fit-map`: fits a map on query vectors and measures its gain.

_FOLDS = 5
_DEPTH = 10


def query_map_examples(
    conversations: Sequence[Conversation], embedder: Embedder
) -> list[Example]:
    """Embed every user's memories and the questions that have an answer."""
    if isinstance(embedder, LocalEmbedder):
        embedder = LocalEmbedder(query_map=None)
    embed_queries = getattr(embedder, "embed_queries", embedder.embed)
    found = []
    for conversation in conversations:
        texts, ids = [], []
        for session in conversation.sessions:
            for event in session.events:
                texts.append(text_to_embed(event.author, str(event.content)))
                ids.append(str(event.id))
        for memory in conversation.memories:
            texts.append(text_to_embed(memory.author, memory.text))
            ids.append(str(memory.id))
        answerable = [
            question for question in conversation.questions if question.evidence
        ]
        if not answerable:
            continue
        row = {name: i for i, name in enumerate(ids)}
        evidence = [[row[id_] for id_ in question.evidence] for question in answerable]
        queries = _embedded(embed_queries, [question.text for question in answerable])
        found.append(Example(_embedded(embedder.embed, texts), queries, evidence))
    return found


def _embedded(embed: Any, texts: Sequence[str]) -> Vectors:
    async def awaited() -> Any:
        return await embed(texts)

    vectors = asyncio.run(awaited()) if is_async(embed) else embed(texts)
    return cast("Vectors", np.asarray(vectors, np.float32))


def fit_and_measure_map(examples: Sequence[Example]) -> tuple[QueryMap, dict[str, Any]]:
    """Fit a map on all users, and measure it by cross-validation over users."""
    # The figures are recall@10 and MRR of a search by cosine, without a map and with
    # one fitted on other users. Both are None with less than two users.
    everything = fit_map(examples)
    count = sum(len(example.questions) for example in examples)
    folds = min(_FOLDS, len(examples))
    without, mapped = [], []
    for fold in range(folds if folds > 1 else 0):
        apart = list(examples[fold::folds])
        others = [example for i, example in enumerate(examples) if i % folds != fold]
        query_map = fit_map(others)
        for example in apart:
            without += _recalls_and_ranks(example, example.questions)
            mapped += _recalls_and_ranks(example, query_map(example.questions))
    return everything, {
        "questions": count,
        "without": _shares_found(without),
        "with": _shares_found(mapped),
    }


def _recalls_and_ranks(
    example: Example, questions: Vectors
) -> list[tuple[float, float]]:
    order = np.argsort(-(questions @ example.memories.T), axis=1, kind="stable")
    found = []
    for ranked, evidence in zip(order[:, :20], example.evidence, strict=True):
        names = list(map(str, ranked))
        pieces = [{str(row)} for row in evidence]
        found.append(
            (
                metrics.recall_at(names, pieces, _DEPTH),
                metrics.reciprocal_rank(names, pieces),
            )
        )
    return found


def _shares_found(
    ranks: Sequence[tuple[float, float]],
) -> dict[str, float | None] | None:
    if not ranks:
        return None
    recall, reciprocal = zip(*ranks, strict=True)
    return {"recall@10": metrics.mean(recall), "mrr": metrics.mean(reciprocal)}


# Turns results into figures: recall by group, gains of a setting, times.

SHARES = (*(f"recall@{depth}" for depth in DEPTHS), "mrr", "ndcg@10")
"""The figures of every group of questions, each in [0, 1]."""

LOCOMO_GROUPS = {"1-3": "123", "4-5": "45"}


class Measured(NamedTuple):
    """The figures of one question."""

    category: str
    shares: tuple[float, ...]
    curve: tuple[float, ...]  # recall at 1, 2, …, DEEPEST


def evidence_figures(results: Iterable[QuestionResult]) -> list[Measured]:
    """Return the figures of the questions that have evidence."""
    found = []
    for result in results:
        pieces, ranked = result.question.evidence_pieces, result.ranked
        if not pieces:
            continue
        curve = tuple(
            metrics.recall_at(ranked, pieces, depth) for depth in range(1, DEEPEST + 1)
        )
        shares = (
            *(curve[depth - 1] for depth in DEPTHS),
            metrics.reciprocal_rank(ranked, pieces),
            metrics.ndcg_at(ranked, pieces, 10),
        )
        found.append(Measured(result.question.category, shares, curve))
    return found


def recall_figures(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the mean shares of all questions and of each group."""
    # Each category is a group. LoCoMo's categories, 1 to 5, form two more: "1-3"
    # (multi-hop, temporal, open-domain) and "4-5" (single-hop, adversarial).
    names = {question.category for question in found}
    groups = {name: frozenset({name}) for name in names}
    if names and names <= set("12345"):
        groups |= {name: frozenset(of) for name, of in LOCOMO_GROUPS.items()}
    return {
        **_mean_found_shares(found),
        "recall_curve": [
            metrics.mean([question.curve[depth] for question in found])
            for depth in range(DEEPEST)
        ],
        "categories": {
            name: _mean_found_shares(
                [question for question in found if question.category in groups[name]]
            )
            for name in sorted(groups)
        },
    }


def ablation_figures(
    name: str, found: Sequence[Measured], default: Sequence[Measured]
) -> dict[str, Any]:
    """Return a setting's shares and its gain over the default."""
    # The gain is the mean of the differences by question. Half the width of its 95 %
    # interval assumes independent questions.
    gains = {}
    for i, share in enumerate(SHARES):
        differences = [
            question.shares[i] - other.shares[i]
            for question, other in zip(found, default, strict=True)
        ]
        gains[share] = {
            "mean": metrics.mean(differences),
            "half_width": metrics.confidence_half_width(differences),
        }
    figures = recall_figures(found)
    del figures["recall_curve"]
    return {"setting": name, **figures, "gain": gains}


def time_figures(seconds: Sequence[float]) -> dict[str, Any]:
    """Return percentiles in milliseconds."""
    values = {}
    for percent in (50, 99):
        value = metrics.percentile(seconds, percent)
        values[f"p{percent}_ms"] = None if value is None else 1000 * value
    return values


def _mean_found_shares(found: Sequence[Measured]) -> dict[str, Any]:
    values: dict[str, Any] = {
        share: metrics.mean([question.shares[i] for question in found])
        for i, share in enumerate(SHARES)
    }
    return {**values, "questions": len(found)}


# Figures of confidences: their calibration, and searches below a floor.

FLOORS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Values of min_confidence to try. With 0, only searches without hits are silent."""


def calibration_figures(hits: Iterable[Hit]) -> dict[str, Any] | None:
    """Return the calibration of the hits' confidences; None if no hit has one."""
    pairs = [(hit.confidence, hit.relevant) for hit in hits]
    confidences = [confidence for confidence, _ in pairs if confidence is not None]
    relevant = [right for confidence, right in pairs if confidence is not None]
    return _calibration_figures(confidences, relevant) if confidences else None


def _calibration_figures(
    confidences: Sequence[float], relevant: Sequence[int]
) -> dict[str, Any]:
    return {
        "hits": len(confidences),
        "base_rate": metrics.mean(relevant),
        "mean": metrics.mean(confidences),
        "deviation": metrics.standard_deviation(confidences),
        "ece": metrics.expected_calibration_error(confidences, relevant),
        "brier": metrics.brier_score(confidences, relevant),
        "constant_brier": metrics.constant_brier_score(relevant),
        "auroc": metrics.roc_area(confidences, relevant),
        "reliability": [
            asdict(bin_) for bin_ in metrics.reliability_bins(confidences, relevant)
        ],
    }


def silence_figures(
    own: Sequence[QuestionResult], strange: Sequence[QuestionResult]
) -> list[dict[str, Any]]:
    """Return, for each floor, the share of searches that would return nothing."""
    # A service cuts a result to its first memories before it applies `min_confidence`,
    # so the confidences of those memories decide.
    groups = {
        "answerable": [result for result in own if result.question.evidence],
        "unanswerable": [result for result in own if not result.question.evidence],
        "strangers": list(strange),
    }
    found = [hit for answer in groups["answerable"] for hit in answer.hits]
    right = [hit for hit in found if hit.relevant]
    rows = []
    for floor in FLOORS:
        row: dict[str, Any] = {"min_confidence": floor}
        for name, answers in groups.items():
            silent = [
                not any(_has_enough_confidence(hit, floor) for hit in a.hits)
                for a in answers
            ]
            row[name] = metrics.mean(silent)
        row["evidence_kept"] = metrics.mean(
            [_has_enough_confidence(hit, floor) for hit in right]
        )
        rows.append(row)
    return rows


def _has_enough_confidence(hit: Hit, floor: float) -> bool:
    return hit.confidence is not None and hit.confidence >= floor


def fit_calibration(
    results: Sequence[QuestionResult], *, vectors: bool, messages: float = 0.0
) -> tuple[Weights, dict[str, Any]]:
    """Fit weights on the hits of all results; return figures of held-out users, too."""
    # Each user is evaluated with weights fitted on all others. The figures are None if
    # too few hits remain. `messages` is what a search adds to the log-odds for queries
    # that tell more than they ask.
    added = [messages * bool(query_message(each.question.text)) for each in results]
    pairs = list(zip(results, added, strict=True))
    weights = _fit_weights(pairs, vectors)
    confidences: list[float] = []
    relevant: list[int] = []
    for user in dict.fromkeys(result.user for result in results):
        try:
            without = _fit_weights([p for p in pairs if p[0].user != user], vectors)
        except ConfigError:
            return weights, {"held_out": None}
        for result, more in pairs:
            if result.user == user:
                law = without.engine_law(more)
                confidences += [law.probability(hit.signals) for hit in result.hits]
                relevant += [hit.relevant for hit in result.hits]
    return weights, {"held_out": _calibration_figures(confidences, relevant)}


def _fit_weights(
    pairs: Sequence[tuple[QuestionResult, float]], vectors: bool
) -> Weights:
    hits = [(hit, more) for result, more in pairs for hit in result.hits]
    return fit_weights(
        [hit.signals for hit, _ in hits],
        [hit.relevant for hit, _ in hits],
        vectors=vectors,
        added=[more for _, more in hits],
    )
