"""Conformance of google-adk's local memory services and of vecall's, in Markdown.

    python -m bench.adk.conformance [--short] [--page FILE]

Every service runs with its default options, vecall's also with `embedder=None`. "yes":
it behaves as the row says; "raises": it raised that error instead; "no": everything
else. --short leaves out the reasons and the rows that all services pass, and joins rows
with equal results. --page writes the short table and the versions into a page, which is
bench/results/google-adk-conformance.md. The exit status is 1 if vecall fails a check
without a model.
"""

from __future__ import annotations

import logging
import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from google.adk.version import __version__ as adk_version
from helpers.adk_conformance import (
    CHECKS,
    KINDS,
    WORDS,
    Check,
    Outcome,
    examine,
    left_open,
)
from helpers.fork_pool import ForkPool
from vecall.embedders import has_local

from bench.common import arguments

Result = tuple[Check, list[Outcome]]
ALL_KINDS = [*KINDS, WORDS]
BEGIN, END = "<!-- written by the command -->\n", "<!-- end -->\n"


def examine_all() -> Iterator[Result]:
    """Each check with what came of it, for one service after the other."""
    with ForkPool("helpers.adk_conformance.child") as pool:
        for check in CHECKS:
            outcomes = []
            for kind in ALL_KINDS:
                with tempfile.TemporaryDirectory() as folder:
                    outcomes.append(examine(check, kind, Path(folder), pool))
            yield check, outcomes


def word(outcome: Outcome) -> str:
    if not outcome.failure:
        return "yes"
    if outcome.failure == "AssertionError":
        return "no"
    return f"raises {outcome.failure}"


def passed(results: list[Result]) -> list[str]:
    """For each service, how many of these checks it passes."""
    columns = zip(*(outcomes for _, outcomes in results), strict=True)
    return [
        f"{sum(not outcome.failure for outcome in column)} of {len(results)}"
        for column in columns
    ]


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def joined(results: list[Result]) -> Iterator[str]:
    """One row for neighbours that ended alike; none where all services pass."""
    for words, alike in groupby(results, key=lambda result: [*map(word, result[1])]):
        if set(words) != {"yes"}:
            yield row("<br>".join(check.name for check, _ in alike), *words)


def rows(results: list[Result], short: bool) -> Iterator[str]:
    names = [kind.name for kind in ALL_KINDS]
    reason = [] if short else ["why"]
    yield row("", *reason, *names)
    yield row(*["---"] * (1 + len(reason) + len(names)))
    for section, group in groupby(results, key=lambda result: result[0].section):
        inside = list(group)
        blank = [""] * len(reason)
        yield row(f"**{section}**", *blank, *passed(inside))
        if short:
            yield from joined(inside)
            continue
        for check, outcomes in inside:
            yield row(check.name, check.why, *map(word, outcomes))
    for title, apart in (("What is asked for", False), ("Left open", True)):
        counted = [
            result
            for result in results
            if (result[0].section == left_open.SECTION.title) == apart
        ]
        yield row(f"**{title}, all**", *[""] * len(reason), *passed(counted))


def written(results: list[Result]) -> str:
    """What the page has of a run."""
    asked = [each for each in results if each[0].section != left_open.SECTION.title]
    counts = zip(ALL_KINDS, passed(asked), strict=True)
    model = "the local model" if has_local() else "no model"
    python = ".".join(platform.python_version_tuple()[:2])
    lines = [
        "    python -m bench.adk.conformance --page PAGE",
        "",
        f"google-adk {adk_version}, Python {python}, {model} installed. Checks passed:",
        *(f"{kind.name} {count}," for kind, count in counts),
    ]
    return "\n".join(lines)[:-1] + ".\n\n" + "\n".join(rows(results, short=True)) + "\n"


def write_page(page: Path, results: list[Result]) -> None:
    """Replace what stands between the two comments of the page."""
    head, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, tail = rest.split(END)
    page.write_text(head + BEGIN + written(results) + END + tail, encoding="utf-8")


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # google-adk says what is experimental
    results = list(examine_all())
    if asked.page is not None:
        write_page(asked.page, results)
    else:
        print(f"google-adk {adk_version}, Python {platform.python_version()}\n")
        print("\n".join(rows(results, asked.short)))
    ours = [outcomes[ALL_KINDS.index(WORDS)] for _, outcomes in results]
    return any(outcome.failure for outcome in ours)


if __name__ == "__main__":
    sys.exit(main())
