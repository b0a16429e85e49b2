"""Sizes, defaults, names and lists on pages are those of the code."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vecall
from helpers.paths import ROOT
from vecall import _core
from vecall.cli import main as command_line
from vecall.operations.options import StorageOptions
from vecall.store.storage import StorageReads

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").exists(), reason="the documentation is not beside the tests"
)

DIM = 384
PLANES = DIM * 3 // 2  # bytes of a row's planes with int4+8
ROWS = 3_000
KEY = ("a", "b")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def figure(text: str, pattern: str) -> list[float]:
    """The numbers that a pattern finds, at one place of a page."""
    (found,) = re.findall(pattern, text)
    numbers = [found] if isinstance(found, str) else found
    return [float(number.replace(",", "")) for number in numbers]


def cells(text: str) -> list[list[str]]:
    """The cells of all rows of tables."""
    rows = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]*)`", cell))


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def bytes_a_row(*, events: bool) -> float:
    engine = _core.Engine(DIM, kind="flat")
    vectors = np.random.default_rng(1).standard_normal((ROWS, DIM), np.float32)
    ids = np.arange(ROWS)
    if events:
        engine.add_rows(
            KEY,
            ids,
            times=np.ones(ROWS, np.int64),
            expires=np.full(ROWS, np.iinfo(np.int64).max),
            sessions=np.zeros(ROWS, np.uint64),
            positions=np.arange(ROWS, dtype=np.float64),
            terms=np.empty(0, np.uint64),
            offsets=np.zeros(ROWS + 1, np.int64),
            vectors=vectors,
            has_vector=np.ones(ROWS, np.uint8),
        )
    else:
        engine.add(KEY, ids, vectors)
    return engine.nbytes_of(KEY) / ROWS


@pytest.mark.parametrize(("row", "events"), [("bare vector", False), ("event", True)])
def test_a_row_takes_the_bytes_of_the_page(row: str, events: bool) -> None:
    text = page("design/engine.md")
    least, most, whole = figure(
        text, rf"\| {row}(?: \(.*\))? \| 1\.5 W \+ (\d+) to (\d+) \| (\d+) \|"
    )
    assert PLANES + least <= bytes_a_row(events=events) < PLANES + most + 1
    assert PLANES + least <= whole <= PLANES + most


def test_signs_take_the_bytes_of_the_page() -> None:
    text = page("design/engine.md")
    (factor,) = figure(text, r"chunk of 4,096 rows on \| W / 8 \+ (\d+) \|")
    (whole,) = figure(text, r"in a whole chunk \| W / 8 \+ 4 more \| (\d+), \d+ \|")
    vectors = np.random.default_rng(1).standard_normal((4096, DIM), np.float32)
    index = vecall.Index(DIM, "flat")
    index.add(np.arange(4096), vectors)
    assert index.nbytes / 4096 == pytest.approx(whole, abs=7)
    assert whole == 601 + DIM / 8 + factor


def test_an_event_takes_what_its_columns_do() -> None:
    (columns,) = figure(page("design/engine.md"), r"\(rows of events\) \| (\d+) \|")
    more = bytes_a_row(events=True) - bytes_a_row(events=False)
    assert more == pytest.approx(columns, abs=1)


def test_a_partition_takes_the_bytes_of_the_page() -> None:
    (told,) = figure(page("design/engine.md"), r"A partition takes about (\d+) bytes")
    engine = _core.Engine(DIM, kind="flat")
    engine.add(KEY, np.array([1]), np.ones((1, DIM), np.float32))
    row = PLANES + 17  # planes, factors, id and flags; few rows have no lookup
    assert engine.nbytes_of(KEY) - row == pytest.approx(told, rel=0.1)


@pytest.mark.parametrize(
    ("source", "constant", "where", "told"),
    [
        ("terms/postings.hpp", r"kBm25K1 = ([\d.]+)F", "ranking", r"k1 = ([\d.]+) and"),
        ("terms/postings.hpp", r"kBm25B = ([\d.]+)F", "ranking", r"b = ([\d.]+)\."),
        (
            "index/graph_index.cpp",
            r"churn_ > ([\d']+) \+ rows\.vectors\(\) / 2",
            "engine",
            r"than half of\s+the rows plus ([\d,]+)",
        ),
        (
            "index/landmarks.hpp",
            r"kMost = ([\d']+)",
            "engine",
            r"one row of 16 at first, at most ([\d,]+) in all",
        ),
    ],
)
def test_a_constant_of_a_page_is_that_of_the_core(
    source: str, constant: str, where: str, told: str
) -> None:
    code = (ROOT / "cpp/src" / source).read_text("utf-8").replace("'", "")
    assert figure(page(f"design/{where}.md"), told) == figure(
        code, constant.replace("'", "")
    )


def test_defaults_of_the_engine_are_those_of_the_page() -> None:
    text = page("design/engine.md")
    mebibytes, rows = figure(text, r"`flat_bytes` \((\d+) MiB: ([\d,]+) rows of 384")
    signature = str(_core.Engine.__init__.__doc__)
    default = re.search(r"flat_bytes: int = (\d+)", signature)
    assert default is not None
    assert int(default[1]) == mebibytes * 2**20
    assert rows == int(default[1]) // (DIM // 2)
    (breadth,) = figure(text, r"`ef_construction` (\d+)\.")
    assert f"ef_construction: int = {breadth:.0f}," in str(
        _core.Engine.__init__.__doc__
    )


def test_settings_have_the_defaults_of_the_page() -> None:
    told = {row[0]: row[1] for row in cells(page("guide/production.md")) if row[1:]}
    options = StorageOptions()
    units = {"MiB": 2**20, "s": 1}
    for name, value in told.items():
        if not name.startswith("`storage."):
            continue
        default: Any = getattr(options, name.strip("`").removeprefix("storage."))
        number, _, unit = value.partition(" ")
        if unit:
            assert default == float(number) * units[unit], name
        else:
            assert f'"{default}"' == value, name
    assert len([name for name in told if name.startswith("`storage.")]) == 4


def test_the_count_of_reads_is_that_of_the_protocol() -> None:
    (told,) = figure(page("design/architecture.md"), r"(\d+) read operations")
    assert told == len(public(StorageReads))


def test_the_trees_name_every_folder() -> None:
    text = page("design/architecture.md").partition("## The tree")[2]
    core, _, package = text.partition("Python, from the lowest layer up")
    told = {each.strip("`") for row in cells(core) for each in names(row[0])}
    told = {path.rpartition("/")[2] for path in told}
    assert folders(ROOT / "cpp/src") <= told
    told = set().union(*(names(row[0]) for row in cells(package)))
    here = Path(vecall.__file__).parent
    modules = {each.stem for each in here.glob("[a-z]*.py")}
    assert told >= folders(here) | modules
    assert told <= folders(here) | modules


def folders(path: Path) -> set[str]:
    return {
        each.name
        for each in path.iterdir()
        if each.is_dir() and not each.name.startswith(("_", "."))
    }


def test_every_call_on_the_whole_file_is_on_the_page() -> None:
    text = page("guide/production.md").partition("## Operations on the whole file")[2]
    text = text.partition("\n## ")[0]
    told = {
        name.partition("(")[0]
        for row in cells(text)
        for name in names(row[0])
        if "(" in name
    }
    assert told == public(vecall.MemoryAdmin) - {"sync"}


def test_the_quickstart_names_every_command() -> None:
    top = command_line.command_parser()
    (commands,) = (
        action.choices
        for action in top._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    found = re.search(
        r"lists the commands: (.*?)\. All up\s+to `([\w-]+)` print JSON",
        page("guide/quickstart.md"),
        re.DOTALL,
    )
    assert found is not None
    told = re.findall(r"`([\w-]+)`", found[1])
    names = {each.prog.split()[1] for each in commands.values()}  # without aliases
    assert set(told) == names
    with_json = {name for name in told if "--json" in commands[name].format_help()}
    assert with_json == set(told[: told.index(found[2]) + 1])


def test_no_row_of_a_table_of_contributing_is_there_twice() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    scripts = [each for row in cells(text) for each in names(row[0])]
    assert len(scripts) == len(set(scripts))
    (lines,) = figure(text, r"at most (\d+) lines")
    layers = (ROOT / ".ci/check_layers").read_text("utf-8")
    assert f"MOST_LINES = {lines:.0f}\n" in layers
