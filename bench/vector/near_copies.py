"""Recall of the nearest among near copies, by codec, beside float32.

    python -m bench.vector.near_copies

20,000 rows in 20 clusters; every value of a row differs from its cluster's by a normal
deviate of 1e-3. The reference is the cosine in float64. float32 is a numpy product of
unit vectors. Fails where 'int4+8+4' is more than 2 points below float32.
"""

from __future__ import annotations

import os
import sys

from bench.common import arguments

ROWS, QUERIES, K = 20_000, 1000, 10
DIMS = (33, 48, 64, 128)
CODECS = ("int4+8", "int4+8+4")
SEEDS = (0, 1, 2)
MOST = 0.02


def main() -> int:
    """Measure, print a table, and return how the process shall end."""
    arguments.parse_none(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything loads a BLAS
    import numpy as np

    from bench.common.tables import table

    lines, worst = [], 0.0
    for dim in DIMS:
        found = np.mean([_recalls(dim, seed) for seed in SEEDS], axis=0)
        for name, (first, all_of_them) in zip(
            ("float32", *CODECS, "kept float32, exact"), found, strict=True
        ):
            lines.append((dim, name, f"{first:.3f}", f"{all_of_them:.3f}"))
        worst = max(worst, found[0][0] - found[len(CODECS)][0])
    print(table(("dimensions", "scored from", "recall@1", f"recall@{K}"), lines))
    return int(worst > MOST)


def _recalls(dim: int, seed: int) -> list[tuple[float, float]]:
    """Return recall@1 and recall@K of float32, of each codec and of exact=True."""
    import numpy as np
    import vecall

    rng = np.random.default_rng([dim, seed])
    centres = _unit(rng.standard_normal((20, dim)))
    both = centres[rng.integers(0, 20, ROWS + QUERIES)]
    both = (both + 1e-3 * rng.standard_normal(both.shape)).astype(np.float32)
    rows, queries = both[:ROWS], both[ROWS:]
    true = _best(_unit(queries.astype(np.float64)) @ _unit(rows.astype(np.float64)).T)
    recalls = [_recall(_best(_unit(queries) @ _unit(rows).T), true)]
    for codec in CODECS:
        index = vecall.Index(dim, "flat", codec=codec)
        index.add(np.arange(ROWS), rows)
        recalls.append(_recall(index.search_batch(queries, K)[0], true))
    index = vecall.Index(dim, "flat", keep_float32=True)
    index.add(np.arange(ROWS), rows)
    recalls.append(_recall(index.search_batch(queries, K, exact=True)[0], true))
    return recalls


def _unit(vectors):
    import numpy as np

    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _best(cosines):
    import numpy as np

    some = np.argpartition(-cosines, K, axis=1)[:, :K]
    order = np.argsort(-np.take_along_axis(cosines, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)


def _recall(found, true) -> tuple[float, float]:
    import numpy as np

    both = [len(set(a) & set(b)) / K for a, b in zip(found, true, strict=True)]
    return float(np.mean(found[:, 0] == true[:, 0])), float(np.mean(both))


if __name__ == "__main__":
    sys.exit(main())
