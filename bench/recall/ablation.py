"""The gain in recall from each step of ranking, on conversations with known answers.

    python -m bench.recall.ablation path/to/locomo10.json [2-9]
    python -m bench.recall.ablation bench/recall/conversations/languages.jsonl
    python -m bench.recall.ablation demo

`vecall eval` removes what a service can switch off. This script starts from plain BM25
and adds one step a row, and so measures text analysis as well: stop words, stems,
languages, authors, days. Every row uses vecall's own engine with other terms, weights
or vectors; the fusions that vecall does not use are computed from the same candidates.
Shares are in percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import Stemmer
from vecall import Engine, Ranking
from vecall.clock import to_datetime, to_seconds
from vecall.embedders.local import LocalEmbedder
from vecall.evaluation import datasets
from vecall.evaluation.runner import (
    DEEPEST,
    DEPTHS,
    FIRST,
    LOCOMO_GROUPS,
    NO_MARKS,
    NO_NEIGHBOURS,
    PREVIOUS,
    QuestionResult,
    evidence_figures,
    recall_figures,
)
from vecall.index.embedding import text_to_embed
from vecall.index.row_cache import name_key
from vecall.lexical import QUESTION, QueryMarks, memory_terms, query_terms, words
from vecall.lexical.languages import ENGLISH, STOP_WORDS, language_of
from vecall.lexical.stems import PLAIN_FORMS
from vecall.ranking.options import COSINE_ALONE

from bench.common import arguments

APP = "ablation"
KEY = (APP, "user")
NEVER = np.iinfo(np.int64).max
PLAIN = {**NO_NEIGHBOURS, **NO_MARKS, "session": 0.0, "coverage_power": 0.0}
BESIDE = {**PLAIN, "coverage_power": 0.5, "next": 0.5,
          "previous": PREVIOUS, "after_question": PREVIOUS}  # fmt: skip
NO_ROLES = {"favoured": 1.0, "reply": 1.0}
ANALYSIS = ("stop", "stem", "irregular", "languages", "author", "date")
"""Steps of the words' side, in the order of the rows; after them comes the real one."""


