"""What is known of a text: that it asks, that it tells a time or asks for one."""

from __future__ import annotations

import pytest
from vecall.lexical import QUESTION, QueryMarks, memory_terms, query_terms
from vecall.lexical.features import TIME, mark_hash


def known(text: str) -> list[int]:
    return memory_terms(text, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "Really?",
        "Did you?  \n",
        "Did you?!",
        "Did you ?",
        "Did you??",
        "Did you?...",
        "Did you?\u2026",
        '"Did you?"',
        "'Did you?'",
        "\u201cDid you?\u201d",
        "\u2018Did you?\u2019",
        "\u201eWirklich?\u201c",
        "\u00bbWirklich?\u00ab",
        "\u00abVraiment ?\u00bb",
        "(did you?)",
        "Did you? \U0001f600",
        "Did you?\U0001f44d\U0001f3fd\U0001f44d\U0001f3fd",
        "Did you? \u2764\ufe0f",
        "Did you? \u263a",
        "Did you? \U0001f937\u200d\u2640\ufe0f",
        "Did you? \U0001f1e9\U0001f1ea",
        "\u00bfQu\u00e9 tal?",
        "\u4f60\u597d\u5417\uff1f",
        "\u300c\u672c\u5f53\u3067\u3059\u304b\u3002\u300d",
        "\u305d\u3046\u3067\u3059\u304b\u3002",
        "\u672c\u5f53\uff1f\u300d",
        "\u0647\u0644 \u0647\u0648\u061f",
        "\uc815\ub9d0?",
        "First I told him. Then: why?",
    ],
    ids=ascii,
)
def test_a_text_that_ends_in_a_question_is_a_question(text):
    """S2.23: whatever closes it, quotes, brackets or emoji."""
    assert known(text).count(QUESTION) == 1
    assert memory_terms(text, "Marta", 0.0).count(QUESTION) == 1


@pytest.mark.parametrize(
    ("author", "most"), [("user", 20), ("agent", 40), ("Marta", 40), (None, 40)]
)
def test_a_long_turn_that_ends_in_a_question_states_more_than_it_asks(author, most):
    """A user's request to an assistant does so from fewer words on."""
    for words in (1, most, most + 1, 200):
        text = " ".join(["word"] * words) + "?"
        asks = QUESTION in memory_terms(text, author, None)
        assert asks == (words <= most)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I like tea.",
        "Really? Yes.",
        "Why? Because I said so",
        "What is it",
        "see https://example.org/?q=1",
        "a ? b : c",
        "\u305d\u3046\u3067\u3059\u3002",
        "\u304b",
        "\u305d\u3046\u306a\u306e\u304b\u3002\u3060\u304b\u3089\u884c\u304f",
        "\U0001f600",
        "!!!",
    ],
    ids=ascii,
)
def test_a_text_that_ends_otherwise_is_no_question(text):
    assert QUESTION not in known(text)


def test_a_query_is_never_marked_as_a_question():
    """It is what is asked; the mark is of rows that ask."""
    terms, _ = query_terms("Really?")
    assert QUESTION not in terms
    assert TIME not in query_terms("When was it yesterday?")[0]


TOLD = {
    "english": "We met yesterday|in March|at 10:30|on the 3rd|in 2019|two weeks ago|"
    "since last summer|on Monday|tomorrow morning|12/24",
    "german": "Ich war gestern da|heute|n\u00e4chste Woche|am Montag|im M\u00e4rz|"
    "letztes Jahr|am 3.5.|seit einem Monat|im Oktober",
    "spanish": "ayer fui|hoy|ma\u00f1ana|la semana pasada|el lunes|en enero|"
    "hace tres a\u00f1os|el s\u00e1bado",
    "french": "hier soir|demain|la semaine derni\u00e8re|lundi|en f\u00e9vrier|"
    "il y a deux ans|au mois d'ao\u00fbt",
    "italian": "ieri|oggi|domani|la settimana scorsa|due anni fa|tre giorni|nel mese",
    "portuguese": "ontem|hoje|amanh\u00e3|na quinta|no m\u00eas de maio|dois anos",
    "russian": "\u0432\u0447\u0435\u0440\u0430|\u0433\u043e\u0434 \u043d\u0430\u0437"
    "\u0430\u0434|\u0432 \u0438\u044e\u043d\u0435|\u0432 \u0441\u0440\u0435\u0434\u0443"
    "|\u0437\u0430\u0432\u0442\u0440\u0430|\u043d\u0430 \u043d\u0435\u0434\u0435\u043b"
    "\u0435|\u043f\u044f\u0442\u044c \u043b\u0435\u0442",
    "chinese": "\u6628\u5929|\u53bb\u5e74|3\u6708|\u661f\u671f\u4e94|10\u70b9|"
    "2024\u5e74",
    "japanese": "\u6628\u65e5|\u5148\u9031|5\u6708\u306b|\u9031\u672b|"
    "\u91d1\u66dc\u65e5",
    "korean": "\uc5b4\uc81c|\uc791\ub144|10\uc2dc|\ub2e4\uc74c \uc8fc|\uc8fc\ub9d0",
}


