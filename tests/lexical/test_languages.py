"""Text in ten languages: what a question and a statement have in common."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from vecall.lexical import memory_terms, query_terms, words
from vecall.lexical.features import author_mark
from vecall.lexical.languages import ALL_STOP_WORDS, STOP_WORDS, language_of
from vecall.lexical.stems import PLAIN_FORMS


def shared(question: str, statement: str, author: str | None = None) -> set[int]:
    """The terms under which a question finds a statement."""
    asked = query_terms(question, by_period=False)[0]
    return set(asked) & set(memory_terms(statement, author, None))


MEETING = {
    "german": [
        ("Welche Katzen habe ich?", "Ich habe eine Katze."),
        ("Was hast du gekauft und welche Zeitungen?", "Das ist eine Zeitung."),
        ("Wo sind die Bücher?", "Das Buch der Bücher war bei mir"),
        ("Welchen Hunden gebe ich das?", "Mit den Hunden bin ich im Park"),
    ],
    "spanish": [
        ("¿Qué perros tengo?", "Tengo un perro negro"),
        ("¿Qué canciones me gustan?", "Esta canción es la mejor de todas"),
        ("¿Dónde trabajas?", "Yo trabajo en el banco"),
    ],
    "french": [
        ("Quels livres ai-je ?", "J'ai un livre sur la table"),
        ("Où sont mes chaussures ?", "La chaussure est dans le sac"),
        ("Qu'est-ce que vous mangez ?", "Je mange du pain avec ma mère"),
    ],
    "italian": [
        ("Quali libri ho?", "Ho un libro sul tavolo"),
        ("Dove sono i miei gatti?", "Il mio gatto è con me"),
        ("Che cosa mangiate?", "Io mangio della pizza con lui"),
    ],
    "portuguese": [
        ("Que livros eu tenho?", "Eu tenho um livro na mesa"),
        ("Onde estão os meus gatos?", "O meu gato está com ela"),
        ("O que vocês comeram?", "Eles comeram uma pizza na praia"),
    ],
    "russian": [
        ("Какие книги у меня есть?", "Я купил книгу для тебя"),  # noqa: RUF001
        ("Где мои кошки?", "У меня есть кошка"),  # noqa: RUF001
        ("Где ты работаешь?", "Я работаю дома"),
    ],
    "english": [
        ("What did she buy?", "I bought a lamp"),
        ("How many children do I have?", "My child is ill"),
        ("Where did they go?", "We went to Oslo"),
        ("Who taught me?", "She teaches well"),
        ("Which woman was it?", "The women sang"),
        ("Which knives are good?", "This knife is the best"),
    ],
}


@pytest.mark.parametrize(
    ("question", "statement"), [pair for pairs in MEETING.values() for pair in pairs]
)
def test_a_question_meets_a_statement_in_another_form_of_its_word(question, statement):
    """S2.23: stems of the text's own language."""
    assert shared(question, statement)


@pytest.mark.parametrize("language", sorted(MEETING))
def test_stop_words_of_a_language_carry_nothing(language):
    own = ALL_STOP_WORDS[language]
    text = " ".join(sorted(own - {"hier"}))  # French for yesterday: names a day
    assert query_terms(text)[0] == []
    for question, statement in MEETING[language]:
        told = len(set(query_terms(question)[0]))
        asked = len(set(words(question)))
        assert told < asked, f"{question} has closed-class words"
        assert statement


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("english", "Where did you eat yesterday, and with whom?"),
        ("english", "I was in Berlin"),
        ("german", "Wo hast du gestern gegessen?"),
        ("german", "Ich mag keine Oliven"),
        ("spanish", "¿Dónde comiste ayer?"),
        ("spanish", "Tengo un perro y una casa"),
        ("french", "Où as-tu mangé hier ?"),
        ("french", "Je n'aime pas les olives"),
        ("italian", "Dove hai mangiato ieri?"),
        ("italian", "Non mi piacciono le olive"),
        ("portuguese", "Onde você comeu ontem?"),
        ("portuguese", "Eu não gosto de azeitonas"),
    ],
)
def test_a_language_is_told_by_its_stop_words(language, text):
    assert language_of(words(text)) == language
    assert language_of(words(text.upper())) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pizza",
        "Marta Berlin 2024",
        "xyzzy",
        "2024",
        "Привет",
        "你好",
        "한국어",
        "שלום",
    ],
)
def test_text_that_no_stop_word_decides_is_taken_as_english(text):
    assert language_of(words(text)) == "english"


