"""Valid arguments of the engine, to spoil, and what no error may print."""

from __future__ import annotations

import numpy as np
from vecall import Engine

KEY = ("app", "user")
NEVER = 2**63 - 1
# Values that no message may contain, and that repr() of an array would print.
SECRETS = ("0.7182", "7182", "31337", "s3cret")
QUERY = np.array([0.71828, 0.5, 0.25], dtype=np.float32)
TWO_IDS = np.array([1, 2], dtype=np.int64)
TWO_VECTORS = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32)


def columns(**changed: object) -> dict[str, object]:
    """Valid arguments of Engine.add_rows for two rows, some of them changed."""
    valid: dict[str, object] = {
        "key": KEY,
        "ids": np.array([1, 2], dtype=np.int64),
        "times": np.array([10, 20], dtype=np.int64),
        "expires": np.array([NEVER, NEVER], dtype=np.int64),
        "sessions": np.array([5, 5], dtype=np.uint64),
        "positions": np.array([0, 5], dtype=np.int32),
        "terms": np.array([7, 8, 8], dtype=np.uint64),
        "offsets": np.array([0, 1, 3], dtype=np.int64),
        "vectors": TWO_VECTORS.copy(),
        "has_vector": np.array([1, 1], dtype=np.uint8),
    }
    return {**valid, **changed}


def engine_with_two_rows() -> Engine:
    engine = Engine(3)
    engine.add_rows(**columns())
    return engine


def assert_says_nothing(error: BaseException) -> None:
    seen: BaseException | None = error
    while seen is not None:
        assert not [secret for secret in SECRETS if secret in str(seen)], str(seen)
        seen = seen.__cause__ or seen.__context__
