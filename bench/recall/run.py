"""Recall on every kind of memory in one table, and the gate for changes of ranking.

    python -m bench.recall.run [--locomo FILE] [--beam FILE] [--modes lexical,local]
    python -m bench.recall.run --save before.json
    python -m bench.recall.run --against before.json
    python -m bench.recall.run --more prefeval-dev.json --sets prefeval
    python -m bench.recall.run --rivals
    python -m bench.recall.run --by-user --unseen-map

The first prints recall, MRR, tokens and calibration of each set. --against compares the
questions of an earlier run one by one. The command fails if a kind of memory, or a
reading of it such as "lenient", loses recall@10 or MRR beyond noise: the 95 % interval
of the paired bootstrap (2,000 draws) lies below zero. It also fails if a set, a mode or
a question is in one run only, among the sets of --sets and the modes of --modes.

"facts beside people" is one life: the facts of a user beside that user's chat, and
"people beside facts" the questions about the chat. --more reads further sets, each a
kind of its own.

--rivals adds the results of bm25s, of the cosine alone and of their sum, and the paired
differences to the best of them. --by-user adds each user's recall; the users of
"sentences" are languages. --unseen-map lets the local embedder search for each user
with a map of queries that was fitted without that user.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vecall.cli.console import Progress, format_table
from vecall.embedders import Embedder, LocalEmbedder, QueryMap
from vecall.evaluation.datasets import Conversation
from vecall.evaluation.metrics import mean
from vecall.evaluation.runner import (
    SHARES,
    Mode,
    QuestionResult,
    calibration_figures,
    choose_eval_modes,
    evidence_figures,
    ingested,
    own_questions,
    silence_figures,
    stranger_pairs,
)
from vecall.ranking.calibration import Calibration

from bench.common import arguments
from bench.recall.baselines import WORDS, baseline_answers
from bench.recall.comparisons import (
    JUDGED,
    Answered,
    Run,
    Shares,
    against_rivals,
    compare,
    of_users,
)
from bench.recall.embedders import Vectors, model_of
from bench.recall.maps import maps_apart
from bench.recall.sets import Set, all_sets

FLOOR = 0.2  # of confidence

Maps = Mapping[tuple[str, str], QueryMap]
"""Set, user: a map of queries that was fitted without that user."""


def ask(
    one: Set, modes: Sequence[Mode], maps: Maps
) -> Iterator[tuple[str, list[QuestionResult], Any]]:
    """Yield each mode's name, its answers and what its confidences are worth."""
    for embedder in {id(mode.embedder): mode.embedder for mode in modes}.values():
        asked = [mode for mode in modes if mode.embedder is embedder]
        own: dict[str, list[QuestionResult]] = {mode.name: [] for mode in asked}
        strange: dict[str, list[QuestionResult]] = {mode.name: [] for mode in asked}
        others = stranger_pairs(one.conversations)
        for conversations, used in _groups(one, embedder, maps):
            users = {each.user_id for each in conversations}
            questions = own_questions(conversations)
            of_others = [pair for pair in others if pair[0] in users]
            with ingested(
                conversations, used, Calibration.shipped(), Progress
            ) as subject:
                for mode in asked:
                    progress = Progress(one.name, len(questions) + len(of_others))
                    own[mode.name] += subject.run_questions(questions, mode, progress)
                    if mode.is_default_mode:
                        strange[mode.name] += subject.run_questions(
                            of_others, mode, progress
                        )
        for mode in asked:
            answers = _in_order(one, own[mode.name])
            yield mode.name, answers, _confidence(answers, strange[mode.name])


def _groups(
    one: Set, embedder: Embedder | None, maps: Maps
) -> list[tuple[list[Conversation], Embedder | None]]:
    """Return the users who share a map of queries, and the embedder with that map."""
    if not maps or not isinstance(embedder, LocalEmbedder):
        return [(one.conversations, embedder)]
    groups: dict[int, tuple[list[Conversation], Embedder | None]] = {}
    for each in one.conversations:
        query_map = maps.get((one.name.partition(",")[0], each.user_id))
        used = embedder if query_map is None else LocalEmbedder(query_map=query_map)
        groups.setdefault(id(query_map), ([], used))[0].append(each)
    return list(groups.values())


def _in_order(one: Set, answers: list[QuestionResult]) -> list[QuestionResult]:
    place = {each.user_id: at for at, each in enumerate(one.conversations)}
    return sorted(answers, key=lambda answer: place[answer.user])


def answer_baselines(
    one: Set, modes: Sequence[Mode]
) -> Iterator[tuple[str, list[QuestionResult]]]:
    """Yield the answers of the baselines, with the first embedder without its map."""
    embedder = next((mode.embedder for mode in modes if mode.embedder), None)
    if isinstance(embedder, LocalEmbedder):
        embedder = LocalEmbedder(query_map=None)
    yield from baseline_answers(one, embedder)


def rivals_of(modes: Sequence[Mode], baselines: Sequence[str]) -> dict[str, list[str]]:
    """Return what each mode must not fall below.

    Words alone have bm25s as their rival; a mode with vectors has every baseline, and
    words alone.
    """
    lexical = [mode.name for mode in modes if mode.embedder is None]
    found = {name: [WORDS] for name in lexical}
    for mode in modes:
        if mode.embedder is not None and mode.is_default_mode:
            found[mode.name] = [*baselines, *lexical]
    return found


def _confidence(own: list[QuestionResult], strange: list[QuestionResult]) -> Any:
    figures = calibration_figures(hit for answer in own for hit in answer.hits)
    if figures is None or not strange:
        return None
    (floor,) = [
        row for row in silence_figures(own, strange) if row["min_confidence"] == FLOOR
    ]
    return {**figures, "silence": floor}


