"""Text that is built to hurt: nothing raises, and time grows as length does."""

from __future__ import annotations

import time

import pytest
from helpers.campaigns import SCALE, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall.lexical import QueryMarks, memory_terms, query_terms, words

pytestmark = pytest.mark.xdist_group("timing")

LENGTH = 32_000
MOST_S = 1.0  # the slowest takes a third of that

UNITS = [
    *("1", "1 ", "1.", "12.12.", "1-", "2024-", "2024-05-", "2024-05-03", "1:", "1/1"),
    *("20 ", "19", "3st of ", "3er ", "am 3. ", "3 de ", "3 may ", "may ", "may 3 "),
    *("3 may 2024, ", "month ", "january february ", "septembre", "j", "mar"),
    *(
        " ",
        "\t",
        "\n",
        "_",
        "'",
        "a'",
        "a's ",
        '"',
        "!",
        "?",
        "?.",
        "? ",
        "?!",
        "\u2026",
    ),
    *("when ", "and when ", "do you know ", "what ", "seit wann ", "en que ", "last "),
    *("\u3002", "\u304b\u3002", "?\U0001f600", "\U0001f600", "?\u200d", "\ufe0f"),
    *(
        "\u0301",
        "a\u0301",
        "x\u0301\u0302",
        "\u093f",
        "\u0915\u093f",
        "\u0e31",
        "\u102b",
    ),
    *(
        "\u3042",
        "\u4e00",
        "\u4e00\u0301",
        "\u5341",
        "\u4e94",
        "\u4e94\u6708",
        "5\u6708",
    ),
    *(
        "\u6708",
        "\u5e74",
        "2024\u5e74 ",
        "1 \u6708 ",
        "5\uc77c",
        "\uc5b8 ",
        "\u1100\u1161",
    ),
    *("\u043a\u043e\u0433\u0434\u0430 ", "\u0432\u043e ", "\u0430", "\u0438\u0306"),
    *("\ud800", "\0", "\u200b", "\u0130", "\ufb03", "\u00df", "\u00e9"),
]


@pytest.mark.campaign
@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_long_hostile_text_is_analysed_quickly(unit):
    """S0.20: no expression backtracks over the whole text from every place in it."""
    text = (unit * (LENGTH // len(unit) + 1))[:LENGTH]
    framed = [f"x{text}", f"?{text}x"]
    for hostile in [text, f"{text}x", *framed] if SCALE >= 1 else framed:
        for work in (
            lambda text=hostile: query_terms(text, now=0.0),
            lambda text=hostile: memory_terms(text, "Marta", 0.0),
        ):
            begin = time.process_time()
            work()
            assert time.process_time() - begin < MOST_S


@pytest.mark.parametrize("unit", ["\u0301", "\u0915\u093f", "a ", "\u0e01", "1 "])
def test_a_long_name_of_an_author_is_analysed_quickly(unit):
    begin = time.process_time()
    memory_terms("tea", unit * LENGTH, 0.0)
    assert time.process_time() - begin < MOST_S


alphabet = st.sampled_from(
    [
        *"ab zA'?!._-/:,0123456789\u00e9\u00df\u0130\u0301\u093f\u0915\u3042",
        *"\u4e00\u304b\u3002\u5341\u4e94\u6708\u65e5\u5e74\uc6d4\uc77c\ub144\ud55c",
        *"\u0438\u0306\u043c",
        *("\ud800", "\U0001f600", "\0", "\uff1f", "may", "3rd", "2024", "when", "last"),
        *("week", "yesterday", "\u043c\u0430\u044f", "gestern", "\u4e0a\u5468", " de "),
    ]
)
texts = st.lists(alphabet, max_size=30).map("".join) | st.text(max_size=40)
moments = st.none() | st.floats(-6.2e10, 2.5e11)


@pytest.mark.campaign
@settings(max_examples=examples(600), deadline=None, derandomize=True)
@given(text=texts, author=st.none() | texts, at=moments, now=st.floats(-6e10, 2.5e11))
def test_any_text_gives_hashes_and_the_same_ones_again(text, author, at, now):
    """S0.19: nothing raises, is 0, or hangs on what was analysed before."""
    told = memory_terms(text, author, at)
    asked, marks = query_terms(text, now=now)
    for term in (*told, *asked, *marks.authors):
        assert type(term) is int
        assert 0 < term < 2**64
    assert type(marks) is QueryMarks
    assert 0 <= marks.time < 2**64
    assert len(set(marks.authors)) == len(marks.authors)
    query_terms("other words meanwhile")
    assert memory_terms(text, author, at) == told
    assert query_terms(text, now=now) == (asked, marks)


@pytest.mark.parametrize("most", [0, 1, 256])
def test_a_query_has_at_most_so_many_words_besides_the_period_that_it_names(most):
    text = "zebra " * 300 + "on 3 May 2024 and yesterday"
    terms, marks = query_terms(text, now=0.0, most=most)
    assert len(terms) == most
    assert marks.period is not None


def test_a_text_of_nothing_but_dates_is_read_in_linear_time(in_time):
    days = ", ".join(f"{d}.{m}." for m in range(1, 13) for d in range(1, 32))
    text = f"Was war am {days * 40}?"
    marks = in_time(lambda: [query_terms(text, now=0.0) for _ in range(20)])[0][1]
    assert marks.period is not None


@pytest.mark.parametrize("mark", ["\u0301", "\u05bf", "\u0731", "\u0f71", "\u1dc0"])
def test_a_pile_of_combining_marks_costs_no_more_than_its_length(in_time, mark):
    """Unicode's normalisation alone takes the square of their number."""
    pile = "zebra " + mark * 32_000 + " okapi"
    terms = in_time(lambda: [query_terms(pile) for _ in range(50)])[0][0]
    assert set(query_terms("okapi")[0]) <= set(terms)


def test_thirty_marks_on_a_letter_are_kept():
    """UAX #15: more than 30 in a row are none of any language."""
    word = "\u0915" + "\u0951" * 30
    assert words(word + "\u0951" * 5) == words(word)
    assert words(word) != words("\u0915" + "\u0951" * 29)


def test_a_long_word_of_letters_is_no_pile_of_marks():
    word = "\u0915\u0930" * 40
    assert [len(part) for part in words(word)] == [80]
