"""Every function over a text takes time that grows as the text does, at every door."""

from __future__ import annotations

import gc
import random
import re
import time
import unicodedata

import pytest
from helpers.campaigns import SCALE
from helpers.long_texts import (
    FOLDER,
    Unit,
    characters,
    expressions,
    units_of,
)
from vecall import text as module
from vecall.text import few_marks, normalise, strip_invisible, to_nfc, without_blocks

pytest.importorskip("httptools")

from helpers.text_doors import open_doors

pytestmark = pytest.mark.xdist_group("timing")

LENGTH = 16_000 if SCALE >= 1 else 10_000  # characters of the shorter text
MOST_RATIO = 2.5
CLEAR_RATIO = 2.2
QUICK_S = 0.05  # what takes less cannot be measured well, and harms nobody
EVERY = SCALE >= 20
UNITS = max(4, round(30 * SCALE))  # of each source at each door, unless EVERY

# What was found to take the square of its length, and its like.
KNOWN = [
    *(Unit("", char, "") for char in "\u0f73\u0f75\u0f81\u0344\u0315\u0951"),
    *(Unit("", f"\u0315{char}", "") for char in "\uff9e\uff9f\u0323\u0f73"),
    Unit("a", "\u0315\u0300\u0323", ""),
    *(Unit("", tag, "") for tag in ("<system-reminder>", "<timestamp>", "<recalled-")),
    *(
        Unit("", each, "")
        for each in ("\x9d", "\x1b]", "<", "[", "{", "&", '{"a":', "\n ")
    ),
    Unit('"', "\\", ""),
    Unit("zebra ", "zebr", " zebra"),
]


@pytest.fixture(scope="module")
def units():
    """The worst texts of characters and of expressions."""
    chosen = random.Random(11)
    of_chars = [
        Unit("", unit, "")
        for char in characters(every=EVERY)
        for unit in (char, f"a{char}", f"{char}\u0323", f"\u0315{char}")
    ]
    of_patterns = sorted(set().union(*map(units_of, expressions().values())))
    assert len(of_patterns) > 5_000
    return of_chars, of_patterns, chosen


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    with open_doors(tmp_path_factory.mktemp("doors")) as opened:
        yield opened


def seconds(door, text: str) -> float:
    begin = time.process_time()
    door(text)
    return time.process_time() - begin


def ratio(door, unit: Unit, long: float) -> float:
    """How much longer twice the text takes, at best of several.

    A function that takes the square of the length is at 4. One that is clearly below
    the bound at once, given what the long text has taken, is measured no further.
    """
    gc.disable()
    try:
        short = seconds(door, unit.text(LENGTH))
        if long < CLEAR_RATIO * short:
            return long / short
        for _ in range(4):
            short, long = (
                min(seconds(door, unit.text(n * LENGTH)) for _ in range(3))
                for n in (1, 2)
            )
            if long < MOST_RATIO * short or long < QUICK_S:
                return long / short
    finally:
        gc.enable()
    return long / short


DOORS = [
    *("search", "search by metadata", "list by names", "ids", "propose_forget", "add"),
    *("add events and messages", "add, author", "add, metadata", "add, time"),
    *("add, key of metadata", "found in a search", "user name", "item", "item's names"),
    *("import", "in-memory service", "duplicates", "preload", "search tool"),
    *("snippets of a search tool", "HTTP search", "HTTP body", "HTTP query"),
    *("google-adk's answer", "render", "strip", "label", "terminal", "transcript"),
    *("summary", "settings", "time", "artifact"),
]


def test_every_door_is_tried(doors):
    assert {*doors, "artifact"} == set(DOORS)


@pytest.mark.parametrize("name", DOORS)
def test_a_text_of_twice_the_length_takes_about_twice_the_time(doors, units, name):
    if name not in doors:
        pytest.skip("needs google-adk")
    door = doors[name]
    *sources, chosen = units
    tried = list(KNOWN)
    for source in sources:
        tried += source if EVERY else chosen.sample(source, UNITS)
    door("warm")
    for unit in tried:
        if (long := seconds(door, unit.text(2 * LENGTH))) > QUICK_S:
            assert ratio(door, unit, long) < MOST_RATIO, ascii(unit)


def test_every_character_that_becomes_marks_is_counted_among_them():
    """In the version of Unicode that this Python has."""
    for point, char in enumerate(map(chr, range(0x110000))):
        split = unicodedata.decomposition(char).split()
        if not (split or unicodedata.combining(char)):
            continue
        whole = unicodedata.normalize("NFKD", char)
        if unicodedata.combining(whole[0]):
            assert module._MANY_MARKS.fullmatch(char * 31), hex(point)
            run = unicodedata.normalize("NFKD", few_marks(char * 100))
            assert len(run) <= 30, hex(point)
            assert not module._BEGINS_A_PART.match(char), hex(point)
        if len(split) == 2 and not split[0].startswith("<"):
            combines = chr(int(split[1], 16))
            assert not module._BEGINS_A_PART.match(combines), hex(point)


def test_a_long_text_is_normalised_in_parts_as_if_in_one():
    """Parts end only where no character combines with the one before."""
    chosen = random.Random(3)
    joining = [
        char
        for char in map(chr, range(0x3130))
        if unicodedata.combining(char)
        or unicodedata.decomposition(char)
        or "\u1100" <= char <= "\u11ff"
    ]
    for _ in range(3):
        text = "".join(
            chosen.choice(joining)
            if chosen.random() < 0.8
            else chosen.choice("ae \uac00")
            for _ in range(3 * module._PART // 2)
        )
        kept = few_marks(text)
        assert to_nfc(text) == unicodedata.normalize("NFC", kept)
        assert normalise(text) == normalise(kept)


def test_only_one_module_normalises_texts():
    """All others would have to count marks as well."""
    calling = {
        path.relative_to(FOLDER).as_posix()
        for path in FOLDER.rglob("*.py")
        if "unicodedata.normalize(" in path.read_text(encoding="utf-8")
    }
    assert calling == {"text.py", "embedders/resolve.py"}  # the second: one letter


def test_what_stands_between_two_tags_is_cut_as_an_expression_would():
    chosen = random.Random(5)
    wanted = re.compile("<a>.*?</a>", re.DOTALL)
    for _ in range(2_000):
        text = "".join(chosen.choices(["<a>", "</a>", "<", "x\n", "a>"], k=8))
        assert without_blocks(text, "<a>", "</a>") == wanted.sub("", text)


def test_an_escape_of_a_terminal_ends_where_the_next_begins():
    assert strip_invisible("a\x9dtitle\x9cb\x1b]0;x\x07c") == "abc"
    assert "\x9d" not in strip_invisible("\x9d" * 9 + "text\x9d")
