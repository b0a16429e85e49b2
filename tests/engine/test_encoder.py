"""The encoder on random weights, against float64 numpy, and what it refuses.

tests/embedders/test_local_encoder.py has the real weights.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import pickle
import threading

import numpy as np
import pytest
from helpers.encoder_weights import LETTERS, random_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall._core import Encoder
from vecall.errors import (
    CorruptFileError,
    IncompatibleFileError,
    InvalidArgumentError,
    InvalidTypeError,
)

WEIGHTS = random_weights(1)
SIZES = [0, 1, 2, 3, 9, 60, 124, 125, 126, 133, 250, 300]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return WEIGHTS.encoder()


def texts_of(sizes):
    rng = np.random.default_rng(2)
    return ["".join(rng.choice(list(LETTERS), size)) for size in sizes]


def answers_digest() -> str:
    """What an instruction set answers; test_instruction_sets.py compares them."""
    vectors = random_weights(3).encoder().encode(texts_of(SIZES))
    return hashlib.sha256(vectors.tobytes()).hexdigest()


def test_a_vector_is_that_of_float64(encoder):
    """13 bits of what is multiplied leave a cosine of 1 - 1e-5 or more."""
    texts = texts_of(SIZES[1:])
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 512)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)
    expected = np.array([WEIGHTS.vector(text) for text in texts])
    spread = expected @ expected.T  # else equal vectors would pass
    assert np.median(spread) < 0.9999
    assert (vectors * expected).sum(axis=1).min() > 1 - 1e-5


def test_no_text_gives_no_vector(encoder):
    assert encoder.encode([]).shape == (0, 512)
    assert encoder.pieces_of([]) == []


def test_pieces_begin_and_end(encoder):
    found = encoder.pieces_of(["ab", "", " b\N{SNOWMAN}"])
    assert found == [[1, 3, 4, 5, 2], [1, 0, 2], [1, 3, 5, 0, 2]]


def test_other_threads_go_on_meanwhile(encoder):
    """A long text is encoded without the interpreter lock."""
    counted = 0
    began, ended = threading.Event(), threading.Event()

    def count() -> None:
        nonlocal counted
        began.set()
        while not ended.is_set():
            counted += 1

    other = threading.Thread(target=count)
    other.start()
    began.wait()
    before = counted
    encoder.encode(["abcdefgh " * 1_000])
    after = counted
    ended.set()
    other.join()
    assert after > before + 1_000


def test_the_table_lives_as_long_as_the_encoder():
    table = WEIGHTS.table.copy()
    made = Encoder(WEIGHTS.pieces, table, WEIGHTS.arrays)
    expected = made.encode(["abc"])
    with pytest.raises(ValueError, match="resize"):
        table.resize((1, 512), refcheck=False)
    del table
    gc.collect()
    _ = [np.full((30, 512), 1, np.uint8) for _ in range(50)]
    assert (made.encode(["abc"]) == expected).all()


def test_a_table_of_another_layout_is_copied():
    wide = np.zeros((30, 1024), np.uint8)
    wide[:, ::2] = WEIGHTS.table
    made = Encoder(WEIGHTS.pieces, wide[:, ::2], WEIGHTS.arrays)
    wide[:] = 0
    del wide
    gc.collect()
    assert (made.encode(["abc"]) == WEIGHTS.encoder().encode(["abc"])).all()


@pytest.mark.parametrize("texts", [None, "ab", ("ab",), [1], [None], [b"ab"], {"ab"}])
def test_only_lists_of_texts_are_taken(encoder, texts):
    for call in (encoder.encode, encoder.pieces_of):
        with pytest.raises(InvalidTypeError, match="texts: expected a list of str"):
            call(texts)


def test_a_lone_surrogate_is_refused_without_the_text(encoder):
    with pytest.raises(InvalidArgumentError, match="texts") as raised:
        encoder.encode(["ok", "secret\ud800"])
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"pieces": b""}, CorruptFileError),
        ({"pieces": "text"}, InvalidTypeError),
        ({"table": WEIGHTS.table[:29]}, IncompatibleFileError),
        ({"table": WEIGHTS.table[:, :511]}, IncompatibleFileError),
        ({"table": WEIGHTS.table + np.uint8(65)}, IncompatibleFileError),
        ({"table": WEIGHTS.table.astype(np.int16)}, InvalidTypeError),
        ({"arrays": {}}, IncompatibleFileError),
        ({"arrays": {**WEIGHTS.arrays, "d0": [1.0]}}, InvalidTypeError),
        ({"arrays": {**WEIGHTS.arrays, 1: WEIGHTS.arrays["d0"]}}, InvalidTypeError),
        (
            {"arrays": {**WEIGHTS.arrays, "d0": WEIGHTS.arrays["d0"].astype("f8")}},
            InvalidTypeError,
        ),
        (
            {"arrays": {**WEIGHTS.arrays, "d0": WEIGHTS.arrays["d0"] * np.pi + 0.01}},
            IncompatibleFileError,
        ),
        ({"arrays": None}, InvalidTypeError),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, error):
    with pytest.raises(error, match=next(iter(change))):
        Encoder(**{**WEIGHTS._asdict(), **change})


@settings(max_examples=40)
@given(st.data())
def test_damaged_pieces_are_refused_or_read(data):
    pieces = bytearray(WEIGHTS.pieces)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at] = data.draw(st.integers(0, 255))
    del pieces[data.draw(st.integers(0, len(pieces))) :]
    try:
        made = Encoder(bytes(pieces), WEIGHTS.table, WEIGHTS.arrays)
    except (CorruptFileError, IncompatibleFileError):
        return
    vectors = made.encode([data.draw(st.text(st.characters(codec="utf-8")))])
    assert np.isfinite(vectors).all()


def test_an_encoder_is_neither_copied_nor_pickled(encoder):
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidTypeError, match="Encoder"):
            call(encoder)
    with pytest.raises(InvalidTypeError, match="__init__ was not called"):
        Encoder.__new__(Encoder).encode([])


def test_what_was_prepared_makes_an_encoder_that_gives_the_same_bits(encoder):
    prepared = encoder.prepared()
    again = Encoder.from_prepared(prepared, WEIGHTS.table)
    texts = texts_of(SIZES)
    assert (again.encode(texts) == encoder.encode(texts)).all()
    assert again.pieces_of(texts) == encoder.pieces_of(texts)
    assert again.nbytes == encoder.nbytes
    assert again.prepared() == prepared


def test_prepared_bytes_and_a_table_that_differ_are_refused(encoder):
    """By one bit anywhere, or by where they end; nothing is read outside of them."""
    prepared, rng = encoder.prepared(), np.random.default_rng(4)
    for at in [0, 7, len(prepared) - 1, *rng.integers(len(prepared), size=40)]:
        changed = bytearray(prepared)
        changed[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(CorruptFileError, match="checksum"):
            Encoder.from_prepared(bytes(changed), WEIGHTS.table)
    for size in [0, 1, 7, 8, 9, 100, len(prepared) // 2, len(prepared) - 1]:
        with pytest.raises(CorruptFileError, match="checksum"):
            Encoder.from_prepared(prepared[:size], WEIGHTS.table)
    table = WEIGHTS.table.copy()
    table[3, 5] ^= 1
    for other in (table, WEIGHTS.table[:-1], WEIGHTS.table[:0]):
        with pytest.raises(CorruptFileError, match="checksum"):
            Encoder.from_prepared(prepared, other)
    for wrong in (None, "text", bytearray(prepared), memoryview(prepared)):
        with pytest.raises(InvalidTypeError, match="prepared: expected bytes"):
            Encoder.from_prepared(wrong, WEIGHTS.table)
    with pytest.raises(InvalidTypeError):
        Encoder.from_prepared(prepared, table.astype(np.float32))
