"""What is shown to a model without being asked for: silence, and what it costs.

    python -m bench.recall.silence [--locomo FILE] [--beam FILE] [--more FILE]
        [--modes lexical,local] [--sets NAMES]

Messages that ask nothing of a memory (conversations/turns.json) are put to the first
five users of each set, and to all of LoCoMo. "Silent" is the share for which nothing is
shown: all turns, and those that were held out when the rules and weights were made.
"Lost" is the share of right answers among the first five memories of a search that are
not shown for the questions of the set; "shown" the memories shown for each question.
"As before" is a floor of 0.2 on the confidence of each memory, which was the policy.

The second table has the silent share of each sort of turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vecall.cli.console import Progress, format_table
from vecall.evaluation.datasets import Conversation
from vecall.evaluation.runner import (
    APP,
    TOP_K,
    Mode,
    choose_eval_modes,
    evidence_id,
    ingested,
)
from vecall.ranking.calibration import Calibration
from vecall.service.memory_service import MemoryService
from vecall.tools import search_unasked
from vecall.types import UNSET, Filter, MemoryEntry

from bench.common import arguments
from bench.recall.sets import Set, Turn, all_sets, read_turns

BEFORE = 0.2  # the floor of the former policy
USERS = 5


class Asked(NamedTuple):
    """What one search shows: ids of memories, by policy."""

    found: list[str]
    shown: list[str]
    before: list[str]


async def ask(memory: MemoryService, user: str, text: str, time: float | None) -> Asked:
    """Search with a message, and let both policies choose."""
    when = None if time is None else Filter(before=time)
    found = await memory.search_memory(
        app_name=APP, user_id=user, query=text, top_k=TOP_K, filter=when
    )
    shown = await search_unasked(
        memory,
        UNSET,
        app_name=APP,
        user_id=user,
        query=text,
        top_k=TOP_K,
        filter=when,
    )
    before = [each for each in found if (each.confidence or 0.0) >= BEFORE]
    return Asked(*map(_ids, (found.memories, shown, before)))


def _ids(memories: Sequence[MemoryEntry]) -> list[str]:
    return [evidence_id(each) for each in memories]


async def measure(
    memory: MemoryService, one: Set, turns: Sequence[Turn]
) -> tuple[list[tuple[Turn, Asked]], list[tuple[frozenset[str], Asked]]]:
    """Return what all turns and all questions of a set show."""
    users: list[Conversation] = one.conversations
    count = sum(len(each.questions) for each in users)
    progress = Progress(one.name, count + USERS * len(turns))
    asked = []
    for each in users:
        for question in each.questions:
            if question.evidence:
                got = await ask(memory, each.user_id, question.text, question.before)
                asked.append((question.evidence, got))
            progress.add(1)
    said = []
    for each in users if one.name == "locomo" else users[:USERS]:
        for turn in turns:
            said.append((turn, await ask(memory, each.user_id, turn.text, None)))
            progress.add(1)
    progress.finish()
    return said, asked


def silent(said: Sequence[tuple[Turn, Asked]], policy: str) -> str:
    """Return the share of turns for which nothing is shown, in percent."""
    if not said:
        return "-"
    quiet = sum(not getattr(got, policy) for _, got in said)
    return f"{100 * quiet / len(said):.1f}"


def lost(asked: Sequence[tuple[frozenset[str], Asked]], policy: str) -> str:
    """Return the share of right answers that are not shown, in percent."""
    right = gone = 0
    for evidence, got in asked:
        found = evidence.intersection(got.found)
        right += len(found)
        gone += len(found.difference(getattr(got, policy)))
    return f"{100 * gone / max(right, 1):.1f}"


def rows_of(
    one: Set, mode: Mode, turns: Sequence[Turn]
) -> tuple[list[str], Mapping[str, list[tuple[Turn, Asked]]]]:
    """Return a line of the first table, and the turns by sort."""
    with ingested(one.conversations, mode.embedder, Calibration.shipped()) as subject:
        said, asked = asyncio.run(measure(subject.memory, one, turns))
    held = [pair for pair in said if pair[0].part == "held out"]
    shown = sum(len(got.shown) for _, got in asked) / max(len(asked), 1)
    before = sum(len(got.before) for _, got in asked) / max(len(asked), 1)
    sorts: dict[str, list[tuple[Turn, Asked]]] = {}
    for pair in said:
        sorts.setdefault(pair[0].sort, []).append(pair)
    row = [one.name, mode.name, silent(said, "shown"), silent(held, "shown")]
    row += [lost(asked, "shown"), f"{shown:.1f}", silent(said, "before")]
    return [*row, lost(asked, "before"), f"{before:.1f}"], sorts


def main() -> None:
    """Print both tables."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--locomo", type=Path, help="the path of LoCoMo's JSON")
    parser.add_argument("--beam", type=Path, help="the path of BEAM's JSON")
    parser.add_argument("--more", type=Path, action="append", default=[])
    parser.add_argument("--modes", help="as of vecall eval")
    parser.add_argument("--sets", help="comma-separated names; default: all")
    options = parser.parse_args()
    turns = read_turns()
    wanted = None if options.sets is None else options.sets.split(",")
    rows, of_sorts = [], []
    sets = all_sets(locomo=options.locomo, beam=options.beam, more=options.more)
    for one in sets:
        if one.reading or (wanted is not None and one.name not in wanted):
            continue
        for mode in choose_eval_modes(options.modes):
            row, sorts = rows_of(one, mode, turns)
            rows.append(row)
            print("  ".join(row), file=sys.stderr)
            quiet = [silent(each, "shown") for each in sorts.values()]
            of_sorts.append([one.name, mode.name, *quiet])
    head = ("set", "mode", "silent", "held out", "lost", "shown",
            "as before: silent", "lost", "shown")  # fmt: skip
    print(format_table(head, rows))
    print()
    print(
        format_table(
            ("set", "mode", *dict.fromkeys(turn.sort for turn in turns)), of_sorts
        )
    )


if __name__ == "__main__":
    main()
