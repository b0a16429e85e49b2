"""`vecall eval`: how well and how fast recall ranks, where the answers are known."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vecall.cli.datasets import Conversation, read_demo, read_locomo
from vecall.cli.options import add_json, has_local
from vecall.cli.terminal import Progress, bold, table
from vecall.errors import ConfigError
from vecall.service import MemoryService

_APP = "eval"
_DEPTHS = (5, 10, 20)
_MODES = ("lexical", "local")
_GROUPS = {"1-3": ("1", "2", "3"), "4-5": ("4", "5")}


@dataclass(frozen=True, slots=True)
class Answer:
    """How one question went: shares in [0, 1], time in seconds."""

    category: str
    recall: dict[int, float]
    reciprocal_rank: float
    seconds: float


def add_commands(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "eval",
        help="measure recall on conversations with evidence",
        description="Every turn becomes a memory, every question a search; recall@k is "
        "the share of a question's evidence turns among the first k, averaged over "
        "questions; MRR is the mean of 1 / rank of the first evidence turn.",
    )
    command.add_argument(
        "dataset",
        choices=("locomo", "demo"),
        help="LoCoMo's file, or the conversations that come with vecall",
    )
    command.add_argument("file", type=Path, nargs="?", help="where LoCoMo's JSON lies")
    command.add_argument(
        "--modes",
        default=None,
        help="comma-separated: lexical, local (default: all that are installed)",
    )
    command.add_argument(
        "--conversations",
        default=None,
        help="which of them, counted from 0: 2-9 or 0,3 (default: all)",
    )
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Evaluate each mode and print the tables."""
    modes = _chosen_modes(options.modes)
    conversations = read_demo(_APP)
    if options.dataset == "locomo":
        if options.file is None or not options.file.is_file():
            msg = "file: locomo needs the path of its JSON file"
            raise ConfigError(msg)
        conversations = read_locomo(options.file, _APP)
    if options.conversations is not None:
        numbers = _chosen_numbers(options.conversations, len(conversations))
        conversations = [conversations[i] for i in numbers]
    results = {mode: evaluate(conversations, mode) for mode in modes}
    if options.json:
        print(json.dumps({"modes": results}))
    else:
        _print(results, conversations)
    return 0


def evaluate(conversations: Sequence[Conversation], mode: str) -> dict[str, Any]:
    """Return the figures of one retrieval mode, measured through a durable file."""
    embedder = None if mode == "lexical" else mode
    questions = sum(len(told.questions) for told in conversations)
    turns = sum(len(s.events) for told in conversations for s in told.sessions)
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryService(
            Path(folder) / "eval.db", embedder=embedder, warn_raw=False
        ) as memory,
    ):
        progress = Progress(f"{mode}: ingest", turns)
        begin = time.perf_counter()
        for told in conversations:
            for session in told.sessions:
                memory.sync.add_session_to_memory(session)
                progress.add(len(session.events))
        ingest = time.perf_counter() - begin
        progress.finish()
        progress = Progress(f"{mode}: search", questions)
        answers = []
        for told in conversations:
            answers += _ask(memory, told, progress)
        progress.finish()
    return {**_figures(answers), "ingest_s": ingest, "turns": turns}


def _ask(memory: MemoryService, told: Conversation, progress: Progress) -> list[Answer]:
    answers = []
    for question in told.questions:

        def search(query: str = question.text) -> list[str | None]:
            found = memory.sync.search_memory(
                app_name=_APP, user_id=told.user_id, query=query, top_k=max(_DEPTHS)
            )
            return [entry.event_id for entry in found.memories]

        search()  # loads the user, and embeds the question
        begin = time.perf_counter()
        ranked = search()
        seconds = time.perf_counter() - begin
        recall = {
            depth: len(question.evidence.intersection(ranked[:depth]))
            / len(question.evidence)
            for depth in _DEPTHS
        }
        ranks = (i for i, id_ in enumerate(ranked, 1) if id_ in question.evidence)
        first = next(ranks, None)
        answers.append(
            Answer(
                question.category, recall, 0.0 if first is None else 1 / first, seconds
            )
        )
        progress.add(1)
    return answers


def _figures(answers: Sequence[Answer]) -> dict[str, Any]:
    grouped: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        grouped[answer.category].append(answer)
        for group, members in _GROUPS.items():
            if answer.category in members:
                grouped[group].append(answer)
    times = sorted(answer.seconds for answer in answers)
    return {
        **_shares(answers),
        "categories": {name: _shares(grouped[name]) for name in sorted(grouped)},
        "p50_ms": 1000 * _percentile(times, 50),
        "p99_ms": 1000 * _percentile(times, 99),
    }


def _shares(answers: Sequence[Answer]) -> dict[str, Any]:
    count = max(len(answers), 1)
    shares: dict[str, Any] = {
        f"recall@{depth}": sum(answer.recall[depth] for answer in answers) / count
        for depth in _DEPTHS
    }
    shares["mrr"] = sum(answer.reciprocal_rank for answer in answers) / count
    shares["questions"] = len(answers)
    return shares


def _percentile(ordered: Sequence[float], percent: int) -> float:
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _print(
    results: dict[str, dict[str, Any]], conversations: Sequence[Conversation]
) -> None:
    turns = sum(len(s.events) for told in conversations for s in told.sessions)
    asked = sum(len(told.questions) for told in conversations)
    print(
        bold(
            f"{len(conversations)} conversations, {turns:,} turns, {asked:,} questions"
        )
    )
    head = ["mode", "category", "questions", *(f"recall@{d}" for d in _DEPTHS), "MRR"]
    rows = []
    for mode, result in results.items():
        for name, shares in {"all": result, **result["categories"]}.items():
            values = [shares[f"recall@{depth}"] for depth in _DEPTHS] + [shares["mrr"]]
            shown = [f"{100 * value:.1f}" for value in values]
            rows.append([mode, name, f"{shares['questions']:,}", *shown])
    print(table(head, rows))
    print()
    for mode, result in results.items():
        print(
            f"{mode}: search p50 {result['p50_ms']:.3f} ms, p99 {result['p99_ms']:.3f} "
            f"ms (warm, query vector cached); ingest {result['ingest_s']:.2f} s, "
            f"{result['turns'] / result['ingest_s']:,.0f} turns/s"
        )


def _chosen_modes(given: str | None) -> list[str]:
    if given is None:
        return [mode for mode in _MODES if mode != "local" or has_local()]
    modes = given.split(",")
    for mode in modes:
        if mode not in _MODES:
            msg = f"--modes: must be of {', '.join(_MODES)}"
            raise ConfigError(msg)
    return modes


def _chosen_numbers(given: str, count: int) -> list[int]:
    numbers: list[int] = []
    try:
        for part in given.split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError:
        numbers = [-1]
    if not all(0 <= number < count for number in numbers):
        msg = f"--conversations: numbers from 0 to {count - 1}, such as 2-9 or 0,3"
        raise ConfigError(msg)
    return numbers