class Turn(NamedTuple):
    """One memory."""

    text: str
    author: str | None
    time: float
    session: str
    position: int
    id: str


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Attributes:
        name: What it adds to the row before.
        steps: How many of `ANALYSIS` there are; None is `vecall.lexical` itself.
        weights: Other than the engine's own.
        vectors: "none", "local", "local, no map" or "random".
        fusion: "engine", "min-max" or "rrf".
    """

    name: str
    steps: int | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    vectors: str = "none"
    fusion: str = "engine"


SETTINGS = [
    Setting("BM25, k1 = 0.9, b = 0.75", 0, PLAIN),
    Setting("+ English stop list", 1, PLAIN),
    Setting("+ English stems", 2, PLAIN),
    Setting("+ irregular forms", 3, PLAIN),
    Setting("+ other languages", 4, PLAIN),
    Setting("+ author", 5, PLAIN),
    Setting("+ date", 6, PLAIN),
    Setting("+ days that are named, and the rest of vecall.lexical", None, PLAIN),
    Setting("+ covered share", None, {**PLAIN, "coverage_power": 0.5}),
    Setting("+ neighbours", None, BESIDE),
    Setting("+ second neighbour", None, {**BESIDE, "second": 0.3}),
    Setting("+ answer after question", None, {**NO_MARKS, "session": 0.0}),
    Setting("+ session", None, NO_MARKS),
    Setting("+ question factor", None, {"time": 1.0, "author": 1.0, **NO_ROLES}),
    Setting("+ time factor", None, {"author": 1.0, **NO_ROLES}),
    Setting("+ author factor", None, NO_ROLES),
    Setting("+ users favoured, replies lowered = words alone"),
    Setting("local vectors alone, no map", None, COSINE_ALONE, "local, no map"),
    Setting("local vectors alone", None, COSINE_ALONE, "local"),
    Setting("RRF of words and local, no neighbours", None, PLAIN, "local", "rrf"),
    Setting("min-max 0.4, no neighbours", None, PLAIN, "local", "min-max"),
    Setting("fusion as above, no more than that", None, PLAIN, "local"),
    Setting("fusion as above, neighbours 0.5", None, FIRST, "local"),
    Setting("words and local, no map", None, {}, "local, no map"),
    Setting("words and local", None, {}, "local"),
    Setting("random vectors: min-max 0.4", None, PLAIN, "random", "min-max"),
    Setting("random vectors: fusion as above, no more", None, PLAIN, "random"),
    Setting("words and random vectors", None, {}, "random"),
]


class Words:
    """The words' side up to one of its steps, apart from `vecall.lexical`."""

    def __init__(self, steps: int) -> None:
        self._steps = frozenset(ANALYSIS[:steps])

    def query(self, text: str) -> list[int]:
        found = words(text)
        return self._terms(found, self._language(found))

    def memory(self, turn: Turn) -> list[int]:
        found = words(turn.text)
        language = self._language(found)
        terms = self._terms(found, language)
        if language != ENGLISH:
            known = set(terms)
            terms += [one for one in self._terms(found, ENGLISH) if one not in known]
        if "author" in self._steps:
            terms += self._terms(words(turn.author or ""), ENGLISH)
        if "date" in self._steps:
            day = to_datetime(turn.time)
            dated = f"{day.day} {day:%B} {day.year}"
            terms += self._terms(words(dated), ENGLISH)
        return terms

    def _language(self, found: list[str]) -> str:
        return language_of(found) if "languages" in self._steps else ENGLISH

    def _terms(self, found: list[str], language: str) -> list[int]:
        if "stop" in self._steps:
            found = [word for word in found if word not in STOP_WORDS[language]]
        if "irregular" in self._steps and language == ENGLISH:
            found = [PLAIN_FORMS.get(word, word) for word in found]
        if "stem" in self._steps:
            found = _stemmer(language).stemWords(found)
        return [_hash(word) for word in found]


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


@cache
def _hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")


