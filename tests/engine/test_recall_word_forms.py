"""Words inside of words: elision, Arabic clitics, identifiers, German compounds."""

from __future__ import annotations

import pytest
from helpers.memories import ALICE
from vecall import MemoryService
from vecall.lexical import memory_terms, query_terms, words

OTHERS = ["Something else is written here.", "Noch ein Satz.", "Encore une phrase."]


def finds(memory: str, query: str, *others: str) -> bool:
    with MemoryService(embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=[memory, *others, *OTHERS])
        found = service.sync.search_memory(**ALICE, query=query).memories
    return any(entry.text == memory for entry in found)


@pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\u02bc", "\uff07"])
@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("Nous allons \u00e0 l'\u00e9cole demain", "\u00e9cole"),
        ("J'habite \u00e0 Lyon", "habiter"),
        ("L'\u00e9cole est grande", "O\u00f9 est l'\u00e9cole ?"),
        ("Une \u00e9cole, voil\u00e0", "l'\u00e9cole"),
        ("Aujourd'hui il pleut", "aujourd'hui"),
        ("Qu'il vienne jusqu'ici avec l'h\u00f4tel", "h\u00f4tel"),
        ("Parliamo dell'amicizia", "amicizia"),
        ("Un'amica di Roma", "amica"),
        ("L'acqua nell'orto", "orto acqua"),
        ("D'Angelo called", "dangelo"),
        ("D'Angelo called", "What did D'Angelo say?"),
        ("Angelo called", "d'Angelo"),
    ],
)
def test_an_elided_word_is_found_without_its_article(memory, query, apostrophe):
    assert finds(memory.replace("'", apostrophe), query.replace("'", apostrophe))
    assert finds(memory, query.replace("'", apostrophe))


def test_english_contractions_and_names_stay_whole():
    assert words("I'd say it isn't O'Neill's") == ["id", "say", "it", "isnt", "oneill"]
    assert words("let's rock'n'roll, y'all") == ["let", "rocknroll", "yall"]


@pytest.mark.parametrize(
    "form",
    [
        "\u0627\u0644\u0645\u062f\u0631\u0633\u0629",  # the school
        "\u0645\u062f\u0631\u0633\u0629",  # school
        "\u0648\u0627\u0644\u0645\u062f\u0631\u0633\u0629",  # and the school
        "\u0628\u0627\u0644\u0645\u062f\u0631\u0633\u0629",  # in the school
        "\u0644\u0644\u0645\u062f\u0631\u0633\u0629",  # for the school
        "\u0645\u062f\u0631\u0633\u062a\u064a",  # my school
        "\u0645\u062f\u0631\u0633\u062a\u0647\u0645",  # their school
    ],
)
def test_an_arabic_word_is_found_with_article_and_clitics(form):
    school = "\u0645\u062f\u0631\u0633\u0629"
    assert finds(f"\u0630\u0647\u0628\u062a \u0625\u0644\u0649 {form}", school)
    assert finds(f"\u0630\u0647\u0628\u062a \u0625\u0644\u0649 {school}", form)


@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("We call the OpenAIEmbedder class", "embedder"),
        ("We call the OpenAIEmbedder class", "OpenAI"),
        ("We call the OpenAIEmbedder class", "OpenAIEmbedder"),
        ("We call the OpenAIEmbedder class", "openaiembedder"),
        ("parseHTTPHeader fails", "http header"),
        ("max_user_memories is five", "user memories"),
        ("He bought an iPhone15", "iphone 15"),
        ("He bought an iPhone 15", "iPhone15"),
        ("It takes 30min by bus", "30 min"),
        ("It takes 30 min by bus", "30min"),
        ("Python3 is installed", "python"),
    ],
)
def test_the_parts_of_an_identifier_are_found(memory, query):
    assert finds(memory, query)


@pytest.mark.parametrize(
    ("memory", "query"),
    [("word0 is here", "word1"), ("An iPhone 14", "iPhone15"), ("zebra100", "zebra17")],
)
def test_an_identifier_is_not_found_by_another_of_the_same_letters(memory, query):
    assert not finds(memory, query)


@pytest.mark.parametrize("text", ["a 3rd try at 5pm", "plain words", "A TV, IDs"])
def test_what_is_no_identifier_has_no_parts(text):
    assert set(memory_terms(text, None, None)) >= set(query_terms(text)[0])
    low = memory_terms(text.lower(), None, None)
    assert set(memory_terms(text, None, None)) == set(low)


@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("Die Stra\u00dfe ist lang", "strasse"),
        ("Die Strasse ist lang", "Stra\u00dfe"),
        ("DIE STRASSE IST LANG", "stra\u00dfe"),
        ("Das Fu\u00dfballspiel war gut", "Fussball"),
    ],
)
def test_sharp_s_is_two(memory, query):
    assert finds(memory, query)


@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("Ich habe am Dienstag einen Zahnarzttermin", "Zahnarzt"),
        ("Ich habe am Dienstag einen Zahnarzttermin", "Wann ist der Termin?"),
        ("Mein Zahnarzt ist Herr Weber", "Wann ist mein Zahnarzttermin?"),
        ("Der Arbeitsplatz ist im Keller", "Was ist mit der Arbeit?"),
        ("Die Krankenversicherung ist teuer", "Versicherung"),
        ("Ich mag Blumen und Erde", "Welche Blumenerde mag ich?"),
    ],
)
def test_a_german_compound_is_found_by_its_parts(memory, query):
    assert finds(memory, query)


def test_a_whole_word_comes_before_a_compound_with_it():
    with MemoryService(embedder=None) as service:
        told = ["Der Zahnarzttermin ist am Montag", "Der Zahnarzt ist am Montag da"]
        service.sync.add_memory(**ALICE, memories=told)
        found = service.sync.search_memory(**ALICE, query="Wer ist der Zahnarzt?")
    assert [entry.text for entry in found.memories] == told[::-1]


def test_parts_of_a_compound_that_no_memory_has_take_nothing_from_the_score():
    def best(query: str) -> float:
        with MemoryService(embedder=None) as service:
            service.sync.add_memory(
                **ALICE, memories=["Das Fahrradschloss ist kaputt", *OTHERS]
            )
            found = service.sync.search_memory(**ALICE, query=query).memories
        return found[0].score

    assert best("Ist das Fahrradschloss kaputt?") >= best("Ist kaputt?")


def test_english_words_have_no_parts():
    text = "The understanding of something important was overwhelming"
    assert not [term for term in memory_terms(text, None, None) if term >> 63]
    assert not [
        term
        for term in query_terms("What is the understanding of it?")[1].optional
        if term & ~(1 << 63) not in query_terms("What is the understanding of it?")[0]
    ]
