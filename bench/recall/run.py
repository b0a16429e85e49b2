"""Recall on every kind of memory in one table, and the gate for changes of ranking.

    python -m bench.recall.run [--locomo FILE] [--beam FILE] [--modes lexical,local]
    python -m bench.recall.run --save before.json
    python -m bench.recall.run --against before.json
    python -m bench.recall.run --baselines

The first prints recall, MRR, tokens and calibration of each set; --baselines adds the
results of bm25s, of the cosine alone and of their sum. --against compares the questions
of an earlier run one by one: the command fails where a kind of memory loses recall@10
or MRR beyond noise, which means that the 95 % interval of the paired bootstrap (2,000
draws) lies below zero.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vecall.cli.terminal import Progress, table
from vecall.embedders import LocalEmbedder
from vecall.evaluation.confidence import calibration_figures, silence_figures
from vecall.evaluation.figures import SHARES, measured
from vecall.evaluation.metrics import mean
from vecall.evaluation.runner import (
    Mode,
    QuestionResult,
    chosen_modes,
    ingested,
    own_questions,
    strangers,
)
from vecall.ranking.calibration import Calibration

from bench.common import arguments
from bench.recall.baselines import baseline_answers
from bench.recall.sets import Set, all_sets

DRAWS = 2_000
JUDGED = ("recall@10", "mrr")
FLOOR = 0.2  # of confidence

Shares = dict[str, dict[str, dict[str, list[float]]]]
"""Set, mode, share: a number for each question that has an answer, in order."""


def ask(
    one: Set, modes: Sequence[Mode]
) -> Iterator[tuple[str, list[QuestionResult], Any]]:
    """Yield each mode's name, its answers and what its confidences are worth."""
    for embedder in {id(mode.embedder): mode.embedder for mode in modes}.values():
        with ingested(
            one.conversations, embedder, Calibration.shipped(), Progress
        ) as subject:
            for mode in modes:
                if mode.embedder is not embedder:
                    continue
                questions = own_questions(one.conversations)
                own = subject.run(questions, mode, Progress(one.name, len(questions)))
                yield mode.name, own, _confidence(one, own, mode, subject)


def answer_baselines(
    one: Set, modes: Sequence[Mode]
) -> Iterator[tuple[str, list[QuestionResult]]]:
    """Yield the answers of the baselines, with the first embedder without its map."""
    embedder = next((mode.embedder for mode in modes if mode.embedder), None)
    if isinstance(embedder, LocalEmbedder):
        embedder = LocalEmbedder(query_map=None)
    yield from baseline_answers(one, embedder)


def _confidence(one: Set, own: list[QuestionResult], mode: Mode, subject: Any) -> Any:
    figures = calibration_figures(hit for answer in own for hit in answer.hits)
    if figures is None or not mode.is_default:
        return None
    others = strangers(one.conversations)
    strange = subject.run(others, mode, Progress(one.name, len(others)))
    (floor,) = [
        row for row in silence_figures(own, strange) if row["min_confidence"] == FLOOR
    ]
    return {**figures, "silence": floor}


def shares_of(answers: Sequence[QuestionResult]) -> dict[str, list[float]]:
    """Return each share of the questions that have an answer."""
    found = measured(answers)
    return {
        share: [round(one.shares[i], 4) for one in found]
        for i, share in enumerate(SHARES)
    }


def row_of(
    one: Set, name: str, answers: Sequence[QuestionResult], confidence: Any
) -> list[str]:
    """Return one line of the table."""
    shares = shares_of(answers)
    cells = [f"{100 * (mean(shares[share]) or 0.0):.1f}" for share in SHARES[:4]]
    tokens = f"{mean([answer.tokens for answer in answers]) or 0.0:,.0f}"
    count = f"{len(shares['mrr']):,}"
    if confidence is None:
        return [one.name, name, count, *cells, tokens, "", "", "", ""]
    silence = confidence["silence"]
    return [
        one.name,
        name,
        count,
        *cells,
        tokens,
        f"{confidence['ece']:.3f}",
        f"{confidence['brier']:.3f} ({confidence['constant_brier']:.3f})",
        f"{confidence['auroc'] or 0.0:.2f}",
        " ".join(
            "-" if silence[who] is None else f"{100 * silence[who]:.0f}"
            for who in ("answerable", "unanswerable", "strangers", "evidence_kept")
        ),
    ]


