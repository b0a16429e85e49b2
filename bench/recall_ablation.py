"""What each step of recall is worth, on conversations with known answers.

    python bench/recall_ablation.py path/to/locomo10.json [2-9]
    python bench/recall_ablation.py demo

Every row goes through vecall's own engine with other terms, weights or vectors; the
fusions that vecall does not use are computed from the same candidates. Shares are in
percent.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import Stemmer
from vecall import Engine
from vecall._engine_rows import name_key
from vecall.cli.datasets import Conversation, Event, read_demo, read_locomo
from vecall.cli.evaluate import _chosen_numbers
from vecall.embedders.local import LocalEmbedder
from vecall.lexical import words
from vecall.lexical.stop_words import STOP_WORDS
from vecall.lexical.terms import _MONTHS, _hash
from vecall.timestamps import to_datetime

APP = "ablation"
DEPTHS = (5, 10, 20)
GROUPS = {"1-3": ("1", "2", "3"), "4-5": ("4", "5")}
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    stop: bool = True
    stem: bool = True
    author: bool = True
    date: bool = True
    neighbours: float = 0.5
    vectors: str = "none"  # none, local, random
    dense: float = 0.4
    fusion: str = "engine"  # engine, min-max, rrf


class Ablation:
    """The conversations, embedded once."""

    def __init__(self, conversations: list[Conversation]) -> None:
        self.conversations = conversations
        self.stemmer = Stemmer.Stemmer("english")
        self.embedder = LocalEmbedder()
        self._vectors: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}

    def terms(self, text: str, setting: Setting) -> list[int]:
        found = words(text)
        if setting.stop:
            found = [word for word in found if word not in STOP_WORDS]
        if setting.stem:
            found = self.stemmer.stemWords(found)
        return [_hash(word) for word in found]

    def memory_terms(self, event: Event, setting: Setting) -> list[int]:
        found = self.terms(str(event.content), setting)
        if setting.author:
            found += self.terms(event.author or "", setting)
        if setting.date:
            day = to_datetime(float(event.timestamp))
            dated = f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
            found += self.terms(dated, replace(setting, stop=False))
        return found

    def vectors(self, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Vectors of the turns and of the questions, a conversation at a time."""
        if kind not in self._vectors:
            random = np.random.default_rng(0)
            pairs = []
            for told in self.conversations:
                events = [event for s in told.sessions for event in s.events]
                texts = [f"{event.author}: {event.content}" for event in events]
                asked = [question.text for question in told.questions]
                if kind == "local":
                    pair = self.embedder.embed(texts), self.embedder.embed(asked)
                else:
                    pair = (
                        random.standard_normal((len(texts), 512)).astype(np.float32),
                        random.standard_normal((len(asked), 512)).astype(np.float32),
                    )
                pairs.append(pair)
            self._vectors[kind] = pairs
        return self._vectors[kind]

    def run(self, setting: Setting) -> dict[str, list[float]]:
        """Return recall@5, @10, @20 and MRR in percent for each group."""
        sums: dict[str, list[np.ndarray]] = defaultdict(list)
        for number, told in enumerate(self.conversations):
            engine, ids = self._engine(setting, number, told)
            for i, question in enumerate(told.questions):
                vector = None
                if setting.vectors != "none":
                    vector = self.vectors(setting.vectors)[number][1][i]
                ranked = self._rank(engine, setting, question.text, vector)
                evidence = {ids[event] for event in question.evidence}
                values = [
                    len(evidence & set(ranked[:d])) / len(evidence) for d in DEPTHS
                ]
                ranks = (r for r, id_ in enumerate(ranked, 1) if id_ in evidence)
                values.append(1 / next(ranks, float("inf")))
                groups = ["all", question.category]
                groups += [
                    name for name, of in GROUPS.items() if question.category in of
                ]
                for name in groups:
                    sums[name].append(np.array(values))
        return {name: list(100 * np.mean(rows, axis=0)) for name, rows in sums.items()}

    def _engine(
        self, setting: Setting, number: int, told: Conversation
    ) -> tuple[Engine, dict[str, int]]:
        engine = Engine(0 if setting.vectors == "none" else 512)
        turns = [
            (s.id, position, event)
            for s in told.sessions
            for position, event in enumerate(s.events)
        ]
        terms = [self.memory_terms(event, setting) for _, _, event in turns]
        offsets = np.cumsum([0, *map(len, terms)]).astype(np.int64)
        vectors = None
        if setting.vectors != "none":
            vectors = self.vectors(setting.vectors)[number][0]
        engine.add_rows(
            (APP, "user"),
            np.arange(len(turns)),
            np.array([int(1e6 * event.timestamp) for _, _, event in turns]),
            np.full(len(turns), NEVER),
            np.array([name_key(session) for session, _, _ in turns], np.uint64),
            np.array([position for _, position, _ in turns], np.int32),
            np.array([term for found in terms for term in found], np.uint64),
            offsets,
            vectors,
        )
        return engine, {str(event.id): i for i, (_, _, event) in enumerate(turns)}

    def _rank(
        self, engine: Engine, setting: Setting, text: str, vector: np.ndarray | None
    ) -> list[int]:
        own = setting.fusion != "engine"
        ids, _, similarities, lexical = engine.recall(
            (APP, "user"),
            vector,
            self.terms(text, setting),
            1_000 if own else max(DEPTHS),
            dense_weight=setting.dense,
            neighbour_weight=0.0 if own else setting.neighbours,
            candidates=50,
        )
        if not own:
            return list(ids[: max(DEPTHS)].tolist())
        if setting.fusion == "rrf":
            score = 1 / (60 + _ranks(lexical)) + 1 / (60 + _ranks(similarities))
        else:
            score = setting.dense * _min_max(similarities)
            score += (1 - setting.dense) * _min_max(lexical)
        order = np.argsort(-score, kind="stable")
        return list(ids[order].tolist())


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(-values, kind="stable"), kind="stable") + 1


