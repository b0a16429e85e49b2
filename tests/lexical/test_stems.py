"""Greek, Hindi, Turkish, Vietnamese, Thai, Lao: forms of a word meet, words do not.

The reference is a table of forms from the languages' grammars, written by hand.
"""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from helpers.memories import ALICE
from vecall import MemoryService
from vecall.lexical import memory_terms, query_terms, words
from vecall.lexical.languages import ALL_STOP_WORDS, STOP_WORDS, language_of
from vecall.lexical.terms import toned_words
from vecall.lexical.tokenizer import split_words
from vecall.text import normalise

# ruff: noqa: RUF001

FORMS = {
    "greek": [
        "αδελφή αδελφής αδελφές αδελφών ΑΔΕΛΦΗ",
        "βιβλίο βιβλία βιβλίου βιβλίων",
        "γάτα γάτες γάτας",
        "σπίτι σπίτια σπιτιού σπιτιών",
        "δρόμος δρόμοι δρόμου δρόμους",
    ],
    "hindi": [
        "किताब किताबें किताबों",
        "लड़की लड़कियाँ लड़कियों",
        "बहन बहनें बहनों",
        "फ़ोन फोन फ़ोनों",
        "घर घरों",
    ],
    "turkish": [
        "köpek köpekler köpekleri köpeklerim",
        "komşu komşular komşunun komşularımız",
        "çiçek çiçekler çiçekçi çiçekleri",
        "doktor doktorum doktorlar doktora",
        "şemsiye şemsiyesi şemsiyem şemsiyeler",
    ],
}

FRAMES = {
    "greek": ("Πού είναι {};", "Χθες είδα {} στον κήπο"),
    "hindi": ("{} कहाँ है?", "कल मैंने {} देखी थी"),
    "turkish": ("{} nerede?", "Dün akşam için {} çok güzeldi, şaşırdım"),
}


def meets(question: str, statement: str) -> bool:
    asked = set(query_terms(question)[0])
    return bool(asked & set(memory_terms(statement, None, None)))


@pytest.mark.parametrize(
    ("language", "forms"),
    [(language, forms) for language, table in FORMS.items() for forms in table],
)
def test_each_form_of_a_word_finds_each_other_one(language, forms):
    question, statement = FRAMES[language]
    for one, other in itertools.product(forms.split(), repeat=2):
        assert meets(question.format(one), statement.format(other)), (one, other)


@pytest.mark.parametrize("language", list(FORMS))
def test_different_words_do_not_meet(language):
    question, statement = FRAMES[language]
    firsts = [forms.split()[0] for forms in FORMS[language]]
    for one, other in itertools.permutations(firsts, 2):
        assert not meets(question.format(one), statement.format(other)), (one, other)


@pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\u02bc", "\uff07"])
@pytest.mark.parametrize(
    ("whole", "name"),
    [
        ("İstanbul'da", "İstanbul"),
        ("İSTANBUL'DAN", "istanbul"),
        ("Ankara'ya", "Ankara"),
        ("Ankara'daki", "Ankara"),
        ("Ankara'nın", "Ankara"),
        ("Atatürk'ün", "Atatürk"),
        ("Ahmet'i", "Ahmet"),
        ("Ahmet'le", "Ahmet"),
        ("Ayşe'yle", "Ayşe"),
        ("Türkiye'si", "Türkiye"),
        ("Işıl'ın", "Işıl"),
        ("1990'larda", "1990"),
    ],
)
def test_a_name_with_a_turkish_suffix_is_found_by_the_name(whole, name, apostrophe):
    said = whole.replace("'", apostrophe)
    for one, other in [(said, name), (name, said), (said, said)]:
        with MemoryService(embedder=None) as service:
            service.sync.add_memory(**ALICE, memories=[f"Dün {other} geldi", "Başka"])
            found = service.sync.search_memory(**ALICE, query=f"{one}?").memories
        assert [entry.text for entry in found] == [f"Dün {other} geldi"]


def test_a_word_with_a_suffix_is_found_without_its_apostrophe():
    assert meets("istanbulda", "Kardeşim İstanbul'da")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I'd say it isn't, they'll, we've, you're",
            "id say it isnt theyll weve youre",
        ),
        (
            "rock'n'roll o'clock ma'am Hawai'i Qur'an",
            "rocknroll oclock maam hawaii quran",
        ),
        ("O'Neill D'Angelo's Hallowe'en gov't", "oneill angelo halloween govt"),
        ("il l'a vu, l'école", "il la vu ecole"),
    ],
)
def test_apostrophes_of_other_languages_stay_as_they_were(text, expected):
    assert words(text) == expected.split()


def test_a_dotless_i_is_the_small_letter_of_capital_i():
    assert words("ISPARTA Isparta ısparta İsparta isparta") == ["isparta"] * 5


VIETNAMESE_WORDS = [
    ("bò", "bỏ"),  # cow, drop
    ("mẹ", "mè"),  # mother, sesame
    ("trứng", "trùng"),  # egg, insect
    ("phở", "phố"),  # noodle soup, street
    ("đá", "da"),  # ice, skin
]


