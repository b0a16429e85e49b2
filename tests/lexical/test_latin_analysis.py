"""The analysis in C++ finds the terms of the Python analysis, in the same order."""

from __future__ import annotations

import os
import random
import re
import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from helpers.campaigns import SCALE, examples, scaled
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidArgumentError, InvalidTypeError
from vecall._core import TextAnalyzer
from vecall.lexical import memory_terms, query_terms, terms_of_memories
from vecall.lexical.features import TIME_WORDS
from vecall.lexical.languages import ELIDING_LANGUAGES, STOP_WORDS
from vecall.lexical.latin import latin_folding_rules, period_tables
from vecall.lexical.period_patterns import LATIN, VOCABULARIES, meaning_numbers
from vecall.lexical.periods import OPENS, local_micros
from vecall.lexical.terms import query_terms_in_python

Memory = tuple[str, str | None, float | None]

SENTENCES = """
She said she'd finally bought the climbing shoes on March 3rd, 2024, didn't she?
Nate's dogs weren't running at 7:30 or 12:05; D'Angelo met Hawai'i's team on 3.4.
Die Zahnarztterminvereinbarung war gestern um 15 Uhr, weil Müllers Straßenbahn ausfiel.
Ich habe keinen Geschirrspüler gekauft, sondern eine Waschmaschine für Österreich.
L'école d'aujourd'hui n'est qu'une idée : jusqu'ici, c'était l'été à l'hôtel.
Qu'est-ce que tu as mangé hier ? Rien n'a changé depuis l'œuvre du cœur.
Dell'acqua e un'amica: com'era bell'arte! Perché quest'anno non c'è più l'uva?
¿Dónde está la niña? Mañana compraré piñas en el supermercado de Ángel.
Você não viu o avião às três da manhã? São Paulo é linda, não é?
İstanbul'da buluştuk, Ayşe'nin evi Ankara'dan uzak; şu çiçeği kim aldı?
Şehir ve ülke için: Türkiye'ye, Ali'yle, 2024'te, Mersin'den geldiler.
Am fost în Brașov și în Timișoara cu ştefan și țuică.
Hôm qua tôi đã đi chợ với chị Phước Ơn; trời mưa rất to.
Вчера мы ездили на дачу, а в марте 2024 года поедем снова.
昨天我们去了北京。五月三号见? これは何ですか。 오늘은 3월 5일이에요.
चाय बहुत अच्छी है। أين كتابي؟ Πότε έρχεσαι στην Αθήνα;
OpenAIEmbedder parses iPhone15Pro in HTTPServer2Go via getURLFromXMLHttpRequest.
C++ and C#'s A+ beat F#++; a+b c# x++y #tag +1 c+++ z#+ C++'s R#2 e+e+.
Call 555-1234 at 30min or 5pm, the 21st, 3er, 1999, 20200, abc123def, 12ab, x1 ab12.
user_name snake_case_2024 __init__ a_b1 v2_0 3rd_party _1999_ 12:3 1/2 10/12. 1.2.3
""".split("\n")  # noqa: RUF001
ODD = (
    *"'\u2018\u2019\u02bc\u00b4` \t\n\r\x00\x1c\x1f\x7f\x85\xa0\xad\u200b\u2028.,:;/?!",
    *"_-+#",
    *("\u2014", "\u2026", "\u201c", "\u00bb", "\u203d", "\u2047", "\u203c", "?\u00bb"),
    *(
        "\ud800",
        "\udfff",
        "\U0001f600",
        "\u0301",
        "\u0130",
        "\u0131",
        "\u0149",
        "\u01c4",
    ),
    *("\u00aa", "\u00b2", "\u00bd", "\u00b5", "\u00df", "\u1e9e", "\u017f", "\ufb03"),
    *("\u00e6", "\u0153", "\u00f8", "\u0142", "\u01ff", "\u0225", "\u024f", "\u0250"),
    *(
        "0",
        "7",
        "19",
        "2024",
        "\u0663",
        "\uff11",
        "'s",
        "'s'",
        "'da",
        "'nin",
        "'lardan",
    ),
    *(
        "l'",
        "d'h",
        "qu'a",
        "un'",
        "''",
        "'a",
        "?!",
        "? ",
        "++",
        "+#",
        "#'s",
        "1st",
        "5pm",
    ),
    *("x" * 41, "Ab" * 60, "wort" * 10, "a1" * 50, "z" * 3_000),
)
WORDS = (
    *sorted({word for words in STOP_WORDS.values() for word in words} | TIME_WORDS),
    *ELIDING_LANGUAGES,
    *(word for sentence in SENTENCES for word in re.split(r"(\W)", sentence)),
)
AUTHORS = (
    None,
    "",
    "user",
    "User",
    "Marta",
    "D'Angelo Müller",
    "Nguyễn",
    "user\x00",
    "李",
)


