"""Random weights for an encoder, with a small model of SentencePiece; in float64."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from vecall._core import Encoder

ORDERS = (2, 3, 5)
MATRICES = {
    **{f"proj{n}": (512, 256) for n in ORDERS},
    **{f"w{layer}_{n}": (256 * n, 256) for n in ORDERS for layer in (1, 2)},
    "cnn_W": (1280, 512),
    "d0": (512, 320),
    "d1": (320, 320),
    "d2": (320, 512),
    "d3": (512, 512),
    "p1": (512, 320),
    "p3": (320, 512),
}
GAINS = {**{f"ln_g{n}": 256 for n in ORDERS}, "ln_g": 1280}
BIASES = {
    **{f"{name}{n}": 256 for n in ORDERS for name in ("proj_b", "ln_b", "b1_", "b2_")},
    "ln_b": 1280,
    "cnn_b": 512,
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _field(number: int, value: bytes) -> bytes:
    length = len(value)
    size = b""
    while length >= 0x80:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + value


def pieces_of(*scored: tuple[str, float]) -> bytes:
    """A model of SentencePiece with these pieces after its own three."""
    own = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    return b"".join(
        _field(1, _field(1, text.encode()) + b"\x15" + struct.pack("<f", score))
        for text, score in [*own, *scored]
    )


class Weights(NamedTuple):
    """What `Encoder` takes. Its pieces are U+2581 and the 26 letters, in this order."""

    pieces: bytes
    table: NDArray[np.uint8]
    arrays: dict[str, NDArray[np.float32]]

    def encoder(self) -> Encoder:
        return Encoder(*self)

    def vector(self, text: str) -> NDArray[np.float64]:
        """The vector of some letters, computed in float64."""
        ids = np.array([1, 3, *(4 + LETTERS.index(letter) for letter in text), 2])
        a = {name: array.astype(np.float64) for name, array in self.arrays.items()}
        part = ids % len(a["lo"])
        own = self.table[ids] * a["scale"][part, None] + a["lo"][part, None]
        joined = {
            name: np.concatenate([a[f"{name}{n}"] for n in ORDERS], axis=-1)
            for name in ("proj", "proj_b", "ln_g", "ln_b")
        }
        hidden = own @ joined["proj"] + joined["proj_b"]
        hidden = _unit(hidden, a["eps"]) * joined["ln_g"] + joined["ln_b"]
        features = [own]
        for i, n in enumerate(ORDERS):
            x = hidden[:, 256 * i : 256 * (i + 1)]
            for layer in "12":
                around = np.pad(x, (((n - 1) // 2, n - 1 - (n - 1) // 2), (0, 0)))
                seen = [around[k : k + len(ids)] for k in range(n)]
                sums = np.concatenate(seen, axis=1) @ a[f"w{layer}_{n}"]
                x = np.maximum(sums + a[f"b{layer}_{n}"], 0) + x
            features.append(x)
        whole = np.concatenate(features, axis=1)
        sums = (_unit(whole, a["eps"]) * a["ln_g"] + a["ln_b"]).sum(axis=0)
        mean = (sums @ a["cnn_W"] + len(ids) * a["cnn_b"]) / np.sqrt(len(ids))
        y = np.maximum(np.maximum(mean @ a["d0"], 0) @ a["d1"] + mean @ a["p1"], 0)
        z = np.tanh(np.maximum(y @ a["d2"], 0) @ a["d3"] + y @ a["p3"])
        return z / np.linalg.norm(z)


def _unit(x: NDArray[np.float64], epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon)


def random_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, (depth, columns) in MATRICES.items():
        whole = rng.integers(-127, 128, (depth, columns))
        whole[0, 0] = 127
        arrays[name] = whole * np.float32(0.02 / np.sqrt(depth))
    for name, count in GAINS.items():
        arrays[name] = rng.uniform(0.5, 1.5, count)
    for name, count in BIASES.items():
        arrays[name] = rng.uniform(-0.5, 0.5, count)
    arrays["lo"] = rng.uniform(-9, -1, 17)
    arrays["scale"] = rng.uniform(0.1, 0.3, 17)
    arrays["eps"] = np.array([1e-12])
    return Weights(
        pieces_of(("▁", -1.0), *((letter, -2.0) for letter in LETTERS)),
        rng.integers(0, 64, (30, 512), np.uint8),
        {name: array.astype(np.float32) for name, array in arrays.items()},
    )