def test_a_tie_between_languages_is_always_decided_alike():
    """`die` is German, `me` English and Spanish: the order of words means nothing."""
    for text in ("la casa", "a", "in", "me die", "no", "is en un"):
        told = words(text)
        assert language_of(told) == language_of(told[::-1])


NAMED = [
    "Ayer Marta compró un coche con mi hermana",
    "Ich war gestern mit Marta in der Stadt",
    "Hier Marta est allée chez le médecin",
    "Ieri Marta ha mangiato con me",
    "Ontem a Marta foi com ele ao cinema",
    "Marta was with me",
]


@pytest.mark.parametrize("statement", NAMED)
@pytest.mark.parametrize(
    "question",
    [
        "What did Marta do?",
        "Who is Marta",
        "Marta?",
        "marta",
        "Tell me about MARTA's day",
    ],
)
def test_a_name_is_found_in_every_language_by_an_english_question(question, statement):
    """S2.23: a text is found under English stems too."""
    assert shared(question, statement)


@pytest.mark.parametrize("name", ["Hannes", "Charles", "Dolores", "Inés", "Lucas"])
@pytest.mark.parametrize(
    "frame", ["Ayer {} comió en mi casa", "Ich war mit {} im Park"]
)
def test_a_name_that_a_stemmer_would_cut_is_found_by_an_english_question(name, frame):
    assert shared(f"What did {name} do?", frame.format(name))


def test_an_author_is_marked_by_each_of_his_names():
    marks = query_terms("What did Marta say to Nate?")[1].authors
    told = memory_terms("I like tea", "Marta Ruiz", None)
    assert set(marks) & set(told)
    assert not set(marks) & set(memory_terms("Marta likes tea", "Ruiz", None))
    assert set(query_terms("Ruiz")[1].authors) & set(told)
    assert author_mark("marta") not in query_terms("Marta")[0]


@pytest.mark.parametrize(
    "question",
    [
        "What did Marta say about the dog?",
        "¿Qué dijo Marta sobre el perro?",
        "Cosa ha detto Marta del cane?",
        "Was hat Marta über den Hund gesagt?",
        "Qu'est-ce que Marta a dit sur le chien ?",
        "O que a Marta disse sobre o cachorro?",
    ],
)
def test_a_question_in_any_language_names_an_author(question):
    marks = query_terms(question)[1].authors
    assert set(marks) & set(memory_terms("I like tea", "Marta", None))
    assert not set(marks) & set(memory_terms("I like tea", "Nate", None))


def test_a_query_names_an_author_once_however_often_it_says_him():
    marks = query_terms("Marta Marta marta Marta's")[1].authors
    assert len(marks) == 1
    many = query_terms(" ".join(f"name{n}" for n in range(999)), most=7)[1].authors
    assert len(many) == 7


@pytest.mark.parametrize(
    ("form", "plain"),
    [
        ("bought", "buy"),
        ("children", "child"),
        ("went", "go"),
        ("gone", "goes"),
        ("wrote", "writing"),
        ("written", "writes"),
        ("better", "good"),
        ("worst", "bad"),
        ("taught", "teach"),
        ("feet", "foot"),
        ("mice", "mouse"),
        ("wives", "wife"),
        ("people", "person"),
    ],
)
def test_irregular_forms_of_english_meet(form, plain):
    assert query_terms(form)[0] == query_terms(plain)[0] != []
    assert query_terms(form.upper())[0] == query_terms(plain)[0]


