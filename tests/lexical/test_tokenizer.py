"""Text analysis: which words a text has, and which texts share one."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall.lexical import QueryMarks, memory_terms, query_terms, words
from vecall.lexical.languages import STOP_WORDS
from vecall.lexical.tokenizer import has_word_or_emoji
from vecall.text import RARE_MARKS, normalise

RARE_MARK = re.compile(f"[{RARE_MARKS}]")


def asked(text: str) -> list[int]:
    """The terms of a query."""
    return query_terms(text)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Hello, World!", ["hello", "world"]),
        ("don't isn't", ["dont", "isnt"]),
        ("Nate's dog", ["nate", "dog"]),
        ("the dogs' bowl", ["the", "dogs", "bowl"]),
        ("O\u2019Brien\u2019s", ["obrien"]),
        ("rock 'n' roll", ["rock", "n", "roll"]),
        ("'quoted'", ["quoted"]),
        ("snake_case_name __init__", ["snake", "case", "name", "init"]),
        ("a-b a/b a.b", ["a", "b", "a", "b", "a", "b"]),
        ("CB-20418 22:40 3.5", ["cb", "20418", "22", "40", "3", "5"]),
        ("word2vec", ["word2vec"]),
        ("tab\tnew\nline\0nul", ["tab", "new", "line", "nul"]),
        ("e=mc\u00b2", ["e", "mc2"]),
        ("\U0001f99c parrot\U0001f99cparrot", ["parrot", "parrot"]),
        ("repeat repeat", ["repeat", "repeat"]),
        ("C++ C#, F#. c++'s A+! (B+)", ["c++", "c#", "f#", "c++", "a+", "b+"]),
        ("C++17 C++/CLI g++", ["c++", "17", "c++", "cli", "g++"]),
        ("a+b c#4 c+++ 1+1 x+y# #tag C ++", [*"abc4", "c++", *"11x", "y#", "tag", "c"]),
        ("\u7528C++\u5199 C#\u5199", ["\u7528", "c++", "\u5199", "c#", "\u5199"]),
        ("Notepad++ .NET Node.js", ["notepad", "net", "node", "js"]),
    ],
)
def test_a_word_is_a_run_of_letters_and_digits(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Caf\u00e9", "cafe"),
        ("CAFE\u0301", "cafe"),
        ("\u00c5ngstr\u00f6m", "angstrom"),
        ("na\u00efve", "naive"),
        ("Stra\u00dfe", "strasse"),
        ("\u0130stanbul", "istanbul"),
        ("\ufb01lm", "film"),
        ("\uff26\uff35\uff2c\uff2c", "full"),
        ("\u1ec7", "e"),
    ],
)
def test_accents_case_and_width_are_folded(text, word):
    """S0.15: casefold and normal forms, not lower()."""
    assert words(text) == [word]


def test_marks_that_are_letters_of_their_script_stay():
    """An accent is dropped from Latin letters only."""
    assert words("\u0439") != words("\u0438")  # Cyrillic short i is no i
    assert words("\u0438\u0306") == words("\u0439")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("\u5929\u6c14\u5f88\u597d", ["\u5929\u6c14", "\u6c14\u5f88", "\u5f88\u597d"]),
        ("\u732b", ["\u732b"]),
        ("\u732b\u3002\u72ac", ["\u732b", "\u72ac"]),
        ("\u30aa\u30a6\u30e0", ["\u30aa\u30a6", "\u30a6\u30e0"]),
        ("\uff75\uff73\uff91", ["\u30aa\u30a6", "\u30a6\u30e0"]),
        ("\ud55c\uad6d\uc5b4", ["\ud55c\uad6d", "\uad6d\uc5b4"]),
        ("iPhone\u624b\u673a15", ["iphone", "\u624b\u673a", "15"]),
        ("\U00020000\U00020001\U00020002", None),
    ],
)
def test_scripts_without_spaces_become_pairs(text, pairs):
    if pairs is None:
        pairs = [text[:2], text[1:]]
    assert words(text) == pairs


def test_korean_particles_do_not_hide_a_word():
    """A noun with another particle glued on still shares a pair."""
    stored = "\uc575\ubb34\uc0c8\ub97c \uc88b\uc544\ud574\uc694"  # likes parrots
    asked = "\uc575\ubb34\uc0c8\ub294?"
    assert set(words(stored)) & set(words(asked))


@pytest.mark.parametrize(
    "word",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940",  # Hindi, with vowel signs and virama
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd",  # Tamil
        "\u05e9\u05dc\u05d5\u05dd",  # Hebrew
        "\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f",  # Arabic with vowel marks
        "\u0440\u0443\u0441\u0441\u043a\u0438\u0439",  # Russian
    ],
)
def test_marks_do_not_cut_a_word(word):
    assert len(words(word)) == 1
    assert len(words(f"{word} {word}, {word}")) == 3


def test_punctuation_of_indic_blocks_ends_a_word():
    text = "\u0939\u0948\u0964\u0939\u0948"  # danda, the full stop of Hindi
    assert len(words(text)) == 2


@pytest.mark.parametrize("text", ["\ud800", "a\ud800b", "\udfff!", "\udfff\udfff"])
def test_lone_surrogates_separate_words(text):
    """Bug class 30: broken text is analysed and never raises."""
    spaced = re.sub("[\ud800-\udfff]", " ", text)
    assert words(text) == words(spaced)
    assert query_terms(text) == query_terms(spaced)
    assert memory_terms(text, text, 0.0) == memory_terms(spaced, spaced, 0.0)


@pytest.mark.parametrize(
    "text", ["", " ", "?!", "_", "\u2026", "\ud800", "\0", "\u200b"]
)
def test_punctuation_is_no_word(text):
    assert not has_word_or_emoji(text)
    assert words(text) == []
    assert query_terms(text) == ([], QueryMarks())


@pytest.mark.parametrize(
    "char", "\u2705 \u23f0 \U0001f99c \U0001f1e8\U0001f1ed".split()
)
def test_an_emoji_is_no_word_and_makes_a_query(char):
    assert has_word_or_emoji(char)
    assert words(char) == []
    assert len(asked(char)) == 1
    assert len(asked(f"{char} tea {char}")) == 1
    assert len(memory_terms(f"{char} {char}\ufe0f", None, None)) == 1


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*"ab'lsehd_ -19\u2019\u02bc\u00e9", "qu'", "'s "])))
def test_apostrophes_end_no_word_but_after_elided_letters_and_before_an_s(letters):
    """The rules one at a time, each as one expression."""
    text = normalise("".join(letters))
    for rule, instead in (
        (
            r"(?<![\w'\u2019\u02bc])(?:l|s|d|qu|all|bell|dall|dell)['\u2019\u02bc](?=[aeiouh]\w)",
            " ",
        ),
        (r"(?<=\w)['\u2019\u02bc]s\b", ""),
        (r"(?<=\w[bdhlqs0-9])['\u2019\u02bc](?:[dl]?[ae])(?!\w)", ""),  # Turkish
        (r"(?<=\w[aeu])['\u2019\u02bc](?:[dl][ae])(?!\w)", ""),
        (r"(?<=\w)['\u2019\u02bc](?=\w)", ""),
    ):
        text = re.sub(rule, instead, text)
    assert words("".join(letters)) == re.findall(r"[^\W_]+", text)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=40))
def test_any_text_is_analysed(text):
    """Analysis never raises, gives no empty word, and is stable on its own result."""
    found = words(text)
    assert all(found)
    assert found or query_terms(text)[0] or not has_word_or_emoji(text)
    if RARE_MARK.search(text):
        return  # it ends a word, and hides an accent behind it until then
    for word in found:
        assert words(word) == [word], "a word is its own analysis"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("parrot", "parrots"),
        ("prefer", "preferred"),
        ("prefers", "preferring"),
        ("booking", "booked"),
        ("allergies", "allergy"),
        ("quiet", "QUIET"),
    ],
)
def test_forms_of_a_word_share_a_term(first, second):
    assert asked(first) == asked(second) != []


@pytest.mark.parametrize("other", ["carrot", "perot", "par"])
def test_different_words_share_no_term(other):
    assert asked("parrot") != asked(other)


def test_stop_words_carry_nothing():
    assert asked("What did I do, and which of them was it?") == []
    assert memory_terms("this is what we have had", None, None) == []
    assert asked("what bird did I like") == asked("bird like")


@pytest.mark.parametrize(
    "word", "bird like room monday january march may june two nine mark bill".split()
)
def test_words_that_name_things_are_no_stop_words(word):
    """stop_words.py: names of things, people, times and places are never on it."""
    assert word not in STOP_WORDS["english"]


def test_the_author_is_a_word_of_a_turn():
    said = memory_terms("I like tea", "Nate", None)
    assert set(asked("what did Nate say")) & set(said)
    assert memory_terms("I like tea", None, None) == memory_terms(
        "I like tea", "", None
    )


@pytest.mark.parametrize("month", range(1, 13))
def test_the_day_month_and_year_of_a_turn_are_words(month):
    at = datetime(2025, month, 17, 23, 59, tzinfo=timezone.utc)
    name = at.strftime("%B")
    dated = set(memory_terms("x", None, at.timestamp()))
    for word in ("17", name, "2025"):
        assert set(asked(word)) & dated, word
    bare = memory_terms("x", None, None)
    # And a mark: the memory has a time of its own.
    assert len(memory_terms("x", None, at.timestamp())) == len(bare) + 3 + 1


def test_repeats_count_and_a_query_has_an_end():
    assert len(memory_terms("zebra zebra zebra", None, None)) == 3
    assert len(asked("zebra " * 1000)) == 256
    assert len(query_terms("zebra " * 10, most=3)[0]) == 3


def test_terms_are_the_same_in_every_process():
    """Hashes are not Python's own, which differ from run to run."""
    assert asked("zebra") == [1_212_366_760_143_743_210]
    assert all(0 < term < 2**64 for term in asked("one zebra 42 \u732b\u72ac"))


def test_a_term_is_the_same_on_every_thread(in_time):
    here = memory_terms("zebras running quickly", "Nate", 0.0)
    assert in_time(lambda: memory_terms("zebras running quickly", "Nate", 0.0)) == here