@pytest.mark.parametrize(("one", "other"), VIETNAMESE_WORDS)
def test_tones_tell_vietnamese_words_apart(one, other):
    frame = "Hôm nay tôi thấy {} ở chợ"
    asked = "Ở chợ thấy {} nào được?"
    assert meets(f"{one} nào được?", frame.format(one))
    assert not meets(f"{one} nào được?", "Hôm nay tôi mua " + other)
    shared = set(query_terms(asked.format(one))[0])
    told = set(memory_terms(frame.format(other), None, None))
    assert shared & told < shared


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Mẹ tôi nấu phở bò", "me toi nau pho bo"),
        ("Mẹ tôi nấu phở bò", "phở"),
        ("Mẹ tôi nấu phở bò", unicodedata.normalize("NFD", "phở bò")),
        ("Tôi mua cà phê ở chợ", "cà phê"),
        ("I met Nguyễn at the gates", "What did Nguyễn say?"),
        ("I met Nguyễn at the gates", "Nguyễn"),
        ("I met Nguyễn at the gates", "nguyen"),
        ("I met Nguyễn at the gates", "Nguyễn gate"),
        ("Tôi đã deploy hai servers", "server nào được deploy?"),
    ],
)
def test_vietnamese_is_found_with_tones_and_without(text, query):
    asked = set(query_terms(query)[0])
    assert asked
    assert asked & set(memory_terms(text, None, None))


def test_a_vietnamese_author_is_found_by_his_name():
    told = set(memory_terms("xin chào", "Nguyễn Phước", None))
    for query in ("Nguyễn nói gì?", "What did Nguyen say?", "What did Nguyễn say?"):
        terms, marks = query_terms(query)
        assert set(terms) & told
        assert set(marks.authors) & told


def test_stop_words_of_other_languages_are_words_of_vietnamese():
    """`con` is no Spanish "with", `me` no English pronoun."""
    text = "Mẹ nuôi con mèo, ăn dê và hai con ngựa để cho em bé"
    assert language_of(words(text), toned=text.casefold().split()) == "vietnamese"
    for word in ("mẹ", "dê", "hai"):
        assert query_terms(f"{word} nuôi được")[0] != query_terms("nuôi được")[0]
    assert query_terms(" ".join(sorted(ALL_STOP_WORDS["vietnamese"])))[0] == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("english", "I met Ayşe and her brother at the station"),
        ("english", "What did Nguyễn say about the dogs?"),
        ("spanish", "Ayer comí con Ayşe en mi casa"),
        ("turkish", "Kızım bale yerine hangi sporu seçti?"),
        ("turkish", "kataraktım"),
        ("turkish", "Haluk'un horlaması yüzünden randevu aldık"),
        ("english", "Timişoara şi casă"),
        ("vietnamese", "Chủ nhật tôi mượn xe của ai?"),
        ("french", "Je suis allée chez Nguyễn avec les enfants"),
    ],
)
def test_a_language_is_told_by_letters_and_stop_words_together(language, text):
    folded = normalise(text)
    told = language_of(split_words(folded), folded, text, toned_words(text))
    assert told == language


def test_an_english_query_with_a_turkish_name_still_finds_stems():
    terms, marks = query_terms("Ayşe birthday plans")
    told = memory_terms("Ayşe has a plan for her birthday", None, None)
    part = 1 << 63
    found = {term & ~part for term in (*terms, *marks.optional)} & set(told)
    assert len(found) == 3


def test_turkish_stop_words_carry_nothing():
    text = " ".join(sorted(STOP_WORDS["turkish"])) + " değil nasıl"
    assert query_terms(text)[0] == []


@pytest.mark.parametrize(
    ("text", "query", "other"),
    [
        # Thai: my younger sister moves to Chiang Mai; she bought a red bicycle
        ("น้องสาวของฉันจะย้ายไปเชียงใหม่", "น้องสาว", "จักรยานสีแดง"),
        ("เธอซื้อจักรยานสีแดง", "จักรยาน", "เชียงใหม่"),
        # Lao: my sister moves to Vientiane; I eat sticky rice
        ("ນ້ອງສາວຂອງຂ້ອຍຍ້າຍໄປວຽງຈັນ", "ວຽງຈັນ", "ເຂົ້າໜຽວ"),
        ("ຂ້ອຍກິນເຂົ້າໜຽວ", "ເຂົ້າໜຽວ", "ວຽງຈັນ"),
    ],
)
def test_thai_and_lao_words_are_found_inside_of_a_run(text, query, other):
    """Without spaces: by overlapping pairs of characters."""
    asked = query_terms(query)[0]
    assert set(asked) <= set(memory_terms(text, None, None))
    assert not set(query_terms(other)[0]) <= set(memory_terms(text, None, None))
    letters = unicodedata.normalize("NFKC", query)
    assert words(query) == [letters[i : i + 2] for i in range(len(letters) - 1)]