def test_every_irregular_form_has_a_plain_one_that_is_its_own():
    for form, plain in PLAIN_FORMS.items():
        assert plain not in PLAIN_FORMS, f"{form} leads to {plain}, which leads on"
        assert form != plain
        assert form not in STOP_WORDS["english"]
        assert plain not in STOP_WORDS["english"]
        assert words(form) == [form]


@pytest.mark.parametrize("word", ["saw", "left", "found", "felt"])
def test_a_form_that_is_a_word_of_its_own_stays_one(word):
    assert word not in PLAIN_FORMS or query_terms(word)[0]


def test_irregular_forms_are_english_ones():
    """`rang` is a word of French and `wären` none of English."""
    french = memory_terms("Il est dans le premier rang avec nous", None, None)
    assert query_terms("rang")[0][0] in memory_terms("she rang me", None, None)
    assert len(french) == len(set(french))


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("我喜欢什么天气\uff1f", "今天天气很好"),
        ("鹦鹉叫什么名字\uff1f", "我的鹦鹉会说话"),
        ("好きな映画は\uff1f", "昨日、映画を見ました"),
        ("カラオケに行った\uff1f", "カラオケが好き"),
        ("ｶﾗｵｹ", "カラオケが好き"),
        ("앵무새는 뭐야?", "앵무새를 좋아해요"),
        ("한국어 수업", "한국어를 배워요"),
        ("iPhone手机", "我买了手机"),
    ],
)
def test_scripts_without_spaces_meet_by_pairs_of_characters(question, statement):
    assert shared(question, statement)
    assert shared(statement, question)


def test_different_words_of_a_script_without_spaces_do_not_meet():
    assert not shared("天气", "气候")
    assert not shared("앵무새", "고양이")


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("Was war im März?", "Es war ein Tag im Marz"),
        ("¿Qué hice yo en Enero?", "Nos vemos en enero"),
        ("¿Qué hice yo en Enero?", "January"),
        ("Что было в январе?", "в январь"),
        ("What about Sept?", "september"),
        ("What about Sep?", "September"),
    ],
)
def test_month_names_meet_across_forms_and_languages(question, statement):
    assert shared(question, statement)


@pytest.mark.parametrize(
    ("question", "months"),
    [
        ("Was habe ich im {} mit ihr gemacht?", "januar februar märz juni oktober"),
        ("¿Qué hice yo en {} con ella?", "enero febrero marzo junio julio diciembre"),
        ("Qu'est-ce que j'ai fait en {} avec elle ?", "janvier février juin décembre"),
        ("Che cosa ho fatto in {} con lei?", "gennaio febbraio giugno ottobre"),
        ("O que eu fiz em {} com ela?", "janeiro fevereiro junho dezembro"),
        ("Что я делал в {} с ней?", "январе феврале июле сентябре декабре"),  # noqa: RUF001
    ],
)
def test_a_month_is_asked_in_every_language_by_the_name_that_memories_carry(
    question, months
):
    numbers = {"j": 1, "e": 1, "g": 1, "я": 1, "f": 2, "ф": 2}
    for name in months.split():
        asked = set(query_terms(question.format(name), by_period=False)[0])
        told = [
            asked & set(memory_terms("x", None, 86_400 * (30.44 * month + 15)))
            for month in range(12)
        ]
        named = [month + 1 for month, terms in enumerate(told) if terms]
        assert len(named) == 1, name
        if name[1:3] in ("an", "ne", "en"):
            assert named == [numbers[name[0]]]


@pytest.mark.parametrize("name", ["Marco", "Avril", "Julio", "Juni", "Mars", "Mai"])
def test_a_person_with_the_name_of_a_foreign_month_is_no_month(name):
    """Where does Marco live: not everything that was said in March."""
    asked = query_terms(f"Where does {name} live?")[0]
    for month in range(1, 13):
        at = datetime(2025, month, 17, tzinfo=timezone.utc).timestamp()
        assert not set(asked) & set(memory_terms("zebra", None, at))
    assert shared(f"Where does {name} live?", f"{name} moved to Rome")