def made_text(rng: random.Random) -> str:
    """A text of words of all languages, odd characters and parts of sentences."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(SENTENCES)
    if kind < 0.2:
        chars = [chr(rng.randrange(0x260)) for _ in range(rng.randrange(12))]
        return "".join(chars)
    own = rng.choice((WORDS, sorted(rng.choice(list(STOP_WORDS.values())))))
    spaces = rng.choice(((" ",), (" ", " ", ", ", "'", "", "-", "_"), ("",)))
    oddness = rng.choice((0, 0.05, 0.4))
    text = ""
    for _ in range(rng.randrange(1, 25)):
        piece = rng.choice(ODD if rng.random() < oddness else own)
        change = rng.random()
        if change < 0.1:
            piece = piece.capitalize()
        elif change < 0.13:
            piece = piece.upper()
        elif change < 0.16:
            piece = unicodedata.normalize("NFD", piece)
        text += piece + rng.choice(spaces)
    return text + rng.choice(("", ".", "?", "?)", "?\u201d \n", "!?", "? ok"))


def made_memory(rng: random.Random) -> Memory:
    author = rng.choice(AUTHORS) if rng.random() < 0.9 else made_text(rng)
    at = rng.choice(
        (None, 0, 1.7e9, rng.uniform(-6.2e10, 2.5e11), 86_400 * 0.999999999999)
    )
    return made_text(rng), author, at


def terms_of(memories: list[Memory]) -> list[list[int]]:
    terms, offsets = terms_of_memories(memories)
    assert (terms.dtype, offsets.dtype) == (np.uint64, np.int64)
    assert (offsets[0], offsets[-1]) == (0, len(terms))
    return (
        [each.tolist() for each in np.split(terms, offsets[1:-1])] if memories else []
    )


def check(memories: list[Memory]) -> None:
    for memory, found in zip(memories, terms_of(memories), strict=True):
        assert found == memory_terms(*memory), ascii(memory)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(scaled(20)))
def test_a_thousand_texts_of_every_kind_have_the_terms_of_the_python_analysis(seed):
    rng = random.Random(seed)
    check([made_memory(rng) for _ in range(1_000)])


def test_sentences_of_all_languages_have_the_terms_of_the_python_analysis():
    check(
        [(text, who, at) for text in SENTENCES for who in AUTHORS for at in (None, 1e9)]
    )


letters = st.sampled_from([*map(chr, range(0x250)), *ODD, "a", "b", " ", "'", "1"])


@pytest.mark.campaign
@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.lists(letters, max_size=30).map("".join), st.none() | st.text(max_size=8))
def test_any_letters_have_the_terms_of_the_python_analysis(text, author):
    check([(text, author, None), (text.upper(), text, 0.5)])


def test_each_pair_of_letters_has_the_terms_of_the_python_analysis():
    """No letter's normal form depends on its neighbours."""
    covered = sorted(latin_folding_rules()["letters"])
    others = covered if SCALE >= 1 else covered[:: len(covered) // 12]
    check([("x".join(one + other for other in others), None, None) for one in covered])


@pytest.mark.parametrize("at", [-62_135_596_800, 253_402_300_799, -0.5, 0.5e-6, 1.5e-6])
def test_the_first_and_last_moments_have_the_terms_of_the_python_analysis(at):
    check([("tea", None, at), ("tea", None, float(at))])
    for day in range(-800, 800, 7):
        check(
            [("tea", None, day * 86_400 + shift) for shift in (-6e-7, -5e-7, -4e-7, 0)]
        )


@pytest.mark.parametrize("at", [float("nan"), float("inf"), 1e300, 10**400])
def test_a_time_outside_of_the_years_is_refused_as_by_the_python_analysis(at):
    with pytest.raises((ValueError, OverflowError)) as expected:
        memory_terms("tea", None, at)
    with pytest.raises(type(expected.value)):
        terms_of_memories([("tea", None, at)])


def test_most_texts_in_latin_letters_are_analysed_in_cpp():
    analyzer = TextAnalyzer(latin_folding_rules())
    left: list[str] = []

    def reference(text: str, author: str | None, at: float | None) -> list[int]:
        left.append(text)
        return [7]

    texts = [text for text in SENTENCES if text]
    terms, _ = analyzer.memory_terms(
        [(text, None, None) for text in texts],
        lambda _, words: [1] * len(words),
        reference,
    )
    assert left == texts[12:16]  # Vietnamese, and other scripts
    assert 7 in terms
    asked: list[str] = []
    analyzer.memory_terms(
        [(texts[0], None, None)], lambda _, words: asked.extend(words), reference
    )
    assert asked == []  # each word is stemmed once


@pytest.mark.parametrize(
    "memories",
    [
        ("tea", None, None),
        [["tea", None, None]],
        [("tea", None)],
        [(b"tea", None, None)],
        [("tea", 7, None)],
        [("tea", None, "now")],
        None,
        [None],
    ],
    ids=repr,
)
def test_what_is_no_list_of_memories_is_refused(memories):
    with pytest.raises(InvalidTypeError, match="memories: expected a list"):
        terms_of_memories(memories)


@pytest.mark.parametrize("terms", [[], [1, 2], [1 << 63]])
def test_stems_that_do_not_fit_the_words_are_refused_and_not_learned(terms):
    analyzer = TextAnalyzer(latin_folding_rules())
    memories = [("zebra", None, None)]
    with pytest.raises(InvalidArgumentError, match="terms: "):
        analyzer.memory_terms(memories, lambda *_: terms, memory_terms)
    with pytest.raises(ZeroDivisionError):
        analyzer.memory_terms(memories, lambda *_: [1 // 0], memory_terms)
    assert analyzer.memory_terms(memories, lambda *_: [5], memory_terms)[0][0] == 5


@pytest.mark.parametrize("name", sorted(latin_folding_rules()))
def test_tables_without_one_of_them_or_of_another_type_are_refused(name):
    rules = latin_folding_rules()
    with pytest.raises(InvalidTypeError, match="rules: "):
        TextAnalyzer({key: value for key, value in rules.items() if key != name})
    with pytest.raises(InvalidTypeError, match="rules: "):
        TextAnalyzer({**rules, name: object()})


def test_words_beyond_the_limit_are_forgotten_and_found_again():
    analyzer = TextAnalyzer(latin_folding_rules())
    empty = analyzer.nbytes

    digits = str.maketrans("0123456789", "bcdfghjklm")

    def stems(_: int, words: list[str]) -> list[int]:
        return [hash(word) >> 2 & 0xFFFF_FFFF | 1 for word in words]

    for begin in range(0, 250_000, 50_000):
        told = [
            f"{number:06}".translate(digits) for number in range(begin, begin + 50_000)
        ]
        memories = [(" ".join(told), None, None)]
        terms, _ = analyzer.memory_terms(memories, stems, memory_terms)
        assert terms.tolist() == stems(0, told)
    assert analyzer.nbytes < empty + 130_000 * 150


def test_threads_that_learn_the_same_words_find_the_same_terms():
    rng = random.Random(7)
    memories = [made_memory(rng) for _ in range(300)]
    expected = [memory_terms(*memory) for memory in memories]
    analyzer = TextAnalyzer(latin_folding_rules())
    begin = threading.Barrier(4)

    def work(_: int) -> list[list[int]]:
        begin.wait()
        from vecall.lexical.terms import _new_terms_of_words

        terms, offsets = analyzer.memory_terms(
            memories, _new_terms_of_words, memory_terms
        )
        return [each.tolist() for each in np.split(terms, offsets[1:-1])]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [expected] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_fork_analyses_while_threads_of_the_parent_learn():
    done = threading.Event()

    def learn() -> None:
        rng = random.Random(3)
        while not done.is_set():
            check([(f"word{rng.random()}x " * 20, None, None)])

    with ThreadPoolExecutor(2) as pool:
        for work in [pool.submit(learn) for _ in range(2)]:
            assert not work.done()
        try:
            for number in range(8):
                child = os.fork()
                if child == 0:
                    text = f"new{number}words in a child"
                    right = terms_of([(text, None, None)]) == [
                        memory_terms(text, None, None)
                    ]
                    os._exit(0 if right else 1)
                limit = time.monotonic() + 20
                while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                    assert time.monotonic() < limit, "the child hangs"
                    time.sleep(0.001)
                assert ended[1] == 0
        finally:
            done.set()


@pytest.mark.parametrize(
    "unit",
    [
        *("a'", "l'a", "C++ ", "aB", "abc1 ", "1.", "?", "'s", "1x_", "wortwortwort "),
        *(
            "x' ",
            " ",
            "ab" * 19,
            "\u0131'",
            "+",
            "#",
            "A",
            "1:",
            "a_",
            "l'",
            "d'd",
            "'da",
        ),
    ],
)
def test_a_text_twice_as_long_takes_at_most_three_times_as_long(unit):
    def seconds(size: int) -> float:
        memory = [((unit * size)[:size], unit * (size // len(unit)), None)]
        times = []
        for _ in range(5):
            begin = time.thread_time()
            terms_of_memories(memory)
            times.append(time.thread_time() - begin)
        return min(times)

    size = 1 << 16
    assert seconds(2 * size) < 3 * seconds(size) + 0.02


def test_the_conversations_of_the_benchmarks_have_the_terms_of_the_python_analysis():
    folder = Path(__file__).parents[2] / "bench/recall/conversations"
    texts = re.findall(
        r'"text": "(.*?)"',
        "".join(file.read_text("utf-8") for file in sorted(folder.glob("*.jsonl"))),
    )
    assert len(texts) > 2_000
    check([(text, "Marta", 1e9) for text in texts[::4]])


def check_queries(queries: list[str]) -> None:
    for query in queries:
        for by_period in (True, False):
            found = query_terms(query, now=1.7e9, by_period=by_period)
            expected = query_terms_in_python(query, 1.7e9, None, 256, by_period)
            assert found == expected, (ascii(query), by_period)


def asked(analyzer, query, stems, by_period=True):
    return analyzer.query_terms(
        query, stems, by_period, period_tables, 1.7e9, None, local_micros
    )


@pytest.mark.campaign
def test_random_queries_have_the_terms_of_the_python_analysis():
    rng = random.Random(11)
    for _ in range(scaled(20)):
        check_queries([made_text(rng) for _ in range(1_000)])


def test_queries_of_all_languages_have_the_terms_of_the_python_analysis():
    check_queries(SENTENCES)
    words = sorted(OPENS, key=lambda word: word.encode())[::7]
    check_queries([f"What happened {word} with Nate?" for word in words])
    check_queries(
        ["l'an", "Il y a un an", "an apple a day", "d'un an", "an y", "x\u00b2"]
    )
    check_queries(["zahnarzt" * 5, "Dampfschifffahrtsgesellschaft " * 20, "wortwort"])
    check_queries(["ayşe'nin doğum günü", "c++ and a+", "Marta Marta marta Marta's"])


def phrases_of_time(rng, count):
    vocabularies = [
        [
            *(word for name in NAMING for word in meaning_numbers(table.get(name, ""))),
            *(part for name in AROUND for part in table.get(name, "").split("|")),
        ]
        for table in LATIN
    ]
    for _ in range(count):
        own, other = rng.choice(vocabularies), rng.choice(vocabularies)
        words = rng.choices((own, own, other, PLAIN), k=rng.randint(1, 8))
        yield " ".join(rng.choice(some) for some in words)


NAMING = ("words", *VOCABULARIES)
AROUND = ("since", "before", "until", "after_", "in", "and", "fill")
PLAIN = """
what Nate the of on in at de la le - , ? . 's l' 1999 2024 3 12 29 31 1st 3.5. 3/5/2024
2024-05-03 10:30 is our every that last next this \u2019 before in, dec'22 week-end
""".split()


@pytest.mark.parametrize("zone", [None, ZoneInfo("America/New_York")], ids=str)
def test_queries_that_name_periods_have_those_of_the_python_analysis(zone):
    rng = random.Random(3)
    named = 0
    for query in phrases_of_time(rng, max(150, scaled(60))):
        now = rng.uniform(1e8, 2.5e9)
        found = query_terms(query, now=now, zone=zone)
        expected = query_terms_in_python(query, now, zone, 256, True)
        assert found == expected, (query, now)
        named += found[1].period is not None
    assert named > 10


@pytest.mark.parametrize("now", [-62135596800.0, 253402300799.0])
def test_a_period_beyond_the_years_of_a_calendar_is_none(now):
    for query in ("what did I do yesterday", "swimming tomorrow", "3 weeks ago"):
        expected = query_terms_in_python(query, now, None, 256, True)
        assert query_terms(query, now=now) == expected


@pytest.mark.parametrize("size", [8_190, 8_191, 8_192, 8_193, 20_000])
def test_long_queries_have_the_terms_of_the_python_analysis(size):
    rng = random.Random(size)
    made = "".join(made_text(rng) + " " for _ in range(400))
    plain = " ".join(f"word{rng.choice('abcdefg')}x{rng.choice('hijk')}" for _ in made)
    check_queries([made[:size], plain[:size], "\u00df" * (size // 2), "a " * size])


def test_most_queries_in_latin_letters_are_analysed_in_cpp():
    analyzer = TextAnalyzer(latin_folding_rules())
    queries = [text for text in SENTENCES if text]
    found = [
        asked(analyzer, text, lambda _, words: [1] * len(words), False) is None
        for text in queries
    ]
    assert [place for place, is_left in enumerate(found) if is_left] == [12, 13, 14, 15]
    numbers = {"nate": 5, "live": 6}

    def stems(_, words):
        return [numbers.get(word, 0) for word in words]

    optional = [5 | 1 << 63, 6 | 1 << 63]
    analyzer = TextAnalyzer(latin_folding_rules())
    found = asked(analyzer, "Where does Nate live?", stems)
    assert found == ([5, 6], optional, [5, 6], False, None)
    found = asked(analyzer, "When did Nate live on Monday?", stems)
    day = 1_699_833_600_000_000
    assert found == ([5, 6], optional, [5, 6], True, [(day, day + 86_400_000_000)])


@pytest.mark.parametrize("query", [None, b"tea", 7, ["tea"]], ids=repr)
def test_what_is_no_query_is_refused(query):
    with pytest.raises(InvalidTypeError, match="query: expected a str"):
        asked(TextAnalyzer(latin_folding_rules()), query, lambda *_: [])
