"""A linear map against float64 numpy, on each instruction set."""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from vecall._core import LinearMap
from vecall.errors import (
    DimensionError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
)

SHAPES = [
    (1, 1), (1, 7), (7, 1), (2, 2), (5, 63), (64, 64), (3, 65), (100, 200), (33, 255),
    (20, 256), (20, 257), (20, 320), (512, 512), (384, 1000), (4, 4096), (2, 65_536),
]  # fmt: skip
KINDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
    "near identity": lambda rng, shape: (
        np.eye(*shape) + 0.02 * rng.standard_normal(shape)
    ),
    "rows of many sizes": lambda rng, shape: (
        rng.standard_normal(shape) * 10.0 ** rng.uniform(-9, 9, (shape[0], 1))
    ),
    "large": lambda rng, shape: rng.uniform(0.5, 1, shape) * 3e38,
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 1e-26,
}


def some(kind, seed):
    """Yield matrices, vectors (5, m), and the vectors by which they are multiplied."""
    rng = np.random.default_rng(seed)
    for shape in SHAPES:
        matrix = KINDS[kind](rng, shape).astype(np.float32)
        yield matrix, rng.standard_normal((5, shape[1])).astype(np.float32)


def allowed_error(matrix, vectors, products):
    """Bound the distance of each answer to the direction of its exact product.

    Half a step of a row is 1 / 4,094 of its largest value after the rotation, half a
    step of a vector 1 / 8,128. Rotated values are below 6 / sqrt(m) of the norm, or 1.
    A rounding error has the deviation of its step / sqrt(12); a product sums m of them,
    weighted by the other side: six deviations of it for each row. Scaling both to
    norm 1 at most doubles the distance.
    """
    m = matrix.shape[1]
    largest = min(1.0, 6 / np.sqrt(m))
    deviation = largest * np.hypot(1 / 2047, 1 / 4064) / np.sqrt(12)
    rows = np.linalg.norm(matrix) * np.linalg.norm(vectors, axis=1)
    return 2 * 6 * deviation * rows / np.linalg.norm(products, axis=1) + 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_is_within_its_error_bound_of_float64(kind):
    for matrix, vectors in some(kind, 1):
        wide = matrix.astype(np.float64)
        products = vectors.astype(np.float64) @ wide.T
        exact = products / np.linalg.norm(products, axis=1, keepdims=True)
        got = LinearMap(matrix).apply(vectors)
        assert got.dtype == np.float32
        assert got.shape == products.shape
        error = np.linalg.norm(got - exact, axis=1)
        assert np.all(error <= allowed_error(wide, vectors, products)), matrix.shape
        norms = np.linalg.norm(got.astype(np.float64), axis=1)
        assert np.allclose(norms, 1.0, rtol=0, atol=1e-6)


def test_each_column_and_each_row_counts_once():
    """A permutation moves each of the unit vectors to its place."""
    rng = np.random.default_rng(2)
    for dim in (1, 2, 63, 64, 65, 130, 512):
        order = rng.permutation(dim)
        matrix = np.eye(dim, dtype=np.float32)[order]
        got = LinearMap(matrix).apply(np.eye(dim, dtype=np.float32))
        assert np.array_equal(np.argmax(got, axis=1), np.argsort(order))
        assert np.all(np.abs(got - matrix.T) < 2e-3)


def answers_digest() -> str:
    """What tests/engine/test_instruction_sets.py compares."""
    answers = hashlib.sha256()
    for kind in KINDS:
        for matrix, vectors in some(kind, 3):
            answers.update(LinearMap(matrix).apply(vectors).tobytes())
    return answers.hexdigest()


def test_a_vector_alone_in_a_batch_scaled_and_on_many_threads_gives_the_same_bits():
    rng = np.random.default_rng(4)
    linear_map = LinearMap(rng.standard_normal((300, 200)).astype(np.float32))
    vectors = rng.standard_normal((60, 200)).astype(np.float32)
    together = linear_map.apply(vectors)  # long enough to release the interpreter
    with ThreadPoolExecutor(4) as threads:
        apart = list(threads.map(lambda one: linear_map.apply(one[None]), vectors))
        again = list(threads.map(linear_map.apply, [vectors] * 20))
    assert np.array_equal(np.concatenate(apart), together)
    assert all(np.array_equal(one, together) for one in again)
    assert np.array_equal(linear_map.apply(vectors * 2.0**40), together)
    assert np.array_equal(linear_map.apply(vectors.T.copy().T), together)
    assert np.array_equal(linear_map.apply(vectors.astype(np.float64)), together)


def test_only_zero_vectors_and_zero_rows_stay_zero():
    matrix = np.array([[0, 0, 0], [1, 2, 3]], np.float32)
    got = LinearMap(matrix).apply([[0, 0, 0], [1, 1, 1], [1e-40, 0, 0]])
    assert got.tolist() == [[0, 0], [0, 1], [0, 1]]
    assert LinearMap(np.zeros((2, 3))).apply(np.ones((1, 3))).tolist() == [[0, 0]]
    assert LinearMap(matrix).apply(np.zeros((0, 3))).shape == (0, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_without_its_value(bad):
    rng = np.random.default_rng(5)
    for at in (0, 63, 64, 99):
        values = rng.standard_normal((3, 100)).astype(np.float32)
        linear_map = LinearMap(values)
        values[1, at] = bad
        with pytest.raises(InvalidArgumentError, match=r"^matrix: .*finite"):
            LinearMap(values)
        with pytest.raises(InvalidArgumentError, match=r"^vectors: .*finite"):
            linear_map.apply(values)


def test_other_shapes_are_refused():
    linear_map = LinearMap(np.eye(4))
    with pytest.raises(DimensionError, match="expected dimension 4, got 3"):
        linear_map.apply(np.ones((2, 3)))
    for wrong in (np.ones(4), np.ones((1, 1, 4)), "text", None, [["a"]]):
        with pytest.raises(InvalidTypeError, match="2-D"):
            linear_map.apply(wrong)
        with pytest.raises(InvalidTypeError, match="2-D"):
            LinearMap(wrong)
    for empty in (np.ones((0, 4)), np.ones((4, 0))):
        with pytest.raises(InvalidArgumentError, match="at least one"):
            LinearMap(empty)
    for shape in ((65_537, 1), (1, 65_537)):
        with pytest.raises(LimitExceededError, match="65536"):
            LinearMap(np.ones(shape, np.float32))


def test_it_holds_half_of_the_matrix_and_cannot_be_pickled():
    matrix = np.ones((512, 512), np.float32)
    linear_map = LinearMap(matrix)
    assert matrix.nbytes / 2 <= linear_map.nbytes < 0.55 * matrix.nbytes
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(linear_map, protocol)
