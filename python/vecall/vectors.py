"""Which vectors the engine accepts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def usable(matrix: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return for each vector whether it has a direction: finite, and not zero.

    Every door asks it before a vector is stored: the engine refuses other vectors.

    Args:
        matrix: Vectors (n, dim).
    """
    return np.asarray(np.isfinite(matrix).all(axis=1) & matrix.any(axis=1))
