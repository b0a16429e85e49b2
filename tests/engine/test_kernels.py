"""The kernels of every instruction set against float64 numpy."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from vecall import build_info
from vecall._core import testing
from vecall.errors import (
    ConfigError,
    DimensionError,
    InvalidArgumentError,
    InvalidTypeError,
)

ISAS = build_info()["runnable_isas"]
DIMS = [*range(131), 255, 256, 257, 384, 511, 512, 768, 1023, 1536, 3072]
SMALLEST = 2.0**-149  # the smallest float32 above 0

# Both sides of one product from the generator; nothing may overflow a float32.
KINDS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "positive": lambda rng, n: rng.random(n),
    "wild": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.uniform(-16, 16, n),
    "large": lambda rng, n: rng.standard_normal(n) * 1e16,
    "tiny": lambda rng, n: rng.standard_normal(n) * 1e-20,
    "denormal": lambda rng, n: rng.standard_normal(n) * 1e-41,
    "sparse": lambda rng, n: rng.standard_normal(n) * (rng.random(n) < 0.1),
}


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_close_to_exact(got: float, a: np.ndarray, b: np.ndarray) -> None:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = wide_a @ wide_b
    # Each product may also lose what lies below the smallest float32.
    allowed = np.abs(wide_a * wide_b).sum() * len(a) * 2.0**-24 + len(a) * SMALLEST
    assert abs(float(got) - exact) <= allowed, (got, exact, allowed)


def test_the_scalar_kernels_run_everywhere_and_come_last():
    assert ISAS[-1] == "scalar"
    assert build_info()["compiled_isas"][-1] == "scalar"
    assert set(ISAS) <= set(build_info()["compiled_isas"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isa", ISAS)
def test_dot_is_within_its_error_bound_of_float64(isa, kind):
    rng = np.random.default_rng(1)
    for dim in DIMS:
        a, b = (KINDS[kind](rng, dim).astype(np.float32) for _ in range(2))
        assert_close_to_exact(testing.dot(isa, a, b), a, b)


@pytest.mark.parametrize("kind", ["normal", "wild"])
@pytest.mark.parametrize("isa", ISAS)
def test_dot_of_a_vector_with_itself_is_its_squared_norm(isa, kind):
    rng = np.random.default_rng(2)
    for dim in DIMS:
        a = KINDS[kind](rng, dim).astype(np.float32)
        assert_close_to_exact(testing.dot(isa, a, a), a, a)


@pytest.mark.parametrize("isa", ISAS)
def test_dot_of_small_integers_is_exact(isa):
    rng = np.random.default_rng(3)
    for dim in DIMS:
        a, b = (rng.integers(-8, 9, dim).astype(np.float32) for _ in range(2))
        assert testing.dot(isa, a, b) == int(a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("isa", ISAS)
def test_every_element_counts_exactly_once(isa):
    for dim in DIMS:
        ones = np.ones(dim, dtype=np.float32)
        for at in {0, 1, 7, 8, 15, 16, 31, 32, dim - 2, dim - 1}:
            if not 0 <= at < dim:
                continue
            unit = np.zeros(dim, dtype=np.float32)
            unit[at] = 3.0
            assert testing.dot(isa, unit, ones) == 3.0


@pytest.mark.parametrize("isa", ISAS)
def test_dot_needs_no_alignment(isa):
    rng = np.random.default_rng(4)
    for dim in (1, 3, 8, 17, 33, 64, 95, 128, 384):
        left, right = (rng.standard_normal(dim + 9).astype(np.float32) for _ in "ab")
        aligned = {}
        for start in range(9):
            a, b = left[start : start + dim], right[8 - start : 8 - start + dim]
            assert_close_to_exact(testing.dot(isa, a, b), a, b)
            aligned[start] = testing.dot(isa, a.copy(), b.copy())
            assert testing.dot(isa, a, b) == aligned[start]


@pytest.mark.parametrize("isa", ISAS)
def test_denormals_are_not_flushed_to_zero(isa):
    for dim in (1, 8, 9, 33):
        tiny = np.full(dim, 1e-40, dtype=np.float32)
        ones = np.ones(dim, dtype=np.float32)
        exact = float(tiny[0]) * dim
        assert testing.dot(isa, tiny, ones) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_dot_of_nothing_is_zero(isa):
    nothing = np.zeros(0, dtype=np.float32)
    assert testing.dot(isa, nothing, nothing) == 0.0


@pytest.mark.parametrize("isa", ISAS)
def test_dot_does_not_depend_on_the_order_of_its_arguments(isa):
    rng = np.random.default_rng(5)
    for dim in DIMS:
        a, b = (rng.standard_normal(dim).astype(np.float32) for _ in range(2))
        assert testing.dot(isa, a, b) == testing.dot(isa, b, a)


def test_nothing_before_or_after_the_vectors_is_read():
    done = run_python(
        f"""
        import ctypes, mmap, os
        import numpy as np
        from vecall._core import testing

        libc = ctypes.CDLL(None, use_errno=True)

        def guarded():
            # One usable page between two that may not be touched.
            page = mmap.PAGESIZE
            memory = mmap.mmap(-1, 3 * page)
            whole = np.frombuffer(memory, dtype=np.float32)
            whole[:] = 1.0
            begin = whole.ctypes.data
            for at in (begin, begin + 2 * page):
                assert libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0) == 0
            count = page // 4
            return memory, whole[count : 2 * count]

        keep_a, a = guarded()
        keep_b, b = guarded()
        for isa in {ISAS}:
            print("read by", isa, flush=True)
            for dim in [*range(131), 255, 256, 257, 512, 1023]:
                at = len(a) - dim
                assert testing.dot(isa, a[at:], b[at:]) == dim
                assert testing.dot(isa, a[:dim], b[:dim]) == dim
        print("and nothing else", flush=True)
        os._exit(0)  # the maps cannot be freed while arrays look into them
        """
    )
    said = [*(f"read by {isa}" for isa in ISAS), "and nothing else"]
    assert done.stdout.splitlines() == said, (done.returncode, done.stderr)


def test_kernels_refuse_vectors_of_two_lengths():
    with pytest.raises(DimensionError):
        testing.dot("scalar", np.ones(3, np.float32), np.ones(4, np.float32))
    with pytest.raises(InvalidTypeError):
        testing.dot("scalar", np.ones(3), np.ones(3))


def test_an_empty_vecall_isa_means_the_best_one():
    code = "import vecall; print(vecall.build_info()['active_isa'])"
    assert run_python(code, VECALL_ISA="").stdout.strip() == ISAS[0]


@pytest.mark.parametrize("name", ["sse9", "AVX2", "scalar "])
def test_an_unknown_vecall_isa_raises_config_error_with_the_choices(name):
    done = run_python(
        """
        for call in ("Index(4)", "Engine(4)", "build_info()", "Index(4)"):
            try:
                import vecall  # may ask for the build info itself
                eval(f"vecall.{call}")
            except ValueError as error:
                assert type(error).__name__ == "ConfigError"
                print(error)
        """,
        VECALL_ISA=name,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    assert all("VECALL_ISA" in line for line in lines)
    assert all(isa in line for line in lines for isa in ISAS)


def test_an_unknown_instruction_set_is_refused_by_name():
    with pytest.raises(ConfigError, match="scalar"):
        testing.dot("mmx", np.ones(1, np.float32), np.ones(1, np.float32))


@pytest.mark.parametrize("scale", [1e-29, 1e-20, 1e-3, 1.0, 1e3, 1e20, 1e37])
def test_normalise_keeps_the_direction_and_makes_the_norm_one(scale):
    rng = np.random.default_rng(8)
    for dim in (*range(1, 40), 255, 384, 1023, 3072):
        vector = (rng.standard_normal(dim) * scale).astype(np.float32)
        vector[0] = scale
        wide = vector.astype(np.float64)
        exact = wide / np.linalg.norm(wide / scale) / scale
        got = testing.normalise(vector).astype(np.float64)
        assert np.all(np.abs(got - exact) <= np.abs(exact) * 2.0**-23 + SMALLEST)
        assert np.linalg.norm(got) == pytest.approx(1.0, abs=2e-7)


def test_normalise_takes_values_of_wildly_different_size():
    vector = np.array([3e38, -3e38, 1e-38, 0.0, 1e-45], dtype=np.float32)
    got = testing.normalise(vector)
    assert got[:2].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])
    assert np.all(got[2:] == 0)
    largest = np.full(4096, np.finfo(np.float32).max)
    assert testing.normalise(largest).tolist() == [1 / 64] * 4096


def test_normalise_leaves_its_argument_alone():
    vector = np.array([3.0, 4.0], dtype=np.float32)
    assert testing.normalise(vector).tolist() == pytest.approx([0.6, 0.8])
    assert vector.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 9, 33])
def test_normalise_refuses_nan_and_inf_wherever_they_are(dim, bad):
    for at in range(dim):
        for rest in (0.0, 1.0, 3e38):
            vector = np.full(dim, rest, dtype=np.float32)
            vector[at] = bad
            with pytest.raises(InvalidArgumentError, match="finite"):
                testing.normalise(vector)


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_normalise_refuses_a_vector_without_a_direction(value):
    vector = np.zeros(5, dtype=np.float32)
    vector[3] = value
    with pytest.raises(InvalidArgumentError, match="zero"):
        testing.normalise(vector)


@pytest.mark.parametrize("value", [1e-45, -1e-45, 1e-38, 9e-31, 3.4e38])
@pytest.mark.parametrize("dim", [2, 8, 19])
def test_normalise_takes_every_other_finite_vector(value, dim):
    vector = np.zeros(dim, dtype=np.float32)
    vector[-1] = value
    unit = testing.normalise(vector)
    assert unit.tolist() == [0.0] * (dim - 1) + [float(np.sign(value))]


def test_normalise_refuses_an_empty_vector():
    with pytest.raises(InvalidArgumentError, match="zero"):
        testing.normalise(np.zeros(0, dtype=np.float32))
