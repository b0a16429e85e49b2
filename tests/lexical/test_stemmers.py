"""Where PyStemmer has no wheel, its stems come from the same algorithms in Python."""

from __future__ import annotations

import importlib
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

Stemmer = pytest.importorskip("Stemmer")
pytest.importorskip("snowballstemmer")

HERE = Path(__file__).resolve().parents[2]
TEXTS = [
    *(HERE / "python/vecall/lexical").glob("*.py"),
    *(HERE / "tests/lexical").glob("*.py"),
    *(HERE / "tests/search").glob("*.py"),
]


def vocabulary() -> list[str]:
    """Words of all the languages that the tests and the lists have."""
    found: set[str] = set()
    for path in TEXTS:
        found.update(re.findall(r"[^\W\d_]+", path.read_text("utf-8").lower()))
    words = sorted(found)
    foreign = [word for word in words if not word.isascii()]
    return foreign + random.Random(5).sample(words, 1_000)


WORDS = vocabulary()


def in_python(algorithm: str):
    """The stemmer that snowballstemmer has beside the one of PyStemmer."""
    module = importlib.import_module(f"snowballstemmer.{algorithm}_stemmer")
    return getattr(module, f"{algorithm.title().replace('_', '')}Stemmer")()


def test_the_vocabulary_has_many_languages():
    assert len(WORDS) > 2_000
    assert {"\u0645", "\u0930", "\u0438", "\u03bf", "\u00fc"} <= set("".join(WORDS))


@pytest.mark.parametrize("algorithm", Stemmer.algorithms())
def test_both_packages_give_the_same_stems(algorithm):
    compiled = Stemmer.Stemmer(algorithm, 0).stemWords(WORDS)
    assert in_python(algorithm).stemWords(WORDS) == compiled


PROGRAM = """
import sys
{}
from vecall.lexical import stems
stem = stems.language_stemmer("english").stem
other = type(stems.snowball_stemmer("english"))
print(other.__module__, stem("running"), stem("hotels"))
print(getattr(sys.modules.get("Stemmer"), "__name__", "hidden"))
"""


NOT_INSTALLED = """
class Finder:
    def find_spec(name, *_):
        if name == "Stemmer":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize(
    "before",
    [
        NOT_INSTALLED,
        "sys.modules['Stemmer'] = None",
        "sys._is_gil_enabled = lambda: False",
    ],
    ids=["not installed", "hidden", "it would bring the global lock back"],
)
def test_without_the_compiled_one_the_other_is_used(before):
    program = PROGRAM.format(before)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    module = "snowballstemmer.english_stemmer"
    assert done.stdout.split() == [module, "run", "hotel", "hidden"]
