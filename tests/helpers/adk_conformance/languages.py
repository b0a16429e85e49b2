"""Words in other languages than English: #2438, #5501, #5601."""

from __future__ import annotations

import unicodedata

from helpers.adk import an_event
from helpers.adk_conformance.checks import Place, Section

SECTION = Section("Languages")


def finds(name: str, why: str, text: str, *queries: str) -> None:
    """A check that each query finds a text, and a text beside it does not help."""

    async def run(place: Place) -> None:
        memory = place.open()
        await memory.tell(
            an_event("Something else in English.", id="e0"), an_event(text, id="e1")
        )
        for query in queries:
            assert text in await memory.texts(query), query

    SECTION.check(name, why)(run)


finds(
    "Korean, by a word as it stands",
    "#2438",
    "서울에서 조용한 방을 예약했어요",
    "조용한",
)
finds(
    "Korean, by a word without its particle",
    "#5501, #5601; InMemoryMemoryService finds parts of words",
    "서울에서 조용한 방을 예약했어요",
    "서울",
    "예약",
)
finds(
    "Chinese, by a word within a sentence",
    "#5601: words are not parted by spaces",
    "我最喜欢的动物是鹦鹉",
    "鹦鹉",
    "动物",
)
finds(
    "Japanese, by a word within a sentence",
    "#5601: words are not parted by spaces",
    "私の好きな動物はオウムです",
    "オウム",
    "動物",
)
finds(
    "Chinese, by a question that shares words",
    '#5601: "when the query shares CJK characters with stored event content"',
    "我的名字叫小明",
    "你知道我叫什么名字吗",
)
finds(
    "Japanese, by a question that shares words",
    "#5501, #5601",
    "私の名前は太郎です",
    "私の名前は何ですか",
)
finds(
    "A Latin word within Japanese",
    "2.8 and 2.11 part the scripts",
    "私はPythonを使う",
    "Python",
)
finds(
    "German, umlauts in any case",
    "#5501: words were ASCII only",
    "Übung für Zürich im Käfig",
    "ÜBUNG",
    "zürich",
    "KÄFIG",
)
finds(
    "Umlauts and accents, composed or not",
    "google-adk compares NFC",
    unicodedata.normalize("NFC", "Das Café in Zürich"),
    unicodedata.normalize("NFD", "café"),
    unicodedata.normalize("NFD", "Zürich"),
)
finds(
    "Arabic",
    "#5501: words were ASCII only",
    "أحب الغرف الهادئة في الطابق العلوي",
    "الغرف",
    "الهادئة",
)
finds(
    "Russian and Greek in any case",
    "#5501: words were ASCII only",
    "Тихая ПТИЦА, ήσυχο δωμάτιο",
    "птица",
    "ΔΩΜΆΤΙΟ",
)