@pytest.mark.parametrize(
    "text", [text for some in TOLD.values() for text in some.split("|")], ids=ascii
)
def test_a_text_that_tells_a_time_is_marked(text):
    assert known(text).count(TIME) == 1
    assert known(text.upper()).count(TIME) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I like tea",
        "May I ask you something",
        "my daydream about Sunderland",
        "20000 leagues",
        "lastly nextdoor",
        "Ich mag keine Oliven",
        "uno dos",
        "la mesa",
        "Je mange du pain",
        "Mi piace la pizza",
        "Eu gosto de peixe",
        "\u044f \u043b\u044e\u0431\u043b\u044e \u0447\u0430\u0439",
        "\u0441\u0440\u0435\u0434\u0441\u0442\u0432\u043e",
        "\u6211\u559c\u6b22\u72d7",
        "\u732b\u304c\u597d\u304d",
        "\uc575\ubb34\uc0c8\ub97c \uc88b\uc544\ud574\uc694",
    ],
    ids=ascii,
)
def test_a_text_without_a_time_is_not_marked(text):
    assert TIME not in known(text)


def test_the_time_of_a_memory_is_not_a_time_that_it_tells():
    assert TIME not in memory_terms("I like tea", "Marta", 1_700_000_000.0)


ASKED = {
    "english": "When did I go?|And when was it?|So when?|Do you remember when we met?|"
    "How long did it take?|What time is it?|Which day?|On what date?|What year was it?|"
    "Since when?|'When was it?'",
    "german": "Wann war das?|Seit wann?|Wie lange dauert es?|An welchem Tag?|"
    "In welchem Jahr?|Um wie viel Uhr?|Welches Datum?",
    "spanish": "\u00bfCu\u00e1ndo fue?|\u00bfDesde cu\u00e1ndo?|\u00bfA qu\u00e9 hora?|"
    "\u00bfQu\u00e9 d\u00eda era?|\u00bfEn qu\u00e9 mes?|\u00bfCu\u00e1nto tiempo?",
    "french": "Quand es-tu venu ?|Depuis quand ?|\u00c0 quelle heure ?|Quel jour ?|"
    "En quelle ann\u00e9e ?|Combien de temps ?",
    "italian": "Quando sei venuto?|Da quando?|Che giorno era?|In che anno?|A che ora?",
    "portuguese": "Quando foi?|Desde quando?|Em que ano?|Que dia?|A que horas?|"
    "Quanto tempo?",
    "russian": "\u041a\u043e\u0433\u0434\u0430 \u044d\u0442\u043e "
    "\u0431\u044b\u043b\u043e"
    "?|\u0421 \u043a\u0430\u043a\u0438\u0445 \u043f\u043e\u0440?|"
    "\u041a\u0430\u043a \u0434"
    "\u043e\u043b\u0433\u043e?|"
    "\u0412\u043e \u0441\u043a\u043e\u043b\u044c\u043a\u043e?|"
    "\u0412 \u043a\u0430\u043a\u043e\u043c \u0433\u043e\u0434\u0443?",
    "chinese": "\u4ec0\u4e48\u65f6\u5019\u53bb\u7684\uff1f|\u51e0\u53f7\uff1f|"
    "\u4f60\u54ea"
    "\u5929\u6765\uff1f|\u591a\u4e45\uff1f",
    "japanese": "\u3044\u3064\u884c\u3063\u305f\uff1f|\u4f55\u66dc\u65e5\uff1f|"
    "\u4f55\u65e5"
    "\u3067\u3059\u304b\u3002",
    "korean": "\uc5b8\uc81c \uac14\uc5b4?|\uba87 \uc2dc\uc5d0?|\uba70\uce60?|"
    "\ubb34\uc2a8 \uc694\uc77c?",
}


@pytest.mark.parametrize(
    "text", [text for some in ASKED.values() for text in some.split("|")], ids=ascii
)
def test_a_query_that_asks_for_a_time_favours_those_that_tell_one(text):
    """S2.23: with and without its question mark, in capitals too."""
    for asked in (text, text.rstrip("?\uff1f "), text.upper(), f"  {text}"):
        assert query_terms(asked)[1].time == TIME, asked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What did he say when he left?",
        "Where was I when it rained?",
        "Who said when?",
        "Whenever you like",
        "How old am I?",
        "How many days?",
        "How often?",
        "What do I like about summer?",
        "Wer war da, als es regnete?",
        "Was hat er gesagt, wann er kommt?",
        "\u00bfQu\u00e9 dijo cuando sali\u00f3?",
        "Qu'a-t-il dit quand il est parti ?",
        "Che cosa ha detto quando \u00e8 andato via?",
        "O que ele disse quando saiu?",
        "\u0427\u0442\u043e \u043e\u043d "
        "\u0441\u043a\u0430\u0437\u0430\u043b, \u043a\u043e"
        "\u0433\u0434\u0430 \u0443\u0448\u0451\u043b?",
        "\u4f60\u559c\u6b22\u4ec0\u4e48\uff1f",
        "\u4f55\u304c\u597d\u304d\u3067\u3059\u304b\u3002",
        "\ubb50\uac00 \uc88b\uc544?",
    ],
    ids=ascii,
)
def test_a_query_that_asks_for_something_else_favours_no_time(text):
    assert query_terms(text)[1].time == 0


def test_marks_are_no_words_and_each_is_its_own():
    names = ["question", "time", "author marta", "day 5-3", "month 2024-5"]
    marks = [mark_hash(name) for name in names]
    assert len({*marks, *query_terms(" ".join(names))[0]}) > len(marks)
    assert not set(marks) & set(query_terms("question time author marta day 5 3")[0])
    assert all(0 < each < 2**64 for each in marks)
    assert QueryMarks() == QueryMarks(0, ())