HEAD = ("set", "mode", "questions", "@5", "@10", "@20", "MRR", "tokens", "ECE", "Brier "
        "(constant)", "AUROC", f"silent at {FLOOR}")  # fmt: skip


def interval(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean of paired differences and its 95 % bootstrap interval."""
    chance = np.random.default_rng(0)
    size = len(differences)
    means = [differences[chance.integers(0, size, size)].mean() for _ in range(DRAWS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(differences.mean()), float(low), float(high)


def compare(
    before: Shares, after: Shares, kinds: dict[str, str]
) -> tuple[list[list[str]], list[str]]:
    """Return a line for each set and mode, and the kinds that lose beyond noise."""
    rows: list[list[str]] = []
    pooled: dict[tuple[str, str, str], list[NDArray[np.float64]]] = {}
    for name, modes in after.items():
        for mode, shares in modes.items():
            earlier = before.get(name, {}).get(mode)
            if earlier is None or len(earlier["mrr"]) != len(shares["mrr"]):
                continue
            row = [name, mode]
            for share in JUDGED:
                differences = np.array(shares[share]) - np.array(earlier[share])
                row.append(shown(differences))
                if name in kinds:
                    key = (kinds[name], mode, share)
                    pooled.setdefault(key, []).append(differences)
            rows.append(row)
    lost = []
    for (kind, mode, share), parts in pooled.items():
        _, _, high = interval(np.concatenate(parts))
        if high < 0.0:
            lost.append(f"{kind}, {mode}, {share}: {shown(np.concatenate(parts))}")
    return rows, lost


def shown(differences: NDArray[np.float64]) -> str:
    """Return a difference in points with its interval."""
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(
        *(100 * value for value in interval(differences))
    )


def main() -> int:
    """Print the table; with --against, judge."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--locomo", type=Path, help="the path of LoCoMo's JSON")
    parser.add_argument("--beam", type=Path, help="the path of BEAM's JSON")
    parser.add_argument("--modes", help="as of vecall eval")
    parser.add_argument("--sets", help="comma-separated names; default: all")
    parser.add_argument("--baselines", action="store_true", help="needs bm25s")
    parser.add_argument("--save", type=Path, help="write every question's shares")
    parser.add_argument("--against", type=Path, help="compare with a saved run")
    options = parser.parse_args()
    modes = chosen_modes(options.modes)
    wanted = None if options.sets is None else options.sets.split(",")
    rows = []
    after: Shares = {}
    kinds: dict[str, str] = {}
    for one in all_sets(locomo=options.locomo, beam=options.beam):
        if wanted is not None and one.name.partition(",")[0] not in wanted:
            continue
        if not one.lenient:
            kinds[one.name] = one.kind
        for mode, answers, sure in ask(one, modes):
            after.setdefault(one.name, {})[mode] = shares_of(answers)
            rows.append(row_of(one, mode, answers, sure))
            print("  ".join(rows[-1]), file=sys.stderr)
        for name, answers in answer_baselines(one, modes) if options.baselines else ():
            rows.append(row_of(one, name, answers, None))
            print("  ".join(rows[-1]), file=sys.stderr)
    print(table(HEAD, rows))
    if options.save is not None:
        options.save.write_text(json.dumps(after) + "\n", encoding="utf-8")
    if options.against is None:
        return 0
    before = json.loads(options.against.read_text(encoding="utf-8"))
    rows, lost = compare(before, after, kinds)
    print(f"\nagainst {options.against}\n")
    print(table(("set", "mode", *JUDGED), rows))
    for line in lost:
        print(f"lost beyond noise: {line}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