def _min_max(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / max(values.max() - values.min(), 1e-9)


PLAIN = Setting("", stop=False, stem=False, author=False, date=False, neighbours=0)
SETTINGS = [
    replace(PLAIN, name="BM25, k1 = 0.9, b = 0.4"),
    replace(PLAIN, name="+ stop list", stop=True),
    replace(PLAIN, name="+ stems", stop=True, stem=True),
    replace(PLAIN, name="+ author", stop=True, stem=True, author=True),
    Setting("+ date", neighbours=0),
    Setting("+ neighbours 0.3", neighbours=0.3),
    Setting("+ neighbours 0.5 = words alone", neighbours=0.5),
    Setting("+ neighbours 0.7", neighbours=0.7),
    Setting("local vectors alone", vectors="local", dense=1.0, neighbours=0),
    Setting("RRF of words and local, no neighbours", vectors="local", fusion="rrf"),
    Setting("min-max 0.4 of both, no neighbours", vectors="local", fusion="min-max"),
    Setting("ours 0.4 of both, no neighbours", vectors="local", neighbours=0),
    Setting("ours 0.2 + neighbours", vectors="local", dense=0.2),
    Setting("ours 0.4 + neighbours = words and local", vectors="local"),
    Setting("ours 0.6 + neighbours", vectors="local", dense=0.6),
    Setting("random vectors: min-max 0.4", vectors="random", fusion="min-max"),
    Setting("random vectors: ours 0.4, no neighbours", vectors="random", neighbours=0),
    Setting("random vectors: ours 0.4 + neighbours", vectors="random"),
]


def main(path: str, which: str | None) -> None:
    """Print one Markdown row a setting."""
    conversations = read_demo(APP) if path == "demo" else read_locomo(Path(path), APP)
    if which is not None:
        numbers = _chosen_numbers(which, len(conversations))
        conversations = [conversations[i] for i in numbers]
    ablation = Ablation(conversations)
    questions = (question for told in conversations for question in told.questions)
    categories = {question.category for question in questions}
    groups = list(GROUPS) if categories <= set("12345") else sorted(categories)
    head = ["setting", "all @5", "@10", "@20", "MRR"]
    for group in groups:
        head += [f"{group} @10", "MRR"]
    print(f"| {' | '.join(head)} |")
    print("|---" * len(head) + "|")
    for setting in SETTINGS:
        result = ablation.run(setting)
        cells = [*result["all"]]
        for group in groups:
            cells += [result[group][1], result[group][3]]
        print(
            f"| {setting.name} | {' | '.join(f'{c:.1f}' for c in cells)} |", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