def shares_of(answers: Sequence[QuestionResult]) -> Shares:
    """Return each share of the questions that have an answer."""
    found = evidence_figures(answers)
    return {
        share: [round(one.shares[i], 4) for one in found]
        for i, share in enumerate(SHARES)
    }


def answered_of(answers: Sequence[QuestionResult]) -> Answered:
    """Return the questions that have an answer, with each of their shares."""
    questions = [
        (answer.user, answer.question.text)
        for answer in answers
        if answer.question.evidence
    ]
    return Answered(questions, shares_of(answers))


def row_of(
    name: str, mode: str, answers: Sequence[QuestionResult], confidence: Any
) -> list[str]:
    """Return one line of the table."""
    shares = shares_of(answers)
    cells = [f"{100 * (mean(shares[share]) or 0.0):.1f}" for share in SHARES[:4]]
    tokens = f"{mean([answer.tokens for answer in answers]) or 0.0:,.0f}"
    row = [name, mode, f"{len(shares['mrr']):,}", *cells, tokens]
    if confidence is None:
        return [*row, "", "", "", ""]
    silence = confidence["silence"]
    return [
        *row,
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


def _shown(
    one: Set,
    mode: str,
    answers: Sequence[QuestionResult],
    confidence: Any,
    *,
    by_user: bool,
) -> list[list[str]]:
    rows = [row_of(one.name, mode, answers, confidence)]
    print("  ".join(rows[0]), file=sys.stderr)
    for each in one.conversations if by_user else ():
        own = [answer for answer in answers if answer.user == each.user_id]
        rows.append(row_of(f"{one.name}: {each.user_id}", mode, own, None))
    return rows


def _of_users(name: str, modes: Mapping[str, Answered]) -> Run:
    found: Run = {}
    for mode, answered in modes.items():
        for user, part in of_users(answered).items():
            found.setdefault(f"{name}: {user}", {})[mode] = part
    return found


def save(run: Run, path: Path) -> None:
    """Write a run, for `read`."""
    path.write_text(json.dumps(run) + "\n", encoding="utf-8")


def read(path: Path) -> Run:
    """Return a saved run."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: {
            mode: Answered([(user, text) for user, text in questions], shares)
            for mode, (questions, shares) in found.items()
        }
        for name, found in saved.items()
    }


def _is_wanted(name: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or name.partition(",")[0] in wanted


def judge(before: Run, after: Run, groups: Mapping[str, str]) -> int:
    """Print the comparison; return the command's exit status."""
    rows, failures = compare(before, after, groups)
    print(format_table(("set", "mode", *JUDGED), rows))
    for line in failures:
        print(f"failed: {line}")
    return 1 if failures else 0


def main() -> int:
    """Print the table; with --against, judge."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--locomo", type=Path, help="the path of LoCoMo's JSON")
    parser.add_argument("--beam", type=Path, help="the path of BEAM's JSON")
    parser.add_argument(
        "--more", type=Path, action="append", default=[], help="a file like BEAM's"
    )
    parser.add_argument("--modes", help="as of vecall eval")
    parser.add_argument("--sets", help="comma-separated names; default: all")
    parser.add_argument("--rivals", action="store_true", help="needs bm25s")
    parser.add_argument("--by-user", action="store_true", help="a row for each user")
    parser.add_argument("--unseen-map", action="store_true", help="of the local model")
    parser.add_argument("--save", type=Path, help="write every question's shares")
    parser.add_argument("--against", type=Path, help="compare with a saved run")
    options = parser.parse_args()
    modes = choose_eval_modes(options.modes)
    wanted = None if options.sets is None else options.sets.split(",")
    sets = list(all_sets(locomo=options.locomo, beam=options.beam, more=options.more))
    maps: Maps = {}
    if options.unseen_map:
        maps = maps_apart(sets, Vectors(model_of("local")))
    rows: list[list[str]] = []
    beside: list[list[str]] = []
    after: Run = {}
    groups: dict[str, str] = {}
    for one in sets:
        if not _is_wanted(one.name, wanted):
            continue
        groups[one.name] = f"{one.kind}, {one.reading}" if one.reading else one.kind
        found: dict[str, Answered] = {}
        baselines: list[str] = []
        for mode, answers, sure in ask(one, modes, maps):
            found[mode] = answered_of(answers)
            rows += _shown(one, mode, answers, sure, by_user=options.by_user)
        after[one.name] = dict(found)
        if not options.rivals:
            continue
        for name, answers in answer_baselines(one, modes):
            baselines.append(name)
            found[name] = answered_of(answers)
            rows += _shown(one, name, answers, None, by_user=options.by_user)
        parts = {one.name: found}
        if options.by_user:
            parts |= _of_users(one.name, found)
        for name, part in parts.items():
            beside += against_rivals(name, part, rivals_of(modes, baselines))
    print(format_table(HEAD, rows))
    if beside:
        print("\nagainst the best rival, and that rival's share\n")
        print(format_table(("set", "mode", *JUDGED), beside))
    if options.save is not None:
        save(after, options.save)
    if options.against is None:
        return 0
    names = {mode.name for mode in modes}
    before = {
        name: {mode: part for mode, part in found.items() if mode in names}
        for name, found in read(options.against).items()
        if _is_wanted(name, wanted)
    }
    print(f"\nagainst {options.against}\n")
    return judge(before, after, groups)


if __name__ == "__main__":
    sys.exit(main())