class Ablation:
    """The conversations, embedded once."""

    def __init__(self, conversations: Sequence[datasets.Conversation]) -> None:
        self.conversations = conversations
        self.turns = [_turns(conversation) for conversation in conversations]
        self.asked = [
            [question for question in conversation.questions if question.evidence]
            for conversation in conversations
        ]
        self._vectors: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}

    def vectors(self, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Vectors of the turns and of the questions, a conversation at a time."""
        if kind not in self._vectors:
            random = np.random.default_rng(0)

            def noise(texts: list[str]) -> np.ndarray:
                return random.standard_normal((len(texts), 512)).astype(np.float32)

            embed = ask = noise
            if kind != "random":
                local = LocalEmbedder("shipped" if kind == "local" else None)
                embed, ask = local.embed, local.embed_queries
            self._vectors[kind] = [
                (
                    embed([text_to_embed(turn.author, turn.text) for turn in turns]),
                    ask([question.text for question in asked]),
                )
                for turns, asked in zip(self.turns, self.asked, strict=True)
            ]
        return self._vectors[kind]

    def run(self, setting: Setting) -> dict[str, Any]:
        """Return the shares of all questions, and of each group."""
        vectors = None if setting.vectors == "none" else self.vectors(setting.vectors)
        answers = []
        for number, questions in enumerate(self.asked):
            engine = self._engine(setting, number)
            turns = self.turns[number]
            for i, question in enumerate(questions):
                vector = None if vectors is None else vectors[number][1][i]
                found = _rank(engine, setting, question.text, vector)
                ranked = tuple(turns[row].id for row in found)
                answers.append(QuestionResult("", question, ranked))
        return recall_figures(evidence_figures(answers))

    def _engine(self, setting: Setting, number: int) -> Engine:
        turns = self.turns[number]
        if setting.steps is None:
            terms = [memory_terms(one.text, one.author, one.time) for one in turns]
        else:
            terms = [Words(setting.steps).memory(one) for one in turns]
        vectors = None
        if setting.vectors != "none":
            vectors = self.vectors(setting.vectors)[number][0]
        engine = Engine(0 if vectors is None else vectors.shape[1])
        engine.add_rows(
            KEY,
            np.arange(len(turns)),
            np.array([int(1e6 * turn.time) for turn in turns]),
            np.full(len(turns), NEVER),
            np.array([name_key(turn.session) for turn in turns], np.uint64),
            np.array([turn.position for turn in turns], np.float64),
            np.array([term for found in terms for term in found], np.uint64),
            np.cumsum([0, *map(len, terms)]).astype(np.int64),
            vectors,
            authors=np.array(
                [name_key(turn.author or "") for turn in turns], np.uint64
            ),
        )
        return engine


def _turns(conversation: datasets.Conversation) -> list[Turn]:
    return [
        Turn(str(event.content), event.author,
             to_seconds(event.timestamp, "timestamp"), s.id, position, str(event.id))
        for s in conversation.sessions
        for position, event in enumerate(s.events)
    ]  # fmt: skip


def _rank(
    engine: Engine, setting: Setting, text: str, vector: np.ndarray | None
) -> list[int]:
    if setting.steps is None:
        terms, marks = query_terms(text, by_period=False)
    else:
        terms, marks = Words(setting.steps).query(text), QueryMarks()
    own = setting.fusion != "engine"
    ids, _, similarities, lexical, _, _ = engine.recall(
        KEY,
        vector,
        [*terms, *marks.optional],
        1_000 if own else DEEPEST,
        question_mark=QUESTION,
        time_mark=marks.time,
        author_marks=list(marks.authors),
        favoured_authors=[name_key("user")],
        known_model=setting.vectors.startswith("local"),
        ranking=Ranking(weights=setting.weights).engine_ranking,
        candidates=50,
    )
    if own:
        if setting.fusion == "rrf":
            score = 1 / (60 + _ranks(lexical)) + 1 / (60 + _ranks(similarities))
        else:
            score = 0.4 * _min_max(similarities) + 0.6 * _min_max(lexical)
        ids = ids[np.argsort(-score, kind="stable")]
    return list(ids[:DEEPEST].tolist())


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(-values, kind="stable"), kind="stable") + 1


def _min_max(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / max(values.max() - values.min(), 1e-9)


def main(path: str, which: str | None) -> None:
    """Print one Markdown row a setting."""
    if path == "demo":
        conversations = datasets.read_demo(APP)
    elif path.endswith(".jsonl"):
        conversations = datasets.read_jsonl(Path(path), APP)
    else:
        conversations = datasets.read_locomo(Path(path), APP)
    if which is not None:
        conversations = datasets.chosen(conversations, which)
    ablation = Ablation(conversations)
    for setting in SETTINGS:
        result = ablation.run(setting)
        groups = result["categories"]
        if set(LOCOMO_GROUPS) <= set(groups):
            groups = {name: groups[name] for name in LOCOMO_GROUPS}
        if setting is SETTINGS[0]:
            head = ["setting", *(f"all @{depth}" for depth in DEPTHS), "MRR"]
            for name in groups:
                head += [f"{name} @10", "MRR"]
            print(f"| {' | '.join(head)} |")
            print("|---" * len(head) + "|")
        cells = [result[f"recall@{depth}"] for depth in DEPTHS] + [result["mrr"]]
        for shares in groups.values():
            cells += [shares["recall@10"], shares["mrr"]]
        shown = " | ".join(f"{100 * cell:.1f}" for cell in cells)
        print(f"| {setting.name} | {shown} |", flush=True)


if __name__ == "__main__":
    parser = arguments.parser(__doc__)
    parser.add_argument("path", help="a LoCoMo file, a .jsonl file, or demo")
    parser.add_argument("which", nargs="?", help="conversations, as 2-9")
    options = parser.parse_args()
    main(options.path, options.which)
