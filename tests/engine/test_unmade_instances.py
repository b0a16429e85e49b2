"""Objects of the engine whose __init__ was never called are refused, not read."""

from __future__ import annotations

import numpy as np
import pytest
from vecall._core import Engine, Index, LinearMap

KEY = ("app", "user")
IDS = np.array([1], np.int64)
VECTORS = np.ones((1, 8), np.float32)


@pytest.mark.parametrize("made", [Engine, Index])
def test_an_object_without_init_raises(made):
    """Made by __new__ alone: a typed error, where memory was read that nobody set."""
    bare = made.__new__(made)
    for name in ("dim", "nbytes"):
        with pytest.raises(TypeError, match="__init__ was not called"):
            getattr(bare, name)
    with pytest.raises(TypeError, match="__init__ was not called"):
        len(bare)
    arguments = (KEY, IDS, VECTORS) if made is Engine else (IDS, VECTORS)
    with pytest.raises(TypeError, match="__init__ was not called"):
        bare.add(*arguments)


def test_a_linear_map_without_init_raises():
    bare = LinearMap.__new__(LinearMap)
    with pytest.raises(TypeError, match="__init__ was not called"):
        _ = bare.nbytes
    with pytest.raises(TypeError, match="__init__ was not called"):
        bare.apply(VECTORS)


@pytest.mark.parametrize("made", [Engine, Index])
def test_a_subclass_may_use_itself_after_init_only(made):
    """Before it calls the __init__ of its base there is nothing to read."""
    seen = []

    class Late(made):
        def __init__(self) -> None:
            with pytest.raises(TypeError, match="__init__ was not called") as caught:
                _ = self.dim
            seen.append(caught.type)
            super().__init__(8)

    assert Late().dim == 8
    assert seen
