"""Words that differ in a sign, one character of Chinese, an emoji: found by words."""

from __future__ import annotations

import pytest
from helpers.conversations import ALICE
from vecall import MemoryEntry

LANGUAGES = [
    "Writes C++ at work, in a large team, on a parser that has grown for many years",
    "Likes C#",
    "Likes F#",
    "Learned plain C at school",
    "Moved the shop to .NET last year",
    "The shop's backend runs on Node.js",
    "我用C++编程",
    "Gave the film an A+",
    "Gave the book a B+",
]


def told(service, texts: list[str], query: str) -> list[str]:
    service.sync.add_memory(**ALICE, memories=[MemoryEntry(text) for text in texts])
    found = service.sync.search_memory(**ALICE, query=query)
    return [entry.text for entry in found]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("C++", {LANGUAGES[0], LANGUAGES[6]}),
        ("c++'s parser", {LANGUAGES[0], LANGUAGES[6]}),
        ("C\uff0b\uff0b20", {LANGUAGES[0], LANGUAGES[6]}),
        ("C#", {LANGUAGES[1]}),
        ("C# or F#?", {LANGUAGES[1], LANGUAGES[2]}),
        ("A+", {LANGUAGES[7]}),
        (".NET", {LANGUAGES[4]}),
        ("Node.js", {LANGUAGES[5]}),
    ],
)
def test_a_letter_with_signs_is_a_word_of_its_own(open_service, query, wanted):
    assert set(told(open_service(), LANGUAGES, query)) == wanted


def test_a_letter_without_signs_finds_itself_first_and_those_with_signs(open_service):
    found = told(open_service(), LANGUAGES, "C")
    assert found[0] == LANGUAGES[3]
    assert set(found) == {LANGUAGES[n] for n in (0, 1, 3, 6)}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("猫", "我养了一只猫叫小白"),
        ("猫\uff1f", "我养了一只猫叫小白"),
        ("白", "我养了一只猫叫小白"),
        ("酢", "すしには酢が要る"),
        ("집", "우리 집에 손님이 왔다"),
        ("🦜", "Saw a 🦜 in the park"),
        ("what was 🦜?", "Saw a 🦜 in the park"),
        ("👍", "Lunch was fine 👍🏽"),
        ("👍🏿", "Lunch was fine 👍🏽"),
        ("👩‍💻", "Works as 👩‍💻"),
        ("💻", "Works as 👩‍💻"),
        ("🇨🇭", "Cheers for 🇨🇭"),
        ("❤️", "Tea ❤"),
    ],
)
def test_one_character_or_an_emoji_finds_what_contains_it(open_service, query, wanted):
    texts = [
        "我养了一只猫叫小白",
        "すしには酢が要る",
        "우리 집에 손님이 왔다",
        "Saw a 🦜 in the park",
        "Lunch was fine 👍🏽",
        "Dinner was not 👎🏽",
        "Works as 👩‍💻",
        "Cheers for 🇨🇭",
        "Cheers for 🇭🇺 and 🇨🇱",
        "Tea ❤",
    ]
    assert told(open_service(), texts, query) == [wanted]


def test_an_emoji_beside_words_raises_what_has_both_and_hides_nothing(open_service):
    texts = ["Fed a parrot in the garden", "Saw a parrot 🦜 in the park"]
    assert told(open_service(), texts, "parrot 🦜") == texts[::-1]


def test_an_emoji_leaves_the_scores_of_words_as_they_are(open_service):
    texts = ["Fed a parrot", "Fed two parrots yesterday, and a goose"]
    service = open_service().sync
    scores = []
    for name, sign in (("bob", ""), ("eve", " \U0001f600")):
        user = service.user("hotel", name)
        user.add([text + sign for text in texts])
        scores.append([entry.score for entry in user.search("parrot")])
    assert scores[0] == scores[1]
    assert len(scores[0]) == 2
