"""Are statements that change what is known found, offered and shown as such?

    python -m bench.recall.updates [--modes lexical,local]

`statements.jsonl` has 304 labelled pairs of statements in eight languages: updates,
rewordings, and pairs about other people, other attributes or other things. The rule's
constants were fitted to English, French, Turkish and Chinese; the other four languages
are apart. The command prints

- of the labelled pairs: precision and recall of `conflicts`, and how often its "same"
  and "update" are right;
- of one store per language with all of its statements: how many of the pairs that
  `conflicts` proposes are labelled updates or rewordings;
- of the 120 updates, each told to a store that holds the other earlier statements: how
  often the earlier one is offered at the write, and how often a write changed another
  memory by itself;
- of the 64 updates with a question: whether the newest is shown first with the offered
  link accepted, and without; and whether the search itself ranks it first without.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from vecall import MemoryEntry, MemoryService
from vecall.cli.console import format_table
from vecall.evaluation.runner import Mode, choose_eval_modes
from vecall.lexical.statements import PROPOSED, text_likeness
from vecall.tools import RecallMemory

from bench.common import arguments

FILE = Path(__file__).with_name("statements.jsonl")
FITTED = {"en", "fr", "tr", "zh"}
_NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)
_USER = ("bench", "user")


class Pair(NamedTuple):
    """Two statements of one user, and how the later one relates to the earlier."""

    language: str
    label: str
    earlier: str
    later: str
    question: str | None = None

    @property
    def is_version(self) -> bool:
        """Whether both are versions of one statement."""
        return self.label in ("update", "rewording")


def read_pairs() -> list[Pair]:
    """Return the labelled pairs."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return [Pair(**json.loads(line)) for line in lines]


def cosines(mode: Mode, pairs: Sequence[Pair]) -> list[float | None]:
    """Return the cosine of each pair, or None in a mode without vectors."""
    if mode.embedder is None:
        return [None] * len(pairs)
    texts = [text for pair in pairs for text in (pair.earlier, pair.later)]
    vectors = np.asarray(mode.embedder.embed(texts), np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [float(a @ b) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]


def of_labels(mode: Mode, pairs: Sequence[Pair]) -> list[list[str]]:
    """Return rows with precision and recall on the labelled pairs."""
    near = cosines(mode, pairs)
    judged = [
        (pair, text_likeness(pair.later, pair.earlier, cosine))
        for pair, cosine in zip(pairs, near, strict=True)
    ]
    rows = []
    for name, chosen in (
        ("fitted", FITTED),
        ("apart", {p.language for p in pairs} - FITTED),
    ):
        own = [each for each in judged if each[0].language in chosen]
        proposed = [each for each in own if each[1].score >= PROPOSED]
        right = [each for each in proposed if each[0].is_version]
        named = [
            (like.says == "same") == (pair.label == "rewording") for pair, like in right
        ]
        rows.append(
            [
                mode.name,
                name,
                _share(len(right), len(proposed)),
                _share(len(right), sum(pair.is_version for pair, _ in own)),
                _share(sum(named), len(named)),
            ]
        )
    return rows


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} ({part:.0f} of {whole:.0f})" if whole else "-"


def opened(mode: Mode) -> MemoryService:
    """Open a store in memory."""
    return MemoryService(embedder=mode.embedder)


def dated(texts: Sequence[str]) -> list[MemoryEntry]:
    """Return statements of the days before a year ago, each told once."""
    first = _NOW - timedelta(days=400)
    return [
        MemoryEntry(text, timestamp=(first - timedelta(days=day)).timestamp())
        for day, text in enumerate(dict.fromkeys(texts))
    ]


def of_stores(mode: Mode, pairs: Sequence[Pair]) -> list[str]:
    """Return a row: what `conflicts` proposes among all statements of a language."""
    right = proposed = 0
    for language in dict.fromkeys(pair.language for pair in pairs):
        own = [pair for pair in pairs if pair.language == language]
        known = {frozenset((p.earlier, p.later)) for p in own if p.is_version}
        with opened(mode) as service:
            user = service.sync.user(*_USER)
            user.add(
                dated([text for pair in own for text in (pair.later, pair.earlier)])
            )
            found = user.conflicts(limit=1_000)
        proposed += len(found)
        right += sum(
            frozenset((each.earlier.text, each.later.text)) in known for each in found
        )
    whole = sum(pair.is_version for pair in pairs)
    return [mode.name, _share(right, proposed), _share(right, whole)]


def of_writes(mode: Mode, pairs: Sequence[Pair]) -> list[list[str]]:
    """Return rows: what is offered at a write, and shown to a question."""
    offered = silent = told = 0
    first = {True: 0, False: 0}
    searched = 0
    asked = 0
    for pair in pairs:
        if pair.label != "update":
            continue
        told += 1
        known = [each.earlier for each in pairs if each.language == pair.language]
        news = MemoryEntry(pair.later, timestamp=_NOW.timestamp() - 86_400)
        with opened(mode) as service:
            user = service.sync.user(*_USER)
            user.add(dated(known))
            before = user.count()
            added = user.add(news, similar=True)
            found = [each.memory for each in added.similar[0]]
            offered += pair.earlier in {each.text for each in found}
            silent += user.count() != before + 1
            if pair.question is None:
                continue
            asked += 1
            for linked in (False, True):
                if linked:
                    old = next(
                        e for e in user.list(limit=1_000) if e.text == pair.earlier
                    )
                    user.add(news, supersedes=old.id)
                texts = [each["text"] for each in answer(service, pair.question)]
                first[linked] += _is_above(pair, texts)
                if not linked:
                    texts = [each.text for each in user.search(pair.question)]
                    searched += _is_above(pair, texts)
    return [
        [mode.name, "offered at the write", _share(offered, told)],
        [mode.name, "changed by itself", _share(silent, told)],
        [mode.name, "newest first, with a link", _share(first[True], asked)],
        [mode.name, "newest first, without", _share(first[False], asked)],
        [mode.name, "ranked first, without", _share(searched, asked)],
    ]


def _is_above(pair: Pair, texts: Sequence[str]) -> bool:
    """Return whether the later statement is there, and above the earlier one."""
    places = {text: at for at, text in enumerate(texts)}
    return places.get(pair.later, 99) < places.get(pair.earlier, 99)


def answer(service: MemoryService, question: str) -> list[dict[str, Any]]:
    """Return what `recall_memory` shows a model."""
    tool = RecallMemory(service, *_USER)
    shown: list[dict[str, Any]] = asyncio.run(tool(query=question))["memories"]
    return shown


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--modes", default="lexical,local")
    modes = [
        mode
        for mode in choose_eval_modes(parser.parse_args().modes)
        if mode.is_default_mode
    ]
    pairs = read_pairs()
    labelled = [row for mode in modes for row in of_labels(mode, pairs)]
    print(
        format_table(
            ["mode", "languages", "precision", "recall", "same or update"], labelled
        )
    )
    print(
        format_table(
            ["mode", "of what is proposed", "of what there is"],
            [of_stores(m, pairs) for m in modes],
        )
    )
    print(
        format_table(
            ["mode", "changed facts", "share"],
            [row for m in modes for row in of_writes(m, pairs)],
        )
    )


if __name__ == "__main__":
    main()
